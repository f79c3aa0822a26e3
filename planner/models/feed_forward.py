"""Which feed-forward part each layer has: the MLP and mixture-of-experts fields of a config.json, read into facts."""

from __future__ import annotations

from typing import Literal

from specplan.planner.models.architecture import DenseFfn, Ffn, MoeFfn
from specplan.planner.models.field_names import (
    FOUR_TIMES_FAMILIES,
    SHARED_GATE_FAMILIES,
    UNGATED_ACTIVATIONS,
    UNGATED_FAMILIES,
)
from specplan.planner.models.fields import Fields
from specplan.planner.models.layer_kinds import hybrid_blocks

SPARSE_KINDS = ("sparse", "moe", "hash_moe")    # hash_moe: DeepSeek-V4 routes its first layers by token, same cost


def read_ffns(fields: Fields, layers: int) -> list[Ffn | None]:
    """The feed-forward part of each layer; None where a layer has none."""
    blocks = hybrid_blocks(fields)
    if blocks:
        made: dict[str, Ffn | None] = dict.fromkeys(("mamba", "linear_attention", "attention", "full_attention"))
        for block in dict.fromkeys(blocks):
            if block not in made:
                made[block] = _moe(fields) if block == "moe" else _dense(fields)
        return ([made[block] for block in blocks] + [None] * layers)[:layers]
    if not _has_experts(fields):
        dense = _dense(fields)
        doubled = fields.values.get("use_double_wide_mlp") is True
        first_shared = layers - fields.size("kv_shared_layers", default=0, low=0)
        wide = DenseFfn(intermediate=2 * dense.intermediate, matrices=dense.matrices)
        return [wide if doubled and layer >= first_shared else dense for layer in range(layers)]
    sparse = _sparse_layers(fields, layers)
    moe = _moe(fields)
    return [moe if layer in sparse else _dense(fields) for layer in range(layers)]


def dense_ffn(fields: Fields) -> DenseFfn:
    """The dense feed-forward part that the configuration describes, for MTP modules that use it."""
    return _dense(fields)


def moe_ffn(fields: Fields) -> MoeFfn:
    """The mixture of experts that the configuration describes, for MTP modules that use it."""
    return _moe(fields)


def _has_experts(fields: Fields) -> bool:
    if not fields.has("experts"):
        return False
    if fields.has("use_moe") and not fields.flag("use_moe"):
        return False
    fields.size("experts")
    return True


def _matrices(fields: Fields) -> Literal[2, 3]:
    activation = fields.text("activation")
    family = fields.family
    return 2 if activation in UNGATED_ACTIVATIONS or family in UNGATED_FAMILIES else 3


def _dense(fields: Fields) -> DenseFfn:
    role = "dense_intermediate" if fields.has("dense_intermediate") else "intermediate"
    default = 4 * fields.size("hidden") if fields.family in FOUR_TIMES_FAMILIES else None
    return DenseFfn(intermediate=fields.size(role, default=default), matrices=_matrices(fields))


def _moe(fields: Fields) -> MoeFfn:
    experts, top_k = fields.size("experts"), fields.size("top_k")
    if top_k > experts and fields.raw("experts") == experts:     # else the number of experts is the fault
        fields.fault(fields.key("top_k"), f"{top_k} experts per token of {experts} experts")
    top_k = min(top_k, experts)
    role = "expert_intermediate" if fields.has("expert_intermediate") else "intermediate"
    width = fields.size(role)
    latent = fields.optional_size("expert_hidden")
    if latent is not None and latent > fields.size("hidden"):
        fields.fault(fields.key("expert_hidden"), f"{latent} is wider than the hidden size; a latent is narrower")
    family = fields.family
    beside = fields.values.get("enable_moe_block") is True      # Gemma 4: experts beside the dense MLP, not instead
    return MoeFfn(
        experts=experts, top_k=top_k, intermediate=width, matrices=_matrices(fields),
        shared_intermediate=_shared(fields, width), latent_hidden=latent,
        shared_gate=family.startswith(SHARED_GATE_FAMILIES),
        dense_intermediate=_dense(fields).intermediate if beside else 0,
    )


def _shared(fields: Fields, width: int) -> int:
    """Width of all shared experts together; where a width is given it is the total."""
    if fields.has("shared_intermediate"):
        return fields.size("shared_intermediate", low=0)
    return fields.size("shared_experts", default=0, low=0) * width


def _sparse_layers(fields: Fields, layers: int) -> set[int]:
    """Layers that have experts, from the first rule that the configuration gives."""
    everywhere = set(range(layers))
    kinds = fields.per_layer("ffn_kinds", layers)
    if kinds is not None:
        for layer, kind in enumerate(kinds):
            if kind not in ("dense", *SPARSE_KINDS):
                fields.fault((fields.key("ffn_kinds"), layer), f"unknown kind {kind!r}; known are 'dense', 'sparse'")
        return {layer for layer, kind in enumerate(kinds) if kind in SPARSE_KINDS}
    if isinstance(fields.raw("moe_frequency"), list):
        marks = fields.per_layer("moe_frequency", layers) or []
        for layer, mark in enumerate(marks):
            if mark not in (0, 1):
                fields.fault((fields.key("moe_frequency"), layer), f"{mark!r} is neither 0 (dense) nor 1 (experts)")
        return {layer for layer, mark in enumerate(marks) if mark}
    named = fields.layer_ids("moe_layer_list")
    if named is not None:
        return {layer for layer in named if layer < layers}
    if fields.has("moe_interleave"):    # layers n-1, 2n-1, ...; Qwen3 also lists dense ones
        step = fields.size("moe_interleave")
        dense = fields.layer_ids("dense_layers") or frozenset()
        return {layer for layer in everywhere if (layer + 1) % step == 0 and layer not in dense}
    first = fields.size("first_dense", default=0, low=0)
    frequency = fields.size("moe_frequency", default=1)
    offset = fields.size("moe_offset", default=0, low=0)
    return {layer for layer in everywhere if layer >= first and (layer - offset) % frequency == 0}
