"""How wrong library estimates are: leave each target out, estimate its curves from the others, compare.

The spread of each tier is what makes nominal 90 % intervals hold 90 % of the left-out AL at D = 3; coverage is then
tested with the spread learned from the other targets only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from specplan.planner.acceptance.curve import Acceptance, acceptance_length, interval
from specplan.planner.acceptance.estimate import Tier, averaged, choose, others_than, pooled
from specplan.planner.acceptance.forms import from_lengths
from specplan.planner.acceptance.library import LibraryCurve, acceptance, library, target_key
from specplan.planner.fact import fact

DRAFT_LEN = 3
LEVEL = 0.9
LEAST_SPREAD = 0.04         # a repeated measurement of the same drafter is no better known (curve.SPREAD)
NEAR_TO_FAR: tuple[Tier, ...] = ("same_drafter", "same_target", "domain", "family", "mechanism")
FEW = 8                     # a tier with fewer left-out rows takes the spread of all


@fact
class LeftOut:
    """One curve, estimated without its target (or, for `same_target`, without itself)."""

    curve: LibraryCurve
    tier: Tier
    true: float
    estimated: float

    @property
    def relative(self) -> float:
        """Error of AL - 1 relative to the estimate."""
        return (self.true - self.estimated) / (self.estimated - 1.0)


@fact
class TierAccuracy:
    """Errors of one tier."""

    tier: str
    rows: int
    targets: int
    median_error: float         # of AL at D = 3, absolute
    median_relative: float      # of AL at D = 3
    spread: float
    coverage: float             # share of left-out AL inside the nominal 90 % interval


@functools.cache
def leave_targets_out(draft_len: int = DRAFT_LEN) -> tuple[LeftOut, ...]:
    """Estimate each curve that knows AL at this D, with only its mechanism and domain known, from other targets."""
    found = []
    for curve in _testable(draft_len):
        others = [one for one in library() if one.mechanism == curve.mechanism
                  and target_key(one.target) != target_key(curve.target)]
        if others:
            tier, chosen = choose(others, domain=curve.domain, target=None)
            found.append(_left_out(curve, tier, pooled(chosen), draft_len))
    return tuple(found)


@functools.cache
def leave_heads_out(draft_len: int = DRAFT_LEN) -> tuple[LeftOut, ...]:
    """Estimate each curve from other curves of the same target, mechanism and kind of text."""
    found = []
    for curve in _testable(draft_len):
        others = [one for one in library() if one.mechanism == curve.mechanism and one.id != curve.id
                  and one.domain == curve.domain and target_key(one.target) == target_key(curve.target)]
        if others and curve.mechanism != "mtp":     # an MTP drafter comes with its target
            known = [one for one in library() if one.mechanism == curve.mechanism]
            estimate = averaged(others, others_than(known, domain=curve.domain, target=curve.target))
            found.append(_left_out(curve, "same_target", estimate, draft_len))
    return tuple(found)


def spread_by_tier(rows: Sequence[LeftOut]) -> dict[str, float]:
    """Relative standard deviation of AL - 1 whose 90 % interval holds 90 % of the left-out rows, by tier."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)

    def spread(some: Sequence[LeftOut]) -> float:
        return max(float(np.quantile([abs(row.relative) for row in some], LEVEL)) / z, LEAST_SPREAD)

    tiers = sorted({row.tier for row in rows})
    result: dict[str, float] = {"same_drafter": LEAST_SPREAD}
    for tier in tiers:
        own = [row for row in rows if row.tier == tier]
        result[tier] = spread(own if len(own) >= FEW else rows)
    for nearer, farther in itertools.pairwise(NEAR_TO_FAR):     # a farther tier is never the surer one
        if nearer in result and farther in result:
            result[farther] = max(result[farther], result[nearer])
    return result


def accuracy() -> tuple[TierAccuracy, ...]:
    """Errors by tier and over all targets left out; coverage with the spread of the other targets."""
    rows, heads = leave_targets_out(), leave_heads_out()
    tables: list[tuple[str, Sequence[LeftOut]]] = [("all targets left out", rows)]
    tables += [(tier, [row for row in rows if row.tier == tier]) for tier in ("domain", "family", "mechanism")]
    tables.append(("same_target", heads))
    result = []
    for name, some in tables:
        if some:
            errors = np.array([abs(row.true - row.estimated) for row in some])
            result.append(TierAccuracy(
                tier=name, rows=len(some), targets=len({target_key(row.curve.target) for row in some}),
                median_error=float(np.median(errors)),
                median_relative=float(np.median(errors / [row.true for row in some])),
                spread=float(np.median([_spread_without(row) for row in some])),
                coverage=float(np.mean([_covered(row) for row in some]))))
    return tuple(result)


def accuracy_lines() -> tuple[str, ...]:
    """The table that `make accuracy` prints."""
    head = (f"{'library estimate from':24} {'rows':>5} {'targets':>8} {'median |AL error|':>18} {'relative':>9} "
            f"{'spread':>7} {'90 % coverage':>14}")
    return (f"acceptance library, leave one target out, AL at D = {DRAFT_LEN}, only mechanism and domain known", head,
            *(f"{one.tier:24} {one.rows:5} {one.targets:8} {one.median_error:18.3f} {one.median_relative:9.1%} "
              f"{one.spread:7.2f} {one.coverage:14.1%}" for one in accuracy()))


def _testable(draft_len: int) -> list[LibraryCurve]:
    """Curves that were measured at this D, or tell their positions up to it."""
    return [curve for curve in library() if curve.draft_len == (draft_len,)
            or (curve.shaped and max(*curve.draft_len, len(curve.per_position)) >= draft_len)]


def _left_out(curve: LibraryCurve, tier: Tier, estimate: Acceptance, draft_len: int) -> LeftOut:
    return LeftOut(curve=curve, tier=tier, true=float(acceptance_length(acceptance(curve), draft_len)),
                   estimated=float(acceptance_length(estimate, draft_len)))


def _spread_without(row: LeftOut) -> float:
    spreads = _spreads_without(target_key(row.curve.target), row.tier == "same_target")
    return spreads.get(row.tier, max(spreads.values()))


@functools.cache
def _spreads_without(target: str, heads: bool) -> dict[str, float]:
    rows = leave_heads_out() if heads else leave_targets_out()
    return spread_by_tier([one for one in rows if target_key(one.curve.target) != target])


def _covered(row: LeftOut) -> bool:
    """Whether the planner's own interval, with the spread of the other targets, holds the left-out AL."""
    estimate = dataclasses.replace(from_lengths({DRAFT_LEN: row.estimated}), spread=_spread_without(row))
    low, high = interval(estimate, float(DRAFT_LEN), LEVEL)
    return bool(low <= row.true <= high)
