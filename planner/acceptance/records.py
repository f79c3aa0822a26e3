"""One record of a source, whose numbers say the same thing several times: find which one is wrong, if any.

A log line may give AL, the accepted and drafted tokens, a rate and the rates per position. They determine each
other; where one of them disagrees with two others that agree, it is named and not used, and where no two agree the
record is left out. This is what keeps a cut or damaged line from becoming a wrong AL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specplan.planner.acceptance.reading import NAN, Tally

LENGTH_STEP = 0.0051        # half of the last digit of an AL printed with two decimals
POSITION_STEP = 0.00051     # of a rate printed with three
NO_STEPS = "no drafts were verified in it"


@dataclass(slots=True, kw_only=True)
class Record:
    """Numbers of one record; None where absent. `rate` is accepted / drafted."""

    accepted: float | None = None
    drafted: float | None = None
    length: float | None = None
    rate: float | None = None
    rate_step: float = 0.00051
    per_position: Sequence[float] = ()
    position_step: float = POSITION_STEP
    draft_len: int | None = None
    length_step: float = LENGTH_STEP


def count(tally: Tally, record: Record) -> bool:
    """Add a record that gives no step count of its own; says whether it was used.

    steps = drafted / D where every step drafts D, which the other numbers must confirm. Where they agree on another
    AL the drafter is gated (p-min, a schedule of D): steps = accepted / (AL - 1).
    """
    accepted, drafted, length, d = record.accepted, record.drafted, record.length, record.draft_len
    rates = record.per_position
    if not _possible(record):
        tally.damaged["it holds numbers that cannot be (negative, or more accepted than drafted)"] += 1
        return False
    if drafted == 0 or (drafted is None and length is None):
        tally.idle += 1
        return False
    counts_agree = True
    if accepted is not None and drafted and record.rate is not None:
        counts_agree = abs(accepted / drafted - record.rate) <= record.rate_step + 1e-9
    by_counts = 1.0 + accepted * d / drafted if accepted is not None and drafted and d else NAN
    by_positions = 1.0 + sum(rates) if rates else NAN
    printed = NAN if length is None else length
    slack = record.length_step + record.position_step * len(rates)
    if _same(by_counts, printed, record.length_step) and counts_agree and (
            not rates or _same(by_positions, printed, slack)):
        _add(tally, record, drafted / d if d and drafted else 0.0)
        return True
    return _settle(tally, record, by_counts, by_positions, slack, counts_agree)


def _settle(tally: Tally, record: Record, by_counts: float, by_positions: float, slack: float,
            counts_agree: bool) -> bool:
    """Decide by majority which of the numbers to use."""
    accepted, drafted, length, d = record.accepted, record.drafted, record.length, record.draft_len
    printed = NAN if length is None else length
    if _same(by_positions, printed, slack):             # AL and positions agree, the counts do not
        if counts_agree and accepted and by_counts > printed > 1.0:     # steps that draft less than D are more steps
            tally.doubts["drafted / D is not the number of steps: the drafter does not draft D every time"] += 1
            _add(tally, record, accepted / (printed - 1.0))
            return True
        tally.doubts["accepted and drafted tokens disagree with the acceptance length and the positions, which agree: "
                     "the counts are likely wrong and were not used"] += 1
        tally.damaged["its counts contradict its acceptance length"] += 1
        return False
    if _same(by_counts, by_positions, slack) and counts_agree:
        tally.doubts["the printed acceptance length disagrees with counts and positions, which agree: it is likely "
                     "wrong and was not used"] += 1
        _add(tally, record, drafted / d if d and drafted else 0.0)
        return True
    if _same(by_counts, printed, record.length_step) and counts_agree and record.per_position:
        tally.doubts["the rates per position disagree with counts and acceptance length, which agree: they are likely "
                     "wrong or cut, and were not used"] += 1
        record.per_position = ()
        _add(tally, record, drafted / d if d and drafted else 0.0)
        return True
    if not record.per_position and d is None and accepted and drafted and counts_agree and (
            accepted / drafted <= printed - 1.0):           # each of the steps drafts one token at least
        _add(tally, record, accepted / (printed - 1.0))     # nothing but the printed AL tells the steps
        return True
    if not record.per_position and length is None and d and drafted and counts_agree:
        _add(tally, record, drafted / d)
        return True
    tally.damaged["its numbers contradict each other"] += 1
    return False


def _add(tally: Tally, record: Record, steps: float) -> None:
    steps = round(steps) if abs(steps - round(steps)) < 0.02 * max(1.0, steps * 0.01) else steps
    tally.add(steps=steps, accepted=record.accepted or 0.0, drafted=NAN if record.drafted is None else record.drafted,
              positions=[rate * steps for rate in record.per_position])


def _possible(record: Record) -> bool:
    numbers = (record.accepted, record.drafted, record.length, record.rate, *record.per_position)
    if any(number is not None and (not math.isfinite(number) or number < 0) for number in numbers):
        return False
    if record.accepted is not None and record.drafted is not None and record.accepted > record.drafted:
        return False
    if record.draft_len and record.length is not None and record.length > 1.0 + record.draft_len + record.length_step:
        return False
    return all(rate <= 1.0 for rate in record.per_position)


def _same(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance + 1e-9       # False where either is NaN


@dataclass(slots=True, kw_only=True)
class CountedRecord:
    """A record that tells its steps: a request, a benchmark run, an iteration."""

    steps: float | None
    accepted: float | None
    drafted: float | None = None
    length: float | None = None
    rate: float | None = None
    histogram: Sequence[float] = ()
    per_position: Sequence[float] = ()
    draft_len: int | None = None
    length_step: float = LENGTH_STEP
    position_step: float = POSITION_STEP


def count_steps(tally: Tally, record: CountedRecord) -> bool:
    """Add a record that gives its steps, with what agrees with them; says whether it was used."""
    steps, accepted = record.steps, record.accepted
    if steps is not None and accepted is None and record.length is not None:
        accepted = (record.length - 1.0) * steps
    numbers = (record.drafted, record.rate, *record.histogram, *record.per_position)
    if steps is None or accepted is None or min(steps, accepted) < 0 or any(n is not None and n < 0 for n in numbers):
        tally.damaged["steps or accepted tokens are missing or negative"] += 1
        return False
    if steps == 0:
        tally.idle += 1
        return False
    agreed = _agreed(record, accepted / steps)
    if agreed is None or (record.draft_len is not None and agreed > record.draft_len + 1e-9):
        tally.damaged["its numbers contradict each other"] += 1
        return False
    if abs(agreed - accepted / steps) > _slack(record):
        tally.doubts["steps or accepted tokens are likely wrong: the other numbers agree without them"] += 1
        accepted = agreed * steps
    histogram, rates = _supporting(tally, record, agreed, steps)
    tally.add(steps=steps, accepted=accepted, drafted=_drafted(tally, record, accepted), histogram=histogram,
              positions=[rate * steps for rate in rates])
    return True


def _slack(record: CountedRecord) -> float:
    return record.length_step + record.position_step * len(record.per_position)


def _votes(record: CountedRecord) -> list[float]:
    """Accepted drafts per step as the other numbers have it."""
    votes = []
    if record.length is not None:
        votes.append(record.length - 1.0)
    if record.histogram and sum(record.histogram) > 0:
        votes.append(sum(j * n for j, n in enumerate(record.histogram)) / sum(record.histogram))
    if record.per_position:
        votes.append(float(sum(record.per_position)))
    return votes


def _agreed(record: CountedRecord, by_counts: float) -> float | None:
    votes, slack = _votes(record), _slack(record)
    if not votes or any(abs(vote - by_counts) <= slack for vote in votes):
        return by_counts
    close = [vote for vote in votes if sum(abs(vote - other) <= slack for other in votes) > 1]
    return close[0] if close else None


def _supporting(tally: Tally, record: CountedRecord, agreed: float,
                steps: float) -> tuple[Sequence[float], Sequence[float]]:
    """The histogram and the rates, if they agree with what was agreed on."""
    slack, histogram, rates = _slack(record), record.histogram, record.per_position
    if record.length is not None and abs(record.length - 1.0 - agreed) > slack:
        tally.doubts["the printed acceptance length is likely wrong: the other numbers agree without it"] += 1
    if histogram:
        mean = sum(j * n for j, n in enumerate(histogram)) / max(sum(histogram), 1e-9)
        if abs(sum(histogram) - steps) > 0.5 or abs(mean - agreed) > slack:
            tally.doubts["the histogram disagrees with steps or accepted tokens and was not used"] += 1
            histogram = ()
    if rates and (abs(sum(rates) - agreed) > slack or max(rates) > 1.0):
        tally.doubts["the rates per position disagree with the counts and were not used"] += 1
        rates = ()
    return histogram, rates


def _drafted(tally: Tally, record: CountedRecord, accepted: float) -> float:
    drafted = record.drafted
    if drafted is None or drafted == 0:
        return NAN
    if accepted > drafted + 1e-9 or (record.rate is not None and abs(accepted / drafted - record.rate) > 0.0051):
        tally.doubts["drafted tokens or the acceptance rate are likely wrong: they disagree"] += 1
        return NAN
    return drafted
