"""What kind of token mixer each layer has: the many ways in which configurations write down a pattern of layers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from specplan.planner.models.fields import Fields

Kind: TypeAlias = Literal["full", "sliding", "chunked", "gdn", "kda", "mamba2", "none"]

LAYER_TYPES: dict[str, Kind] = {
    "full_attention": "full", "attention": "full", "global_attention": "full", "hybrid": "full",
    # an index says which keys are read
    "deepseek_sparse_attention": "full", "indexed_attention": "full", "minimax_m3_sparse": "full",
    "sliding_attention": "sliding", "local_attention": "sliding", "hybrid_sliding": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "gdn",
    "mamba": "mamba2",
}
HYBRID_BLOCKS: dict[str, Kind] = {
    "mamba": "mamba2", "linear_attention": "mamba2", "attention": "full", "full_attention": "full",
    "moe": "none", "mlp": "none",
}
HYBRID_LETTERS: dict[str, str] = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}


def hybrid_blocks(fields: Fields, *, letters: str = "hybrid_letters", blocks: str = "hybrid_blocks") -> list[str]:
    """Nemotron-H: one block a layer, as a list of words or a string of letters; [] for other models."""
    if fields.has(blocks):
        value = fields.raw(blocks)
        key = fields.key(blocks)
        found = list(value) if isinstance(value, list) else [value]
        known, faulty = tuple(HYBRID_BLOCKS), "block"
    elif fields.has(letters):
        key = fields.key(letters)
        found = [HYBRID_LETTERS.get(letter, letter) for letter in fields.text(letters)]
        known, faulty = tuple(HYBRID_BLOCKS), "letter"
    else:
        return []
    for index, block in enumerate(found):
        if block not in known:
            fields.fault((key, index), f"unknown {faulty} {block!r}; known are {_known(faulty)}")
    return [block for block in found if block in known]


def layer_kinds(fields: Fields, layers: int) -> list[Kind]:
    """Kind of mixer of each layer, from the first pattern that the configuration gives."""
    blocks = hybrid_blocks(fields)
    if blocks:
        return _fit(fields, [HYBRID_BLOCKS[block] for block in blocks], layers)
    if fields.values.get("linear_attn_config") is not None and not fields.has("layer_types"):
        return _kda_layers(fields, layers)
    _only_softmax(fields, layers)
    if fields.has("layer_types"):
        return _layer_types(fields, layers)
    if fields.has("full_interval"):
        interval = fields.size("full_interval")
        return ["full" if (layer + 1) % interval == 0 else "gdn" for layer in range(layers)]
    if _chunked(fields):
        return _rope_chunks(fields, layers)
    return _windows(fields, layers)


def _fit(fields: Fields, kinds: list[Kind], layers: int) -> list[Kind]:
    if len(kinds) < layers:
        fields.fault(fields.key("hybrid_blocks" if fields.has("hybrid_blocks") else "hybrid_letters"),
                     f"{len(kinds)} entries for {layers} layers")
    return (kinds + ["none"] * layers)[:layers]


def _layer_types(fields: Fields, layers: int) -> list[Kind]:
    found: list[Kind] = []
    linear = _linear_kind(fields)
    for layer, name in enumerate(fields.per_layer("layer_types", layers) or ["full_attention"] * layers):
        kind = LAYER_TYPES.get(name) if isinstance(name, str) else None
        if kind is None:
            # DeepSeek-V4: the ratios say more than the names
            if not fields.has("compress_ratios") and not fields.has("compress_rates"):
                fields.fault(("layer_types", layer), f"unknown kind {name!r}; known are {', '.join(LAYER_TYPES)}")
            kind = "full"
        found.append(linear if kind == "gdn" else kind)
    if "sliding" in found and not fields.has("window"):
        fields.fault("sliding_window", "missing, and layer_types names sliding layers")
    return found


def _linear_kind(fields: Fields) -> Kind:
    """What `linear_attention` means: the name is shared, the size fields are not."""
    if fields.has("linear_value_heads"):
        return "gdn"
    if fields.has("kda_heads") or fields.values.get("linear_attn_config") is not None:
        return "kda"
    return "mamba2" if fields.has("mamba_heads") else "gdn"


def _kda_layers(fields: Fields, layers: int) -> list[Kind]:
    """Kimi: layer numbers of both kinds, counted from 1."""
    part = fields.part("linear_attn_config")
    lists: dict[str, set[int]] = {"kda_layers": set(), "full_attn_layers": set()}
    for name, numbers in lists.items():
        value = part.values.get(name) if part is not None else None
        if part is None or not isinstance(value, list):
            fields.fault(("linear_attn_config", name), "missing, or not a list of layer numbers")
            continue
        numbers.update(number for index, item in enumerate(value)
                       if (number := part.as_size((name, index), item, high=layers)) is not None)
    both = lists["kda_layers"] & lists["full_attn_layers"]
    neither = set(range(1, layers + 1)) - lists["kda_layers"] - lists["full_attn_layers"]
    if both or neither:
        fields.fault(("linear_attn_config", "kda_layers"), f"layers in both lists: {sorted(both)}, in none: "
                     f"{sorted(neither)}")
    return ["kda" if layer + 1 in lists["kda_layers"] else "full" for layer in range(layers)]


def _only_softmax(fields: Fields, layers: int) -> None:
    """MiniMax: 1 = softmax attention; 0 (lightning attention of MiniMax-Text-01) is not modelled."""
    value: Any = fields.values.get("attn_type_list")
    if isinstance(value, list) and any(item != 1 for item in value[:layers]):
        fields.fault("attn_type_list", "only entries of 1 (softmax attention) are known")


def _chunked(fields: Fields) -> bool:
    if not fields.has("chunk"):
        return False
    if fields.family in ("llama4", "llama4_text"):
        return True
    if fields.raw("chunk") != fields.raw("window"):     # MiMo-V2 repeats its window under this name
        fields.fault(fields.key("chunk"), "chunked attention is known for Llama 4 and in layer_types only")
    return False


def _rope_chunks(fields: Fields, layers: int) -> list[Kind]:
    """Llama 4: layers with rotary positions are chunked; every fourth has none and attends to everything."""
    marks = fields.per_layer("rope_layers", layers)
    if marks:
        return ["chunked" if mark else "full" for mark in marks]
    interval = fields.size("rope_interval", default=4)
    return ["full" if (layer + 1) % interval == 0 else "chunked" for layer in range(layers)]


def _windows(fields: Fields, layers: int) -> list[Kind]:
    if not fields.has("window") or fields.values.get("use_sliding_window") is False:
        return ["full"] * layers
    if fields.has("kv_lora_rank") or fields.has("compress_ratios"):
        return ["full"] * layers
    mask = fields.per_layer("sliding_mask", layers)     # 1 = sliding
    if mask is not None:
        for layer, mark in enumerate(mask):
            if mark not in (0, 1):
                fields.fault((fields.key("sliding_mask"), layer), f"{mark!r} is neither 0 (full) nor 1 (sliding)")
        return ["sliding" if mark else "full" for mark in mask]
    local = fields.layer_ids("sliding_ids")
    if local is not None:
        return ["sliding" if layer in local else "full" for layer in range(layers)]
    pattern = fields.optional_size("sliding_pattern")   # every n-th layer is full
    if pattern is not None:
        return ["full" if (layer + 1) % pattern == 0 else "sliding" for layer in range(layers)]
    first = fields.values.get("max_window_layers") if fields.values.get("use_sliding_window") is True else 0
    start = fields.as_size("max_window_layers", first or 0, low=0) or 0     # Qwen2: layers below it are full
    return ["full" if layer < start else "sliding" for layer in range(layers)]


def _known(faulty: str) -> str:
    return ", ".join(HYBRID_LETTERS if faulty == "letter" else HYBRID_BLOCKS)
