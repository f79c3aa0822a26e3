"""Schedules against published sweeps over both D and batch: what the collapsed table gives away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.schedule import schedule
from specplan.planner.validate.points import Point
from specplan.planner.validate.scores import Regret, sweep_key


def schedule_regret(points: Sequence[Point], predicted: Array) -> Regret:
    """Loss of the schedule's D against the best measured D, over all batches of all sweeps.

    `predicted` are speedups aligned with `points`. A sweep is one drafter on one workload with at least two D at two
    batches or more; off is an option where the source measured it. Measured rates or speedups are compared within a
    batch only.
    """
    losses: list[tuple[float, str]] = []
    for members in _sweeps(points):
        losses += _losses(points, predicted, members)
    if not losses:
        return Regret(0, None, None)
    worst = max(losses)
    return Regret(len(losses), float(np.mean([loss for loss, _ in losses])), worst[0], worst[1])


def _sweeps(points: Sequence[Point]) -> list[list[int]]:
    found: dict[tuple[object, ...], list[int]] = {}
    for index, point in enumerate(points):
        if point.drafter is None or point.tree or _value(point) is None:
            continue
        name, group, form, _, same, context = sweep_key(point, over="draft_len")    # without its batch
        found.setdefault((name, group, form, same, context), []).append(index)
    return [members for members in found.values() if len({points[i].batch for i in members}) > 1]


def _value(point: Point) -> float | None:
    measured = point.measured
    return measured.speedup if measured.speedup is not None else measured.rate


def _losses(points: Sequence[Point], predicted: Array, members: Sequence[int]) -> list[tuple[float, str]]:
    known = [i for i in members if np.isfinite(predicted[i])]
    draft_lens = sorted({points[i].draft_len for i in known})
    batches = sorted({int(points[i].batch) for i in known})
    at = {(points[i].draft_len, int(points[i].batch)): i for i in known}
    batches = [batch for batch in batches if sum((d, batch) in at for d in draft_lens) > 1]
    if len(batches) < 2:
        return []
    with_off = all(points[i].measured.speedup is not None for i in known)
    rows = [0, *draft_lens] if with_off else draft_lens
    gains = np.full((len(rows), len(batches), 1), 1e-6)     # a D that nobody measured at a batch cannot be chosen
    for (d, batch), i in at.items():
        if batch in batches:
            gains[rows.index(d), batches.index(batch), 0] = predicted[i]
    if with_off:
        gains[0] = 1.0
    tiers = schedule(rows, gains, batches).tiers
    found = []
    for batch in batches:
        chosen = next(tier.draft_len for tier in tiers if tier.first <= batch <= tier.last)
        values = {d: _value(points[at[d, batch]]) or 0.0 for d in draft_lens if (d, batch) in at}
        values |= {0: 1.0} if with_off else {}
        loss = 1.0 - values[chosen] / max(values.values())
        found.append((loss, f"{points[members[0]].case.name} batch {batch}"))
    return found
