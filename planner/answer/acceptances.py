"""The acceptance that a configuration states, in whatever form, as one curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.acceptance.forms import from_alpha, from_histogram, from_lengths, from_per_position, from_rate
from specplan.planner.config.schema import Acceptance as Stated
from specplan.planner.config.text_file import user_path
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError

BLOCK_MECHANISMS = frozenset({"dflash", "dspark"})  # one curve per block: a smaller D is a cut of it


@fact
class DraftTime:
    """Measured time of all drafting in one step, that came with measured acceptance."""

    draft_len: int
    seconds: float
    engine: str         # whose numbers, as the readers call it; "stated" where a person wrote them
    source: str


def resolve_acceptance(
    stated: Stated, mechanism: str, target: str, base: Path
) -> tuple[Acceptance, DraftTime | None]:
    """The curve of one drafter, and its drafting time where a file tells; faults have key paths in `acceptance`."""
    return _from_file(stated, base) if stated.file is not None else (_stated(stated, mechanism, target), None)


def _stated(stated: Stated, mechanism: str, target: str) -> Acceptance:
    per_block = mechanism in BLOCK_MECHANISMS
    if stated.library is not None or stated.domain is not None:
        return _from_library(stated, mechanism, target)
    labels = {} if stated.temperature is None else {"temperature": f"{stated.temperature:g}"}
    source = stated.source or f"stated as {stated.form}"
    if stated.per_position is not None:
        return from_per_position(
            stated.per_position, steps=stated.steps, source=source, per_block=per_block, labels=labels
        )
    if stated.alpha is not None:
        return from_alpha(stated.alpha, source=source, labels=labels)
    if stated.histogram is not None:
        return from_histogram(stated.histogram, source=source, per_block=per_block, labels=labels)
    if stated.rate is not None and stated.draft_len is not None:
        return from_rate(
            stated.rate, stated.draft_len, source=source, per_block=per_block, labels=labels, steps=stated.steps
        )
    if isinstance(stated.acceptance_length, Mapping):
        return from_lengths(stated.acceptance_length, source=source, per_block=per_block, labels=labels)
    if stated.acceptance_length is not None and stated.draft_len is not None:
        steps = None if stated.steps is None else {stated.draft_len: stated.steps}
        lengths = {stated.draft_len: stated.acceptance_length}
        return from_lengths(lengths, steps=steps, source=source, per_block=per_block, labels=labels)
    raise AssertionError(f"unknown acceptance form {stated.form}")


def _from_file(stated: Stated, base: Path) -> tuple[Acceptance, DraftTime | None]:
    """Measured acceptance: an engine's log, metrics or benchmark, or a file that `acceptance read` wrote."""
    from specplan.planner.acceptance.reading import acceptance_of  # noqa: PLC0415 - readers of all engines load here
    from specplan.planner.engines.acceptance import read_files  # noqa: PLC0415

    assert stated.file is not None
    path = stated.file if stated.file == "-" else str(user_path(stated.file, base))
    try:
        reading = read_files([path], draft_len=stated.draft_len)
        acceptance = acceptance_of(reading)
    except InputError as error:
        raise InputError(Fault(("file", *fault.path), fault.message) for fault in error.faults) from None
    if not reading.draft_s or not reading.draft_len:
        return acceptance, None
    return acceptance, DraftTime(
        draft_len=reading.draft_len, seconds=reading.draft_s, engine=reading.engine, source=acceptance.source
    )


def _from_library(stated: Stated, mechanism: str, target: str) -> Acceptance:
    """Published curves: one by id, or the nearest for a kind of text (or a mix of kinds)."""
    from specplan.planner.acceptance.library import library_curve  # noqa: PLC0415

    if stated.library is not None:
        return library_curve(stated.library)
    assert stated.domain is not None
    return library_estimate(mechanism, stated.domain, target)


def library_estimate(mechanism: str, domain: str | Mapping[str, float], target: str) -> Acceptance:
    """The library's estimate for this drafter, target and kind of text; its notes say what was assumed."""
    from specplan.planner.acceptance.estimate import nearest_curve  # noqa: PLC0415
    from specplan.planner.acceptance.usage import mix  # noqa: PLC0415

    if isinstance(domain, str):
        return nearest_curve(mechanism, domain=domain, target=target)[0]
    parts = [(kind, share, nearest_curve(mechanism, domain=kind, target=target)[0]) for kind, share in domain.items()]
    source = "mix: " + "; ".join(f"{share:g} {kind}: {part.source}" for kind, share, part in parts)
    mixed = mix([(share, part) for _, share, part in parts], source=source)
    return replace(
        mixed,
        spread=max(part.spread for *_, part in parts),
        curves=tuple(dict.fromkeys(curve for *_, part in parts for curve in part.curves)),
        notes=(*mixed.notes, *dict.fromkeys(note for *_, part in parts for note in part.notes)),
    )
