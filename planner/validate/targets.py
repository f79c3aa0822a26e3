"""The target model of a row, with the number formats that the row states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specplan.planner.models.architecture import Model
from specplan.planner.models.counts import parameters, with_dtypes
from specplan.planner.models.dtypes import GGUF_BITS
from specplan.planner.models.reader import load_model
from specplan.planner.validate import names
from specplan.planner.validate.annotations import Annotations
from specplan.planner.validate.collection import Case


def row_target(case: Case, row: Mapping[str, Any], notes: Annotations) -> tuple[Model | None, str]:
    """(model, kind of the resolution), or (None, reason)."""
    text = case.text("target", row)
    model, kind = _shape(text, notes)
    if model is None:
        return None, f"no model for target '{text}'"
    formats = names.weight_formats(case.text("weight_dtype", row), text)
    return _formatted(model, formats), kind


def _shape(text: str, notes: Annotations) -> tuple[Model | None, str]:
    key = names.slug(text)[0]
    entry = names.target_entry(text, notes.shapes) or {}
    kind = str(entry.get("kind", "inferred"))
    if isinstance(entry.get("inline"), Mapping):
        return _inline(key, entry["inline"]), kind
    if isinstance(entry.get("config"), Mapping):
        return replace(load_model(entry["config"]), name=key), kind
    named = names.target_name(text, notes.shapes)
    return (None, "") if named is None else (load_model(named.name), named.kind)


def _inline(name: str, size: Mapping[str, Any]) -> Model:
    """A dense or hybrid model from a handful of sizes; `linear_share` of its layers are Gated DeltaNet (Qwen3.5)."""
    config: dict[str, Any] = {
        "model_type": "qwen3", "hidden_size": size["hidden"], "num_hidden_layers": size["layers"],
        "num_attention_heads": size["heads"], "num_key_value_heads": size["kv_heads"], "head_dim": size["head_dim"],
        "intermediate_size": size["ffn"], "vocab_size": size["vocab"],
    }
    share = float(size.get("linear_share", 0.0))
    if share:
        every = round(1 / (1 - share))
        config |= {
            "model_type": "qwen3_5_text", "full_attention_interval": every, "attn_output_gate": True,
            "layer_types": ["full_attention" if (i + 1) % every == 0 else "linear_attention"
                            for i in range(size["layers"])],
            "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": 1,
        }
    return replace(load_model(config), name=name)


def _formatted(model: Model, formats: names.Formats) -> Model:
    weights = model.weights
    if formats.gguf is not None:
        return with_dtypes(model, _gguf(formats, model))
    asked = {role: value for role in ("attention", "ffn", "experts") if (value := getattr(formats, role)) is not None}
    if not asked:
        return model
    # 'fp8' of a checkpoint that is block-scaled fp8 itself is that format
    kept = {role: getattr(weights, role) for role, value in asked.items() if getattr(weights, role).startswith(value)}
    changed = replace(weights, **{**asked, **kept})
    if changed != weights:
        changed = replace(changed, static_scales=False)
    return replace(model, weights=changed)


def _gguf(formats: names.Formats, model: Model) -> str:
    """The file format named, or for one that is not in the table the nearest by the file's bits per weight."""
    name = formats.gguf or ""
    if name in GGUF_BITS:
        return name
    bits = float(name[1:2] or 4) + 0.8 if formats.file_bytes is None else formats.file_bytes * 8 / parameters(model)
    return min(GGUF_BITS, key=lambda known: abs(GGUF_BITS[known] - bits))
