"""Step times of many points at once: rows of one group differ only in numbers, so one call prices them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.fact import fact
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.step_time import off_step, prefill_s, speculative_step
from specplan.planner.validate.points import Point

Adjust = Callable[[Deployment], Deployment]


@fact
class Prices:
    """Seconds per point, aligned with the points given; NaN where a part does not exist."""

    off_s: Array
    verify_s: Array
    draft_s: Array
    overhead_s: Array
    prefill_s: Array

    @property
    def step_s(self) -> Array:
        """Speculative decode step."""
        return self.verify_s + self.draft_s + self.overhead_s


def groups(points: Sequence[Point]) -> dict[str, list[int]]:
    """Indices of points by group."""
    found: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        found.setdefault(point.group, []).append(index)
    return found


def price(points: Sequence[Point], adjust: Adjust | None = None) -> Prices:
    """Price every point; `adjust` changes each deployment first (other constants)."""
    out = {name: np.full(len(points), np.nan) for name in ("off_s", "verify_s", "draft_s", "overhead_s", "prefill_s")}
    for members in groups(points).values():
        mine = [points[i] for i in members]
        for name, values in _price_group(mine, adjust).items():
            out[name][members] = values
    return Prices(**out)


def _price_group(mine: Sequence[Point], adjust: Adjust | None) -> dict[str, Array]:
    first = mine[0]
    deployment = first.deployment if adjust is None else adjust(first.deployment)
    batch = _column(point.batch for point in mine)
    context = _column(point.lengths.context_tokens for point in mine)
    off = off_step(first.target, deployment, batch, context)
    shape = batch.shape
    found = {"off_s": np.broadcast_to(off.step_s, shape)}
    prompts = {point.lengths.input_tokens for point in mine if point.metric == "end_to_end"}
    each = {prompt: prefill_s(first.target, deployment, prompt) for prompt in prompts}
    found["prefill_s"] = _column(each.get(point.lengths.input_tokens, 0.0) for point in mine)
    if first.drafter is None:
        return found
    step = speculative_step(
        first.target,
        deployment,
        first.drafter,
        _column(point.draft_len for point in mine),
        batch,
        context,
        _column(point.acceptance_length or 1.0 for point in mine),
        verified_tokens=_verified(mine, first),
        branches=_column(point.branches for point in mine),
    )
    found |= {
        "verify_s": np.broadcast_to(step.verify_s, shape),
        "draft_s": np.broadcast_to(step.draft_s, shape),
        "overhead_s": np.broadcast_to(step.overhead_s, shape),
    }
    return found


def _verified(mine: Sequence[Point], first: Point) -> Array | None:
    """Tokens of the verify pass where some row verifies a tree; None leaves them to the drafter's own rule."""
    if first.drafter is None or first.drafter.network is None or not any(p.tree for p in mine):
        return None
    return _column(p.draft_len + 1.0 if p.verified_tokens is None else p.verified_tokens for p in mine)


def _column(values: Iterable[float]) -> Array:
    return np.array(list(values), dtype=float)


def lengths_of(points: Sequence[Point]) -> tuple[Array, Array, Array]:
    """AL, answer tokens and batch of the points (AL is NaN where unknown)."""
    emitted = _column(np.nan if p.acceptance_length is None else p.acceptance_length for p in points)
    return emitted, _column(p.lengths.output_tokens for p in points), _column(p.batch for p in points)


def speedup(points: Sequence[Point], prices: Prices, emitted: Array | None = None) -> Array:
    """Predicted speedup by each point's own metric (E9)."""
    own, output, batch = lengths_of(points)
    length = own if emitted is None else emitted
    end = np.array([point.metric == "end_to_end" for point in points])
    share = np.where(end, batch * prices.prefill_s / output, 0.0)   # prefill of one finished request per token
    return np.asarray(length * (prices.off_s + share) / (prices.step_s + length * share))
