"""Timing whole decode steps: D drafter passes and a verify pass, in random order, in rounds, with a pace-maker."""

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

ROUND_S = 0.12              # measured time of one step at most, in each of two rounds over all D
ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A target and a drafter with their weights."""

    target: decode_step.Network
    drafter: decode_step.Network


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Median seconds of one step; `draft_len` None is plain decoding."""

    batch: int
    context_tokens: int
    draft_len: int | None
    seconds: float


def measure_steps(
    bench: Built, cells: Sequence[tuple[int, int]], draft_lens: Sequence[int], report: Callable[[int, int], None],
    pace: Pace,
) -> tuple[list[MeasuredStep], float]:
    """Median seconds of every step in random order, and the largest difference of plain decoding between rounds."""
    shuffled = list(cells)
    random.Random(0).shuffle(shuffled)
    total = len(cells) * (1 + len(draft_lens))
    found: list[MeasuredStep] = []
    spreads = []
    for batch, tokens in shuffled:
        pace.look()
        steps, spread = _cell(bench, batch, tokens, draft_lens)
        found += steps
        spreads.append(spread)
        report(len(found), total)
    return found, max(spreads)


def _cell(
    bench: Built, batch: int, tokens: int, draft_lens: Sequence[int]
) -> tuple[list[MeasuredStep], float]:
    """Steps of one batch and context, each timed in every round, and how far the rounds of plain decoding differ."""
    device = bench.target.environment.device
    spare = max(draft_lens) + 1
    caches = (decode_step.fill_cache(bench.target, batch=batch, context_tokens=tokens, spare=spare),
              decode_step.fill_cache(bench.drafter, batch=batch, context_tokens=tokens, spare=spare))
    order: list[int | None] = [None, *draft_lens] * ROUNDS
    random.Random(batch * tokens).shuffle(order)
    rule = StopRule(budget_s=ROUND_S, max_samples=40)
    samples: dict[int | None, list[float]] = {}
    medians: list[float] = []
    for draft_len in order:
        call = _step(bench, caches, batch, draft_len)
        found = measure(lambda _, call=call: call(), sets=1, device=device, rule=rule).seconds  # type: ignore[misc]
        samples.setdefault(draft_len, []).extend(found)
        if draft_len is None:
            medians.append(float(np.median(found)))
    steps = [MeasuredStep(batch, tokens, draft_len, float(np.median(found))) for draft_len, found in samples.items()]
    return steps, max(medians) / min(medians) - 1.0


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
