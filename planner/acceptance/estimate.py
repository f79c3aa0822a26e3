"""Estimate the acceptance of a mechanism, a text and a target from the library's curves.

An estimate takes the curve of the same target and drafter where there is one, else the median over targets of the
nearest kind of text that three targets at least were measured on. Where a related kind was measured at all, other
kinds are left out. A curve of the same target with another drafter is averaged with that median: alone it is the worse
estimate of the two (two EAGLE-3 heads of one target differ more than two targets do). Other kinds of text never enter
that average: what a lookup accepts depends on the text above all, 1.2 tokens per step on one and 4.7 on another. How
wrong an estimate is was learned by leaving each target out in turn (`accuracy.py`); that is the spread it carries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specplan.planner.acceptance.curve import SPREAD, Acceptance, acceptance_length
from specplan.planner.acceptance.forms import from_per_position
from specplan.planner.acceptance.library import (
    IN_BLOCKS,
    LibraryCurve,
    acceptance,
    families,
    family_of,
    learned_spread,
    library,
    target_key,
)
from specplan.planner.acceptance.shape import survival_from_lengths
from specplan.planner.arrays import Array
from specplan.planner.messages import InputError, Note, nearest

Tier: TypeAlias = Literal["same_drafter", "same_target", "domain", "family", "mechanism"]
ENOUGH_TARGETS = 3
STAND_INS = {"p_eagle": "eagle3", "suffix": "ngram"}    # not measured on its own; the stand-in is named in the notes
LIKE: dict[Tier, str] = {
    "same_drafter": "this target and drafter",
    "same_target": "this target with other drafters",
    "domain": "other targets, the same kind of text", "family": "other targets, a related kind of text",
    "mechanism": "other targets and other kinds of text",
}


def nearest_curve(mechanism: str, *, domain: str, target: str | None = None,
                  drafter: str | None = None) -> tuple[Acceptance, tuple[Note, ...]]:
    """Estimate a curve, with notes on what was assumed and how far the measurements are."""
    measured = STAND_INS.get(mechanism, mechanism)
    known = [curve for curve in library() if curve.mechanism == measured]
    if not known:
        names = sorted({curve.mechanism for curve in library()})
        raise InputError(f"the library has no curve of mechanism {mechanism}, only of {', '.join(names)}: give your "
                         "own acceptance")
    if family_of(domain) is None and domain.lower() not in {curve.domain.lower() for curve in library()}:
        kinds = sorted({*families(), *(member for members in families().values() for member in members)})
        raise InputError(f"unknown domain '{domain}'{nearest(domain, kinds)}; known: {', '.join(sorted(families()))}")
    tier, chosen = choose(known, domain=domain, target=target, drafter=drafter)
    others = others_than(known, domain=domain, target=target) if tier == "same_target" else ()
    estimate = averaged(chosen, others)
    used = (*chosen, *others)
    like = f"{LIKE[tier]}, averaged with other targets" if others else LIKE[tier]
    spread = _spread(tier, chosen)
    notes = [Note("acceptance_from_library", _assumed(mechanism, domain, target, like, used, spread))]
    if measured != mechanism:
        notes.append(Note("acceptance_stand_in", f"{mechanism} has no curves of its own: {measured} stands in"))
    labels = {"mechanism": mechanism, "domain": domain}
    source = f"library, {like} ({len(used)} curve{'s' if len(used) > 1 else ''}: {_ids(used)})"
    return dataclasses.replace(
        estimate, spread=max(spread, estimate.spread), source=source, labels=labels, notes=(*estimate.notes, *notes),
        curves=tuple(curve.id for curve in used),
        per_block=mechanism in IN_BLOCKS and any(acceptance(curve).per_block for curve in chosen)), tuple(notes)


def choose(known: Sequence[LibraryCurve], *, domain: str, target: str | None,
           drafter: str | None = None) -> tuple[Tier, tuple[LibraryCurve, ...]]:
    """The nearest tier of curves of one mechanism, and its curves."""
    family = family_of(domain)
    exact = [curve for curve in known if curve.domain.lower() == domain.lower()]
    related = [curve for curve in known if family is not None and family_of(curve.domain) == family]
    if target is not None:
        own = _of_target(exact, target) or _of_target(related, target)
        named = [curve for curve in own if drafter is not None and drafter.lower() in curve.drafter.lower()]
        if own and own[0].mechanism == "mtp":       # the drafter comes with the target
            named = own
        if named:
            return "same_drafter", tuple(named)
        if own:
            return "same_target", tuple(own)
    if len({target_key(curve.target) for curve in exact}) >= ENOUGH_TARGETS:
        return "domain", tuple(exact)
    if related:
        return "domain" if related == exact else "family", tuple(related)
    return "mechanism", tuple(known)


def _of_target(curves: Sequence[LibraryCurve], target: str) -> list[LibraryCurve]:
    return [curve for curve in curves if target_key(curve.target) == target_key(target)]


def others_than(known: Sequence[LibraryCurve], *, domain: str, target: str | None) -> tuple[LibraryCurve, ...]:
    """The nearest curves of other targets on this or a related kind of text; none where there are none."""
    others = [curve for curve in known if target is None or target_key(curve.target) != target_key(target)]
    tier, nearest_others = choose(others, domain=domain, target=None)
    return () if tier == "mechanism" else nearest_others


def averaged(own: Sequence[LibraryCurve], others: Sequence[LibraryCurve]) -> Acceptance:
    """The target's own curves and those of others, weighing the same; the own alone where there are no others."""
    return average(pooled(own), pooled(others)) if others else pooled(own)


