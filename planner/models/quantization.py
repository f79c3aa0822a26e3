"""How a checkpoint stores its weights: quantization_config of every common kind, read into one format per role.

A recipe names formats for modules and lists modules that stay in 16 bit. Each role (attention, dense parts, experts,
LM head, MTP) is looked up by the names that its matrices have in checkpoints; where a list covers part of a role the
larger part decides and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from specplan.planner.fact import fact
from specplan.planner.models.architecture import WeightDtypes
from specplan.planner.models.fields import Fields
from specplan.planner.models.module_names import covered_share
from specplan.planner.models.quantization_methods import Recipe, read_recipe

SIXTEEN_BIT = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
ROLES = ("attention", "ffn", "experts", "lm_head")

KV_ALGORITHMS: Mapping[str, str] = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}
EXPERT_DTYPES: Mapping[str, str] = {"fp4": "mxfp4", "fp8": "fp8_block", "bf16": "bf16"}     # DeepSeek-V4


@fact
class Storage:
    """What the reader takes from here."""

    weights: WeightDtypes
    mtp: WeightDtypes
    kv_dtype: str | None
    word: str | None


def read_storage(fields: Fields, layers: int) -> Storage:
    """Formats of weights and cache; 16 bit where the checkpoint says nothing."""
    base = _base(fields)
    plain = WeightDtypes(attention=base, ffn=base, experts=base, lm_head=base, embedding=base)
    part, key = _part(fields)
    if part is None:
        return Storage(weights=plain, mtp=plain, kv_dtype=None, word=None)
    method = str(part.values.get("quant_method") or ("modelopt" if part.values.get("quant_algo") else "")).lower()
    method = method.replace("_", "-") if method.startswith("compressed") else method
    recipe = read_recipe(part, method, layers, key)
    beside = fields.part("_hf_quant_config")
    kv_dtype = _kv(part) or (_kv(beside.part("quantization") or beside) if beside is not None else None)
    if recipe is None:
        return Storage(weights=plain, mtp=plain, kv_dtype=kv_dtype, word=method or None)
    formats = {role: _format(fields, recipe, role, layers, base) for role in ROLES}
    expert = fields.values.get("expert_dtype")
    if expert is not None:
        formats["experts"] = EXPERT_DTYPES.get(str(expert), "")
        if not formats["experts"]:
            fields.fault("expert_dtype", f"unknown format {expert!r}; known are {', '.join(EXPERT_DTYPES)}")
            formats["experts"] = base
    weights = WeightDtypes(**formats, embedding=base, static_scales=recipe.static_scales)
    in_mtp = _format(fields, recipe, "mtp", layers, base) != base
    algorithm = part.values.get("quant_algo")
    return Storage(weights=weights, mtp=weights if in_mtp else plain, kv_dtype=kv_dtype,
                   word=f"{method} {algorithm}" if algorithm else method)


def _base(fields: Fields) -> str:
    name = fields.values.get("torch_dtype") or fields.values.get("dtype")
    if name is None:
        return "bf16"
    found = SIXTEEN_BIT.get(str(name).removeprefix("torch."))
    if found is None:
        fields.fault("torch_dtype" if fields.values.get("torch_dtype") else "dtype", f"unknown format {name!r}")
    return found or "bf16"


def _part(fields: Fields) -> tuple[Fields | None, str]:
    for key in ("quantization_config", "compression_config"):
        if fields.values.get(key):
            return fields.part(key), key
    beside = fields.part("_hf_quant_config")
    if beside is not None and isinstance(beside.values.get("quantization"), Mapping):
        beside = beside.part("quantization")
    if beside is not None and not beside.values.get("quant_algo"):
        beside = None
    if beside is None and isinstance(fields.values.get("quantization"), Mapping):    # Mistral's params.json
        beside = fields.part("quantization")
    return beside, "quantization"


def _kv(part: Fields) -> str | None:
    algorithm = part.values.get("kv_cache_quant_algo")
    if algorithm:
        found = KV_ALGORITHMS.get(str(algorithm))
        if found is None:
            part.fault("kv_cache_quant_algo", f"unknown format {algorithm!r}; known are {', '.join(KV_ALGORITHMS)}")
        return found
    scheme = part.values.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return "int8" if scheme.get("type") == "int" else "fp8"
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 4 and scheme.get("type") == "float":
        return "nvfp4"
    return None


def _format(fields: Fields, recipe: Recipe, role: str, layers: int, base: str) -> str:
    family = fields.family
    ignored = covered_share(recipe.ignored, role, family, layers, ignored=True)
    shares = [(covered_share(targets, role, family, layers), found) for targets, found in recipe.rules]
    best = max(shares, default=(0.0, base), key=lambda share: share[0])
    if role == "lm_head" and not any("lm_head" in targets.patterns for targets, _ in recipe.rules):
        return base     # engines quantise the head only where a recipe names it
    if best[0] == 0.0 or ignored >= 0.5:
        return base
    if ignored > 0.0 or best[0] < 1.0:
        share = min(best[0], 1.0 - ignored)
        fields.note("quantization-mixed", f"{share:.0%} of the {role} matrices are {best[1]}; all are priced as such")
    return best[1]
