"""Which token mixer each layer has: the attention and recurrent fields of a config.json, read into facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Mixer,
    RecurrentMixer,
    SoftmaxAttention,
    SparseIndex,
)
from specplan.planner.models.field_names import OWN_HEAD_DIM
from specplan.planner.models.fields import Fields
from specplan.planner.models.layer_kinds import Kind, layer_kinds


def read_mixers(fields: Fields, layers: int) -> list[Mixer | None]:
    """The mixer of each layer; None where a layer has none (Nemotron-H alternates mixers and MLPs)."""
    kinds = layer_kinds(fields, layers)
    made: dict[Kind, Mixer | None] = {"none": None}
    builders = {
        "full": _full, "sliding": _sliding, "chunked": _chunked, "gdn": _gdn, "kda": _kda, "mamba2": _mamba2,
    }
    if fields.has("compress_ratios") or fields.has("compress_rates"):
        return _compressed(fields, layers)
    for kind in dict.fromkeys(kinds):
        if kind not in made:
            made[kind] = builders[kind](fields)
    mixers = [made[kind] for kind in kinds]
    return _share_kv(fields, _index_by_layer(fields, mixers))


def mtp_mixer(fields: Fields, last: Mixer | None, *, sliding: bool = False) -> Mixer | None:
    """The mixer of an MTP module: that of the last layer, full attention where that one is recurrent."""
    if isinstance(last, CompressedAttention):
        return replace(last, compress_ratio=0, index=None)
    if sliding:
        return _sliding(fields)
    if isinstance(last, SoftmaxAttention | LatentAttention):
        return last
    return _full(fields)


def _head_dim(fields: Fields, heads: int) -> int:
    if fields.has("head_dim"):
        return fields.size("head_dim")
    hidden, family = fields.size("hidden"), fields.family
    if family.startswith(OWN_HEAD_DIM):
        fields.fault("head_dim", f"missing; for {family} it is not hidden_size / num_attention_heads")
    elif hidden % heads:
        fields.fault("head_dim", f"missing, and hidden_size {hidden} / {heads} heads is not a whole number")
    return max(1, hidden // heads)


def _softmax(fields: Fields, *, heads: int, kv_heads: int, head_dim: int, value_head_dim: int | None = None,
             window_tokens: int | None = None) -> SoftmaxAttention:
    if kv_heads > heads or heads % kv_heads:
        fields.fault(fields.key("kv_heads"), f"{heads} query heads are not a multiple of {kv_heads} KV heads")
    if window_tokens is not None and window_tokens >= fields.size("positions", default=10**9):
        window_tokens = None
    return SoftmaxAttention(
        query_heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        value_head_dim=value_head_dim or fields.size("value_head_dim", default=head_dim),
        window_tokens=window_tokens, output_gate=fields.flag("output_gate"),
    )


def _full(fields: Fields) -> Mixer:
    if fields.has("kv_lora_rank"):
        return _latent(fields)
    heads = fields.size("heads")
    kv_heads = fields.size("kv_heads", default=heads)
    if fields.values.get("multi_query") is True and not fields.values.get("new_decoder_architecture"):
        kv_heads = 1    # Falcon
    head_dim = _head_dim(fields, heads)
    if not fields.has("full_head_dim"):
        return _softmax(fields, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    # Gemma 4: full layers are wider than sliding ones and may use one projection for keys and values
    full = _softmax(fields, heads=heads, kv_heads=fields.size("full_kv_heads", default=kv_heads),
                    head_dim=fields.size("full_head_dim"))
    return replace(full, keys_are_values=fields.flag("keys_are_values"))


def _sliding(fields: Fields) -> Mixer:
    if fields.has("kv_lora_rank"):
        fields.fault(fields.key("window"), "a sliding window on latent attention has no known meaning")
        return _latent(fields)
    other = fields.part("attention_other_setting")      # Step-3.5: sliding layers have more query heads
    heads = fields.size("sliding_heads", default=fields.size("heads"))
    kv_heads = fields.size("sliding_kv_heads", default=fields.size("kv_heads", default=heads))
    head_dim = fields.size("sliding_head_dim") if fields.has("sliding_head_dim") else _head_dim(fields, heads)
    if other is not None and other.values.get("attention_type", "sliding_attention") == "sliding_attention":
        heads = other.named_size("num_attention_heads", default=heads)
        kv_heads = other.named_size("num_attention_groups", default=kv_heads)
        head_dim = other.named_size("head_dim", default=head_dim)
    return _softmax(
        fields, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        value_head_dim=fields.optional_size("sliding_value_head_dim"), window_tokens=fields.size("window"),
    )


def _chunked(fields: Fields) -> Mixer:
    full = _full(fields)
    if not isinstance(full, SoftmaxAttention):
        fields.fault(fields.key("chunk"), "chunks on latent attention have no known meaning")
        return full
    return replace(full, window_tokens=fields.size("chunk"))


def _latent(fields: Fields) -> LatentAttention:
    return LatentAttention(
        query_heads=fields.size("heads"), q_lora_rank=fields.optional_size("q_lora_rank"),
        kv_lora_rank=fields.size("kv_lora_rank"), nope_head_dim=fields.size("nope_head_dim"),
        rope_head_dim=fields.size("rope_head_dim"), value_head_dim=fields.size("value_head_dim"),
        output_gate=fields.flag("output_gate"), index=_token_index(fields),
    )


def _token_index(fields: Fields) -> SparseIndex | None:
    if not fields.has("index_top_k"):
        return None
    return SparseIndex(heads=fields.size("index_heads"), head_dim=fields.size("index_head_dim"),
                       top_k=fields.size("index_top_k"))


def _compressed(fields: Fields, layers: int) -> list[Mixer | None]:
    """DeepSeek-V4: a ratio per layer; 0 = window only, 4 (CSA) picks summaries by an index, 128 (HCA) reads all."""
    ratios = fields.per_layer("compress_ratios", layers) or _ratios_by_name(fields, layers)
    index = _token_index(fields)
    base = CompressedAttention(
        query_heads=fields.size("heads"), head_dim=fields.size("head_dim"), q_lora_rank=fields.size("q_lora_rank"),
        o_lora_rank=fields.size("o_lora_rank"), o_groups=fields.size("o_groups"),
        rope_head_dim=fields.size("rope_head_dim"), compress_ratio=0, window_tokens=fields.size("window"),
    )
    if base.query_heads % base.o_groups:
        fields.fault("o_groups", f"{base.query_heads} query heads are not a multiple of {base.o_groups} groups")
    mixers: list[Mixer | None] = []
    for layer, ratio in enumerate(ratios):
        if ratio not in (0, 4, 128):
            fields.fault(("compress_ratios", layer), f"{ratio!r} is not a known ratio; known are 0, 4 and 128")
            ratio = 0  # noqa: PLW2901
        mixers.append(replace(base, compress_ratio=ratio, index=index if ratio == 4 else None))
    return mixers


def _ratios_by_name(fields: Fields, layers: int) -> list[Any]:
    rates = fields.part("compress_rates")
    rate_of: dict[str, Any] = {"sliding_attention": 0, **(dict(rates.values) if rates is not None else {})}
    names = fields.per_layer("layer_types", layers)
    if names is None:
        fields.fault("compress_ratios", "missing, and no layer_types to take them from")
        return [0] * layers
    return [rate_of.get(name) if isinstance(name, str) else None for name in names]


def _gdn(fields: Fields) -> RecurrentMixer:
    key_heads, value_heads = fields.size("linear_key_heads"), fields.size("linear_value_heads")
    if value_heads % key_heads:
        fields.fault(fields.key("linear_value_heads"), f"{value_heads} is not a multiple of {key_heads} key heads")
    return RecurrentMixer(
        kind="gdn", key_heads=key_heads, value_heads=value_heads, key_dim=fields.size("linear_key_dim"),
        value_dim=fields.size("linear_value_dim"), conv_kernel=fields.size("linear_conv", default=4),
    )


def _kda(fields: Fields) -> RecurrentMixer:
    part = fields.part("linear_attn_config")
    if part is None:
        heads, head_dim, kernel, full = fields.size("kda_heads"), fields.size("kda_head_dim"), None, False
    else:
        heads, head_dim = part.named_size("num_heads"), part.named_size("head_dim")
        kernel = part.named_size("short_conv_kernel_size", default=4)
        full = part.values.get("use_full_rank_gate") is True
    return RecurrentMixer(
        kind="kda", key_heads=heads, value_heads=heads, key_dim=head_dim, value_dim=head_dim,
        conv_kernel=kernel or fields.size("linear_conv", default=4), full_rank_gate=full,
    )


def _mamba2(fields: Fields) -> RecurrentMixer:
    heads, groups = fields.size("mamba_heads"), fields.size("mamba_groups")
    if heads % groups:
        fields.fault(fields.key("mamba_heads"), f"{heads} is not a multiple of {groups} groups")
    return RecurrentMixer(
        kind="mamba2", key_heads=groups, value_heads=heads, key_dim=fields.size("mamba_state"),
        value_dim=fields.size("mamba_head_dim"), conv_kernel=fields.size("mamba_conv"),
    )


def _index_by_layer(fields: Fields, mixers: list[Mixer | None]) -> list[Mixer | None]:
    """GLM-5.2 scores on some layers and reuses the picks on the next; MiniMax-M3 is sparse on some layers only."""
    layers = len(mixers)
    kinds: list[Any] | None = fields.per_layer("index_pattern", layers)
    found = list(mixers)
    for layer, kind in enumerate(kinds or ()):
        mixer = found[layer]
        if kind not in ("full", "shared"):
            fields.fault((fields.key("index_pattern"), layer), f"unknown kind {kind!r}; known are 'full' and 'shared'")
        elif isinstance(mixer, LatentAttention) and mixer.index is not None:
            found[layer] = replace(mixer, index=replace(mixer.index, own_scorer=kind == "full"))
    return _block_sparse(fields, found)


def _block_sparse(fields: Fields, mixers: list[Mixer | None]) -> list[Mixer | None]:
    """MiniMax-M3: some layers pick blocks of tokens."""
    layers = len(mixers)
    part = fields.part("sparse_attention_config")
    if part is not None and part.values.get("use_sparse_attention") is not False:
        pattern = part.values.get("sparse_attention_freq")
        if not isinstance(pattern, list) or len(pattern) < layers:
            part.fault("sparse_attention_freq", f"needs one entry for each of {layers} layers")
            return mixers
        heads, head_dim = part.named_size("sparse_num_index_heads"), part.named_size("sparse_index_dim")
        blocks, block = part.named_size("sparse_topk_blocks"), part.named_size("sparse_block_size")
    elif fields.has("index_blocks"):
        pattern = [name == "minimax_m3_sparse" for name in fields.per_layer("layer_types", layers) or ()]
        heads, head_dim = fields.size("index_heads"), fields.size("index_head_dim")
        blocks, block = fields.size("index_blocks"), fields.size("index_block")
    else:
        return mixers
    index = SparseIndex(heads=heads, head_dim=head_dim, top_k=blocks * block, block_tokens=block)
    return [
        replace(mixer, index=index) if isinstance(mixer, SoftmaxAttention) and sparse else mixer
        for mixer, sparse in zip(mixers, pattern, strict=False)
    ]


def _share_kv(fields: Fields, mixers: list[Mixer | None]) -> list[Mixer | None]:
    """Gemma 3n and 4: the last layers read the cache of an earlier layer of their kind."""
    shared = fields.size("kv_shared_layers", default=0, low=0)
    if not shared:
        return mixers
    if shared >= len(mixers):
        fields.fault(fields.key("kv_shared_layers"), f"{shared} of {len(mixers)} layers share a cache: none owns one")
        return mixers
    first = len(mixers) - shared
    return [
        replace(mixer, shares_kv=True) if isinstance(mixer, SoftmaxAttention) and layer >= first else mixer
        for layer, mixer in enumerate(mixers)
    ]