def average(one: Acceptance, other: Acceptance) -> Acceptance:
    """The mean of two estimates, at each D that either of them knows."""
    draft_lens = np.arange(1, max(one.known_draft_len, other.known_draft_len) + 1)
    return _estimate(draft_lens, (acceptance_length(one, draft_lens) + acceptance_length(other, draft_lens)) / 2.0)


def _estimate(draft_lens: npt.NDArray[np.int64], lengths: Array) -> Acceptance:
    curve = from_per_position(survival_from_lengths(draft_lens.tolist(), lengths.tolist()).tolist())
    return dataclasses.replace(curve, form="acceptance_length", per_position=None, spread=SPREAD["acceptance_length"])


def _spread(tier: Tier, chosen: Sequence[LibraryCurve]) -> float:
    """What leaving targets out taught of this tier; a tier with fewer targets than it was learned with is no better
    than the farthest one.
    """
    learned = learned_spread()
    if tier == "same_drafter":
        return max(learned[tier], _disagreement(chosen))
    few = tier != "same_target" and len({target_key(curve.target) for curve in chosen}) < ENOUGH_TARGETS
    return learned["mechanism"] if few else learned[tier]


def _disagreement(curves: Sequence[LibraryCurve]) -> float:
    """How far apart several measurements of one drafter are (thinking on and off, for one), as a share of AL - 1."""
    members = [acceptance(curve) for curve in curves]
    d = float(min(curve.known_draft_len for curve in members))
    lengths = np.array([float(acceptance_length(curve, d)) for curve in members])
    return float(np.abs(lengths - lengths.mean()).max() / max(lengths.mean() - 1.0, 1e-9))


def pooled(curves: Sequence[LibraryCurve]) -> Acceptance:
    """The median of AL(D) over targets, each target weighing the same; a single curve is itself."""
    if len(curves) == 1:
        return acceptance(curves[0])
    shaped = [curve for curve in curves if curve.shaped]
    if len({target_key(curve.target) for curve in shaped}) >= min(
            ENOUGH_TARGETS, len({target_key(curve.target) for curve in curves})):
        curves = shaped
    members = [acceptance(curve) for curve in curves]
    keys = [target_key(curve.target) for curve in curves]
    weights = np.array([1.0 / keys.count(key) for key in keys])
    reach = sorted((curve.known_draft_len for curve in members), reverse=True)
    draft_lens = np.arange(1, reach[min(ENOUGH_TARGETS, len(reach)) - 1] + 1)
    lengths = np.array([acceptance_length(curve, draft_lens) for curve in members])
    return _estimate(draft_lens, np.array([_weighted_median(column, weights) for column in lengths.T]))


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, reached, values[order]))


def _assumed(mechanism: str, domain: str, target: str | None, like: str, chosen: Sequence[LibraryCurve],
             spread: float) -> str:
    targets = sorted({curve.target for curve in chosen})
    named = ", ".join(targets[:4]) + (f" and {len(targets) - 4} more" if len(targets) > 4 else "")
    return (f"acceptance of {mechanism} on {domain}{f' for {target}' if target else ''} is not measured here but taken "
            f"from the library: {like} ({named}); AL - 1 of such an estimate is off by {spread:.0%} (one "
            "standard deviation, learned by leaving targets out)")


def _ids(curves: Sequence[LibraryCurve]) -> str:
    return ", ".join(curve.id for curve in curves[:3]) + (f" and {len(curves) - 3} more" if len(curves) > 3 else "")
