"""What a model weighs: parameters, bytes of weights, KV cache and recurrent state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Layer,
    Mixer,
    Model,
    MoeFfn,
    RecurrentMixer,
    SoftmaxAttention,
    SparseIndex,
    WeightDtypes,
)
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT, GGUF_BITS
from specplan.planner.models.matrices import expert_matrices, ffn_matrices, local_heads, mixer_matrices

FP8_WITH_SCALE = 1.0 + 4.0 / 128    # bytes of an fp8 number with one fp32 scale per 128 (vLLM, DeepGEMM, FlashMLA)


def layer_parameters(layer: Layer, hidden: int, *, active: bool = False, qkv_bias: bool = False) -> int:
    """Weights of one layer; `active`: of the routed experts only the ones that one token uses."""
    matrices = (*mixer_matrices(layer.mixer, hidden), *ffn_matrices(layer.ffn, hidden))
    total = sum(matrix.parameters for matrix in matrices)
    experts = sum(matrix.parameters for matrix in expert_matrices(layer.ffn, hidden))
    if active and isinstance(layer.ffn, MoeFfn):
        experts = experts * layer.ffn.top_k // layer.ffn.experts
    halves = (layer.mixer is not None) + (layer.ffn is not None)
    return total + experts + halves * hidden + _mixer_vectors(layer.mixer, qkv_bias=qkv_bias)


def parameters(model: Model) -> int:
    """Weights of the model, embedding and head included, MTP modules not."""
    head = 0 if model.tied_head else model.vocab * model.hidden
    return _body(model, active=False) + model.vocab * model.hidden + head


def active_parameters(model: Model) -> int:
    """Weights that one token's forward pass multiplies: the head counts, the input embedding and MTP do not."""
    return _body(model, active=True) + model.vocab * model.hidden


def mtp_parameters(model: Model) -> int:
    """Weights of all MTP modules; embedding and head are the model's own."""
    if model.mtp is None:
        return 0
    one = layer_parameters(model.mtp.layer, model.hidden) * model.mtp.layers
    projection = model.mtp.projection_inputs * model.hidden * model.hidden
    return model.mtp.modules * (one + projection + (model.mtp.projection_inputs + 1) * model.hidden)


def weight_bytes(
    model: Model, weights: WeightDtypes | None = None, *, tp: int = 1, ep: int = 1, pp: int = 1,
    attention_tp: int | None = None,
) -> float:
    """Bytes of weights on the fullest GPU, MTP modules not counted.

    `tp` splits attention, dense parts, embedding and head; routed experts are split over `ep` groups, and inside a
    group over the tp / ep GPUs that it has left. Under `pp` the layers are shared out evenly, and the fullest stage
    also holds the larger of embedding and head. `attention_tp`: GPUs that share attention, where fewer than `tp` do
    (data-parallel attention).
    """
    dtypes = weights or model.weights
    layers = sum(
        group.count * layer_bytes(
            group.layer, model.hidden, dtypes, tp=tp, ep=ep, attention_tp=attention_tp, qkv_bias=model.qkv_bias
        )
        for group in model.groups
    )
    table = model.vocab * model.hidden / tp
    embedding = table * BYTES_PER_WEIGHT[dtypes.embedding]
    head = 0.0 if model.tied_head else table * BYTES_PER_WEIGHT[dtypes.lm_head]
    last_norm = model.hidden * BYTES_PER_WEIGHT["bf16"]
    return layers / pp + (embedding + head if pp == 1 else max(embedding, head)) + last_norm


