"""Timing whole decode steps: D drafter passes and a verify pass, in rounds over all cells, with a pace-maker.

A machine that does other work too is slow for seconds at a time. Every step is timed once in each round, so that such a
spell hits one visit to many steps, not all visits to one cell. Of a step the fastest round counts, as in the sweep.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specplan.microbench import decode_step
from specplan.microbench.measurements import Environment, Measurements, differences, read_measurements
from specplan.microbench.sweep import reference_point
from specplan.microbench.sweep_plan import Point
from specplan.microbench.sweep_point import Bench, measure_point
from specplan.microbench.timing import StopRule, measure
from specplan.planner.kernels.entries import GpuProfile

ROUNDS = {"cuda": 2, "cpu": 3}
STEP_S = 0.24               # measured time of one step at most, over all rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A target and a drafter with their weights."""

    target: decode_step.Network
    drafter: decode_step.Network


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Seconds of one step; `draft_len` None is plain decoding."""

    batch: int
    context_tokens: int
    draft_len: int | None
    seconds: float


def measure_steps(
    bench: Built, cells: Sequence[tuple[int, int]], draft_lens: Sequence[int], report: Callable[[int, int], None],
    pace: Pace,
) -> tuple[list[MeasuredStep], float]:
    """The fastest round of every step, and the largest difference of plain decoding between rounds."""
    rounds = ROUNDS[bench.target.environment.device]
    shuffled = list(cells) * rounds
    random.Random(0).shuffle(shuffled)
    medians: dict[tuple[int, int, int | None], list[float]] = {}
    for done, (batch, tokens) in enumerate(shuffled):
        pace.look()
        for draft_len, seconds in _cell(bench, batch, tokens, draft_lens, seed=done).items():
            medians.setdefault((batch, tokens, draft_len), []).append(seconds)
        report(done + 1, len(shuffled))
    found = [MeasuredStep(*step, min(seconds)) for step, seconds in medians.items()]
    plain = [seconds for (_, _, draft_len), seconds in medians.items() if draft_len is None]
    return found, max(max(seconds) / min(seconds) - 1.0 for seconds in plain)


def _cell(
    bench: Built, batch: int, tokens: int, draft_lens: Sequence[int], seed: int
) -> dict[int | None, float]:
    """Median seconds of the steps of one batch and context, in random order."""
    device = bench.target.environment.device
    spare = max(draft_lens) + 1
    caches = (decode_step.fill_cache(bench.target, batch=batch, context_tokens=tokens, spare=spare),
              decode_step.fill_cache(bench.drafter, batch=batch, context_tokens=tokens, spare=spare))
    order: list[int | None] = [None, *draft_lens]
    random.Random(seed).shuffle(order)
    rule = StopRule(budget_s=STEP_S / ROUNDS[device], min_samples=2, max_samples=40)
    found = {}
    for draft_len in order:
        call = _step(bench, caches, batch, draft_len)
        timed = measure(lambda _, call=call: call(), sets=1, device=device, rule=rule, graph_calls=1)  # type: ignore[misc]
        found[draft_len] = float(np.median(timed.seconds))
    return found


def _step(bench: Built, caches: tuple[Any, Any], batch: int, draft_len: int | None) -> Callable[[], Any]:
    """D passes of the drafter, then one pass of the target over 1 + D tokens per sequence."""
    verify = decode_step.step(bench.target, caches[0], batch=batch, query_len=1 + (draft_len or 0))
    if not draft_len:
        return verify
    propose = decode_step.step(bench.drafter, caches[1], batch=batch, query_len=1)

    def call() -> Any:
        for _ in range(draft_len):
            propose()
        return verify()

    return call


@dataclass(slots=True)
class Pace:
    """The reference point of the sweep beside the profile, timed again between the cells."""

    then_s: float | None
    point: Point | None
    bench: Bench
    now_s: list[float] = field(default_factory=list)

    @staticmethod
    def of(gpu: GpuProfile, environment: Environment) -> Pace:
        """Start from the measurements beside a profile, where they are this machine's."""
        measured = beside(gpu)
        bench = Bench(environment=environment)
        if measured is None or not measured.references or differences(measured.environment, environment):
            return Pace(then_s=None, point=None, bench=bench)
        seconds = [repeat.median_s for repeat in measured.references]
        return Pace(then_s=float(np.median(seconds)), point=reference_point(environment), bench=bench)

    def look(self) -> None:
        """Time the reference point once more."""
        if self.point is not None:
            found = measure_point(self.point, self.bench, at_s=0.0, reference=True)
            self.now_s += [found.median_s] if found.samples_s else []

    def ratio(self) -> float | None:
        """Time now over time during the sweep."""
        return float(np.median(self.now_s)) / self.then_s if self.then_s and self.now_s else None


def beside(gpu: GpuProfile) -> Measurements | None:
    """The measurements that lie beside a profile of a sweep."""
    file = None if gpu.file is None else gpu.file.parent / "measurements.jsonl"
    return read_measurements(file) if file is not None and file.exists() else None
