"""Identities that acceptance numbers must satisfy, and patterns that in the field have meant a fault.

The patterns are those of public bug reports (interfaces.md, section 10): they say "looks like a fault, do not tune".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from specplan.planner.acceptance.limits import length_fault
from specplan.planner.acceptance.reading import Check, Reading, Tally, conditional
from specplan.planner.messages import Fault, InputError, Note

FAULT = "looks_like_a_fault"
DO_NOT_TUNE = "looks like a fault, do not tune D to it"


def identities(reading: Reading) -> tuple[Check, ...]:
    """Every identity that the reading's numbers allow to be tested."""
    return tuple(_identities(reading))


def _identities(reading: Reading) -> Iterator[Check]:
    length, rates, d = reading.acceptance_length, reading.per_position, reading.draft_len
    if length is not None and rates is not None:
        total = 1.0 + sum(rates)
        slack = 0.0006 * (1 + len(rates)) + 0.002 * length
        yield Check(identity="AL = 1 + sum of p_k", holds=abs(total - length) <= slack,
                    detail=f"AL {length:.3f}, 1 + sum {total:.3f}")
    if length is not None and d and reading.drafted and reading.accepted is not None:
        rate = reading.accepted / reading.drafted
        holds = abs(rate * d - (length - 1.0)) <= 0.01 * max(length, 1.0)
        yield Check(identity="rate * D = AL - 1", holds=holds, detail=(
            f"rate {rate:.4f} * {d} = {rate * d:.3f}, AL - 1 = {length - 1:.3f}"
            + ("" if holds else ": not every step drafts D (gated, scheduled or lookup drafting); compare by AL only")))
    if rates is not None:
        rise = max((after - before for before, after in itertools.pairwise(rates)), default=0.0)
        noise = 2.0 * math.sqrt(0.5 / reading.steps) if reading.steps else 0.05
        yield Check(identity="p_k never rises", holds=rise <= max(noise, 0.0011),
                    detail=f"largest rise {max(rise, 0.0):.4f}")
    if reading.histogram is not None and reading.steps:
        total = sum(reading.histogram)
        yield Check(identity="histogram sums to steps", holds=abs(total - reading.steps) < 0.5,
                    detail=f"sum {total:g}, steps {reading.steps:g}")
    if length is not None and d:
        yield Check(identity="AL <= D + 1", holds=length <= d + 1 + 1e-6, detail=f"AL {length:.3f}, D + 1 = {d + 1}")


def refuse_impossible(reading: Reading) -> None:
    """Raise where the result is no acceptance: AL outside [1, 1 + D], or rates that rise beyond noise."""
    faults: list[Fault] = []
    if reading.acceptance_length is not None and reading.draft_len is not None:
        fault = length_fault(reading.draft_len, round(reading.acceptance_length, 9))
        faults += [fault] if fault else []
    elif reading.acceptance_length is not None and reading.acceptance_length < 1.0 - 1e-9:
        faults.append(Fault(("acceptance_length",), (
            f"{reading.acceptance_length:g} is below 1: AL counts the bonus token; this may be accepted drafts only")))
    faults += [Fault(("per_position",), f"{check.detail}: unconditional acceptance never rises; these may be "
                     "conditional rates") for check in _identities(reading)
               if check.identity == "p_k never rises" and not check.holds]
    if faults:
        raise InputError(faults)


def signatures(reading: Reading) -> tuple[Note, ...]:
    """Warnings where the numbers look like a bug of the server and not like a drafter's quality."""
    return tuple(_signatures(reading))


def _signatures(reading: Reading) -> Iterator[Note]:
    length, d, rates = reading.acceptance_length, reading.draft_len, reading.per_position
    accepted, drafted = reading.accepted, reading.drafted
    if accepted == 0 and drafted is not None and drafted >= 1000:
        yield Note(FAULT, f"0 % of {drafted:g} drafts accepted: {DO_NOT_TUNE}; is this the drafter of this target, "
                   "with the right chat template and quantisation?")
    elif length is not None and abs(length - 1.0) < 0.005:
        yield Note(FAULT, f"AL is 1.00: {DO_NOT_TUNE}; a drafter that is loaded wrongly is rejected every time")
    elif rates and rates[0] < 0.3 and reading.engine != "lookup" and reading.labels.get("mechanism") not in {
            "ngram", "suffix"}:
        yield Note(FAULT, f"only {rates[0]:.0%} of first drafts are accepted: {DO_NOT_TUNE}, unless this is an n-gram "
                   "or suffix drafter")
    if d is None and drafted and reading.steps and abs(drafted / reading.steps - round(drafted / reading.steps)) > 0.01:
        yield Note("uneven_drafts", f"{drafted / reading.steps:.2f} tokens are drafted per step: the drafter is gated "
                   "or scheduled, or a count is damaged")
    if length is not None and d and length > d + 1 - 0.005:
        yield Note(FAULT, f"AL is D + 1 = {d + 1}: {DO_NOT_TUNE}; a model that repeats itself, a repeated prompt or "
                   "synthetic acceptance is accepted every time")


def by_batch(tallies: Mapping[bool, Tally]) -> tuple[Note, ...]:
    """Compare records at batch 1 (False) with records at larger batches (True).

    Acceptance does not depend on the batch: what moves with it beyond the noise of the counts is a fault.
    """
    alone, together = tallies.get(False), tallies.get(True)
    if alone is None or together is None or min(alone.steps, together.steps) < 200:
        return ()
    first, second = 1.0 + alone.accepted / alone.steps, 1.0 + together.accepted / together.steps
    rates = [_rates(alone), _rates(together)]
    if all(len(one) > 1 for one in rates):
        falls = [a - b for a, b in zip(rates[0][1:], rates[1][1:], strict=False)]
        if rates[0][0] - rates[1][0] < 0.05 and falls and max(falls) > 0.1:
            return (Note(FAULT, f"the second and later drafts are accepted less at batch > 1 (conditional rate down by "
                         f"{max(falls):.2f}) while the first is not: {DO_NOT_TUNE}; drafts of one sequence may be "
                         "verified against another"),)
    if abs(first - second) > 0.1 * max(first - 1.0, second - 1.0) + 4.0 * math.sqrt(
            max(len(alone.positions), 3) / min(alone.steps, together.steps)):
        return (Note(FAULT, f"AL moves with the batch ({first:.2f} at batch 1, {second:.2f} above): {DO_NOT_TUNE}; "
                     "acceptance does not depend on the batch, unless the text differs"),)
    return ()


def between_files(lengths: Sequence[tuple[str, float, float]]) -> tuple[Note, ...]:
    """Compare (file, AL, steps) of files that were merged."""
    if len(lengths) < 2:
        return ()
    low, high = min(lengths, key=lambda item: item[1]), max(lengths, key=lambda item: item[1])
    noise = 4.0 * math.sqrt(3.0 / max(min(low[2], high[2]), 1.0))
    if high[1] - low[1] > 0.15 * (high[1] - 1.0) + noise:
        return (Note("files_differ", f"AL is {low[1]:.2f} in {low[0]} and {high[1]:.2f} in {high[0]}: if text and "
                     "sampling are the same and only batch or TP differ, this looks like a fault, do not tune; else "
                     "read them apart"),)
    return ()


def _rates(tally: Tally) -> tuple[float, ...]:
    return conditional([count / tally.position_steps for count in tally.positions]) if tally.position_steps else ()
