"""Steps and values on the grid after anchoring: the same arrays with the multipliers of decide/anchor.py put in.

Kernel calls keep their shares: those of a pass scale as the pass does, so that they still add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.anchor import (
    Anchoring,
    Multipliers,
    anchored_length,
    anchored_off_s,
    anchored_overhead_s,
    anchored_verify_s,
)
from specplan.planner.decide.value import DrafterValue, OffValue
from specplan.planner.step.forward import Op
from specplan.planner.step.step_time import OffStep, SpeculativeStep


def anchored_off_step(step: OffStep, factors: Multipliers) -> OffStep:
    """The plain step; its parts scale alike."""
    scale = factors.scale
    return replace(
        step,
        step_s=anchored_off_s(step.step_s, factors),
        gpu_s=step.gpu_s * scale,
        host_s=step.host_s * scale,
        parts_s={part: seconds * scale for part, seconds in step.parts_s.items()},
        ops=_scaled(step.ops, np.asarray(scale)),
    )


def anchored_step(step: SpeculativeStep, before: OffStep, factors: Multipliers) -> SpeculativeStep:
    """A step of one drafter; `before` is the plain step before anchoring."""
    verify = anchored_verify_s(step.verify_s, before.step_s, before.host_s, factors)
    draft = np.asarray(factors.scale * factors.draft)
    proposal = step.drafting
    return replace(
        step,
        verify_s=verify,
        draft_s=step.draft_s * draft,
        overhead_s=anchored_overhead_s(step.overhead_s, before.host_s, factors),
        verify_ops=_scaled(step.verify_ops, verify / step.verify_s),
        drafting=replace(
            proposal,
            total_s=proposal.total_s * draft,
            pass_ops=_scaled(proposal.pass_ops, draft),
            first_ops=_scaled(proposal.first_ops, draft),
            floor_s=proposal.floor_s * float(draft),
        ),
    )


def _scaled(ops: Sequence[Op], factor: Array) -> tuple[Op, ...]:
    return tuple(
        replace(op, time=replace(
            op.time,
            time_s=op.time.time_s * factor,
            parts={resource: seconds * factor for resource, seconds in op.time.parts.items()},
        ))
        for op in ops
    )


def anchored_off(off: OffValue, anchoring: Anchoring) -> OffValue:
    """Plain decoding; the prefill of a request scales with it."""
    factors, lengths = anchoring.of(""), off.lengths
    return replace(
        off,
        step=anchored_off_step(off.step, factors),
        lengths=None if lengths is None else replace(lengths, prefill_s=lengths.prefill_s * factors.scale),
    )


def anchored_drafter(value: DrafterValue, off: OffValue, anchoring: Anchoring) -> DrafterValue:
    """One drafter; `off` is plain decoding after anchoring, `value.off` before."""
    factors, length = anchoring.of(value.drafter.name), value.acceptance_length
    return replace(
        value,
        off=off,
        acceptance_length=None if length is None else anchored_length(length, value.draft_lens, factors),
        step=anchored_step(value.step, value.off.step, factors),
    )
