"""What a file says of acceptance, in one definition: sums over target steps, and the numbers that follow from them.

Every reader of an engine's numbers fills a `Tally`; a `Reading` is the result. AL counts the bonus token,
per-position rates are unconditional, and files merge by their step counts, never by averaging averages.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.acceptance.forms import from_alpha, from_histogram, from_lengths, from_per_position
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, Note

NAN = math.nan


@dataclass(slots=True)
class Tally:
    """Sums over records; NaN marks a count that some record did not give."""

    steps: float = 0.0              # target steps
    drafting_steps: float = 0.0     # of these, steps that had a draft to verify
    drafted: float = 0.0
    accepted: float = 0.0
    positions: list[float] = field(default_factory=list)    # steps that accepted draft 1, 2, ...
    position_steps: float = 0.0
    histogram: list[float] = field(default_factory=list)    # steps that accepted 0, 1, ... drafts
    histogram_steps: float = 0.0
    weight: float = 0.0             # for records with a length but no step count
    weighted_length: float = 0.0
    records: int = 0
    idle: int = 0                   # records without any step
    damaged: Counter[str] = field(default_factory=Counter)  # why records were left out -> how many
    doubts: Counter[str] = field(default_factory=Counter)   # broken identities -> how many records

    def add(self, *, steps: float, accepted: float, drafted: float = NAN, drafting_steps: float | None = None,
            positions: Sequence[float] = (), histogram: Sequence[float] = ()) -> None:
        """Count one record; `positions` are counts of steps, not rates."""
        self.records += 1
        self.steps += steps
        self.drafting_steps += steps if drafting_steps is None else drafting_steps
        self.drafted += drafted
        self.accepted += accepted
        if positions:
            self.position_steps += steps
            _add_up(self.positions, positions)
        if histogram:
            self.histogram_steps += steps
            _add_up(self.histogram, histogram)

    def add_length(self, length: float, weight: float = 1.0) -> None:
        """Count one record that gives AL and only a guess of how many steps stand behind it."""
        self.records += 1
        self.weight += weight
        self.weighted_length += weight * length

    def merge(self, other: Tally) -> None:
        """Add what another tally counted."""
        for name in ("steps", "drafting_steps", "drafted", "accepted", "position_steps", "histogram_steps", "weight",
                     "weighted_length", "records", "idle"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        _add_up(self.positions, other.positions)
        _add_up(self.histogram, other.histogram)
        self.damaged += other.damaged
        self.doubts += other.doubts


@fact
class Check:
    """One identity that numbers of a source must satisfy."""

    identity: str
    holds: bool
    detail: str


@fact
class Reading:
    """Acceptance as read from one or more files; None where the source does not tell."""

    source_format: str
    engine: str
    definition: str                 # what the source's words were found to mean
    acceptance_length: float | None = None
    draft_len: int | None = None
    per_position: tuple[float, ...] | None = None
    histogram: tuple[float, ...] | None = None
    steps: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    draft_fraction: float | None = None         # share of steps that had a draft
    alpha: float | None = None
    lengths: Mapping[int, float] = field(default_factory=dict)      # AL(D) of separate runs
    length_steps: Mapping[int, float] = field(default_factory=dict)
    contexts: tuple[tuple[float, Reading], ...] = ()                # (context_tokens, reading)
    draft_s: float | None = None                # measured time of drafting in one step (TensorRT-LLM)
    step_s: float | None = None                 # measured time of the steps that it is part of
    labels: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    warnings: tuple[Note, ...] = ()
    files: tuple[str, ...] = ()
    tally: Tally | None = None
    per_block: bool = False

    @property
    def conditional(self) -> tuple[float, ...] | None:
        """Acceptance of each draft given that the ones before it were accepted; None after a zero."""
        return None if self.per_position is None else conditional(self.per_position)


def conditional(per_position: Sequence[float]) -> tuple[float, ...]:
    """p_k / p_(k-1); ends where nothing survives.

    >>> conditional([0.8, 0.4, 0.0, 0.0])
    (0.8, 0.5, 0.0)
    """
    rates: list[float] = []
    before = 1.0
    for value in per_position:
        if before <= 0:
            break
        rates.append(round(value / before, 9))
        before = value
    return tuple(rates)


def unconditional(rates: Sequence[float]) -> tuple[float, ...]:
    """Running product of conditional rates.

    >>> unconditional([0.8, 0.5])
    (0.8, 0.4)
    """
    return tuple(np.cumprod(np.asarray(rates, dtype=float)).tolist())


def positions_of(histogram: Sequence[float]) -> tuple[float, ...]:
    """Steps that accepted at least 1, 2, ... drafts.

    >>> positions_of([8, 0, 6, 6])
    (12.0, 12.0, 6.0)
    """
    return tuple(np.cumsum(np.asarray(histogram, dtype=float)[::-1])[::-1][1:].tolist())


def acceptance_of(reading: Reading) -> Acceptance:
    """Turn a reading into the curve that the planner uses; asks for D where it is needed and unknown."""
    labels = dict(reading.labels)
    source = f"{reading.source_format}: {', '.join(reading.files)}" if reading.files else reading.source_format
    if reading.contexts:
        inner = [(context, acceptance_of(one)) for context, one in sorted(reading.contexts, key=lambda item: item[0])]
        middle = inner[len(inner) // 2][1]
        return dataclasses.replace(middle, source=source, contexts=tuple(inner), labels=labels)
    if reading.alpha is not None:
        return from_alpha(reading.alpha, source=source, labels=labels)
    if len(reading.lengths) > 1:
        steps = dict(reading.length_steps) if len(reading.length_steps) == len(reading.lengths) else None
        return from_lengths(reading.lengths, steps=steps, source=source, labels=labels, per_block=reading.per_block)
    if reading.histogram is not None:
        return from_histogram(reading.histogram, source=source, labels=labels, per_block=reading.per_block)
    if reading.per_position:
        return from_per_position(reading.per_position, steps=reading.steps, source=source, labels=labels,
                                 per_block=reading.per_block)
    if reading.acceptance_length is None:
        raise InputError([Fault((), f"{reading.source_format}: gives no acceptance length")])
    if reading.draft_len is None:
        raise InputError([Fault(("draft_len",), (
            f"{reading.source_format} does not say how many tokens are drafted per step; add --draft-len N "
            "(in cfg.yaml: draft_len), the drafts per step without the root token"))])
    steps = {reading.draft_len: reading.steps} if reading.steps else None
    return from_lengths({reading.draft_len: reading.acceptance_length}, steps=steps, source=source, labels=labels,
                        per_block=reading.per_block)


def reading_of(tally: Tally, *, source_format: str, engine: str, definition: str, draft_len: int | None,
               checks: Iterable[Check] = (), warnings: Iterable[Note] = (), labels: Mapping[str, str] | None = None,
               step_s: float | None = None, draft_s: float | None = None, per_block: bool = False) -> Reading:
    """Numbers that follow from the sums of one source."""
    steps = tally.steps if tally.steps > 0 else None
    length: float | None = None
    if steps:
        length = 1.0 + tally.accepted / steps
    elif tally.weight > 0:
        length = tally.weighted_length / tally.weight
    per_position = _shares(tally.positions, tally.position_steps) if tally.position_steps else None
    histogram = tuple(tally.histogram) if tally.histogram_steps else None
    if histogram is not None and (per_position is None or tally.histogram_steps >= tally.position_steps):
        per_position = _shares(positions_of(histogram), tally.histogram_steps)
    if histogram is not None and steps and abs(sum(histogram) - steps) > 0.5:
        histogram = None        # only some records had one
    if draft_len is not None and per_position is not None and len(per_position) < draft_len:
        per_position = (*per_position, *([0.0] * (draft_len - len(per_position))))
        if histogram is not None:
            histogram = (*histogram, *([0.0] * (draft_len + 1 - len(histogram))))
    return Reading(
        source_format=source_format, engine=engine, definition=definition, acceptance_length=length,
        draft_len=draft_len, per_position=per_position, histogram=histogram, steps=steps,
        drafted=_known(tally.drafted) if steps else None, accepted=tally.accepted if steps else None,
        draft_fraction=tally.drafting_steps / steps if steps and tally.drafting_steps < steps else None,
        labels=labels or {}, checks=tuple(checks), warnings=(*_tally_notes(tally), *warnings), tally=tally,
        step_s=step_s, draft_s=draft_s, per_block=per_block)


def _tally_notes(tally: Tally) -> Iterable[Note]:
    for reason, count in tally.damaged.items():
        yield Note("records_skipped", f"{count} record{'s' if count > 1 else ''} left out: {reason}")
    for doubt, count in tally.doubts.items():
        yield Note("identity_broken", f"in {count} of {tally.records} records {doubt}")


def _shares(counts: Sequence[float], steps: float) -> tuple[float, ...]:
    return tuple(round(count / steps, 12) for count in counts)


def _add_up(into: list[float], values: Sequence[float]) -> None:
    into.extend([0.0] * (len(values) - len(into)))
    for k, value in enumerate(values):
        into[k] += value


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
