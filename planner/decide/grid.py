"""Step times on large (D, B, S) grids, in chunks along S so that memory stays bounded."""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.anchor import Anchoring
from specplan.planner.decide.anchored_value import anchored_off_step, anchored_step
from specplan.planner.fact import fact
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafter import Drafter
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.step_time import off_step, speculative_step

CHUNK_CELLS = 200_000   # about twenty intermediate arrays of 1.6 MB are alive at once: they stay in the cache


@fact
class StepGrid:
    """Seconds with shape (D, B, S); `off_s` has shape (B, S)."""

    off_s: Array
    step_s: Array


def step_grid(
    target: Model,
    deployment: Deployment,
    drafter: Drafter,
    draft_lens: Array,
    batches: Array,
    contexts: Array,
    *,
    anchoring: Anchoring | None = None,
    chunk_cells: int = CHUNK_CELLS,
) -> StepGrid:
    """Step times for all combinations of one-dimensional `draft_lens`, `batches` and `contexts`.

    With `anchoring` they are moved to the user's measurements, as every answer is. Work is linear in the number of
    cells; beyond the result itself, memory depends on `chunk_cells` only.
    """
    shape = (draft_lens.size, batches.size, contexts.size)
    step_s, off_s = np.empty(shape), np.empty(shape[1:])
    draft = np.asarray(draft_lens, dtype=float).reshape(-1, 1, 1)
    per_chunk = max(1, chunk_cells // max(1, shape[0] * shape[1]))
    for first in range(0, contexts.size, per_chunk):
        here = slice(first, first + per_chunk)
        context = np.asarray(contexts[here], dtype=float).reshape(1, 1, -1)
        batch = np.asarray(batches, dtype=float).reshape(1, -1, 1)
        off = off_step(target, deployment, batch, context)
        step = speculative_step(target, deployment, drafter, draft, batch, context)
        if anchoring is not None:
            step = anchored_step(step, off, anchoring.of(drafter.name))
            off = anchored_off_step(off, anchoring.of(""))
        step_s[:, :, here] = step.step_s
        off_s[:, here] = np.broadcast_to(off.step_s, (1, batches.size, context.size))[0]
    return StepGrid(off_s=off_s, step_s=step_s)
