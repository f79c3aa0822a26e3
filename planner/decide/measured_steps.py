"""A decision from step times and AL alone: no target, no GPU, no kernels.

    speedup(D) = AL(D) * off / step(D)

Between measured draft lengths the step is a straight line in D; beyond them nothing is said. One measured step with
drafting and verification apart also gives a line: both grow with D, from nothing and from the plain step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.choose import NEAR, TIE
from specplan.planner.fact import fact
from specplan.planner.messages import InputError


@fact
class MeasuredChoice:
    """The best D by measured times; `draft_len` 0 is plain decoding."""

    draft_len: int
    draft_len_range: tuple[int, int]
    speedups: Mapping[int, float]       # by every D that the measurements cover
    between: tuple[int, ...] = ()       # of these, the D whose step or AL was not measured but lies between two


def choose_by_times(*, off_s: float, step_s: Mapping[int, float], lengths: Mapping[int, float]) -> MeasuredChoice:
    """The smallest D within 1 % of the best; `lengths` are AL by D, `step_s` whole steps by D.

    Raises
    ------
    InputError
        For times that are not positive, AL beyond 1 + D, or no D with both.
    """
    if off_s <= 0 or any(seconds <= 0 for seconds in step_s.values()):
        raise InputError("step times must be above 0")
    for drafted, length in lengths.items():
        if not 1.0 <= length <= 1.0 + drafted:
            raise InputError(f"acceptance length {length:g} is impossible at D = {drafted}")
    covered = _between(step_s), _between(lengths)
    common = sorted(set(covered[0]) & set(covered[1]))
    if not common:
        raise InputError("no draft length with both a step time and an acceptance length")
    speedups = {drafted: covered[1][drafted] * off_s / covered[0][drafted] for drafted in common}
    between = tuple(drafted for drafted in common if drafted not in step_s or drafted not in lengths)
    best = max(speedups.values())
    if best < 1.0 + TIE:
        return MeasuredChoice(draft_len=0, draft_len_range=(0, 0), speedups=speedups, between=between)
    chosen = next(drafted for drafted in common if speedups[drafted] >= best / (1.0 + TIE))
    near = [drafted for drafted in common if speedups[drafted] >= best * (1.0 - NEAR)]
    return MeasuredChoice(
        draft_len=chosen, draft_len_range=(near[0], near[-1]), speedups=speedups, between=between
    )


def steps_from_split(*, off_s: float, draft_s: float, verify_s: float, draft_len: int, up_to: int) -> dict[int, float]:
    """Steps by D from one measured split: drafting in proportion to D, verification on a line from the plain step."""
    per_token = draft_s / draft_len
    growth = max(verify_s - off_s, 0.0) / draft_len
    return {d: off_s + d * (per_token + growth) for d in range(1, up_to + 1)}


def _between(values: Mapping[int, float]) -> dict[int, float]:
    """Values at all whole D from the smallest to the largest one given."""
    known = sorted(values)
    every = np.arange(known[0], known[-1] + 1)
    filled: Array = np.interp(every, known, [values[d] for d in known])
    return {int(d): float(value) for d, value in zip(every, filled, strict=True)}
