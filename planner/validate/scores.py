"""Scores of predictions against measurements: errors, regret, signs, coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.choose import TIE
from specplan.planner.validate.points import Point

FLAT = 0.02     # |ln| of a speedup ratio that counts as no trend


@dataclass(frozen=True, slots=True)
class Errors:
    """Of |ln(predicted / measured)| over `rows` rows; `bias` is the median of the signed error."""

    rows: int
    median: float | None
    p90: float | None
    bias: float | None


@dataclass(frozen=True, slots=True)
class Regret:
    """1 - measured rate at the chosen D / best measured rate, over sweeps of D at one point (off is one of them)."""

    sweeps: int
    mean: float | None
    worst: float | None
    worst_sweep: str = ""


@dataclass(frozen=True, slots=True)
class Signs:
    """Rows that lose (measured speedup below 1): how many a rule finds, and how often it says off wrongly."""

    rows: int
    losing: int
    found: int
    false_off: int


@dataclass(frozen=True, slots=True)
class Trends:
    """Sweeps over batch: does the speedup rise, fall or stay from the smallest to the largest one?"""

    sweeps: int
    right: int


def errors(predicted: Array, measured: Array) -> Errors:
    """Errors of the rows where both are known."""
    known = np.isfinite(predicted) & np.isfinite(measured) & (predicted > 0) & (measured > 0)
    if not known.any():
        return Errors(0, None, None, None)
    ln = np.log(predicted[known] / measured[known])
    size = np.abs(ln)
    return Errors(int(known.sum()), float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(ln)))


def sweep_key(point: Point, *, over: str) -> tuple[object, ...]:
    """What rows of one sweep over `over` (draft_len or batch) have in common."""
    raw = point.case.rows[point.row]
    same = {key: str(value) for key, value in raw.items()
            if key in ("dataset", "isl", "osl", "context", "target", "drafter", "gpu", "tp", "topk", "cfg")}
    if over == "draft_len" and point.drafter is not None:
        # the configuration text of a D sweep often repeats D
        same.pop("cfg", None)
    rest = point.batch if over == "draft_len" else point.draft_len
    form = "tree" if point.tree else "chain"
    return (point.case.name, point.group, form, rest, tuple(sorted(same.items())), point.lengths.context_tokens)


def sweeps(points: Sequence[Point], *, over: str) -> list[list[int]]:
    """Indices of points that form a sweep of at least two values, ascending."""
    found: dict[tuple[object, ...], list[int]] = {}
    for index, point in enumerate(points):
        if point.drafter is not None and point.measured.speedup is not None:
            found.setdefault(sweep_key(point, over=over), []).append(index)
    ordered = [sorted(members, key=lambda i: _axis(points[i], over)) for members in found.values()]
    return [members for members in ordered if len({_axis(points[i], over) for i in members}) > 1]


def _axis(point: Point, over: str) -> float:
    return float(point.draft_len if over == "draft_len" else point.batch)


def regret(points: Sequence[Point], choose: Callable[[list[int]], int | None]) -> Regret:
    """Regret of a choice per sweep over D; `choose` gives the index of the chosen point, None for off."""
    losses: list[tuple[float, str]] = []
    for members in sweeps(points, over="draft_len"):
        rates = {i: points[i].measured.speedup or 1.0 for i in members}
        chosen = choose(members)
        best = max(1.0, *rates.values())
        got = 1.0 if chosen is None else rates[chosen]
        first = points[members[0]]
        losses.append((1.0 - got / best, f"{first.case.name} batch {first.batch:g}"))
    if not losses:
        return Regret(0, None, None)
    worst = max(losses)
    return Regret(len(losses), float(np.mean([loss for loss, _ in losses])), worst[0], worst[1])


def best_predicted(predicted: Array) -> Callable[[list[int]], int | None]:
    """The rule of decide/choose.py on predicted speedups: the smallest D within 1 % of the best, off below 1.01."""

    def choose(members: list[int]) -> int | None:
        values = [float(predicted[i]) for i in members]
        if not all(np.isfinite(values)) or max(values) < 1.0 + TIE:
            return None
        return next(i for i, value in zip(members, values, strict=True) if value >= max(values) / (1.0 + TIE))

    return choose


def nearest_draft_len(points: Sequence[Point], rule: Callable[[Point], int]) -> Callable[[list[int]], int | None]:
    """The measured D next to the one that a rule names; 0 is off."""

    def choose(members: list[int]) -> int | None:
        wanted = rule(points[members[0]])
        return None if wanted == 0 else min(members, key=lambda i: abs(points[i].draft_len - wanted))

    return choose


def signs(predicted: Array, measured: Array) -> Signs:
    """Losing rows found, and gaining rows called losing."""
    known = np.isfinite(predicted) & np.isfinite(measured)
    loses, says = measured[known] < 1.0, predicted[known] < 1.0
    return Signs(int(known.sum()), int(loses.sum()), int((loses & says).sum()), int((~loses & says).sum()))


def trends(points: Sequence[Point], predicted: Array) -> Trends:
    """Batch sweeps whose direction is right."""
    right = total = 0
    for members in sweeps(points, over="batch"):
        low, high = members[0], members[-1]
        measured = np.log((points[high].measured.speedup or np.nan) / (points[low].measured.speedup or np.nan))
        ours = np.log(predicted[high] / predicted[low])
        if not (np.isfinite(measured) and np.isfinite(ours)):
            continue
        total += 1
        right += bool(_direction(measured) == _direction(ours) or abs(measured - ours) <= FLAT)
    return Trends(total, right)


def _direction(ln: float) -> int:
    return 0 if abs(ln) <= FLAT else int(np.sign(ln))


def sliced(points: Sequence[Point], label: Callable[[Point], str]) -> Mapping[str, list[int]]:
    """Indices by label, labels in order."""
    found: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        found.setdefault(label(point), []).append(index)
    return dict(sorted(found.items()))


def batch_band(point: Point) -> str:
    """1, 2-8, 9-32, >32."""
    return next(name for limit, name in ((1, "1"), (8, "2-8"), (32, "9-32"), (np.inf, ">32")) if point.batch <= limit)
