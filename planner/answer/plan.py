"""Evaluate a resolved question: every drafter on the whole (D, B, S) grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.answer.resolve import Question
from specplan.planner.decide.anchored_value import anchored_drafter, anchored_off
from specplan.planner.decide.choose import Choice, choose
from specplan.planner.decide.value import DrafterValue, OffValue, drafter_value, grid, off_value, request_lengths
from specplan.planner.fact import fact


@fact
class Plan:
    """All arrays behind an answer."""

    question: Question
    off: OffValue
    values: tuple[DrafterValue, ...]

    def choice(self, batch: int, context: int) -> Choice:
        """Best option of a cell, by the question's objective."""
        return choose(self.values, self.question.objective, batch, context)


def evaluate(question: Question) -> Plan:
    """Step times, memory and value of all drafters on the grid of the question."""
    _, batch, context = grid([0], list(question.batch), list(question.context_tokens))
    lengths = None
    if question.input_tokens is not None and question.output_tokens is not None:
        lengths = request_lengths(
            question.target,
            question.deployment,
            question.input_tokens,
            question.output_tokens,
            prefix_hit=question.prefix_hit,
            disaggregated=question.disaggregated,
        )
    off = off_value(question.target, question.deployment, batch, context, lengths)
    values = tuple(
        drafter_value(
            question.target,
            replace(question.deployment, drafter_tp=option.drafter_tp),
            option.drafter,
            option.acceptance,
            np.asarray(option.draft_lens, dtype=float).reshape(-1, 1, 1),
            off,
        )
        for option in question.options
    )
    if question.anchoring is None:
        return Plan(question=question, off=off, values=values)
    anchored = anchored_off(off, question.anchoring)
    return Plan(
        question=question,
        off=anchored,
        values=tuple(anchored_drafter(value, anchored, question.anchoring) for value in values),
    )
