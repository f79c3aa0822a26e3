"""The drafter of a row: by its mechanism, with the model, block and layers that the source names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specplan.planner.messages import InputError
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafter import Drafter
from specplan.planner.models.drafters import load_drafter, smaller_siblings
from specplan.planner.models.reader import load_model, model_names
from specplan.planner.validate import names
from specplan.planner.validate.collection import Case


def row_drafter(
    case: Case, row: Mapping[str, Any], mechanism: str, target: Model, inferred: list[str], assumed: list[str]
) -> Drafter:
    """A drafter of the mechanism for the target; what the source leaves open is the customary shape."""
    text = str(row.get("drafter") or case.text("drafter"))
    if mechanism in ("draft_model", "pard"):
        named = _draft_model(text, target)
        if named is None:
            raise InputError(f"no model for drafter '{text}'")
        if named.kind == "inferred":
            inferred.append("drafter")
        return load_drafter(mechanism, target, model=load_model_name(named.name))
    if mechanism == "mtp" and target.mtp is None and not target.model_type.startswith("gemma4"):
        # a native head that the shape at hand lacks: one layer of the target's own kind
        assumed.append("mtp layer")
        return replace(load_drafter("eagle", target), mechanism="mtp", name=f"{target.name}-mtp", own_head=False)
    drafter = load_drafter(mechanism, target)
    layers = names.first_number((r"(\d+)[- ]layers?\b",), str(row.get("cfg") or ""), text)
    if layers is not None and drafter.network is not None and mechanism in ("dflash", "dspark", "p_eagle"):
        drafter = _with_layers(drafter, layers)
    if re.search(r"pruned|fr-?spec", text.lower()):
        assumed.append("pruned draft vocabulary of unknown size")
    return drafter


def load_model_name(name: str) -> str:
    """The preset's name, checked."""
    load_model(name)
    return name


def _with_layers(drafter: Drafter, layers: int) -> Drafter:
    network = drafter.network
    if network is None or network.layers == layers or len(network.groups) != 1:
        return drafter
    return replace(drafter, network=replace(network, groups=(replace(network.groups[0], count=layers),)))


def _draft_model(text: str, target: Model) -> names.Named | None:
    plain = names.words(text)
    for phrase, entry in names.aliases()["draft_models"].items():
        if phrase in plain:
            return names.Named(entry["use"], entry["kind"])
    for name in sorted(model_names(), key=len, reverse=True):
        if names.words(name.replace("-", " ")) in plain:
            return names.Named(name)
    siblings = smaller_siblings(target)
    return names.Named(siblings[0], "inferred") if siblings else None
