"""What a draft length is worth on every cell of the (D, B, S) grid, for one drafter (E9).

speedup            = AL * t_off / t_step                     pure decode steps
speedup_end_to_end = the same with the prefill of the requests that replace finished ones: a step that emits AL
                     tokens per sequence finishes AL times more requests than a plain step, so it also carries
                     B*AL/output_tokens prefills against B/output_tokens
break-even AL      = t_step / t_off                          below it speculation loses
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.acceptance.curve import Acceptance, acceptance_length
from specplan.planner.arrays import Array
from specplan.planner.fact import fact
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafter import Drafter
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.memory import Memory, memory
from specplan.planner.step.step_time import OffStep, SpeculativeStep, off_step, prefill_s, speculative_step


@fact
class Lengths:
    """Prompt and answer tokens of a request, and the seconds that inserting one prompt takes."""

    input_tokens: float
    output_tokens: float
    prefill_s: float

    def per_step_s(self, batch: Array, emitted: Array | float) -> Array:
        """Prefill seconds that fall into a step which emits `emitted` tokens per sequence."""
        return batch * emitted / self.output_tokens * self.prefill_s


@fact
class OffValue:
    """Plain decoding on the grid (1, B, S): times and rates that speculation is measured against."""

    batch: Array            # (1, B, 1)
    context_tokens: Array   # (1, 1, S)
    step: OffStep
    memory: Memory
    lengths: Lengths | None
    gpus: int

    @property
    def tokens_per_s_per_user(self) -> Array:
        """Decode rate of one sequence."""
        return np.asarray(1.0 / self.step.step_s)

    @property
    def end_to_end_step_s(self) -> Array:
        """Step with its share of prefill; the plain step where lengths are unknown."""
        if self.lengths is None:
            return self.step.step_s
        return self.step.step_s + self.lengths.per_step_s(self.batch, 1.0)

    @property
    def tokens_per_s_per_gpu(self) -> Array:
        """End-to-end rate of a GPU (decode rate where lengths are unknown)."""
        return np.asarray(self.batch / (self.end_to_end_step_s * self.gpus))


@fact
class DrafterValue:
    """One drafter on the grid (D, B, S). Without acceptance only costs and break-even AL are known."""

    drafter: Drafter
    acceptance: Acceptance | None
    draft_lens: Array                   # (D, 1, 1)
    acceptance_length: Array | None     # (D, 1, 1) or (D, 1, S)
    step: SpeculativeStep
    memory: Memory
    off: OffValue

    @property
    def break_even(self) -> Array:
        """AL at which the decode step pays exactly."""
        return self.step.step_s / self.off.step.step_s

    @property
    def speedup(self) -> Array | None:
        """Decode speedup over off."""
        return None if self.acceptance_length is None else self.acceptance_length / self.break_even

    @property
    def tokens_per_s_per_user(self) -> Array | None:
        """Decode rate of one sequence."""
        return None if self.acceptance_length is None else self.acceptance_length / self.step.step_s

    @property
    def end_to_end_step_s(self) -> Array | None:
        """Step with the prefills that its finished requests bring in; None without acceptance or lengths."""
        lengths = self.off.lengths
        if self.acceptance_length is None or lengths is None:
            return None
        return self.step.step_s + lengths.per_step_s(self.off.batch, self.acceptance_length)

    @property
    def speedup_end_to_end(self) -> Array | None:
        """Speedup of a throughput benchmark or server; None where lengths are unknown."""
        step = self.end_to_end_step_s
        if step is None or self.acceptance_length is None:
            return None
        return self.acceptance_length * self.off.end_to_end_step_s / step

    @property
    def tokens_per_s_per_gpu(self) -> Array | None:
        """End-to-end rate of a GPU (decode where lengths are unknown)."""
        if self.acceptance_length is None:
            return None
        step = self.end_to_end_step_s
        return self.off.batch * self.acceptance_length / ((self.step.step_s if step is None else step) * self.off.gpus)


def others_prefill_s(sequences: float, prefill_s: float) -> float:
    """Prefill seconds that cut into the decoding of one answer: while it decodes, each of the other sequences ends and
    is replaced once. The own prompt lies before the first token, so TPOT, (end - first token) / (tokens - 1), has none.
    """
    return max(sequences - 1.0, 0.0) * prefill_s


def request_lengths(
    target: Model,
    deployment: Deployment,
    input_tokens: float,
    output_tokens: float,
    *,
    prefix_hit: float = 0.0,
    disaggregated: bool = False,
) -> Lengths:
    """Lengths with the price of one prefill: nothing where other GPUs process prompts."""
    cached = input_tokens * prefix_hit
    seconds = 0.0 if disaggregated else prefill_s(target, deployment, input_tokens - cached, cached)
    return Lengths(input_tokens=input_tokens, output_tokens=output_tokens, prefill_s=seconds)


def grid(draft_lens: list[int] | range | Array, batch: list[int] | Array, context_tokens: list[int] | Array) -> tuple[
    Array, Array, Array
]:
    """Axes that broadcast: D as (D, 1, 1), B as (1, B, 1), S as (1, 1, S)."""
    return (
        np.asarray(draft_lens, dtype=float).reshape(-1, 1, 1),
        np.asarray(batch, dtype=float).reshape(1, -1, 1),
        np.asarray(context_tokens, dtype=float).reshape(1, 1, -1),
    )


def off_value(
    target: Model, deployment: Deployment, batch: Array, context_tokens: Array, lengths: Lengths | None = None
) -> OffValue:
    """Plain decoding on the grid; axes as `grid` makes them."""
    return OffValue(
        batch=batch,
        context_tokens=context_tokens,
        step=off_step(target, deployment, batch, context_tokens),
        memory=memory(target, deployment, None, 0.0, batch, context_tokens),
        lengths=lengths,
        gpus=deployment.gpus,
    )


def drafter_value(
    target: Model,
    deployment: Deployment,
    drafter: Drafter,
    acceptance: Acceptance | None,
    draft_lens: Array,
    off: OffValue,
) -> DrafterValue:
    """One drafter on the grid of `off`, for `draft_lens` of shape (D, 1, 1)."""
    emitted = None
    context = off.context_tokens if acceptance is not None and acceptance.contexts else None
    if acceptance is not None:
        emitted = acceptance_length(acceptance, draft_lens, context)
    if acceptance is not None and emitted is not None and drafter.adaptive:
        trusted = acceptance_length(acceptance, np.maximum(draft_lens - 1.0, 0.0), context)
        return _adaptive(target, deployment, drafter, acceptance, draft_lens, off, emitted, trusted)
    return DrafterValue(
        drafter=drafter,
        acceptance=acceptance,
        draft_lens=draft_lens,
        acceptance_length=emitted,
        step=speculative_step(target, deployment, drafter, draft_lens, off.batch, off.context_tokens, emitted),
        memory=memory(target, deployment, drafter, draft_lens, off.batch, off.context_tokens),
        off=off,
    )


def _adaptive(
    target: Model,
    deployment: Deployment,
    drafter: Drafter,
    acceptance: Acceptance,
    draft_lens: Array,
    off: OffValue,
    emitted: Array,
    trusted: Array,
) -> DrafterValue:
    """Verify all D tokens or only those that a confidence head trusts, whichever is faster in a cell.

    A good head verifies the tokens that will be accepted and the one after them: 1 + AL(D-1) on average (`trusted` is
    AL(D-1)). It errs, so a share of what would have been accepted is lost.
    """
    kept = 1.0 + (emitted - 1.0) * deployment.path.constant("adaptive_kept")
    fixed = speculative_step(target, deployment, drafter, draft_lens, off.batch, off.context_tokens, emitted)
    some = speculative_step(
        target, deployment, drafter, draft_lens, off.batch, off.context_tokens, emitted,
        verified_tokens=np.minimum(1.0 + trusted, 1.0 + draft_lens),
    )
    wins = kept / some.step_s > emitted / fixed.step_s
    chosen = replace(
        fixed,
        query_len=np.where(wins, some.query_len, fixed.query_len),
        verify_s=np.where(wins, some.verify_s, fixed.verify_s),
        overhead_s=np.where(wins, some.overhead_s, fixed.overhead_s),
    )
    return DrafterValue(
        drafter=drafter,
        acceptance=acceptance,
        draft_lens=draft_lens,
        acceptance_length=np.where(wins, kept, emitted),
        step=chosen,
        memory=memory(target, deployment, drafter, draft_lens, off.batch, off.context_tokens),
        off=off,
    )
