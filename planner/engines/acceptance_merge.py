"""From what was found in files to one reading: one engine, merged by steps, proven by identities or refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from specplan.planner.acceptance.checks import between_files, identities, refuse_impossible, signatures
from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.messages import Fault, InputError, KeyPath, Note, nearest


def conclude(found: list[Reading], paths: Sequence[str], draft_len: int | None, select: str | None) -> Reading:
    """One reading from all that was found."""
    found = _selected(found, select)
    engines = sorted({"stated" if one.source_format == "stated" else one.engine for one in found})
    if len(engines) > 1:
        raise InputError(f"numbers of several engines in one question: {', '.join(engines)}; split the files, or name "
                         f"one with --format {engines[0]}")
    by_format: dict[str, list[Reading]] = {}
    for one in found:
        by_format.setdefault(one.source_format, []).append(one)
    merged = [merge(readings) for readings in by_format.values()]
    usable = [one for one in merged if one.acceptance_length is not None or one.contexts or one.alpha is not None]
    if not usable:
        _refuse_empty(merged, paths)
    best = max(usable, key=_information)
    notes = list(best.warnings)
    notes += _disagreements(best, usable)
    best = _with_draft_len(best, draft_len, notes)
    if not best.contexts:
        refuse_impossible(best)
    best = dataclasses.replace(best, checks=(*best.checks, *identities(best)))
    notes += signatures(best)
    notes += [Note("identity_broken", f"{check.identity} does not hold: {check.detail}") for check in best.checks
              if not check.holds]
    return dataclasses.replace(best, warnings=tuple(dict.fromkeys(notes)))


def _disagreements(best: Reading, usable: Sequence[Reading]) -> list[Note]:
    taken = best.acceptance_length
    return [Note("sources_disagree", f"{one.source_format} gives AL {one.acceptance_length:.2f}, {best.source_format} "
                 f"{taken:.2f}: the second was taken")
            for one in usable if one is not best and one.acceptance_length and taken
            and abs(one.acceptance_length - taken) > 0.05 * taken]


def merge(readings: Sequence[Reading]) -> Reading:
    """Readings of one format: same D by sums over steps; different D's as a curve AL(D)."""
    by_length: dict[int | None, list[Reading]] = {}
    for one in readings:
        by_length.setdefault(one.draft_len, []).append(one)
    known = [d for d in by_length if d is not None]
    if len(known) == 1 and None in by_length:       # a schedule drafts less in some steps
        by_length[known[0]] += by_length.pop(None)
    joined = {d: _join(ones, d) for d, ones in by_length.items()}
    counted = {d: one for d, one in joined.items() if d is not None and one.acceptance_length is not None}
    if len(counted) < 2:
        return max(joined.values(), key=_information)
    last = max(counted)
    steps = {d: one.steps for d, one in counted.items() if one.steps}
    return dataclasses.replace(
        counted[last], lengths={d: one.acceptance_length or 1.0 for d, one in counted.items()}, length_steps=steps,
        warnings=tuple(note for one in joined.values() for note in one.warnings),
        files=tuple(dict.fromkeys(file for one in joined.values() for file in one.files)))


def _join(readings: Sequence[Reading], draft_len: int | None) -> Reading:
    first = readings[0]
    if len(readings) == 1 or any(one.tally is None for one in readings):
        if len(readings) > 1:
            raise InputError(f"{first.source_format}: {len(readings)} curves for the same D; give one file")
        return first
    tally = Tally()
    for one in readings:
        tally.merge(one.tally or Tally())
    timed = [one for one in readings if one.draft_len == draft_len and one.draft_s and one.step_s]
    notes = dict.fromkeys(note for one in readings for note in one.warnings
                          if note.code not in {"records_skipped", "identity_broken"})
    apart = [(", ".join(one.files), one.acceptance_length, one.steps or 0.0) for one in readings
             if one.acceptance_length is not None]
    return dataclasses.replace(
        reading_of(tally, source_format=first.source_format, engine=first.engine, definition=first.definition,
                   draft_len=draft_len, labels=first.labels, warnings=[*notes, *between_files(apart)],
                   draft_s=sum(one.draft_s or 0.0 for one in timed) / len(timed) if timed else None,
                   step_s=sum(one.step_s or 0.0 for one in timed) / len(timed) if timed else None),
        files=tuple(dict.fromkeys(file for one in readings for file in one.files)))


def _information(reading: Reading) -> tuple[bool, ...]:
    """What is worth more: numbers at all, counts, positions, a histogram."""
    return (reading.acceptance_length is not None, bool(reading.steps), reading.per_position is not None,
            reading.histogram is not None, reading.draft_len is not None)


def _with_draft_len(reading: Reading, draft_len: int | None, notes: list[Note]) -> Reading:
    if draft_len is None or reading.draft_len == draft_len or reading.lengths or reading.contexts:
        return reading
    if reading.draft_len is None:
        return dataclasses.replace(reading, draft_len=draft_len)
    if reading.per_position and any(rate > 0 for rate in reading.per_position[draft_len:]):
        raise InputError([Fault(("draft_len",), (
            f"the source drafts {reading.draft_len} per step and accepts at position {len(reading.per_position)}: "
            f"--draft-len {draft_len} cannot be"))])
    notes.append(Note("draft_len_override", (
        f"the source says D = {reading.draft_len}; {draft_len} was given and taken")))
    rates = reading.per_position
    if rates is not None:
        rates = (*rates, *([0.0] * draft_len))[:draft_len]
    return dataclasses.replace(reading, draft_len=draft_len, per_position=rates, histogram=None)


def _selected(found: list[Reading], select: str | None) -> list[Reading]:
    named = {one.labels["selection"]: one for one in found if "selection" in one.labels}
    if select is None:
        overall = [one for name, one in named.items() if name.endswith("/overall")]
        if len(overall) == 1:
            return overall
        if len(named) > 1:
            raise InputError(f"the file holds {len(named)} curves; choose one with --select: " + ", ".join(named))
        return found
    matches = [name for name in named if select.lower() == name.lower() or select.lower() in name.lower().split("/")]
    if len(matches) != 1:
        what = "no curve" if not matches else f"{len(matches)} curves"
        raise InputError(f"--select {select} names {what}{nearest(select, named)}; there are: " + ", ".join(named))
    return [named[matches[0]]]


def _refuse_empty(merged: Sequence[Reading], paths: Sequence[str]) -> None:
    reasons = [f"{note.message}" for one in merged for note in one.warnings]
    idle = any(one.tally is not None and one.tally.idle for one in merged)
    what = "0 steps: nothing was drafted while it was written" if idle and not reasons else (
        "no record of it can be used" + (": " + "; ".join(dict.fromkeys(reasons)) if reasons else ""))
    asks = any(note.code == "draft_len_needed" for one in merged for note in one.warnings)
    path: KeyPath = ("draft_len",) if asks else ()
    raise InputError([Fault(path, f"{', '.join(paths)}: {what}")])
