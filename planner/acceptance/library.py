"""The library of public acceptance curves: find one by id, or estimate one for a mechanism, a text and a target.

An estimate takes the curve of the same target and drafter where there is one, else the median over targets of the
nearest kind of text that three targets at least were measured on. A curve of the same target with another drafter is
averaged with that median: alone it is the worse estimate of the two (two EAGLE-3 heads of one target differ more than
two targets do). How wrong an estimate is was learned by leaving each target out in turn (`accuracy.py`); that is the
spread it carries.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specplan.planner.acceptance.curve import SPREAD, Acceptance, acceptance_length, from_lengths, from_per_position
from specplan.planner.acceptance.shape import survival_from_lengths
from specplan.planner.arrays import Array
from specplan.planner.messages import InputError, Note, nearest

Tier: TypeAlias = Literal["same_drafter", "same_target", "domain", "family", "mechanism"]
ENOUGH_TARGETS = 3
STAND_INS = {"p_eagle": "eagle3", "suffix": "ngram"}    # not measured on its own; the stand-in is named in the notes
IN_BLOCKS = frozenset({"dflash", "dspark", "p_eagle", "pard"})
LIKE: dict[Tier, str] = {
    "same_drafter": "this target and drafter",
    "same_target": "this target with other drafters, averaged with other targets",
    "domain": "other targets, the same kind of text", "family": "other targets, a related kind of text",
    "mechanism": "other targets and other kinds of text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCurve:
    """One published curve and where it comes from."""

    id: str
    mechanism: str
    target: str
    drafter: str
    domain: str
    draft_len: tuple[int, ...]
    acceptance_length: tuple[float, ...]
    per_position: tuple[float, ...] = ()
    source: str
    url: str
    kind: str
    context_tokens: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""

    @property
    def shaped(self) -> bool:
        """Whether it tells AL at more than one D."""
        return len(self.draft_len) > 1 or bool(self.per_position)


@functools.cache
def _data() -> dict[str, object]:
    text = files("specplan.planner.acceptance").joinpath("data/curves.json").read_text(encoding="utf-8")
    data: dict[str, object] = json.loads(text)
    return data


@functools.cache
def library() -> tuple[LibraryCurve, ...]:
    """All curves, in the order of the data file."""
    data = _data()
    curves, sources = data["curves"], data["sources"]
    assert isinstance(curves, list)
    assert isinstance(sources, dict)
    return tuple(LibraryCurve(**{
        **curve, "draft_len": tuple(curve["draft_len"]), "acceptance_length": tuple(curve["acceptance_length"]),
        "per_position": tuple(curve.get("per_position", ())), "source": sources[curve["source"]]["title"],
        "url": sources[curve["source"]]["url"]}) for curve in curves)


def families() -> dict[str, tuple[str, ...]]:
    """Kinds of text that belong together, by the name of the family."""
    stored = _data()["families"]
    assert isinstance(stored, dict)
    return {name: tuple(members) for name, members in stored.items()}


def learned_spread() -> dict[str, float]:
    """Relative standard deviation of AL - 1 by tier, as `accuracy.spread_by_tier` finds it."""
    stored = _data()["spread"]
    assert isinstance(stored, dict)
    return {str(tier): float(value) for tier, value in stored.items()}


def family_of(domain: str) -> str | None:
    """The family of a kind of text; None if it is unknown."""
    return next((name for name, members in families().items() if domain.lower() in (name, *members)), None)


def target_key(name: str) -> str:
    """A target's name without number format, instruction tuning and date, so that variants match.

    >>> target_key("Qwen3-235B-A22B-Instruct-2507"), target_key("kimi-k2.5-nvfp4")
    ('qwen3-235b-a22b', 'kimi-k2.5')
    """
    name = re.sub(r"\s*\(.*\)$", "", name.lower().split("/")[-1])
    return re.sub(r"-(?:nvfp4|mxfp4|fp8|bf16|awq|instruct|it|hf|nvidia|25\d\d|a17b|17b-16e)\b", "", name).replace(
        "gemma4", "gemma-4")


def find_curves(*, mechanism: str | None = None, domain: str | None = None, target: str | None = None,
                drafter: str | None = None) -> tuple[LibraryCurve, ...]:
    """Curves that match all that is given; a domain matches its own name or its family."""
    def matches(curve: LibraryCurve) -> bool:
        return ((mechanism is None or curve.mechanism == mechanism)
                and (domain is None or domain.lower() in (curve.domain.lower(), family_of(curve.domain)))
                and (target is None or target_key(target) in target_key(curve.target))
                and (drafter is None or drafter.lower() in curve.drafter.lower()))

    return tuple(curve for curve in library() if matches(curve))


def load_curve(curve_id: str) -> LibraryCurve:
    """The curve with this id; InputError names the nearest ids."""
    by_id = {curve.id: curve for curve in library()}
    if curve_id not in by_id:
        raise InputError(f"no library curve '{curve_id}'{nearest(curve_id, by_id)}; see specplan acceptance list")
    return by_id[curve_id]


def library_curve(curve_id: str) -> Acceptance:
    """The curve with this id as acceptance."""
    return acceptance(load_curve(curve_id))


def curve_line(curve: LibraryCurve) -> dict[str, Any]:
    """One row of a list of curves: what was measured, and AL at its largest D."""
    return {"id": curve.id, "mechanism": curve.mechanism, "target": curve.target, "domain": curve.domain,
            "draft_lens": list(curve.draft_len), "acceptance_length": curve.acceptance_length[-1]}


def curve_facts(curve: LibraryCurve) -> dict[str, Any]:
    """All that is known of one curve; AL by D, bonus token included."""
    by_length = zip(curve.draft_len, curve.acceptance_length, strict=True)
    return {"id": curve.id, "mechanism": curve.mechanism, "target": curve.target, "drafter": curve.drafter,
            "domain": curve.domain, "acceptance_length": {str(d): length for d, length in by_length},
            "per_position": list(curve.per_position) or None, "context_tokens": curve.context_tokens,
            "labels": dict(curve.labels), "kind": curve.kind, "notes": curve.notes or None, "source": curve.source,
            "url": curve.url}


def acceptance(curve: LibraryCurve) -> Acceptance:
    """A library curve as acceptance, with its conditions as labels."""
    return _acceptance(curve.id)


@functools.cache
def _acceptance(curve_id: str) -> Acceptance:
    curve = load_curve(curve_id)
    labels = {**curve.labels, "mechanism": curve.mechanism, "target": curve.target, "drafter": curve.drafter,
              "domain": curve.domain}
    source = f"library {curve.id} ({curve.source}, {curve.url})"
    blocks = curve.mechanism in IN_BLOCKS and len(curve.draft_len) == 1
    if curve.per_position and len(curve.draft_len) == 1:
        return from_per_position(curve.per_position, source=source, labels=labels, per_block=blocks)
    return from_lengths(dict(zip(curve.draft_len, curve.acceptance_length, strict=True)), source=source, labels=labels,
                        per_block=blocks)


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
    estimate = pooled(chosen)
    if tier == "same_target":
        estimate = average(estimate, pooled(others_than(known, domain=domain, target=target)))
    spread = _spread(tier, chosen)
    notes = [Note("acceptance_from_library", _assumed(mechanism, domain, target, tier, chosen, spread))]
    if measured != mechanism:
        notes.append(Note("acceptance_stand_in", f"{mechanism} has no curves of its own: {measured} stands in"))
    labels = {"mechanism": mechanism, "domain": domain}
    source = f"library, {LIKE[tier]} ({len(chosen)} curve{'s' if len(chosen) > 1 else ''}: {_ids(chosen)})"
    return dataclasses.replace(
        estimate, spread=max(spread, estimate.spread), source=source, labels=labels, notes=(*estimate.notes, *notes),
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
    tiers: tuple[tuple[Tier, list[LibraryCurve]], ...] = (("domain", exact), ("family", related),
                                                           ("mechanism", list(known)))
    for tier, curves in tiers:
        if len({target_key(curve.target) for curve in curves}) >= ENOUGH_TARGETS:
            return tier, tuple(curves)
    return next((tier, tuple(curves)) for tier, curves in tiers if curves)


def _of_target(curves: Sequence[LibraryCurve], target: str) -> list[LibraryCurve]:
    return [curve for curve in curves if target_key(curve.target) == target_key(target)]


def others_than(known: Sequence[LibraryCurve], *, domain: str, target: str | None) -> tuple[LibraryCurve, ...]:
    """The nearest curves of other targets; those of all targets where there is no other."""
    others = [curve for curve in known if target is None or target_key(curve.target) != target_key(target)]
    return choose(others or known, domain=domain, target=None)[1]


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


def _assumed(mechanism: str, domain: str, target: str | None, tier: Tier, chosen: Sequence[LibraryCurve],
             spread: float) -> str:
    targets = sorted({curve.target for curve in chosen})
    named = ", ".join(targets[:4]) + (f" and {len(targets) - 4} more" if len(targets) > 4 else "")
    return (f"acceptance of {mechanism} on {domain}{f' for {target}' if target else ''} is not measured here but taken "
            f"from the library: {LIKE[tier]} ({named}); AL - 1 of such an estimate is off by {spread:.0%} (one "
            "standard deviation, learned by leaving targets out)")


def _ids(curves: Sequence[LibraryCurve]) -> str:
    return ", ".join(curve.id for curve in curves[:3]) + (", ..." if len(curves) > 3 else "")
