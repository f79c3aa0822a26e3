"""Quantisation methods: which format a recipe gives to which modules, and which modules it leaves in 16 bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specplan.planner.models.fields import Fields
from specplan.planner.models.module_names import ModuleList, module_list

IGNORE_KEYS = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")

MODELOPT_FORMATS: Mapping[str, str] = {     # quant_algo of modelopt and TensorRT-LLM
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8_block", "FP8_PB_REAL": "fp8_block",
    "FP8_BLOCK_SCALES": "fp8_block", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4_w4a16",
    "NVFP4_W4A16": "nvfp4_w4a16", "W4A16": "w4a16", "W4A16_AWQ": "w4a16", "W4A16_GPTQ": "w4a16", "INT4_AWQ": "w4a16",
    "W4A8_AWQ": "w4a16", "W8A16": "w8a16", "W8A16_GPTQ": "w8a16", "INT8": "int8", "W8A8_SQ_PER_CHANNEL": "int8",
    "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4", "W4A8_MXFP4_MXFP8": "mxfp4", "W4A16_MXFP4": "mxfp4",
}
STATIC_ALGORITHMS = frozenset({"FP8"})      # per-tensor activation scales are in the checkpoint


@dataclass(slots=True)
class Recipe:
    """Formats by module pattern, in order of precedence, and modules left in 16 bit."""

    rules: list[tuple[ModuleList, str]] = field(default_factory=list)
    ignored: ModuleList = field(default_factory=ModuleList)
    static_scales: bool = False


def read_recipe(part: Fields, method: str, layers: int, key: str) -> Recipe | None:
    """The recipe of one quantization_config, None where its method is not known (a fault)."""
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