def layer_bytes(
    layer: Layer, hidden: int, dtypes: WeightDtypes, *, tp: int = 1, ep: int = 1, attention_tp: int | None = None,
    qkv_bias: bool = False,
) -> float:
    """Bytes of one layer on one GPU."""
    of_role: Mapping[str, float] = {
        "attention": BYTES_PER_WEIGHT[dtypes.attention], "ffn": BYTES_PER_WEIGHT[dtypes.ffn],
        "experts": BYTES_PER_WEIGHT[dtypes.experts], "router": BYTES_PER_WEIGHT["bf16"],
    }
    matrices = (*mixer_matrices(layer.mixer, hidden, attention_tp or tp), *ffn_matrices(layer.ffn, hidden, tp))
    dense = sum(matrix.parameters * of_role[matrix.role] for matrix in matrices)
    experts = sum(matrix.parameters for matrix in expert_matrices(layer.ffn, hidden)) * of_role["experts"]
    halves = (layer.mixer is not None) + (layer.ffn is not None)
    vectors = (halves * hidden + _mixer_vectors(layer.mixer, qkv_bias=qkv_bias)) * BYTES_PER_WEIGHT["bf16"]
    return dense + experts / (ep * max(1, tp // ep)) + vectors


def group_size(model: Model, *, tp: int = 1) -> int | None:
    """Query heads per cached head on one GPU, G, of the layers that read the whole context; None without attention.

    The heads of a latent (or of a compressed cache) all read the same one.
    """
    sizes: list[tuple[bool, int]] = []
    for group in model.groups:
        mixer = group.layer.mixer
        if isinstance(mixer, SoftmaxAttention):
            queries, keys = local_heads(mixer.query_heads, tp), local_heads(mixer.kv_heads, tp)
            sizes.append((mixer.window_tokens is None, queries // keys))
        elif isinstance(mixer, LatentAttention | CompressedAttention):
            sizes.append((True, local_heads(mixer.query_heads, tp)))
    return max(sizes)[1] if sizes else None


def kv_bytes_per_token(model: Model, kv_dtype: str) -> float:
    """Bytes by which the cache of the whole model grows per token once windows are full."""
    return sum(group.count * mixer_kv_bytes_per_token(group.layer.mixer, kv_dtype) for group in model.groups)


def mixer_kv_bytes_per_token(mixer: Mixer | None, kv_dtype: str, tp: int = 1) -> float:
    """Growth of one layer's cache per token on one GPU; 0 for windows and recurrent layers."""
    if isinstance(mixer, SoftmaxAttention) and mixer.window_tokens is not None:
        return 0.0
    if isinstance(mixer, CompressedAttention):
        if mixer.compress_ratio == 0:
            return 0.0
        return (_summary_bytes(mixer, kv_dtype) + _index_key_bytes(mixer.index)) / mixer.compress_ratio
    return _token_bytes(mixer, kv_dtype, tp)


def kv_bytes(model: Model, kv_dtype: str, context_tokens: ArrayLike, *, tp: int = 1, pp: int = 1) -> Array:
    """Cache of one sequence of `context_tokens` on one GPU, at an array of contexts.

    KV heads are split over `tp` until each GPU has one and repeated beyond; a latent is whole on every GPU; a window
    keeps its last tokens only. `pp` shares the layers out evenly.
    """
    context = np.asarray(context_tokens, dtype=float)
    total = np.zeros_like(context)
    for group in model.groups:
        total = total + group.count * mixer_kv_bytes(group.layer.mixer, kv_dtype, context, tp=tp)
    return np.asarray(total / pp)


def mixer_kv_bytes(mixer: Mixer | None, kv_dtype: str, context_tokens: ArrayLike, *, tp: int = 1) -> Array:
    """Cache of one layer for one sequence on one GPU."""
    context = np.asarray(context_tokens, dtype=float)
    if isinstance(mixer, SoftmaxAttention) and mixer.window_tokens is not None:
        return np.asarray(np.minimum(context, mixer.window_tokens) * _token_bytes(mixer, kv_dtype, tp))
    if isinstance(mixer, CompressedAttention):
        entry = _summary_bytes(mixer, kv_dtype)
        window = np.minimum(context, mixer.window_tokens) * entry
        if mixer.compress_ratio == 0:
            return np.asarray(window)
        summaries = np.floor(context / mixer.compress_ratio)
        return np.asarray(window + summaries * (entry + _index_key_bytes(mixer.index)))
    return np.asarray(context * _token_bytes(mixer, kv_dtype, tp))


def state_bytes_per_sequence(model: Model, *, tp: int = 1) -> float:
    """Recurrent state of one sequence on one GPU: fp32 states and the 16-bit inputs of the short convolutions."""
    return sum(group.count * mixer_state_bytes(group.layer.mixer, tp=tp) for group in model.groups)


def mixer_state_bytes(mixer: Mixer | None, *, tp: int = 1) -> float:
    """State of one recurrent layer on one GPU; 0 for attention."""
    if not isinstance(mixer, RecurrentMixer):
        return 0.0
    heads = local_heads(mixer.value_heads, tp)
    state = heads * mixer.key_dim * mixer.value_dim * BYTES_PER_WEIGHT["fp32"]
    # convolved channels: q, k and v of linear attention; x, B and C of Mamba-2 (key_heads are its groups)
    channels = 2 * local_heads(mixer.key_heads, tp) * mixer.key_dim + heads * mixer.value_dim
    return state + channels * (mixer.conv_kernel - 1) * BYTES_PER_WEIGHT["bf16"]


def with_dtypes(
    model: Model, weights: str | None = None, *, kv: str | None = None, static_scales: bool | None = None
) -> Model:
    """The model stored as a configuration asks: one format for attention, dense parts and experts.

    Embedding, head and router keep the checkpoint's format, as in every published recipe. The checkpoint's static
    scales stay only with its own format.
    """
    changed = model.weights
    if weights is not None:
        kept = changed.static_scales and weights == changed.attention
        changed = replace(changed, attention=weights, ffn=weights, experts=weights, static_scales=kept)
        if weights in GGUF_BITS:    # llama.cpp files quantise the embedding and the head as well, at 6 bits or more
            wide = max(("q6_k", weights), key=GGUF_BITS.__getitem__)
            changed = replace(changed, lm_head=wide, embedding=wide)
            if model.mtp is not None:
                model = replace(model, mtp=replace(model.mtp, weights=None))
    if static_scales is not None:
        changed = replace(changed, static_scales=static_scales)
    return replace(model, weights=changed, kv_dtype=kv or model.kv_dtype)


def _body(model: Model, *, active: bool) -> int:
    per_layer = (
        group.count * layer_parameters(group.layer, model.hidden, active=active, qkv_bias=model.qkv_bias)
        for group in model.groups
    )
    return sum(per_layer) + model.hidden    # and the last norm


def _mixer_vectors(mixer: Mixer | None, *, qkv_bias: bool) -> int:
    if qkv_bias and isinstance(mixer, SoftmaxAttention):
        return mixer.query_heads * mixer.head_dim + mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
    if isinstance(mixer, RecurrentMixer):
        channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
        return channels * mixer.conv_kernel
    return 0


def _token_bytes(mixer: Mixer | None, kv_dtype: str, tp: int) -> float:
    """Bytes that one token occupies in one layer's cache on one GPU."""
    if isinstance(mixer, SoftmaxAttention):
        if mixer.shares_kv:
            return 0.0
        numbers = local_heads(mixer.kv_heads, tp) * (mixer.head_dim + mixer.value_head_dim)
        return numbers * BYTES_PER_KV[kv_dtype] + _index_key_bytes(mixer.index)
    if isinstance(mixer, LatentAttention):
        return _latent_bytes(mixer, kv_dtype) + _index_key_bytes(mixer.index)
    return 0.0


def _latent_bytes(mixer: LatentAttention, kv_dtype: str) -> float:
    """The latent of one token. Sparse kernels keep an fp8 latent with fp32 scales per 128 and 16-bit rotary keys.

    656 bytes for 512 + 64 (FlashMLA, vLLM `fp8_ds_mla`); dense kernels keep all 576 numbers in one format.
    """
    if kv_dtype == "fp8" and mixer.index is not None:
        return mixer.kv_lora_rank * FP8_WITH_SCALE + 2.0 * mixer.rope_head_dim
    return (mixer.kv_lora_rank + mixer.rope_head_dim) * BYTES_PER_KV[kv_dtype]


def _summary_bytes(mixer: CompressedAttention, kv_dtype: str) -> float:
    """One cached entry of DeepSeek-V4: in fp8 448 numbers, 64 rotary ones in 16 bit and 8 bytes of scales (584)."""
    if kv_dtype == "fp8":
        plain = mixer.head_dim - mixer.rope_head_dim
        return plain + 2.0 * mixer.rope_head_dim + plain // 64 + 1.0
    return mixer.head_dim * BYTES_PER_KV[kv_dtype]


def _index_key_bytes(index: SparseIndex | None) -> float:
    """One key of the index, kept in fp8 whatever the format of the cache."""
    return 0.0 if index is None or not index.own_scorer else index.head_dim * FP8_WITH_SCALE
