"""One draft length per range of batches: the table that engines take, as short as a small loss allows.

Engines switch D by the number of running sequences. The best D per batch jumps at tile edges and graph sizes, so
neighbours are merged while a tier loses little on average against the best D of each of its batches, and no batch
loses much; among the shortest tables the one with the highest mean gain is taken.

Graph sizes, tiles and experts can make such a table rise again with the batch. The nearest table that only falls is
named beside it, with what it costs: it owes less to steps that the next release may move.

A tier of D = 0 still has the drafter loaded and pays for it: where plain decoding beats every tier by more than that,
a deployment of its own without drafter is better, and it is said from which batch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.tier import Tier
from specplan.planner.fact import fact

Run: TypeAlias = tuple[int, int, int]       # row, first and last batch index
TOLERANCE = 0.02    # mean loss that merging may cost a tier
A_TIER = 1e3        # more than any sum of costs within SMOOTH: the number of tiers decides first
SLACK = 1e-12       # rounding of sums of logs
A_RUN = 1e6         # more than any sum of losses: the number of runs decides first
WORST = 4           # times the tolerance: what merging may cost a single batch
SMOOTH = (0.01, 0.02, 0.03, 0.05, 0.08)     # what a table that only falls may cost at any batch; the least counts


@fact
class Schedule:
    """A table of tiers for one drafter, and what it costs against the best D of each batch."""

    tiers: tuple[Tier, ...]
    mean_gain: float            # geometric mean over batches and contexts, relative to off
    mean_loss: float            # against the best D of each batch
    worst_loss: float           # largest shortfall against the best D, any batch
    worst_loss_batch: int
    off_from: int | None        # from this batch on off beats the schedule at every batch
    off_advantage: float        # by how much at the largest batch; 0 where it does not
    smoother: Smoother | None   # None: the table only falls, or none that only falls is near enough


@fact
class Smoother:
    """A table in which D only falls as the batch grows, and what it costs against the shortest one."""

    tiers: tuple[Tier, ...]
    mean_cost: float
    worst_cost: float
    worst_cost_batch: int


def schedule_batches(largest: int) -> list[int]:
    """Batches to evaluate: all up to 32, every fourth to 128, every eighth to 512, every 32nd to 4096.

    Above that the distance doubles with the batch: 64 of them per doubling.
    """
    steps = [(1, 32, 1), (36, 128, 4), (136, 512, 8), (544, 4096, 32)]
    steps += [(first, 2 * first, first // 64) for first in (1 << power for power in range(12, largest.bit_length()))]
    found = [batch for first, last, by in steps for batch in range(first, min(last, largest) + 1, by)]
    return sorted({*found, largest})


def schedule(draft_lens: list[int], gains: Array, batches: list[int], *, tolerance: float = TOLERANCE) -> Schedule:
    """Shortest table of tiers whose mean loss stays below `tolerance` (and below `WORST` times it at any batch).

    `gains` has shape (D, B, S): the objective relative to off (loaded-drafter costs included), for each draft length
    (0 included), batch (rising) and context. One table serves all contexts, so their geometric mean decides.
    """
    logs = np.log(np.maximum(gains, 1e-9)).mean(axis=2)     # (D, B)
    best = logs.max(axis=0)
    rows = _segments(logs - best, -np.log1p(-tolerance), -np.log1p(-min(WORST * tolerance, 0.99)))
    chosen = np.concatenate([logs[row, first : last + 1] for row, first, last in rows])
    loss = 1.0 - np.exp(chosen - best)
    losing = chosen < 0
    off_from = None
    if losing[-1]:
        since = int(np.flatnonzero(~losing).max(initial=-1)) + 1
        off_from = 1 if since == 0 else batches[since]
    return Schedule(
        tiers=_tiers(rows, draft_lens, batches),
        mean_gain=float(np.exp(chosen.mean())),
        mean_loss=float(loss.mean()),
        worst_loss=float(loss.max()),
        worst_loss_batch=batches[int(loss.argmax())],
        off_from=off_from,
        off_advantage=float(max(0.0, np.exp(-chosen[-1]) - 1.0)),
        smoother=_smoother(logs, chosen, rows, draft_lens, batches),
    )


def _tiers(rows: list[Run], draft_lens: list[int], batches: list[int]) -> tuple[Tier, ...]:
    return tuple(
        Tier(1 if first == 0 else batches[first - 1] + 1, batches[last], draft_lens[row]) for row, first, last in rows
    )


def _smoother(
    logs: Array, chosen: Array, rows: list[Run], draft_lens: list[int], batches: list[int]
) -> Smoother | None:
    """The nearest table that only falls; None where this one does, or none is near."""
    if all(draft_lens[after[0]] <= draft_lens[before[0]] for before, after in pairwise(rows)):
        return None
    order = np.argsort(draft_lens)[::-1]        # D falls along rows
    cost = chosen - logs[order]
    paths = (_falling(np.where(cost <= -np.log1p(-limit) + SLACK, cost, np.inf)) for limit in SMOOTH)
    path = next((found for found in paths if found is not None), None)
    if path is None:
        return None
    edges = [0, *(i for i in range(1, len(path)) if path[i] != path[i - 1]), len(path)]
    runs = [(int(order[path[first]]), first, last - 1) for first, last in pairwise(edges)]
    lost = 1.0 - np.exp(-cost[path, np.arange(len(path))])
    return Smoother(
        tiers=_tiers(runs, draft_lens, batches), mean_cost=float(lost.mean()), worst_cost=float(lost.max()),
        worst_cost_batch=batches[int(lost.argmax())],
    )


def _falling(cost: Array) -> list[int] | None:
    """A row per batch, never an earlier one than before: fewest changes, then least cost; None where all are out."""
    total, before = cost[:, 0], []
    for column in cost.T[1:]:
        # per row, the cheapest predecessor that drafts at least as much; another one than itself starts a tier
        lowest = np.minimum.accumulate(total)
        cheapest = np.maximum.accumulate(np.where(total == lowest, np.arange(total.size), 0))
        stay = total <= lowest + A_TIER
        before.append(np.where(stay, np.arange(total.size), cheapest))
        total = np.where(stay, total, lowest + A_TIER) + column
    at = int(total.argmin())
    if not np.isfinite(total[at]):
        return None
    path = [at]
    for step in reversed(before):
        path.append(int(step[path[-1]]))
    return path[::-1]


def _segments(loss: Array, mean_limit: float, worst_limit: float) -> list[Run]:
    """Fewest runs of batches with one row each, then the least loss: (row, first, last) of each run.

    `loss` is log(value / best) of shape (rows, batches), never positive. Dynamic programming over the end of the last
    run; sums of a run come from prefix sums, and a row that loses too much anywhere in the run is out.
    """
    rows, size = loss.shape
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(loss, axis=1)], axis=1)
    banned = np.concatenate([np.zeros((rows, 1)), np.cumsum(-loss > worst_limit + SLACK, axis=1)], axis=1)
    score = np.zeros(size + 1)
    start, row = np.zeros(size + 1, dtype=int), np.zeros(size + 1, dtype=int)
    for end in range(1, size + 1):
        value = sums[:, end, None] - sums[:, :end]
        length = end - np.arange(end)
        possible = (banned[:, end, None] == banned[:, :end]) & (-value <= (mean_limit + SLACK) * length)
        value = np.where(possible, value, -np.inf)
        best_row = value.argmax(axis=0)
        total = score[:end] - A_RUN + value[best_row, np.arange(end)]
        start[end] = int(total.argmax())
        row[end] = int(best_row[start[end]])
        score[end] = total[start[end]]
    found, end = [], size
    while end > 0:
        found.append((int(row[end]), int(start[end]), end - 1))
        end = int(start[end])
    return found[::-1]
