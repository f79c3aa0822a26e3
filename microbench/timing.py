"""How a call is timed: CUDA-graph replay or a wall clock, over rotating buffers, until a named rule says stop.

On a GPU a sample is one replay of a graph of at least `GRAPH_CALLS` calls, each on the next buffer set, divided by
the calls. On a CPU it is a run of calls that lasts `CPU_SAMPLE_S`, by the CPU time of the thread where one thread
computes (other programs' turns do not count), else by the wall clock. Buffers rotate so that no call finds its operands
in the last-level cache, as in a serving step that streams the whole model between two uses of a layer.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

GRAPH_CALLS = 10            # calls captured in one graph, at least
REPLAYS = 5                 # graph replays queued before the host waits
FOOTPRINT_OVER_CACHE = 5.0  # rotating buffers cover this many last-level caches on a GPU
CPU_FOOTPRINT = 2.0         # ... on a CPU, whose cache also keeps fewer foreign lines
CPU_SAMPLE_S = 1e-3         # shortest sample of the wall clock: 1 ms against its 100 ns
MAX_SETS = 64

Launch = Callable[[int], Any]       # runs the call on buffer set i


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """When a point has been sampled enough: the standard error of its mean, or its time, or its samples."""

    standard_error: float = 0.01
    budget_s: float = 0.060         # measured time of one point, without warm-up
    min_samples: int = 5
    max_samples: int = 200

    def reason(
        self, samples: list[float], spent_s: float
    ) -> Literal["standard_error", "time", "samples"] | None:
        """The rule that ends sampling now, if any."""
        count = len(samples)
        if count >= self.min_samples:
            mean = sum(samples) / count
            variance = sum((sample - mean) ** 2 for sample in samples) / (count - 1)
            if math.sqrt(variance / count) <= self.standard_error * mean:
                return "standard_error"
        if spent_s >= self.budget_s and count >= min(3, self.min_samples):
            return "time"
        return "samples" if count >= self.max_samples else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Seconds per call, one number per sample, and why sampling ended."""

    seconds: tuple[float, ...]
    calls_per_sample: int
    stop: Literal["standard_error", "time", "samples"]


def buffer_sets(*, bytes_per_set: float, cache_bytes: int, device: str, cold: bool) -> int:
    """Sets of operands to rotate over: one more than cover the cache several times; one where that is not wanted.

    >>> buffer_sets(bytes_per_set=100e6, cache_bytes=60_000_000, device="cuda", cold=True)
    4
    """
    cover = (FOOTPRINT_OVER_CACHE if device == "cuda" else CPU_FOOTPRINT) * cache_bytes
    if not cold or bytes_per_set >= cover:
        return 1
    return min(MAX_SETS, math.ceil(cover / max(bytes_per_set, 1.0)) + 1)


def measure(launch: Launch, *, sets: int, device: str, rule: StopRule, graph_calls: int = GRAPH_CALLS) -> Samples:
    """Time `launch(i)` over i = 0 .. sets-1, again and again, by the device's own clock.

    A graph holds `graph_calls` calls at least: several, or the gap between two replays counts in a short kernel.
    """
    if device == "cuda":
        return _measure_graph(launch, sets, rule, graph_calls)
    return _measure_wall(launch, sets, rule)


def _measure_wall(launch: Launch, sets: int, rule: StopRule) -> Samples:
    clock = cpu_clock()
    launch(0)       # allocates, chooses its kernel
    started = clock()
    launch(1 % sets)
    once = max(clock() - started, 1e-9)
    calls = max(1, math.ceil(CPU_SAMPLE_S / once))
    samples = [once] if calls == 1 else []      # a long call is a sample by itself
    spent = sum(samples)
    turn = 0
    while (stop := rule.reason(samples, spent)) is None:
        started = clock()
        for _ in range(calls):
            launch(turn % sets)
            turn += 1
        took = clock() - started
        samples.append(took / calls)
        spent += took
    return Samples(seconds=tuple(samples), calls_per_sample=calls, stop=stop)


def cpu_clock() -> Callable[[], float]:
    """Seconds that count on a CPU: of this thread where torch computes in it alone, else of the wall."""
    import torch

    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def _measure_graph(launch: Launch, sets: int, rule: StopRule, graph_calls: int) -> Samples:
    graph, calls = capture(launch, sets, graph_calls)
    import torch

    samples: list[float] = []
    spent = 0.0
    while (stop := rule.reason(samples, spent)) is None:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
        graph.replay()      # keeps the GPU busy while the host queues the rest: no launch gap is timed
        marks[0].record()
        for mark in marks[1:]:
            graph.replay()
            mark.record()
        marks[-1].synchronize()
        took = [before.elapsed_time(after) * 1e-3 for before, after in itertools.pairwise(marks)]
        samples += [replay / calls for replay in took]
        spent += sum(took)
    return Samples(seconds=tuple(samples), calls_per_sample=calls, stop=stop)


def capture(launch: Launch, sets: int, graph_calls: int) -> tuple[Any, int]:
    """CUDA graph of at least `graph_calls` calls that visits every buffer set equally often, and its calls."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):     # compiles, tunes and fills caches outside the capture
        for turn in range(max(3, sets)):
            launch(turn % sets)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    rounds = math.ceil(graph_calls / sets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(rounds * sets):
            launch(turn % sets)
    return graph, rounds * sets
