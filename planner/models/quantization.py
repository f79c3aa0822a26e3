"""How a checkpoint stores its weights: quantization_config of every common kind, read into one format per role.

A recipe names formats for modules and lists modules that stay in 16 bit. Each role (attention, dense parts, experts,
LM head, MTP) is looked up by the names that its matrices have in checkpoints; where a list covers part of a role the
larger part decides and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specplan.planner.models.architecture import WeightDtypes
from specplan.planner.models.fields import Fields
from specplan.planner.models.module_names import ModuleList, covered_share, module_list

SIXTEEN_BIT = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
ROLES = ("attention", "ffn", "experts", "lm_head")
IGNORE_KEYS = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")

MODELOPT_FORMATS: Mapping[str, str] = {     # quant_algo of modelopt and TensorRT-LLM
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8_block", "FP8_PB_REAL": "fp8_block",
    "FP8_BLOCK_SCALES": "fp8_block", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4_w4a16",
    "NVFP4_W4A16": "nvfp4_w4a16", "W4A16": "w4a16", "W4A16_AWQ": "w4a16", "W4A16_GPTQ": "w4a16", "INT4_AWQ": "w4a16",
    "W4A8_AWQ": "w4a16", "W8A16": "w8a16", "W8A16_GPTQ": "w8a16", "INT8": "int8", "W8A8_SQ_PER_CHANNEL": "int8",
    "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4", "W4A8_MXFP4_MXFP8": "mxfp4", "W4A16_MXFP4": "mxfp4",
}
STATIC_ALGORITHMS = frozenset({"FP8"})      # per-tensor activation scales are in the checkpoint
KV_ALGORITHMS: Mapping[str, str] = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}
EXPERT_DTYPES: Mapping[str, str] = {"fp4": "mxfp4", "fp8": "fp8_block", "bf16": "bf16"}     # DeepSeek-V4


@dataclass(slots=True)
class Recipe:
    """Formats by module pattern, in order of precedence, and modules left in 16 bit."""

    rules: list[tuple[ModuleList, str]] = field(default_factory=list)
    ignored: ModuleList = field(default_factory=ModuleList)
    static_scales: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
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
    recipe = _recipe(part, method, layers, key)
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


def _recipe(part: Fields, method: str, layers: int, key: str) -> Recipe | None:
    values = part.values
    if method == "mxfp4":   # the method converts experts and nothing else
        return Recipe(rules=[(ModuleList(["experts"]), "mxfp4")])
    recipe = Recipe(ignored=_ignored(part, layers))
    if method == "compressed-tensors":
        return _config_groups(part, recipe, layers)
    if method.startswith("modelopt"):
        return _modelopt(part, recipe, layers)
    if method in ("fp8", "fbgemm_fp8"):
        recipe.rules.append((ModuleList.every_layer(), "fp8_block" if values.get("weight_block_size") else "fp8"))
        recipe.static_scales = values.get("activation_scheme") == "static"
    elif method in ("gptq", "awq", "auto-round", "autoround", "intel/auto-round", "gptq_marlin", "awq_marlin"):
        recipe.rules.append((ModuleList.every_layer(), _integer_format(part)))
    elif method == "bitsandbytes":
        recipe.rules.append((ModuleList.every_layer(), "w4a16" if values.get("load_in_4bit") else "w8a16"))
    elif values.get("qformat_weight") == "fp8_e4m3":    # Mistral: scales are per tensor and static unless it says none
        recipe.rules.append((ModuleList.every_layer(), "fp8"))
        recipe.static_scales = values.get("qscheme_act") != "NO_SCALES"
    else:
        part.fault("quant_method" if key != "quantization" else "quant_algo", f"unknown method {method!r}; known are "
                   "fp8, mxfp4, compressed-tensors, modelopt, gptq, awq, auto-round, bitsandbytes")
        return None
    return recipe


def _ignored(part: Fields, layers: int) -> ModuleList:
    for key in IGNORE_KEYS:
        found = module_list(part, key, layers)
        if found is not None:
            return found
    return ModuleList()


def _integer_format(part: Fields) -> str:
    bits = part.values.get("bits", part.values.get("w_bit", 4))
    group = part.values.get("group_size", 128)
    if bits == 8:
        return "w8a16"
    if bits != 4:
        part.fault("bits", f"{bits!r} is not 4 or 8")
    return "w4a16_g32" if group == 32 else "w4a16"


def _config_groups(part: Fields, recipe: Recipe, layers: int) -> Recipe:
    """compressed-tensors, and modelopt's copy of it: groups of targets with bits, type and group size."""
    groups = part.part("config_groups")
    if groups is None:
        part.fault("config_groups", "missing")
        return recipe
    for name in groups.values:
        group = groups.part(name)
        if group is None:
            continue
        found = _group_format(group)
        targets = module_list(group, "targets", layers) or ModuleList.every_layer()
        recipe.rules.append((targets, found))
        inputs = group.values.get("input_activations")
        eight = isinstance(inputs, Mapping) and inputs.get("num_bits") == 8
        if found in ("fp8", "int8") and eight and isinstance(inputs, Mapping) and inputs.get("dynamic") is False:
            recipe.static_scales = True
    return recipe


