"""Acceptance as one type, whatever form it was stated in, and the acceptance length it gives at any draft length.

Vocabulary: D drafted tokens per target step, AL tokens emitted per target step with the bonus token, p_k the
unconditional probability that draft token k is accepted. AL(D) = 1 + p_1 + ... + p_D and AL(0) = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

import numpy as np

from specplan.planner.acceptance import shape
from specplan.planner.acceptance.intervals import step_variance, wilson_of_mean
from specplan.planner.acceptance.tail import Tail
from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.fact import fact
from specplan.planner.messages import Note

Form: TypeAlias = Literal["per_position", "alpha", "acceptance_length", "histogram", "rate"]
Rule: TypeAlias = Literal["geometric", "minimum_variance"]

UNLIMITED = 1_000_000       # known_draft_len of an alpha: the rule itself is the assumption
SPREAD: dict[Form, float] = {
    # one standard deviation of AL - 1, relative, where no counts came with the numbers
    "per_position": 0.04, "histogram": 0.0, "acceptance_length": 0.04, "rate": 0.06, "alpha": 0.10,
}
TAIL_SPREAD = 0.2           # of what the tail adds: tails fitted to 3-5 positions of library curves are this far off
RULE_SPREAD: dict[Rule, float] = {
    # of AL - 1 per doubling of D away from the single D that was stated; one standard deviation over library curves
    "geometric": 0.06, "minimum_variance": 0.31,
}


@fact
class Acceptance:
    """What is known of the acceptance of one drafter on one kind of text.

    `survival` is the fitted p_1 ... p_K that all lengths come from; `lengths` are the AL values as they were stated
    or measured at `draft_lens`. `spread` is a relative standard deviation of AL - 1 beyond the sampling noise of
    `steps`. A `per_block` curve belongs to one block of a drafter that proposes blocks: a smaller D is a cut of it.
    """

    form: Form
    source: str
    draft_lens: tuple[int, ...]
    lengths: tuple[float, ...]
    survival: tuple[float, ...]
    tail: Tail
    per_position: tuple[float, ...] | None = None
    alpha: float | None = None
    rule: Rule | None = None            # how a single number was spread over the positions
    steps: float | None = None          # target steps behind the numbers
    spread: float = 0.0
    per_block: bool = False
    contexts: tuple[tuple[float, Acceptance], ...] = ()     # (context_tokens, curve), rising
    curves: tuple[str, ...] = ()        # ids of all library curves behind an estimate
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def known_draft_len(self) -> int:
        """Largest D that was measured or stated; beyond it the tail speaks."""
        return UNLIMITED if self.alpha is not None and not self.draft_lens else len(self.survival)


def acceptance_length(curve: Acceptance, draft_len: ArrayLike, context_tokens: ArrayLike | None = None) -> Array:
    """AL(D), elementwise; AL(0) = 1. Beyond `known_draft_len` the fitted tail goes on; `usage_notes` says so.

    With curves per context, `context_tokens` broadcasts against `draft_len`: linear in log context between the
    measured contexts, held at the outermost ones.
    """
    d = np.asarray(draft_len, dtype=float)
    if curve.contexts and context_tokens is not None:
        at = np.log([context for context, _ in curve.contexts])
        place = np.clip(np.log(np.maximum(np.asarray(context_tokens, dtype=float), 1.0)), at[0], at[-1])
        values = [_length(inner, d) for _, inner in curve.contexts]
        right = np.clip(np.searchsorted(at, place, side="left"), 1, max(len(at) - 1, 1))
        if len(at) == 1:
            return np.asarray(values[0] + 0.0 * place)
        share = (place - at[right - 1]) / (at[right] - at[right - 1])
        result = np.zeros(np.broadcast_shapes(d.shape, place.shape))
        for i in range(len(at)):
            weight = np.where(right - 1 == i, 1.0 - share, 0.0) + np.where(right == i, share, 0.0)
            result = result + weight * values[i]
        return result
    return _length(curve, d)


def interval(curve: Acceptance, draft_len: ArrayLike, level: float = 0.9,
             context_tokens: ArrayLike | None = None) -> tuple[Array, Array]:
    """Lower and upper AL(D) that hold the true one with probability `level`; never outside [1, 1 + D].

    Three independent parts add as variances: the sampling noise of counted steps, the `spread` of AL - 1, and the
    doubt of the tail beyond the known D.
    """
    d = np.asarray(draft_len, dtype=float)
    mean = acceptance_length(curve, d, context_tokens)
    inside = np.minimum(d, curve.known_draft_len)
    beyond = mean - acceptance_length(curve, inside, context_tokens)
    relative = curve.spread**2 + (RULE_SPREAD[curve.rule] * np.log2(np.maximum(d, 1.0) / curve.draft_lens[0])) ** 2 if (
        curve.rule and curve.draft_lens) else curve.spread**2
    other = relative * (mean - 1.0) ** 2 + (TAIL_SPREAD * beyond) ** 2 + _tail_doubt(curve, d) ** 2
    sampling = step_variance(curve.survival, inside) / curve.steps if curve.steps else np.zeros_like(mean)
    return wilson_of_mean(mean, d, sampling, curve.steps, other, level)


def _tail_doubt(curve: Acceptance, d: Array) -> Array:
    known = len(curve.survival)
    if curve.rule is not None or d.size == 0 or float(d.max()) <= known:
        return np.zeros_like(d)
    positions = np.arange(known + 1.0, math.ceil(float(d.max())) + 1.0)
    doubt = np.concatenate([[0.0], curve.survival[-1] * curve.tail.doubt(known, positions)])
    return np.asarray(np.interp(np.maximum(d - known, 0.0), np.arange(len(doubt)), doubt))


def _length(curve: Acceptance, d: Array) -> Array:
    if curve.alpha is not None and not curve.draft_lens:
        return np.asarray(shape.alpha_length(curve.alpha, d))
    known = len(curve.survival)
    table = np.concatenate([[1.0], 1.0 + np.cumsum(curve.survival)])
    inside = np.interp(d, np.arange(known + 1), table)
    if d.size == 0 or float(d.max()) <= known:
        return np.asarray(inside)
    beyond = np.arange(1.0, math.ceil(float(d.max())) - known + 1)
    extra = np.concatenate([[0.0], np.cumsum(curve.survival[-1] * curve.tail.ratio(known, known + beyond))])
    return np.asarray(inside + np.interp(np.maximum(d - known, 0.0), np.arange(len(extra)), extra))
