"""Settings worth trying that a configuration does not ask for, with what the model says they would gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.decide.choose import NEAR
from specplan.planner.decide.value import DrafterValue
from specplan.planner.messages import Note


def adaptive_notes(plan: Plan) -> Iterator[Note]:
    """DSpark drafters with a confidence head: from which batch on verifying only trusted tokens gains over 3 %."""
    for option, value in zip(plan.question.options, plan.values, strict=True):
        if value.drafter.mechanism != "dspark" or value.drafter.adaptive or value.acceptance is None:
            continue
        trusting = replace(option, drafter=replace(option.drafter, adaptive=True))
        adaptive = evaluate(replace(plan.question, options=(trusting,))).values[0]
        fixed, trusted = _best(value), _best(adaptive)
        for index, batch in enumerate(plan.question.batch):
            if trusted[index] > fixed[index] * (1.0 + NEAR) and trusted[index] > 1.0 + NEAR:
                text = (
                    f"{value.drafter.name}: verifying only what the confidence head trusts (`adaptive: true`; vLLM "
                    f"enable_adaptive_verification) gains from batch {batch} on: {trusted[index]:.2f}x against "
                    f"{max(fixed[index], 1.0):.2f}x there"
                )
                yield Note("adaptive-verification", text)
                break


def _best(value: DrafterValue) -> list[float]:
    """Best decode speedup over D, per batch at the first context."""
    speedup = value.speedup
    assert speedup is not None
    shape = (value.draft_lens.size, value.off.batch.size, value.off.context_tokens.size)
    return [float(found) for found in np.broadcast_to(speedup, shape)[:, :, 0].max(axis=0)]
