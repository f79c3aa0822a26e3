"""TensorRT-LLM's dialect: `speculative_config` in the YAML of `trtllm-serve --config`.

Keys and checks: TensorRT-LLM main (1.4.0rc4), tensorrt_llm/llmapi/llm_args.py (stored copy at 00043967).
`max_draft_len` is D. A key of `draft_len_schedule` is a tier's highest batch since pull request 10860 (March 2026);
before, in the 1.2 line, it was the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from specplan.planner.decide.tier import Tier
from specplan.planner.engines.launch import SPEC, Launch, Setting, at_least, put_mapping, whole, words_to_settings
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, fitted, format_notes, per_rank
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "tensorrt_llm"
NEWEST = "1.4.0rc4"
OLDEST = "1.2"          # draft_len_schedule (pull request 8194, October 2025) and max_draft_len of every decoding_type
UPPER_BOUNDS_SINCE = "1.3"      # draft_len_schedule: keys are highest batches from here on
IMAGE = r"(?:^|/)tensorrt-llm/[a-z-]+(?::v?(?P<version>\d+\.\d+\S*)|[:@]|$)"
MARKERS = ("speculative_config", "decoding_type")

CACHE_FORMATS = {"fp8", "nvfp4"}    # of kv_cache_config.dtype, beside what the checkpoint says

BASE_KEYS = frozenset({
    "decoding_type", "max_draft_len", "max_total_draft_tokens", "speculative_model", "speculative_model_dir",
    "max_concurrency", "draft_len_schedule", "load_format", "acceptance_rate_window_size",
    "acceptance_rate_threshold", "use_rejection_sampling", "allow_advanced_sampling", "advanced_sampling_mode",
    "enable_penalty", "use_sa_spec", "sa_spec_threshold", "sa_config", "acceptance_window",
    "acceptance_length_threshold",
})
TYPES: dict[str, frozenset[str]] = {
    "Eagle3": frozenset({
        "eagle_choices", "greedy_sampling", "posterior_threshold", "use_dynamic_tree", "dynamic_tree_max_topK",
        "num_eagle_layers", "max_non_leaves_per_layer", "eagle3_one_model", "eagle3_layers_to_capture",
        "eagle3_model_arch", "max_batch_size",
    }),
    "MTP": frozenset({
        "use_relaxed_acceptance_for_thinking", "relaxed_topk", "relaxed_delta", "use_mtp_vanilla",
        "mtp_eagle_one_model", "use_dynamic_tree", "dynamic_tree_max_topK", "num_nextn_predict_layers",
        "begin_thinking_phase_token", "end_thinking_phase_token",
    }),
    "NGram": frozenset({"max_matching_ngram_size", "is_keep_all", "is_use_oldest", "is_public_pool"}),
    "Draft_Target": frozenset(),
    "PARD": frozenset({"mask_token_id"}),
    "DFlash": frozenset({"mask_token_id", "target_layer_ids", "attention_backend"}),
    "DSpark": frozenset({
        "mask_token_id", "target_layer_ids", "block_size", "markov_rank", "markov_head_type", "attention_backend",
        "enable_confidence_scheduling", "confidence_cost_table_path", "confidence_min_predicted_gain",
    }),
    "SA": frozenset({"max_matching_ngram_size", "enable_global_pool", "global_pool_size"}),
    "AUTO": frozenset(),
    "User_Provided": frozenset({"drafter", "resource_manager"}),
    "SaveState": frozenset({"output_directory", "write_interval", "file_prefix", "eagle3_layers_to_capture"}),
    "Medusa": frozenset({"medusa_choices", "num_medusa_heads"}),
    "Lookahead": frozenset({"max_window_size", "max_ngram_size", "max_verification_set_size"}),
}
_SPELLINGS = {"eagle": "Eagle3", "drafttarget": "Draft_Target", "draft_target": "Draft_Target"}
_TYPE: dict[Mechanism, str] = {
    "eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram", "draft_model": "Draft_Target", "pard": "PARD",
    "dflash": "DFlash", "dspark": "DSpark", "suffix": "SA",
}
_TOP = {"tensor_parallel_size", "moe_expert_parallel_size", "enable_attention_dp", "kv_cache_config",
        "pipeline_parallel_size", "max_batch_size", "max_seq_len", "cuda_graph_config",
        "max_num_tokens", "disable_overlap_scheduler"}


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after `trtllm-serve` or `trtllm-bench` (their settings are in a YAML file)."""
    for at, word in enumerate(words):
        if word.rsplit("/", 1)[-1] in {"trtllm-serve", "trtllm-bench"}:
            return at + 1
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`."""
    names = {"--tp_size": "tensor_parallel_size", "--max_batch_size": "max_batch_size"}
    for setting in words_to_settings(words, {}):
        launch.put(replace(setting, name=names.get(setting.name.replace("-", "_").replace("__", "--"), setting.name)))


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:
    """Read a `speculative_config` mapping and the settings beside it."""
    for key, child in around.value.items() if around is not None else ():
        if key in _TOP and child.key is not None:
            launch.put(Setting(key, child.key, child))
    put_mapping(launch, node, SPEC)


def decoding_type(launch: Launch) -> str | None:
    """The kind of speculation as the newest release spells it; a word that is none of them is returned as it is."""
    given = launch.text(SPEC + "decoding_type")
    if given is None:
        return None
    return _SPELLINGS.get(given.lower()) or next((name for name in TYPES if name.lower() == given.lower()), given)


def schedule(launch: Launch) -> dict[int, int] | None:
    """`draft_len_schedule` by rising batch, where it is well formed."""
    given = launch.get(SPEC + "draft_len_schedule")
    if not isinstance(given, dict) or not given:
        return None
    pairs = [(whole(key), whole(value)) for key, value in given.items()]
    if any(key is None or value is None for key, value in pairs):
        return None
    return dict(sorted((int(key), int(value)) for key, value in pairs if key is not None and value is not None))


def tiers_of(launch: Launch) -> tuple[Tier, ...] | None:
    """The schedule in the meaning of the release: keys are highest batches, in the 1.2 line lowest ones."""
    pairs = schedule(launch)
    if pairs is None:
        return None
    largest = launch.number("max_batch_size")
    keys = list(pairs)
    if at_least(launch.version, UPPER_BOUNDS_SINCE):
        tiers = [Tier(first + 1, last, pairs[last]) for first, last in zip([0, *keys], keys, strict=False)]
        if largest is not None and largest > keys[-1]:
            tiers.append(Tier(keys[-1] + 1, largest, 0))
        return tuple(tiers)
    ends = [key - 1 for key in keys[1:]] + [max(keys[-1], largest or keys[-1])]
    return tuple(Tier(first, last, pairs[first]) for first, last in zip(keys, ends, strict=True))


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out."""
    kind = decoding_type(launch)
    mechanism = next((key for key, value in _TYPE.items() if value == kind), None)
    draft_len = launch.number(SPEC + "max_draft_len")
    if draft_len is None:
        draft_len = launch.number(SPEC + "num_nextn_predict_layers")
    if mechanism is None or draft_len is None:
        raise InputError("the TensorRT-LLM configuration does not say which kind drafts how many tokens")
    tp, admitted = launch.number("tensor_parallel_size") or 1, launch.number("max_batch_size")
    groups = tp if launch.flag("enable_attention_dp") else 1
    cache = launch.get("kv_cache_config")
    return DraftPlan(
        mechanism=mechanism, draft_len=draft_len,
        drafter_model=launch.text(SPEC + "speculative_model") or launch.text(SPEC + "speculative_model_dir"),
        schedule=tiers_of(launch), max_batch=None if admitted is None else admitted * groups,
        tp=tp, ep=launch.number("moe_expert_parallel_size") or 1, dp_attention=groups,
        kv_dtype=cache.get("dtype") if isinstance(cache, dict) else None, block=launch.number(SPEC + "block_size"),
        sampling="probabilistic" if launch.flag(SPEC + "use_rejection_sampling") else None,
        cost_table=launch.text(SPEC + "confidence_cost_table_path"),
        min_acceptance_rate=launch.get(SPEC + "acceptance_rate_threshold"),
    )


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
    """The part of a plan that the dialect carries, and what is lost, in words."""
    if plan.mechanism not in _TYPE:
        raise InputError(f"TensorRT-LLM {version} has no drafter of the kind '{plan.mechanism}'; "
                         "it knows " + ", ".join(_TYPE))
    notes: list[Note] = []
    lost: dict[str, Any] = {"acceptance_length": None, "target_model": None, "drafter_tp": None,
                            "weights": None}
    if 1 < plan.dp_attention < plan.tp:
        notes.append(Note("dp_attention", f"attention DP here is over all {plan.tp} GPUs or none, not in "
                                          f"{plan.dp_attention} groups: it is left out"))
        plan = replace(plan, dp_attention=1)
    plan = per_rank(plan, "its batches would be those of one rank under attention DP", notes)
    cached = plan.kv_dtype in CACHE_FORMATS
    lost["kv_dtype"] = plan.kv_dtype if cached else None
    notes += format_notes(plan, kv=not cached, parallel=False)
    if plan.target_model is not None:
        notes.append(Note("target", f"the target is not part of the file: trtllm-serve {plan.target_model} --config "
                                    "FILE"))
    if plan.drafter_tp is not None and plan.drafter_tp != plan.tp:
        notes.append(Note("drafter_tp", f"the drafter runs inside the target's engine: TP {plan.drafter_tp} for the "
                                        "drafter alone cannot be set"))
    old = not at_least(version, UPPER_BOUNDS_SINCE)
    if plan.sampling == "greedy" or (plan.sampling and old):
        if plan.sampling == "probabilistic":
            notes.append(Note("sampling", "the 1.2 line verifies by exact match: drafts are greedy"))
        lost["sampling"] = None
    if plan.cost_table is not None and (plan.mechanism != "dspark" or old):
        notes.append(Note("cost_table", "a cost table is read for DSpark in the 1.4 line only; it is left out"))
        lost["cost_table"] = None
    if plan.block is not None and plan.mechanism != "dspark":
        notes.append(Note("block", f"the block ({plan.block}) is read from the drafter's config.json"))
        lost["block"] = None
    if plan.min_acceptance_rate is not None and old:
        notes.append(Note("threshold", "the 1.2 line has acceptance_length_threshold (golden token excluded) instead "
                                       "of a rate; it is left out"))
        lost["min_acceptance_rate"] = None
    if plan.schedule and old:
        lost["max_batch"] = plan.max_batch or plan.schedule[-1].last     # the last tier has no end of its own
    return replace(plan, schedule=_schedule(plan, notes), **lost), tuple(notes)


def _schedule(plan: DraftPlan, notes: list[Note]) -> tuple[Tier, ...] | None:
    """The schedule where it can be written: longest first, ended at the largest batch."""
    schedule = plan.schedule
    if schedule and schedule[0].draft_len != plan.draft_len:
        notes.append(Note("schedule", "the smallest batches must draft max_draft_len, so a schedule that rises later "
                                      f"cannot be written; {plan.draft_len} is used throughout"))
        return None
    if schedule and plan.max_batch is not None:
        schedule = fitted(schedule, plan.max_batch)
        if schedule[-1].last < plan.max_batch:
            schedule = (*schedule, Tier(schedule[-1].last + 1, plan.max_batch, 0))
            notes.append(Note("schedule", "batches above the last tier do not speculate"))
    return schedule


def graph_batches(max_batch: int) -> list[int]:
    """Batches to capture: dense up to `max_batch`, so that no step pads by more than an eighth or 3 sequences.

    TensorRT-LLM's own list ends at 128 (CudaGraphConfig.batch_sizes unset) or goes on in steps of 64 or by doubling.
    """
    dense = [1, 2, 4, *range(8, 64, 4), *range(64, 128, 8), *range(128, 512, 16), *range(512, max_batch, 64)]
    return [*(batch for batch in dense if batch < max_batch), max_batch]


class _OnOneLine(list[int]):
    """A list that the file shows on one line."""


class _Dumper(yaml.SafeDumper):
    """Writes lists of batches on one line."""


_Dumper.add_representer(
    _OnOneLine, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)


def write(plan: DraftPlan, version: str) -> str:
    """The YAML file."""
    assert plan.mechanism is not None
    spec: dict[str, Any] = {"decoding_type": _TYPE[plan.mechanism], "max_draft_len": plan.draft_len}
    if plan.drafter_model is not None:
        spec["speculative_model"] = plan.drafter_model
    if plan.block is not None:
        spec["block_size"] = plan.block
    if plan.cost_table is not None:
        spec |= {"enable_confidence_scheduling": True, "confidence_cost_table_path": plan.cost_table}
    if plan.schedule:
        upper = at_least(version, UPPER_BOUNDS_SINCE)
        spec["draft_len_schedule"] = {tier.last if upper else tier.first: tier.draft_len for tier in plan.schedule}
    if plan.min_acceptance_rate is not None:
        spec |= {"acceptance_rate_window_size": 100, "acceptance_rate_threshold": plan.min_acceptance_rate}
    if plan.sampling == "probabilistic":
        spec["use_rejection_sampling"] = True
    top: dict[str, Any] = {}
    if plan.tp > 1:
        top["tensor_parallel_size"] = plan.tp
    if plan.ep > 1:
        top["moe_expert_parallel_size"] = plan.ep
    if plan.dp_attention > 1:
        top["enable_attention_dp"] = True
    if plan.kv_dtype is not None:
        top["kv_cache_config"] = {"dtype": plan.kv_dtype}
    if plan.max_batch is not None:
        each = plan.max_batch // plan.dp_attention
        top["max_batch_size"] = each
        top["cuda_graph_config"] = {"enable_padding": True, "batch_sizes": _OnOneLine(graph_batches(each))}
    text = yaml.dump(top | {"speculative_config": spec}, Dumper=_Dumper, sort_keys=False, width=120)
    meant = "  draft_len_schedule:\n    # specplan: ignore[SP301] batch 1 has a tier of its own\n    1:"
    return text.replace("  draft_len_schedule:\n    1:", meant) if at_least(version, UPPER_BOUNDS_SINCE) else text
