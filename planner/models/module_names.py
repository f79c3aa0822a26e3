"""Lists of module names in quantisation recipes, and which share of a role's matrices they cover."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from specplan.planner.models.fields import Fields

# Names that the matrices of a role have in checkpoints, without the model's prefix, by family; N is a layer, L one
# beyond the last.
_SELF = ("layers.N.self_attn.q_proj", "layers.N.self_attn.k_proj", "layers.N.self_attn.v_proj",
         "layers.N.self_attn.o_proj")
_LINEAR = ("layers.N.linear_attn.in_proj_qkv", "layers.N.linear_attn.in_proj_z", "layers.N.linear_attn.out_proj")
_MLP = ("layers.N.mlp.gate_proj", "layers.N.mlp.up_proj", "layers.N.mlp.down_proj")
_EXPERTS = ("layers.N.mlp.experts.0.gate_proj", "layers.N.mlp.experts.0.up_proj", "layers.N.mlp.experts.0.down_proj")
_SHARED = ("layers.N.mlp.shared_experts.gate_proj", "layers.N.mlp.shared_experts.up_proj",
           "layers.N.mlp.shared_experts.down_proj")
_SHARED_ONE = ("layers.N.mlp.shared_expert.gate_proj", "layers.N.mlp.shared_expert.up_proj",
               "layers.N.mlp.shared_expert.down_proj")
_BLOCK_EXPERTS = ("layers.N.block_sparse_moe.experts.0.w1", "layers.N.block_sparse_moe.experts.0.w2")
_PLAIN = {"attention": _SELF, "ffn": _MLP, "experts": _EXPERTS, "lm_head": ("lm_head",),
          "mtp": ("mtp.layers.0.self_attn.q_proj",)}
NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": _PLAIN,
    "deepseek": {**_PLAIN, "ffn": _SHARED, "mtp": ("layers.L.self_attn.q_proj",)},
    "kimi": {**_PLAIN, "ffn": _SHARED},
    "glm": {**_PLAIN, "ffn": _SHARED, "mtp": ("layers.L.self_attn.q_proj",)},
    "qwen3_5": {**_PLAIN, "attention": _SELF + _LINEAR},
    "qwen3_5_moe": {**_PLAIN, "attention": _SELF + _LINEAR, "ffn": _SHARED_ONE},
    "qwen3_next": {**_PLAIN, "attention": _SELF + _LINEAR, "ffn": _SHARED_ONE},
    "gemma4": {**_PLAIN, "experts": ("layers.N.experts.0.gate_proj", "layers.N.experts.0.down_proj")},
    "mixtral": {**_PLAIN, "experts": _BLOCK_EXPERTS},
    "minimax": {**_PLAIN, "experts": _BLOCK_EXPERTS},
    "nemotron_h": {
        "attention": ("layers.N.mixer.in_proj", "layers.N.mixer.out_proj"),
        "ffn": ("layers.N.mixer.shared_experts.up_proj", "layers.N.mixer.shared_experts.down_proj"),
        "experts": ("layers.N.mixer.experts.0.up_proj", "layers.N.mixer.experts.0.down_proj"),
        "lm_head": ("lm_head",), "mtp": ("mtp.layers.0.mixer.q_proj",),
    },
}
PREFIXES = re.compile(r"^(model|language_model|backbone|transformer)\.")
LINEAR = "Linear"   # compressed-tensors: every linear layer


@dataclass(slots=True)
class ModuleList:
    """Patterns of module names, and of a shortened list how many entries per layer are not shown."""

    patterns: list[str] = field(default_factory=list)
    shortened: bool = False
    hidden_per_layer: int = 0

    @classmethod
    def every_layer(cls) -> ModuleList:
        """Everything that is a linear layer."""
        return cls([LINEAR])


def module_list(part: Fields, key: str, layers: int) -> ModuleList | None:
    """The list under `key`; None where absent. Lists that a copy has shortened keep a count and the first entries."""
    value = part.values.get(key)
    count, first = part.values.get(f"{key}_count"), part.values.get(f"{key}_first")
    if isinstance(value, Mapping) and "first" in value:
        count, first = value.get("count"), value["first"]
        value = None
    if value is None and first is None:
        return None
    if value is None:
        return _shortened(part, key, first, count, layers)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        part.fault(key, "is not a list of module names")
        return None
    return _checked(part, key, ModuleList(value))


def _shortened(part: Fields, key: str, first: object, count: object, layers: int) -> ModuleList | None:
    if not isinstance(first, list) or not all(isinstance(item, str) for item in first):
        part.fault(f"{key}_first", "is not a list of module names")
        return None
    total = count if isinstance(count, int) and not isinstance(count, bool) else len(first)
    # what is shown of one layer holds for the others
    shown = list(dict.fromkeys(re.sub(r"\blayers\.\d+\.", "layers.*.", item) for item in first))
    per_layer = [name for name in shown if ".*." in name]
    found = ModuleList(shown)
    if total > len(first):
        found.shortened = True
        found.hidden_per_layer = max(0, total // layers - len(per_layer))
        part.note("quantization-list-shortened", "module lists are shortened in this copy of the configuration: "
                                                 "formats are inferred from the names shown and their number")
    return _checked(part, key, found)


def _checked(part: Fields, key: str, found: ModuleList) -> ModuleList:
    for pattern in found.patterns:
        if pattern.startswith("re:"):
            try:
                re.compile(pattern[3:])
            except (re.error, OverflowError, RecursionError) as error:
                part.fault(key, f"{pattern!r} is not a regular expression: {error}")
                found.patterns = [kept for kept in found.patterns if kept != pattern]
    return found


def covered_share(modules: ModuleList, role: str, family: str, layers: int, *, ignored: bool = False) -> float:
    """Share of a role's matrices that the list covers, 0 to 1.

    A shortened list of targets that shows one matrix of a block has the block's others, too. Of a shortened list of
    modules left in 16 bit, hidden entries for every layer are attention and MTP first, then dense parts and shared
    experts, as in published recipes.
    """
    needed = {"attention": 1, "mtp": 1, "ffn": 2}.get(role)
    if ignored and needed is not None and modules.hidden_per_layer >= needed:
        return 1.0
    patterns = list(modules.patterns)
    if modules.shortened and not ignored:
        patterns += [name.rpartition(".")[0] for name in patterns if "." in name.partition(".*.")[2]]
    probes = [
        name.replace(".N.", f".{max(0, layers - 2)}.").replace("layers.L.", f"layers.{layers}.")
        for name in _names(family)[role]
    ]
    hits = sum(any(_matches(pattern, probe) for pattern in patterns) for probe in probes)
    if modules.shortened and not ignored and hits:
        return 1.0
    return hits / len(probes)


def _names(family: str) -> Mapping[str, tuple[str, ...]]:
    longest = max((name for name in NAMES if family.startswith(name)), key=len)
    return NAMES[longest]


def _matches(pattern: str, name: str) -> bool:
    if pattern == LINEAR:
        return name != "lm_head"
    if pattern.startswith("re:"):
        expression = re.compile(pattern[3:])
        return any(expression.match(prefix + name) for prefix in ("", "model.", "language_model.model."))
    bare = _bare(pattern)
    if "*" in bare or "?" in bare:
        return fnmatch.fnmatchcase(name, bare) or fnmatch.fnmatchcase(name, f"{bare}.*")
    return f".{bare}." in f".{name}."


@cache
def _bare(pattern: str) -> str:
    while PREFIXES.match(pattern):
        pattern = PREFIXES.sub("", pattern)
    return pattern
