"""The library of public acceptance curves: find one by id or by what was measured, and what is known of it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import field
from importlib.resources import files
from typing import Any

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.acceptance.forms import from_lengths, from_per_position
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, nearest

IN_BLOCKS = frozenset({"dflash", "dspark", "p_eagle", "pard"})


@fact
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
        return ((mechanism is None or curve.mechanism == _plain(mechanism))
                and (domain is None or domain.lower() in (curve.domain.lower(), family_of(curve.domain)))
                and (target is None or target_key(target) in target_key(curve.target))
                and (drafter is None or drafter.lower() in curve.drafter.lower()))

    return tuple(curve for curve in library() if matches(curve))


def check_names(*, mechanism: str | None = None, domain: str | None = None, target: str | None = None) -> None:
    """Raise InputError with the nearest name for each of what is given that no curve has."""
    faults: list[Fault] = []
    if mechanism is not None and _plain(mechanism) not in (known := sorted({curve.mechanism for curve in library()})):
        hint = nearest(_plain(mechanism), known)
        message = f"no curves of '{mechanism}'; there are of {', '.join(known)}{hint}"
        faults.append(Fault((), message, file="--mechanism"))
    if domain is not None and domain.lower() not in domains():
        hint = nearest(domain, domains()) or f"; there are {', '.join(sorted(families()))}"
        faults.append(Fault((), f"no kind of text '{domain}'{hint}", file="--domain"))
    if target is not None and not find_curves(target=target):
        hint = nearest(target_key(target), {target_key(curve.target) for curve in library()})
        faults.append(Fault((), f"no curves of a target with '{target}' in its name{hint}", file="--target"))
    if faults:
        raise InputError(faults)


def check_domain(domain: str) -> None:
    """Raise InputError for a misspelt kind of text; one that is like none of the known ones is a name of the user's."""
    if domain.lower() not in domains() and (close := nearest(domain, domains(), cutoff=0.75)):
        raise InputError(f"no kind of text '{domain}'{close}")


def domains() -> tuple[str, ...]:
    """Kinds of text that curves or families have, in small letters."""
    named = (name for family, members in families().items() for name in (family, *members))
    return tuple(sorted({name.lower() for name in (*named, *(curve.domain for curve in library()))}))


def _plain(mechanism: str) -> str:
    """'EAGLE-3' as 'eagle3'; a name that is known as it stands stays."""
    name = mechanism.lower().replace("-", "_")
    return name.replace("_", "") if name.replace("_", "") in {curve.mechanism for curve in library()} else name


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
