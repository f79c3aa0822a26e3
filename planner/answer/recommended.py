"""What stands in for a mechanism or draft length that was not given: what is recommended in that cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.answer.options import Option
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.resolve import Question
from specplan.planner.decide.choose import cell, gain
from specplan.planner.messages import InputError

OFF = "off"


def options_named(question: Question, mechanism: str) -> list[Option]:
    """Drafters of this mechanism or name; an InputError says which there are."""
    options = [option for option in question.options if mechanism in {option.drafter.mechanism, option.drafter.name}]
    if not options:
        known = ", ".join([*sorted({option.drafter.mechanism for option in question.options}), OFF])
        raise InputError(f"mechanism: no drafter with '{mechanism}' in this configuration; there are {known}")
    return options


def recommended(question: Question, mechanism: str | None, draft_len: int | None) -> tuple[str, int]:
    """Mechanism (name of the drafter, or off) and D in the only cell of `question`, keeping what was given."""
    options = question.options if mechanism is None else (options_named(question, mechanism)[0],)
    if draft_len == 0 and mechanism is None:
        return OFF, 0
    if draft_len is not None and len(options) == 1:
        return options[0].drafter.name, draft_len
    plan = evaluate(replace(question, options=options))
    choice = plan.choice(0, 0)
    if choice.drafter is not None and choice.draft_len is not None:
        return options[choice.drafter].drafter.name, choice.draft_len if draft_len is None else draft_len
    best = _most_gain(plan)
    if best is None:
        what = "mechanism: give --mechanism and --draft-len" if mechanism is None else "draft_len: give --draft-len"
        raise InputError(f"{what}: acceptance is not known, so nothing is recommended")
    if mechanism is None and draft_len is None:
        return OFF, 0
    return best[0], best[1] if draft_len is None else draft_len


def _most_gain(plan: Plan) -> tuple[str, int] | None:
    """The drafter and D that come closest where plain decoding wins; None where no acceptance is known."""
    found = []
    for value in plan.values:
        gains = gain(value, plan.question.objective)
        drafts = value.draft_lens[:, 0, 0]
        if gains is None or not np.any(drafts > 0):
            continue
        here = np.where(drafts > 0, cell(gains, drafts.size, 0, 0), 0.0)
        row = int(here.argmax())
        found.append((float(here[row]), value.drafter.name, int(drafts[row])))
    return max(found)[1:] if found else None
