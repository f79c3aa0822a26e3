"""The choice in one cell: which drafter and D, or off; ties, the range of good D, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.value import DrafterValue

Objective: TypeAlias = Literal["latency", "throughput"]

TIE = 0.01      # draft lengths within 1 % count as equal: the smaller one wins (lowest regret in docs/accuracy.md)
NEAR = 0.03     # the range of D that is reported as equally good


@dataclass(frozen=True, slots=True)
class Choice:
    """The best option of one cell. `drafter` indexes the drafters given, `row` their draft lengths; None = off."""

    drafter: int | None
    row: int | None
    draft_len: int | None
    draft_len_range: tuple[int, int] | None
    gain: float             # objective relative to off; 1 when off wins


def gain(value: DrafterValue, objective: Objective) -> Array | None:
    """The objective relative to off: decode rate per user, or end-to-end rate per GPU."""
    if objective == "latency" or value.speedup_end_to_end is None:
        return value.speedup
    return value.speedup_end_to_end


def choose(values: Sequence[DrafterValue], objective: Objective, batch: int, context: int) -> Choice:
    """Best (drafter, D) of cell (batch index, context index) among those that fit in memory; off when none gains.

    Within a drafter the smallest D within 1 % of its best counts; between drafters the better gain does. A gain
    below 1 + TIE is no gain: loading a drafter has a cost that the model does not see.
    """
    best = Choice(None, None, None, None, 1.0)
    for index, value in enumerate(values):
        gains = gain(value, objective)
        if gains is None:
            continue
        here = np.where(_cell(value.memory.fits, value, batch, context), _cell(gains, value, batch, context), -np.inf)
        draft_lens = value.draft_lens[:, 0, 0]
        here = np.where(draft_lens > 0, here, -np.inf)
        top = float(here.max(initial=-np.inf))
        if not np.isfinite(top) or top < 1.0 + TIE:
            continue
        row = int(np.argmax(here >= top / (1.0 + TIE)))
        if best.drafter is None or here[row] > best.gain:
            near = draft_lens[here >= top * (1.0 - NEAR)]
            best = Choice(index, row, int(draft_lens[row]), (int(near.min()), int(near.max())), float(here[row]))
    return best


def _cell(array: Array, value: DrafterValue, batch: int, context: int) -> Array:
    """The D axis of one cell, whatever axes the array has."""
    return cell(array, value.draft_lens.size, batch, context)


def cell(array: Array, draft_lens: int, batch: int, context: int) -> Array:
    """Values over D in one (batch, context) cell of an array that may lack any axis."""
    full = np.asarray(array)
    full = full.reshape((1,) * (3 - full.ndim) + full.shape)
    picked = full[:, batch if full.shape[1] > 1 else 0, context if full.shape[2] > 1 else 0]
    return np.broadcast_to(picked, (draft_lens,))
