"""What acceptance would pay: the question of people who train drafters."""

from __future__ import annotations

from specplan.planner.acceptance.shape import geometric
from specplan.planner.answer.candidates import candidate_columns, candidates_of_cell
from specplan.planner.answer.plan import Plan
from specplan.planner.fact import fact

TARGET_GAIN = 1.2


@fact
class Needed:
    """AL (and the alpha of a geometric drafter) that one D must reach in one cell; None where no AL <= 1 + D does."""

    mechanism: str
    drafter: str
    draft_len: int
    batch: int
    context_tokens: int
    break_even_acceptance_length: float | None
    break_even_alpha: float | None
    acceptance_length_for_gain: float | None
    alpha_for_gain: float | None
    gain: float = TARGET_GAIN


def needed(plan: Plan) -> tuple[Needed, ...]:
    """Needed acceptance of every drafter, D >= 1, batch and context of a plan."""
    found = []
    for value in plan.values:
        columns = candidate_columns(value)
        for b, batch in enumerate(plan.question.batch):
            for s, context in enumerate(plan.question.context_tokens):
                for item in candidates_of_cell(value, columns, b, s):
                    if item.draft_len == 0:
                        continue
                    even, gain = (
                        _reachable(item.break_even_acceptance_length * factor, item.draft_len)
                        for factor in (1.0, TARGET_GAIN)
                    )
                    found.append(
                        Needed(
                            mechanism=item.mechanism,
                            drafter=item.drafter,
                            draft_len=item.draft_len,
                            batch=batch,
                            context_tokens=context,
                            break_even_acceptance_length=even,
                            break_even_alpha=_alpha(even, item.draft_len),
                            acceptance_length_for_gain=gain,
                            alpha_for_gain=_alpha(gain, item.draft_len),
                        )
                    )
    return tuple(found)


def _reachable(length: float, draft_len: int) -> float | None:
    return length if length <= 1 + draft_len else None


def _alpha(length: float | None, draft_len: int) -> float | None:
    return None if length is None else geometric(max(length, 1.0), draft_len)
