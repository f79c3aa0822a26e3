"""Drafters for a target: from a name, a config.json or nothing but the mechanism; and what they weigh.

Rules of D: DFlash counts the anchor in its block (16 -> D up to 15), DSpark does not (7 -> D up to 7); an MTP module
is reused beyond its trained depth, which vLLM allows in whole multiples of the depth only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.architecture import Model
from specplan.planner.models.counts import (
    active_parameters,
    kv_bytes,
    layer_bytes,
    mixer_kv_bytes_per_token,
    parameters,
    weight_bytes,
    with_dtypes,
)
from specplan.planner.models.draft_shapes import drafter_data, names_target
from specplan.planner.models.draft_sources import (
    EXTERNAL,
    check_arguments,
    external_drafter,
    mtp_drafter,
    trained_drafter,
)
from specplan.planner.models.drafter import LOOKUP, MECHANISMS, Drafter, Mechanism, Tree
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT
from specplan.planner.models.reader import load_model, model_names

LARGEST_DRAFT_SHARE = 1 / 3     # of the target's active parameters, for models proposed without being asked for
FAMILIES = ("llama-3", "llama-4", "qwen2.5", "qwen3.5", "qwen3.6", "qwen3-", "gemma-3", "gemma-4", "gpt-oss",
            "nemotron-3", "mistral", "phi-4", "glm-", "kimi-", "deepseek-", "mimo", "minimax", "step-")


def load_drafter(
    mechanism: str,
    target: Model,
    *,
    model: str | Path | Mapping[str, Any] | None = None,
    block: int | None = None,
    draft_fraction: float | None = None,
    max_draft_len: int | None = None,
    name: str | None = None,
    weights: str | None = None,
    tree: Tree | None = None,
    adaptive: bool = False,
) -> Drafter:
    """A drafter for `target`; faults carry the key of the argument that is wrong."""
    if mechanism not in MECHANISMS:
        raise InputError([Fault(("mechanism",), f"unknown mechanism '{mechanism}'{nearest(mechanism, MECHANISMS)}")])
    kind: Mechanism = next(known for known in MECHANISMS if known == mechanism)
    check_arguments(kind, model=model, block=block, draft_fraction=draft_fraction)
    if tree is not None and kind not in ("eagle", "eagle3"):
        raise InputError([Fault(("tree",), f"{kind} drafts a chain; eagle and eagle3 can draft trees")])
    if adaptive and kind != "dspark":
        raise InputError([Fault(("adaptive",), f"{kind} has no confidence head; dspark has one")])
    if kind in LOOKUP:
        drafter = Drafter(mechanism=kind, name=kind, network=None, own_head=False, draft_fraction=draft_fraction)
    elif kind in EXTERNAL and model is not None:
        drafter = external_drafter(kind, target, model)
    elif kind == "mtp":
        drafter = mtp_drafter(target, model)
    else:
        drafter = trained_drafter(kind, target, model, block)
    if max_draft_len is not None:
        drafter = replace(drafter, max_draft_len=min(max_draft_len, drafter.max_draft_len or max_draft_len))
    if weights is not None and drafter.network is not None:
        drafter = replace(drafter, network=with_dtypes(drafter.network, weights))
    drafter = replace(drafter, tree=tree, adaptive=adaptive)
    return replace(drafter, name=name) if name else drafter


def known_drafters(target: Model) -> tuple[Drafter, ...]:
    """One drafter per mechanism, and per external model; names of other published ones are in the notes."""
    found: list[Drafter] = []
    if target.mtp is not None:
        found.append(load_drafter("mtp", target))
    published: dict[str, list[Mapping[str, Any]]] = {}
    for entry in drafter_data()["published"]:
        if names_target(entry, target):
            published.setdefault(entry["mechanism"], []).append(entry)
    for mechanism, entries in published.items():
        if any(drafter.mechanism == mechanism for drafter in found):
            continue
        drafter = load_drafter(mechanism, target, block=entries[0].get("block"))
        names = ", ".join(str(entry["name"]) for entry in entries)
        notes = (*drafter.notes, Note("published-drafters", f"published for {target.name}: {names}"))
        limit = entries[0].get("max_draft_len") or drafter.max_draft_len
        found.append(replace(drafter, name=str(entries[0]["name"]), notes=notes, max_draft_len=limit))
    found += [load_drafter("draft_model", target, model=sibling) for sibling in smaller_siblings(target)]
    return (*found, load_drafter("ngram", target))


def smaller_siblings(target: Model) -> tuple[str, ...]:
    """Presets of the target's family and vocabulary that are small enough to draft for it, smallest first."""
    family = _family(target.name)
    found: list[tuple[int, str]] = []
    for preset in model_names():
        if family and _family(preset) == family and preset != target.name:
            sibling = load_model(preset)
            size, whole = active_parameters(sibling), parameters(sibling)
            small = size <= active_parameters(target) * LARGEST_DRAFT_SHARE and whole <= parameters(target) / 2
            if sibling.vocab == target.vocab and small:
                found.append((size, preset))
    names = [preset for _, preset in sorted(found)]     # of a model in several formats the plain one
    return tuple(preset for preset in names if not any(preset.startswith(f"{other}-") for other in names))


