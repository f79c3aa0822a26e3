"""Nemotron-NAS models (Llama-3.3-Nemotron-Super-49B): each layer has its own attention and MLP width, or none."""

from __future__ import annotations

import math

from specplan.planner.models.architecture import DenseFfn, Layer, SoftmaxAttention
from specplan.planner.models.fields import Fields

UNKNOWN_IF_SET = ("replace_with_linear", "sparsify", "num_sink_tokens", "window_length", "unshifted_sink",
                  "use_prefill_window_in_sink_attention")


def read_block_configs(fields: Fields, layers: int) -> list[Layer]:
    """Layers from `block_configs`."""
    blocks = fields.values.get("block_configs")
    if not isinstance(blocks, list) or len(blocks) < layers:
        fields.fault("block_configs", f"needs one entry for each of {layers} layers")
        return [Layer(mixer=None, ffn=None)] * layers
    found = []
    for index, block in enumerate(blocks[:layers]):
        entry = Fields({"block": block}, (*fields.path, "block_configs", index), fields.faults, fields.notes)
        found.append(_layer(entry, fields))
    return found


def _layer(entry: Fields, fields: Fields) -> Layer:
    block = entry.values["block"]
    halves = {name: block.get(name) if isinstance(block, dict) else None for name in ("attention", "ffn")}
    for name, half in halves.items():
        if not isinstance(half, dict):
            entry.fault(name, "missing")
            return Layer(mixer=None, ffn=None)
        for key in UNKNOWN_IF_SET:
            if half.get(key) not in (None, False):
                entry.fault((name, key), f"{half[key]!r} changes the layer in a way that is not modelled")
    attention, ffn = halves["attention"] or {}, halves["ffn"] or {}
    return Layer(mixer=_attention(entry, attention, fields), ffn=_ffn(entry, ffn, fields))


def _attention(entry: Fields, half: dict[str, object], fields: Fields) -> SoftmaxAttention | None:
    if half.get("no_op") is True:
        return None
    heads, hidden = fields.size("heads"), fields.size("hidden")
    group = entry.as_size(("attention", "n_heads_in_group"), half.get("n_heads_in_group")) or 1
    if heads % group or hidden % heads:
        entry.fault(("attention", "n_heads_in_group"), f"{heads} query heads are not a multiple of {group}")
    head_dim = fields.size("head_dim", default=max(1, hidden // heads))
    return SoftmaxAttention(query_heads=heads, kv_heads=max(1, heads // group), head_dim=head_dim,
                            value_head_dim=head_dim)


def _ffn(entry: Fields, half: dict[str, object], fields: Fields) -> DenseFfn | None:
    if half.get("no_op") is True:
        return None
    multiple = half.get("ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple < 1000:
        entry.fault(("ffn", "ffn_mult"), f"{multiple!r} is not a positive multiple of the hidden size")
        return None
    # DeciLM: two thirds of ffn_mult * hidden, rounded up to 256
    return DenseFfn(intermediate=256 * math.ceil(int(2 * multiple * fields.size("hidden") / 3) / 256))
