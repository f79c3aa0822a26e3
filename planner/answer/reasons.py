"""Why an answer is what it is, in sentences: what binds, what would break even, where the measured data end."""

from __future__ import annotations

import numpy as np

from specplan.planner.answer.plan import Plan
from specplan.planner.arrays import Array
from specplan.planner.decide.choose import Choice, cell, gain
from specplan.planner.decide.value import DrafterValue


def reasons(plan: Plan, choice: Choice, batch: int, context: int) -> tuple[str, ...]:
    """The reasons behind one cell's recommendation, most important first."""
    if not plan.values:
        return ("no drafter was given and none is known for this target: add one under `drafters:`",)
    if all(value.acceptance_length is None for value in plan.values):
        return (_without_acceptance(plan, batch, context),)
    if choice.drafter is None and not np.broadcast_to(plan.off.memory.fits, _shape(plan))[0, batch, context]:
        return ("the target itself does not fit in memory here, with or without a drafter",)
    if choice.drafter is None or choice.row is None:
        return (_why_off(plan, batch, context),)
    value = plan.values[choice.drafter]
    told = [_where_the_time_goes(value, choice.row, batch, context)]
    told += _why_not_more(value, choice, plan, batch, context)
    other = _runner_up(plan, choice, batch, context)
    return (*told, *other)


def _shape(plan: Plan) -> tuple[int, int, int]:
    return 1, plan.off.batch.size, plan.off.context_tokens.size


def _column(array: Array, value: DrafterValue, batch: int, context: int) -> Array:
    return cell(array, value.draft_lens.size, batch, context)


def _where_the_time_goes(value: DrafterValue, row: int, batch: int, context: int) -> str:
    step = value.step
    off = float(_column(value.off.step.step_s, value, batch, context)[0])
    verify = float(_column(step.verify_s, value, batch, context)[row])
    draft = float(_column(step.draft_s, value, batch, context)[row])
    whole = float(_column(step.step_s, value, batch, context)[row])
    even = whole / off
    assert value.acceptance_length is not None
    length = float(_column(value.acceptance_length, value, batch, context)[row])
    return (
        f"a step takes {whole * 1e3:.2f} ms against {off * 1e3:.2f} ms off (verify {verify / whole:.0%}, draft "
        f"{draft / whole:.0%}) and emits {length:.2f} tokens; {even:.2f} would break even"
    )


def _why_not_more(value: DrafterValue, choice: Choice, plan: Plan, batch: int, context: int) -> list[str]:
    """What one more drafted token adds and costs, or that nothing longer was allowed."""
    assert choice.row is not None
    draft_lens = value.draft_lens[:, 0, 0]
    if choice.row + 1 >= draft_lens.size:
        known = value.acceptance.known_draft_len if value.acceptance is not None else 0
        if known <= draft_lens[-1]:
            return [f"D = {draft_lens[-1]:.0f} is the last draft length with known acceptance: measure further"]
        return [f"D = {draft_lens[-1]:.0f} is the longest allowed here"]
    gains = gain(value, plan.question.objective)
    assert gains is not None
    assert value.acceptance_length is not None
    here, step = (_column(array, value, batch, context) for array in (gains, value.step.step_s))
    length = _column(value.acceptance_length, value, batch, context)
    following = choice.row + 1
    more = length[following] / length[choice.row] - 1.0
    cost = step[following] / step[choice.row] - 1.0
    change = here[following] / here[choice.row] - 1.0
    return [f"D = {draft_lens[following]:.0f} adds {more:.1%} tokens for {cost:.1%} more time: {change:+.1%} in all"]


def _runner_up(plan: Plan, choice: Choice, batch: int, context: int) -> list[str]:
    best = []
    for index, value in enumerate(plan.values):
        gains = gain(value, plan.question.objective)
        if index == choice.drafter or gains is None:
            continue
        column = np.where(value.draft_lens[:, 0, 0] > 0, _column(gains, value, batch, context), 0.0)
        fits = _column(value.memory.fits, value, batch, context)
        row = int(column.argmax())
        if column[row] > 0:
            note = "" if fits[row] else ", but does not fit in memory"
            best.append((float(column[row]), f"{value.drafter.name} D = {value.draft_lens[row, 0, 0]:.0f}{note}"))
    if not best:
        return []
    top, name = max(best)
    return [f"next best: {name} at {top:.2f}x"]


def _why_off(plan: Plan, batch: int, context: int) -> str:
    """The best speculative option and what AL it would have needed."""
    best: tuple[float, str] = (0.0, "")
    for value in plan.values:
        gains = gain(value, plan.question.objective)
        if gains is None or value.acceptance_length is None:
            continue
        column = np.where(value.draft_lens[:, 0, 0] > 0, _column(gains, value, batch, context), 0.0)
        row = int(column.argmax())
        even = float(_column(value.break_even, value, batch, context)[row])
        length = float(_column(value.acceptance_length, value, batch, context)[row])
        fits = bool(_column(value.memory.fits, value, batch, context)[row])
        text = (
            f"off wins: the best option, {value.drafter.name} at D = {value.draft_lens[row, 0, 0]:.0f}, reaches "
            f"{column[row]:.2f}x (AL {length:.2f}, break-even {even:.2f})"
        )
        text += "" if fits else " and does not fit in memory"
        best = max(best, (float(column[row]), text))
    return best[1] or "off wins: no option can draft here"


def _without_acceptance(plan: Plan, batch: int, context: int) -> str:
    value = plan.values[0]
    even = _column(value.break_even, value, batch, context)
    draft_lens = value.draft_lens[:, 0, 0]
    shown = [index for index, d in enumerate(draft_lens) if d in (1, 3, 5, 7)] or [len(draft_lens) - 1]
    listed = ", ".join(f"{even[index]:.2f} at D = {draft_lens[index]:.0f}" for index in shown)
    return (
        f"acceptance is not known, so nothing is assumed: {value.drafter.name} pays from an AL of {listed}. "
        "Give `acceptance:` (per_position, alpha, acceptance_length or a log file) to get a recommendation"
    )
