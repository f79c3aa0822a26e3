"""`specplan sweep`: measure a device within a time budget, fit what was measured, write profile and summary.

Points are run in random order and appended one by one; running again goes on where the last run stopped. Every
`REFERENCE_EVERY` points the reference point is timed again: where it moved, the block before it is measured once
more. On a CPU, where other programs slow a point down for seconds and nothing speeds it up, the core is visited a
second time, later, and the faster visit of a point counts.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from specplan.microbench import allreduce, cases
from specplan.microbench.backends import backends_of
from specplan.microbench.cases import Case
from specplan.microbench.environment import describe, find_device
from specplan.microbench.fit_measurements import fit_measured
from specplan.microbench.fit_profile import FitReport
from specplan.microbench.grids import Grid, general_grid, model_grid
from specplan.microbench.journal import append, open_journal
from specplan.microbench.measured_base import base_profile
from specplan.microbench.measurements import Environment, Measurement, environment_id, read_measurements
from specplan.microbench.sweep_plan import Point, State, assess, worst
from specplan.microbench.sweep_point import Bench, measure_point, unstable
from specplan.microbench.sweep_summary import summary
from specplan.microbench.timing import StopRule
from specplan.planner.kernels.profile import dump_profile
from specplan.planner.messages import InputError, Note
from specplan.planner.models.architecture import Model

REFERENCE_EVERY = 20
REFERENCE = {"cuda": cases.gemm(rows=64, n=8192, k=8192, dtype="bf16"),
             "cpu": cases.gemm(rows=16, n=2048, k=2048, dtype="fp32")}
DRIFT = {"cuda": 0.02, "cpu": 0.10}     # of the reference point, beyond which a block is measured again
DEFAULT_S = {"cuda": 300.0, "cpu": 300.0}
QUICK_S = {"cuda": 60.0, "cpu": 60.0}
LEAST_MINUTES, MOST_MINUTES = 0.1, 1440.0       # 6 s tell something on a CPU; a day
OTHERS_EVERY = {"cuda": 1, "cpu": 6}
ABSENT = "not run here: "               # opens the reason of a kernel that this machine lacks

Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a sweep stands, for who shows it."""

    done: int
    elapsed_s: float
    budget_s: float
    doing: str
    worst: State | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What a sweep leaves: files, the fit, and what to say about it."""

    measurements: Path
    profile: Path
    summary_file: Path
    summary: str
    fit: FitReport
    points: int
    notes: tuple[Note, ...]
    interrupted: bool = False


def run_sweep(
    *, model: Model | None = None, tp: int = 1, kv_dtype: str | None = None, batch: Sequence[int] = (1, 8, 32),
    context_tokens: Sequence[int] = (1024, 8192, 32_768), device: str | None = None, minutes: float | None = None,
    quick: bool = False, out: Path = Path("sweep"), threads: int | None = None, report: Report | None = None,
) -> SweepResult:
    """Measure, fit, write `measurements.jsonl`, `profile.yaml` and `summary.txt` into `out`.

    Parameters
    ----------
    model, tp, kv_dtype, batch, context_tokens
        Take the shapes of this model and workload; without a model: a general grid.
    minutes
        Time to measure, compilation and fits included; `quick` is one minute.

    Raises
    ------
    InputError
        An unknown device, a budget of nothing, an unwritable folder, a full disk, or measurements of another
        environment in it.
    MissingError
        No torch, or no CUDA device.
    """
    if minutes is not None and not LEAST_MINUTES <= minutes <= MOST_MINUTES:
        why = "leaves no time to measure anything" if minutes < LEAST_MINUTES else "is no time that a sweep takes"
        raise InputError(f"--minutes: {minutes:g} {why}; give {LEAST_MINUTES:g} to {MOST_MINUTES:g}")
    found = find_device(device)
    environment = describe(found, threads=threads, gpus=allreduce.ranks())
    budget_s = 60.0 * minutes if minutes is not None else (QUICK_S if quick else DEFAULT_S)[found]
    grid = general_grid(environment) if model is None else model_grid(
        model, environment, tp=tp, kv_dtype=kv_dtype, batch=batch, context_tokens=context_tokens)
    path = out / "measurements.jsonl"
    if allreduce.rank() > 0:        # the others of a torchrun only answer rank 0's messages
        with allreduce.process_group(found):
            allreduce.measure_allreduce(environment, set(), lambda _: None)
        raise SystemExit(0)
    interrupted = False
    with open_journal(path, environment) as journal:
        def keep(measurement: Measurement) -> None:
            append(journal, measurement)

        run = _Run(path=path, environment=environment, grid=grid, budget_s=budget_s, keep=keep,
                   report=report or (lambda _: None))
        try:
            run.collectives()
            run.all_points()
        except KeyboardInterrupt:       # every point so far is on the disk
            interrupted = True
    return _finish(out, path, environment, interrupted)


def _finish(out: Path, path: Path, environment: Environment, interrupted: bool) -> SweepResult:
    measured = read_measurements(path)
    fit = fit_measured(measured, base_profile(measured), splits=("a",))
    notes = [Note("bad-line", str(fault)) for fault in measured.faults]
    notes += [Note("environment", note) for note in environment.notes]
    if (warning := unstable(list(measured.references))) is not None:
        notes.append(warning)
    text = summary(measured, fit, notes)
    files = {out / "profile.yaml": dump_profile(fit.profile), out / "summary.txt": text}
    for file, content in files.items():
        try:
            file.write_text(content, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{file}: cannot be written: {error.strerror}; the measurements are safe") from None
    return SweepResult(measurements=path, profile=out / "profile.yaml", summary_file=out / "summary.txt", summary=text,
                       fit=fit, points=len(measured.timed), notes=tuple(notes), interrupted=interrupted)


class _Run:
    """One pass over a grid: what was done, how long it took, when to stop."""

    def __init__(
        self, *, path: Path, environment: Environment, grid: Grid, budget_s: float,
        keep: Callable[[Measurement], None], report: Report,
    ) -> None:
        self.path, self.environment, self.grid, self.keep, self.report = path, environment, grid, keep, report
        self.budget_s = budget_s
        self.bench = Bench(environment=environment, rule=StopRule())
        self.started = time.perf_counter()
        self.random = random.Random(0)
        before = read_measurements(path)
        self.done = {point.key for point in before.points if point.samples_s or _final(point.skipped)}
        self.best_s = {point.key: point.median_s for point in before.timed}
        self.known = {(point.key, point.skipped) for point in before.skipped}
        self.first_reference_s: float | None = None
        self.block: list[Point] = []
        self.count = 0
        self.states: list[State] = []

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    def over(self) -> bool:
        """Whether another point would not fit into the budget, at the mean cost of a point so far."""
        each = self.elapsed_s / self.count if self.count else 0.0
        return self.elapsed_s + each > self.budget_s

    def collectives(self) -> None:
        """All-reduce among the ranks of torchrun, before the other ranks leave."""
        if self.environment.gpus > 1:
            with allreduce.process_group(self.environment.device):
                allreduce.measure_allreduce(self.environment, self.done, self._keep)
            return
        case = cases.allreduce(message_bytes=2**20, gpus=2, dtype="bf16")
        self._keep(Measurement(
            op="allreduce", kernel=allreduce.KERNEL[self.environment.device], shape=case.shape, dtypes=case.dtypes,
            flop=0.0, bytes=case.bytes, environment=environment_id(self.environment), skipped=allreduce.ALONE))

    def all_points(self) -> None:
        """Core, its other kernels, edges, then the least certain of the pool, until the time is over."""
        self._reference()
        core, others = self._first(self.grid.core), self._others(self.grid.core)
        again = list(core) if self.environment.device == "cpu" else []
        for stage in (core, others, again, self._first(self.grid.edges)):
            self.random.shuffle(stage)
            for point in stage:
                if self.over():
                    return
                self._one(point)
        self._adaptive(self._first(self.grid.pool))
        self._reference()

    def _adaptive(self, pool: list[Point]) -> None:
        while pool and not self.over():
            chosen, self.states = assess(read_measurements(self.path), pool)
            if not chosen:
                return
            for point in chosen:
                if self.over():
                    return
                self._one(point)
            taken = {point.key for point in chosen}
            pool = [point for point in pool if point.key not in taken]

    def _first(self, wanted: Iterable[Case]) -> list[Point]:
        """Each case on the kernel that is preferred for it."""
        return [point for case in wanted for point in self._points(case)[:1] if point.key not in self.done]

    def _others(self, wanted: Iterable[Case]) -> list[Point]:
        """Each case on the other kernels that are here; on a CPU, where one kernel serves the profile, a few."""
        every = OTHERS_EVERY[self.environment.device]
        return [point for case in list(wanted)[::every] for point in self._points(case)[1:]
                if point.key not in self.done]

    def _points(self, case: Case) -> list[Point]:
        """The case on every kernel that is here and takes it; an absent one is told once, with its reason."""
        found = []
        for backend in backends_of(case.op, self.environment.device):
            point = Point(case=case, backend=backend)
            absent = backend.absent(self.environment)
            if absent is not None:
                self._absent(point, absent)
            elif backend.refuses(case, self.environment) is None:
                found.append(point)
        return found

    def _absent(self, point: Point, reason: str) -> None:
        if point.backend.name in self.bench.verdicts:
            return
        self.bench.verdicts[point.backend.name] = reason
        case = point.case
        self._keep(Measurement(
            op=case.op, kernel=point.backend.name, shape=case.shape, dtypes=case.dtypes, flop=case.flop,
            bytes=case.bytes, environment=environment_id(self.environment), options=case.options, cold=case.cold,
            skipped=ABSENT + reason))

    def _one(self, point: Point) -> None:
        self._tell(point)
        self._measure(point)
        if len(self.block) >= REFERENCE_EVERY:
            self._reference()

    def _measure(self, point: Point) -> None:
        self._visit(point)
        self.count += 1
        if point.key in self.best_s:
            self.block.append(point)

    def _visit(self, point: Point) -> None:
        found = measure_point(point, self.bench, at_s=self.elapsed_s)
        self.done.add(point.key)
        slower = bool(found.samples_s) and found.median_s >= self.best_s.get(point.key, math.inf)
        if self.environment.device == "cpu" and slower:
            return
        if found.samples_s:
            self.best_s[point.key] = found.median_s
        self._keep(found)

    def _reference(self) -> None:
        """Time the reference point; where it drifted, measure the block since the last time once more."""
        found = measure_point(reference_point(self.environment), self.bench, at_s=self.elapsed_s, reference=True)
        if not found.samples_s:
            raise InputError(f"the reference point ({found.kernel}) cannot be measured: {found.skipped}")
        first = self.first_reference_s = self.first_reference_s or found.median_s
        drift = found.median_s / first - 1.0
        self._keep(replace(found, reference=True, drift=round(drift, 4)))
        block, self.block = self.block, []
        if abs(drift) > DRIFT[self.environment.device]:
            self.first_reference_s = found.median_s     # the machine's new pace: compare with it from now on
            for point in block:
                if self.over():
                    return
                self._tell(point, again=True)
                self._visit(point)

    def _keep(self, measurement: Measurement) -> None:
        if measurement.skipped is None or (measurement.key, measurement.skipped) not in self.known:
            self.keep(measurement)

    def _tell(self, point: Point, *, again: bool = False) -> None:
        doing = f"{point.backend.name} {point.case.op}" + (" again: the machine drifted" if again else "")
        self.report(Progress(done=self.count, elapsed_s=self.elapsed_s, budget_s=self.budget_s, doing=doing,
                             worst=worst(self.states)))


def reference_point(environment: Environment) -> Point:
    """The point that is repeated to see a device drift: one matrix product on its preferred kernel."""
    case = REFERENCE[environment.device]
    backend = next(backend for backend in backends_of(case.op, environment.device)
                   if backend.absent(environment) is None and backend.refuses(case, environment) is None)
    return Point(case=case, backend=backend)


def _final(skipped: str | None) -> bool:
    """Whether a skip still holds in a later run: a size that did not fit, a wrong result."""
    return skipped is not None and skipped.startswith(("out of memory", "wrong result"))
