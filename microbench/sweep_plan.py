"""What to measure next: the core, the tile edges, then whatever the fitted equations are least sure of.

Uncertainty of a point that was not measured is the standard error that the fit's own covariance gives its predicted
log time: j C j', with j the derivatives of the log time by the numbers, C = s^2 (J'J)^-1. Points are taken one after
the other, each added to J'J before the next is looked for, so that a batch does not ask for the same thing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specplan.microbench.backends import Backend
from specplan.microbench.cases import Case
from specplan.microbench.fit import Fit, fit_candidate, too_little
from specplan.microbench.fit_measurements import measured_slices, measured_target
from specplan.microbench.fit_predict import Model, model_of
from specplan.microbench.fit_rows import Slice
from specplan.microbench.fit_target import Target
from specplan.microbench.measured_base import base_profile
from specplan.microbench.measurements import Measurement, Measurements
from specplan.planner.arrays import Array
from specplan.planner.kernels.entries import Hardware
from specplan.planner.messages import InputError

BATCH = 8               # points chosen between two fits
RIDGE = 1e-9            # keeps J'J invertible while a number is not identified yet; such points rank first


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One case on one kernel."""

    case: Case
    backend: Backend

    @property
    def key(self) -> str:
        """Name of the point in the file of measurements."""
        return self.case.key(self.backend.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How well one slice is known: median error of its fit on its own points, in percent; None before a first fit."""

    name: str
    points: int
    error_pct: float | None


def assess(measured: Measurements, pool: Sequence[Point]) -> tuple[list[Point], list[State]]:
    """The next points from the pool, the least certain first, and the state of every slice."""
    base = base_profile(measured)
    hardware = base.hardware
    asked = _as_rows(pool, measured)
    states, ranked = [], []
    for rows in measured_slices(measured.timed, ""):
        target = measured_target(rows, base)
        label = f"{rows.kernel} " + " ".join(str(value) for value in rows.variant.values())
        points, wanted = asked.get(_name(rows), ([], None))
        fitted = _fitted(rows, target, hardware)
        if fitted is None:
            if points:      # nothing more is wanted of a kernel without an equation, or of a second choice
                states.append(State(name=label, points=len(rows), error_pct=None))
            ranked += [(float("inf"), point) for point in points[:BATCH]]
            continue
        fit, model = fitted
        residual = np.log(model(fit.numbers, rows) / rows.time_s)
        states.append(State(name=label, points=len(rows), error_pct=float(100 * np.median(np.abs(residual)))))
        if wanted is not None:
            chosen, spread = _least_certain(fit, model, rows, wanted, residual)
            ranked += [(error, points[index]) for index, error in zip(chosen, spread, strict=True)]
    ranked.sort(key=lambda item: -item[0])
    return [point for _, point in ranked[:BATCH]], states


def worst(states: Iterable[State]) -> State | None:
    """The slice to watch: without a fit yet, else with the largest error."""
    return max(states, key=lambda state: float("inf") if state.error_pct is None else state.error_pct, default=None)


def _fitted(rows: Slice, target: Target, hardware: Hardware) -> tuple[Fit, Model] | None:
    if target.unfit or rows.family == "allreduce" or too_little(rows, target) is not None:
        return None
    candidate = target.candidates[0]
    try:
        fit = fit_candidate(rows, target, candidate, hardware, l2_warm=False)
    except InputError:
        return None
    return fit, model_of(target, candidate, rows, hardware, l2_warm=False)


def _least_certain(
    fit: Fit, model: Model, rows: Slice, pool: Slice, residual: Array
) -> tuple[list[int], list[float]]:
    """Indices of pool rows in the order in which they are wanted, each with its standard error when it was picked."""
    free = [name for name in fit.numbers if name not in fit.held]
    seen, asked = (_derivatives(model, fit, free, part) for part in (rows, pool))
    noise = float(np.sqrt(np.mean(residual**2))) or 1e-3
    scale = np.sqrt(np.maximum((seen**2).sum(axis=0), 1e-30))
    seen, asked = seen / scale, asked / scale
    information = seen.T @ seen + RIDGE * np.eye(len(free))
    order: list[int] = []
    spread: list[float] = []
    for _ in range(min(BATCH, len(pool))):
        variance = np.einsum("ij,jk,ik->i", asked, np.linalg.inv(information), asked)
        variance[order] = -1.0
        best = int(np.argmax(variance))
        order.append(best)
        spread.append(noise * float(np.sqrt(max(variance[best], 0.0))))
        information += np.outer(asked[best], asked[best])
    return order, spread


def _derivatives(model: Model, fit: Fit, free: Sequence[str], rows: Slice) -> Array:
    """Change of the log time per relative change of each number."""
    columns = []
    for name in free:
        value = fit.numbers[name] or 1e-9
        up = np.log(model({**fit.numbers, name: value * 1.01}, rows))
        down = np.log(model({**fit.numbers, name: value * 0.99}, rows))
        columns.append((up - down) / 0.02)
    return np.stack(columns, axis=1)


def _as_rows(pool: Sequence[Point], measured: Measurements) -> dict[str, tuple[list[Point], Slice | None]]:
    """Pool points by the name of the slice that they would join, with their shapes as rows."""
    grouped: dict[str, list[Point]] = {}
    for point in pool:
        for rows in measured_slices([_placeholder(point, measured)], ""):
            grouped.setdefault(_name(rows), []).append(point)
    found: dict[str, tuple[list[Point], Slice | None]] = {}
    for name, points in grouped.items():
        (rows,) = measured_slices((_placeholder(point, measured) for point in points), "")
        found[name] = points, rows
    return found


def _placeholder(point: Point, measured: Measurements) -> Measurement:
    case = point.case
    return Measurement(op=case.op, kernel=point.backend.name, shape=case.shape, dtypes=case.dtypes, flop=case.flop,
                       bytes=case.bytes, options=case.options, cold=case.cold, samples_s=(1.0,),
                       environment=measured.environment.device)


def _name(rows: Slice) -> str:
    return f"{rows.family} {rows.kernel} " + " ".join(f"{key}={value}" for key, value in sorted(rows.variant.items()))
