"""What a stated acceptance number may be; each message says what the number probably is instead."""

from __future__ import annotations

import math

from specplan.planner.messages import Fault


def not_a_share(value: float) -> str:
    """Say what is wrong with a probability, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"{value} is not a number between 0 and 1"
    if 1 < value <= 100:
        return f"{value:g} is more than 1: percent? write {value / 100:g}"
    return "" if 0 <= value <= 1 else f"{value:g} is not between 0 and 1"


def not_a_draft_len(value: float) -> str:
    """Say what is wrong with a draft length, or nothing."""
    whole = not isinstance(value, bool) and isinstance(value, int)
    return "" if whole and 1 <= value <= 1024 else f"{value} is not a draft length: a whole number from 1 to 1024"


def length_fault(draft_len: int, value: float) -> Fault | None:
    """Find what is wrong with AL at D."""
    path = ("acceptance_length", draft_len)
    if draft_len != 0 and (problem := not_a_draft_len(draft_len)):
        return Fault(("acceptance_length",), problem)
    if isinstance(value, bool) or not math.isfinite(value):
        return Fault(path, f"{value} is not a number")
    if value < 1:
        return Fault(path, f"{value:g} is below 1: AL counts the bonus token; add 1 if this counts accepted drafts")
    if value > 1 + draft_len + 1e-9:
        return Fault(path, f"{value:g} is more than 1 + D = {1 + draft_len}: D drafts and the bonus token are all that "
                           "a step can emit; is D the number of drafts, the root token not counted?")
    return None


def steps_faults(steps: float | None) -> list[Fault]:
    """Find what is wrong with a number of steps; none given is fine."""
    if steps is None or (math.isfinite(steps) and steps > 0):
        return []
    return [Fault(("steps",), f"{steps} is not a number of steps above 0")]