def _group_format(group: Fields) -> str:
    weights = group.part("weights")
    if weights is None:
        group.fault("weights", "missing")
        return "bf16"
    bits, kind, size = (weights.values.get(key) for key in ("num_bits", "type", "group_size"))
    inputs = group.values.get("input_activations")
    acts = inputs.get("num_bits") if isinstance(inputs, Mapping) else None
    if (bits, kind) == (4, "float"):
        if size == 32:
            return "mxfp4"
        return "nvfp4" if acts is not None else "nvfp4_w4a16"
    if (bits, kind) == (4, "int"):
        return "w4a16_g32" if size == 32 else "w4a16"
    if bits == 8 and kind in ("int", "float"):
        if acts is None:
            return "w8a16"
        if kind == "int":
            return "int8"
        return "fp8_block" if weights.values.get("strategy") == "block" else "fp8"
    weights.fault("num_bits", f"{bits!r} bits of type {kind!r} are not known")
    return "bf16"


def _modelopt(part: Fields, recipe: Recipe, layers: int) -> Recipe:
    algorithm = str(part.values.get("quant_algo") or "")
    if algorithm in ("MIXED_PRECISION", ""):
        if part.values.get("config_groups") is not None:
            return _config_groups(part, recipe, layers)
        return _quantized_layers(part, recipe, layers)
    known = MODELOPT_FORMATS.get(algorithm)
    if known is None:
        part.fault("quant_algo", f"unknown algorithm {algorithm!r}; known are {', '.join(MODELOPT_FORMATS)}")
        return recipe
    recipe.rules.append((ModuleList.every_layer(), known))
    recipe.static_scales = algorithm in STATIC_ALGORITHMS
    return recipe


def _quantized_layers(part: Fields, recipe: Recipe, layers: int) -> Recipe:
    """A format for each module by name; a shortened list names modules only."""
    named = part.values.get("quantized_layers")
    if isinstance(named, Mapping):
        by_format: dict[str, list[str]] = {}
        for module, entry in named.items():
            algorithm = str(entry.get("quant_algo")) if isinstance(entry, Mapping) else ""
            if algorithm not in MODELOPT_FORMATS:
                part.fault(("quantized_layers", module), f"unknown algorithm {algorithm!r}")
                continue
            by_format.setdefault(MODELOPT_FORMATS[algorithm], []).append(module)
        recipe.rules += [(ModuleList(modules), found) for found, modules in by_format.items()]
        recipe.static_scales = "fp8" in by_format
        return recipe
    shown = module_list(part, "quantized_layers", layers)
    if shown is None:
        part.fault("quant_algo", "mixed precision without config_groups or quantized_layers")
        return recipe
    part.note("quantization-assumed", "mixed precision without formats by module: routed experts taken as nvfp4, the "
                                      "other listed modules as fp8 with static scales")
    recipe.rules += [(ModuleList(["experts"]), "nvfp4"), (shown, "fp8")]
    recipe.static_scales = True
    return recipe


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