def candidate_draft_lens(drafter: Drafter, limit: int, *, engine: str = "") -> tuple[int, ...]:
    """Draft lengths that this drafter can run, up to `limit`."""
    if drafter.fixed_draft_lens is not None:
        return tuple(length for length in drafter.fixed_draft_lens if length <= limit)
    top = limit if drafter.max_draft_len is None else min(limit, drafter.max_draft_len)
    depth = drafter.depth or 1
    whole = drafter.mechanism == "mtp" and engine == "vllm"
    return tuple(length for length in range(1, top + 1) if not whole or length <= depth or length % depth == 0)


def position_note(drafter: Drafter, context_tokens: int) -> Note | None:
    """A warning where the drafter was trained for shorter contexts than the one served."""
    if drafter.max_positions is None or context_tokens <= drafter.max_positions:
        return None
    return Note("drafter-positions", f"{drafter.name} was trained for {drafter.max_positions} positions; at "
                                     f"{context_tokens} tokens its acceptance falls or the engine refuses it")


def drafter_weight_bytes(drafter: Drafter, *, tp: int = 1, ep: int = 1, attention_tp: int | None = None) -> float:
    """Bytes of weights that the drafter adds on one GPU; what it shares with the target is not counted.

    `attention_tp`: GPUs that share its attention, where fewer than `tp` do.
    """
    network = drafter.network
    if network is None:
        return 0.0
    dtypes = network.weights
    fuse = drafter.fused_inputs * network.hidden * network.hidden * BYTES_PER_WEIGHT[dtypes.attention]
    if drafter.own_embedding:
        return weight_bytes(network, tp=tp, ep=ep, attention_tp=attention_tp) + fuse
    layers = sum(
        group.count * layer_bytes(group.layer, network.hidden, dtypes, tp=tp, ep=ep, attention_tp=attention_tp)
        for group in network.groups
    )
    head = network.vocab * network.hidden / tp * BYTES_PER_WEIGHT[dtypes.lm_head] if drafter.own_head else 0.0
    markov = 2 * network.vocab * (drafter.markov_rank or 0) / tp * BYTES_PER_WEIGHT["bf16"]
    return (layers + fuse) * (drafter.depth or 1) + head + markov


def drafter_kv_bytes_per_token(drafter: Drafter, kv_dtype: str, *, tp: int = 1) -> float:
    """Growth of the drafter's own cache per token on one GPU; sliding layers stop growing and count as 0."""
    if drafter.network is None or drafter.shares_target_kv:
        return 0.0
    return (drafter.depth or 1) * sum(
        group.count * mixer_kv_bytes_per_token(group.layer.mixer, kv_dtype, tp) for group in drafter.network.groups
    )


def drafter_kv_bytes(drafter: Drafter, kv_dtype: str, context_tokens: ArrayLike, *, tp: int = 1) -> Array:
    """The drafter's own cache for one sequence on one GPU, at an array of contexts; windows are capped."""
    if drafter.network is None or drafter.shares_target_kv:
        return np.zeros_like(np.asarray(context_tokens, dtype=float))
    return (drafter.depth or 1) * kv_bytes(drafter.network, kv_dtype, context_tokens, tp=tp)


def _family(name: str) -> str:
    return next((prefix for prefix in FAMILIES if name.lower().startswith(prefix)), "")
