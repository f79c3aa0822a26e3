"""What `specplan models` prints: a model's sizes, by kind of layer."""

from __future__ import annotations

from typing import Any

from specplan.planner.models.architecture import (
    CompressedAttention,
    DenseFfn,
    Ffn,
    LatentAttention,
    Mixer,
    Model,
    MoeFfn,
    RecurrentMixer,
    SoftmaxAttention,
)
from specplan.planner.models.counts import (
    active_parameters,
    group_size,
    mixer_kv_bytes_per_token,
    mtp_parameters,
    parameters,
    state_bytes_per_sequence,
    weight_bytes,
)

DEFAULT_KV = "bf16"


def model_summary(model: Model) -> dict[str, Any]:
    """All facts that `models show --json` prints; sizes in bytes, of the whole model on one GPU."""
    kv_dtype = model.kv_dtype or DEFAULT_KV
    by_kind: dict[str, float] = {}
    layers: dict[str, int] = {}
    for group in model.groups:
        for kind in filter(None, (mixer_kind(group.layer.mixer), ffn_kind(group.layer.ffn))):
            layers[kind] = layers.get(kind, 0) + group.count
        kind = mixer_kind(group.layer.mixer)
        if kind:
            bytes_here = group.count * mixer_kv_bytes_per_token(group.layer.mixer, kv_dtype)
            by_kind[kind] = by_kind.get(kind, 0.0) + bytes_here
    weights = model.weights
    return {
        "name": model.name,
        "model_type": model.model_type,
        "parameters": parameters(model),
        "active_parameters": active_parameters(model),
        "mtp_parameters": mtp_parameters(model),
        "weight_bytes": weight_bytes(model),
        "kv_dtype": kv_dtype,
        "kv_bytes_per_token": {**by_kind, "total": sum(by_kind.values())},
        "state_bytes_per_sequence": state_bytes_per_sequence(model),
        "layers": {"total": model.layers, **layers},
        "hidden": model.hidden,
        "vocab": model.vocab,
        "group_size": group_size(model),
        "mtp_layers": model.mtp.modules * model.mtp.layers if model.mtp else 0,
        "max_positions": model.max_positions,
        "quantization": {
            "checkpoint": model.quantization, "attention": weights.attention, "ffn": weights.ffn,
            "experts": weights.experts, "lm_head": weights.lm_head, "embedding": weights.embedding,
            "kv": model.kv_dtype, "static_scales": weights.static_scales,
        },
        "source": model.source,
        "warnings": [{"code": note.code, "message": note.message} for note in model.notes],
    }


def model_line(model: Model) -> dict[str, Any]:
    """One row of `models list`."""
    return {
        "name": model.name,
        "parameters": parameters(model),
        "active_parameters": active_parameters(model),
        "layers": model.layers,
        "group_size": group_size(model),
        "mtp_layers": model.mtp.modules * model.mtp.layers if model.mtp else 0,
        "quantization": model.quantization or "",
    }


def mixer_kind(mixer: Mixer | None) -> str:
    """The field's word for a token mixer; '' for none."""
    if mixer is None:
        return ""
    if isinstance(mixer, RecurrentMixer):
        return mixer.kind
    if isinstance(mixer, LatentAttention):
        return "mla" if mixer.index is None else "sparse_mla"
    if isinstance(mixer, CompressedAttention):
        return {0: "window", 4: "csa", 128: "hca"}[mixer.compress_ratio]
    return _softmax_kind(mixer)


def ffn_kind(ffn: Ffn | None) -> str:
    """`dense_ffn`, `moe` or ''."""
    if isinstance(ffn, MoeFfn):
        return "moe"
    return "dense_ffn" if isinstance(ffn, DenseFfn) else ""


def _softmax_kind(mixer: SoftmaxAttention) -> str:
    if mixer.shares_kv:
        return "shared_kv_attention"
    if mixer.window_tokens is not None:
        return "sliding_attention"
    return "full_attention" if mixer.index is None else "sparse_attention"
