"""A measured time of drafting in place of the predicted one (E7)."""

from __future__ import annotations

from dataclasses import replace

from specplan.planner.answer.acceptances import DraftTime
from specplan.planner.config.schema import MeasuredDraft
from specplan.planner.messages import Fault, InputError, Note
from specplan.planner.models.drafter import LOOKUP, SERIAL, Drafter


def with_draft_time(
    drafter: Drafter, stated: MeasuredDraft | None, found: DraftTime | None, engine: str
) -> tuple[Drafter, tuple[Note, ...]]:
    """The drafter with the time that was stated, else with the one found beside its acceptance, and what was taken.

    A serial drafter's time is shared out over its D passes, the others make one pass. What another engine measured is
    left out: launches and host work, which differ, are most of a small drafter's time.
    """
    if stated is not None:
        if drafter.mechanism in LOOKUP:
            problem = f"{drafter.mechanism} looks tokens up on the host and has no pass to measure"
            raise InputError([Fault(("measured_draft_s",), problem)])
        return _measured(drafter, stated.draft_len, stated.seconds, "measured_draft_s")
    if found is None or drafter.mechanism in LOOKUP:
        return drafter, ()
    if found.engine not in {"stated", _reader_name(engine)}:
        text = (f"{drafter.name}: the drafting time in {found.source} was measured on {found.engine}, not on {engine}, "
                "and was not used; measured_draft_s takes it all the same")
        return drafter, (Note("draft-time-of-another-engine", text),)
    return _measured(drafter, found.draft_len, found.seconds, found.source)


def _measured(drafter: Drafter, draft_len: int, seconds: float, source: str) -> tuple[Drafter, tuple[Note, ...]]:
    passes = draft_len if drafter.mechanism in SERIAL else 1
    text = (f"{drafter.name}: the time of drafting was measured, not predicted: {seconds * 1e3:.3g} ms a step at "
            f"D = {draft_len} ({source}), {seconds / passes * 1e3:.3g} ms a pass; it is taken for every batch and "
            "context, and holds for those that ran")
    return replace(drafter, measured_pass_s=seconds / passes), (Note("draft-time-measured", text),)


def _reader_name(engine: str) -> str:
    from specplan.planner.engines.acceptance import ALIASES  # noqa: PLC0415 - loaded: it has just read the file

    return ALIASES.get(engine.lower(), engine.lower())
