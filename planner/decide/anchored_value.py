"""Values on the grid after anchoring: the same arrays with the multipliers of decide/anchor.py put in."""

from __future__ import annotations

from dataclasses import replace

from specplan.planner.decide.anchor import (
    Anchoring,
    anchored_length,
    anchored_off_s,
    anchored_overhead_s,
    anchored_verify_s,
)
from specplan.planner.decide.value import DrafterValue, OffValue


def anchored_off(off: OffValue, anchoring: Anchoring) -> OffValue:
    """Plain decoding; its parts and the prefill of a request scale alike."""
    factors = anchoring.of("")
    scale, step = factors.scale, off.step
    lengths = off.lengths
    return replace(
        off,
        step=replace(
            step,
            step_s=anchored_off_s(step.step_s, factors),
            gpu_s=step.gpu_s * scale,
            host_s=step.host_s * scale,
            parts_s={part: seconds * scale for part, seconds in step.parts_s.items()},
        ),
        lengths=None if lengths is None else replace(lengths, prefill_s=lengths.prefill_s * scale),
    )


def anchored_drafter(value: DrafterValue, off: OffValue, anchoring: Anchoring) -> DrafterValue:
    """One drafter; `off` is plain decoding after anchoring, `value.off` before."""
    factors = anchoring.of(value.drafter.name)
    before, step = value.off.step, value.step
    length = value.acceptance_length
    return replace(
        value,
        off=off,
        acceptance_length=None if length is None else anchored_length(length, value.draft_lens, factors),
        step=replace(
            step,
            verify_s=anchored_verify_s(step.verify_s, before.step_s, before.host_s, factors),
            draft_s=step.draft_s * factors.scale * factors.draft,
            overhead_s=anchored_overhead_s(step.overhead_s, before.host_s, factors),
        ),
    )
