"""vLLM's dialect: `vllm serve` flags and the JSON of `--speculative-config`.

Keys and checks: vLLM 0.33.0, vllm/config/speculative.py (stored copy at 002e77c1) and
docs/features/speculative_decoding/*.md. `num_speculative_tokens` is D.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specplan.planner.decide.tier import Tier
from specplan.planner.engines.launch import (
    SPEC,
    Launch,
    Setting,
    at_least,
    expand,
    first_positional,
    put_mapping,
    whole,
    words_to_settings,
)
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, format_notes, online_note, per_rank, without_schedule
from specplan.planner.engines.snippet import command
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "vllm"
NEWEST = "0.33.0"
OLDEST = "0.8.3"        # about where --speculative-config replaced single flags (spring 2025; weak)
IMAGE = r"(?:^|/)vllm(?:-openai)?(?:[-_][a-z0-9]+)*(?::v?(?P<version>\d+\.\d+\S*)|[:@]|$)"
MARKERS = ("--speculative-config", "--speculative_config", "--spec-method", "--spec-tokens", "-sc")

ALIASES = {
    "-sc": "--speculative-config", "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size", "-ep": "--enable-expert-parallel", "-q": "--quantization",
    "-cc": "--compilation-config", "-O": "--compilation-config",
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
}
SWITCHES = frozenset({"--enforce-eager", "--enable-lora", "--trust-remote-code", "--enable-prefix-caching",
                      "--enable-expert-parallel"})
MANY = frozenset({"--cudagraph-capture-sizes"})
DEFAULT_CAPTURE_SIZE = 512      # rows where the list of CUDA graphs ends; 1024 on data-centre Blackwell
SHORTCUTS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}

KEYS = frozenset({      # of --speculative-config
    "method", "model", "num_speculative_tokens", "revision", "code_revision", "quantization", "max_model_len",
    "attention_backend", "moe_backend", "kv_cache_dtype", "enforce_eager", "draft_tensor_parallel_size",
    "tensor_parallel_size", "draft_load_config", "prompt_lookup_max", "prompt_lookup_min",
    "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
    "suffix_decoding_min_token_prob", "suffix_decoding_corpus_tokens", "disable_padded_drafter_batch",
    "use_local_argmax_reduction", "parallel_drafting", "rejection_sample_method", "synthetic_acceptance_rates",
    "synthetic_acceptance_length", "draft_sample_method", "use_heterogeneous_vocab", "draft_lm_head_quantization",
    "dspark_draft_topk", "disable_eagle_block_drop", "index_share_for_mtp_iteration", "fly_window_size",
    "fly_entropy_threshold", "speculative_token_tree", "num_speculative_tokens_per_batch_size",
    "enable_adaptive_verification",
})
NOT_BEFORE = {      # keys that older releases refuse
    "num_speculative_tokens_per_batch_size": "0.22",    # vllm#32374, in review on 25 May 2026; documented in 0.24.0
    "enable_adaptive_verification": "0.25",             # vllm#47808, July 2026; 0.24.0 is of 30 June 2026
}
METHODS = (
    "ngram", "ngram_gpu", "medusa", "mlp_speculator", "draft_model", "suffix", "eagle", "eagle3", "dflash", "dspark",
    "mtp", "extract_hidden_states", "custom_class",
)
MTP_ALIASES = frozenset({      # `--speculative-config` takes them with a deprecation warning
    "deepseek_mtp", "dots3_note_mtp", "mimo_mtp", "mimo_v2_mtp", "glm4_moe_mtp", "glm4_moe_lite_mtp", "glm_ocr_mtp",
    "ernie_mtp", "nemotron_h_mtp", "exaone_moe_mtp", "exaone4_5_mtp", "qwen3_next_mtp", "qwen4_exp_mtp",
    "qwen3_5_mtp", "longcat_flash_mtp", "bailing_hybrid_v3_mtp", "minimax_m3_mtp", "bailing_hybrid_mtp",
    "kimi_k3_mtp", "pangu_ultra_moe_mtp", "step3p5_mtp", "hy_v3_mtp", "hy_v4_mtp", "gemma4_mtp", "inkling_mtp",
    "glm5_next_mtp",
})
_METHOD: dict[Mechanism, dict[str, Any]] = {
    "draft_model": {"method": "draft_model"}, "eagle": {"method": "eagle"}, "eagle3": {"method": "eagle3"},
    "p_eagle": {"method": "eagle3", "parallel_drafting": True},
    "pard": {"method": "draft_model", "parallel_drafting": True},
    "mtp": {"method": "mtp"}, "dflash": {"method": "dflash"}, "dspark": {"method": "dspark"},
    "ngram": {"method": "ngram"}, "suffix": {"method": "suffix"},
}


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after `vllm serve` or the server's module; None where neither is started."""
    for at, word in enumerate(words[:-1]):
        if (word == "vllm" or word.endswith("/vllm")) and words[at + 1] == "serve":
            return at + 2
        if word == "-m" and words[at + 1].startswith("vllm.entrypoints."):
            return at + 2
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`."""
    if words and words[0].value == "serve":     # the rest of `vllm serve`, where the image starts vllm
        words = words[1:]
    for setting in first_positional(words, "--model"):
        launch.put(setting)
    for setting in words_to_settings(words, ALIASES, SWITCHES, MANY):
        _put(launch, setting)
    _expand(launch)


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:
    """Read a `speculative_config` mapping, or a whole configuration file when `around` holds its other keys."""
    put_mapping(launch, node, SPEC)
    for key, child in around.value.items() if around is not None else ():
        if child is not node and child.key is not None:
            name = "--" + key.lstrip("-").replace("_", "-")
            _put(launch, Setting(ALIASES.get(name, name), child.key, child))
    _expand(launch)


def _put(launch: Launch, setting: Setting) -> None:
    head, dot, tail = setting.name.partition(".")
    if setting.name in SHORTCUTS:
        setting = replace(setting, name=SPEC + SHORTCUTS[setting.name])
    elif dot and head == "--speculative-config":
        setting = replace(setting, name=SPEC + tail)
    elif dot and head == "--compilation-config":
        setting = replace(setting, name="compilation_config." + tail)
    launch.put(setting)


def _expand(launch: Launch) -> None:
    expand(launch, "--speculative-config", SPEC)
    expand(launch, "--compilation-config", "compilation_config.")


def method(launch: Launch) -> str | None:
    """The method, with aliases resolved as vLLM does; None where a model's files decide or it is not known."""
    given = launch.text(SPEC + "method")
    if given in MTP_ALIASES:
        return "mtp"
    if given is None and launch.get(SPEC + "model") in {"ngram", "[ngram]"}:
        return "ngram"
    return given


def capture_sizes(launch: Launch) -> list[int] | None:
    """Token counts whose step is captured as a CUDA graph, where the configuration lists them."""
    for name in ("compilation_config.cudagraph_capture_sizes", "--cudagraph-capture-sizes"):
        sizes = launch.get(name)
        if isinstance(sizes, list) and all(whole(size) is not None for size in sizes):
            return [int(size) for size in sizes]
    return None


def schedule(launch: Launch) -> tuple[Tier, ...] | None:
    """The batch schedule where it is well formed: triples of whole numbers."""
    entries = launch.get(SPEC + "num_speculative_tokens_per_batch_size")
    if not isinstance(entries, list) or not entries:
        return None
    if not all(isinstance(row, list) and len(row) == 3 and None not in map(whole, row) for row in entries):
        return None
    return tuple(Tier(*(int(number) for number in row)) for row in entries)


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out."""
    name, parallel = method(launch), launch.flag(SPEC + "parallel_drafting")
    mechanism = next((key for key, keys in _METHOD.items()
                      if keys["method"] == name and bool(keys.get("parallel_drafting")) == parallel), None)
    draft_len = launch.number(SPEC + "num_speculative_tokens")
    if mechanism is None or draft_len is None:
        raise InputError("the vLLM configuration does not say which method drafts how many tokens")
    groups, admitted = launch.number("--data-parallel-size") or 1, launch.number("--max-num-seqs")
    tp = (launch.number("--tensor-parallel-size") or 1) * groups
    return DraftPlan(
        mechanism=mechanism, draft_len=draft_len, drafter_model=launch.text(SPEC + "model"),
        target_model=launch.text("--model"), schedule=schedule(launch),
        max_batch=None if admitted is None else admitted * groups,
        tp=tp, ep=tp if launch.flag("--enable-expert-parallel") else 1, dp_attention=groups,
        weights=launch.text("--quantization"), kv_dtype=launch.text("--kv-cache-dtype"),
        drafter_tp=launch.number(SPEC + "draft_tensor_parallel_size"),
        sampling=launch.get(SPEC + "draft_sample_method"),
    )


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
    """The part of a plan that the dialect carries, and what is lost, in words."""
    notes: list[Note] = []
    since = NOT_BEFORE["num_speculative_tokens_per_batch_size"]
    if not at_least(version, since):
        plan = without_schedule(plan, f"vLLM {version} does not have num_speculative_tokens_per_batch_size yet, which "
                                      f"is there since {since}", notes)
    plan = per_rank(plan, "vLLM switches it off under data parallelism", notes)
    if plan.dp_attention > 1 and plan.drafter_tp not in {None, 1}:      # the drafter lies in one group, as the target
        if plan.drafter_tp != plan.tp:
            notes.append(Note("drafter_tp", f"the drafter runs on one GPU of a group or on all of them, not on "
                                            f"{plan.drafter_tp}"))
        plan = replace(plan, drafter_tp=None)
    online = plan.weights == "fp8"
    notes += format_notes(plan, weights=not online, kv=plan.kv_dtype != "fp8", parallel=False)
    if online:
        notes.append(online_note("fp8"))
    if 1 < plan.ep < plan.tp:
        notes.append(Note("ep", f"vLLM spreads experts over all {plan.tp} GPUs or none, not over {plan.ep}"))
    if plan.block is not None:
        notes.append(Note("block", f"vLLM reads the block ({plan.block}) from the drafter's config.json"))
    if plan.min_acceptance_rate is not None:
        notes.append(Note("threshold", "vLLM has no acceptance rate below which it stops drafting; watch for "
                                       f"{plan.min_acceptance_rate:g} yourself"))
    if plan.cost_table is not None:
        notes.append(Note("cost_table", "vLLM profiles step costs itself at start-up (enable_adaptive_verification)"))
    if plan.schedule and any(tier.draft_len == 0 for tier in plan.schedule):
        notes.append(Note("k0", "a tier of 0 still pays for the loaded drafter (up to 21.6 % on the V1 runner, "
                                "vllm-project/vllm#52087); a server without drafter is faster there"))
    if plan.schedule:
        notes.append(Note("runner", "full CUDA graphs under a schedule need Model Runner V2; off with data "
                                    "parallelism"))
    return replace(plan, weights="fp8" if online else None, kv_dtype="fp8" if plan.kv_dtype == "fp8" else None,
                   ep=plan.tp if plan.ep > 1 else 1, block=None, cost_table=None, min_acceptance_rate=None,
                   acceptance_length=None), tuple(notes)


def max_capture_size(plan: DraftPlan) -> int | None:
    """Where vLLM's own list of graph sizes must end to reach the largest step; None where its default does.

    The list is dense: multiples of 8, from 256 of 16, up to `max_cudagraph_capture_size` (512 by default). Each is
    rounded up to a multiple of 1 + D, and those above the end are dropped (vllm/config/vllm.py and compilation.py).
    """
    if plan.max_batch is not None and plan.dp_attention > 1:
        plan = replace(plan, max_batch=plan.max_batch // plan.dp_attention, dp_attention=1)
    rows, multiple = plan.largest_step_rows, plan.draft_len + 1
    if rows is None:
        return None
    size = _rounded_up(_rounded_up(rows, 16 if rows > 256 else 8), multiple)
    return None if size <= DEFAULT_CAPTURE_SIZE else size


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The command line (without a target: the flags alone)."""
    assert plan.mechanism is not None
    spec: dict[str, Any] = dict(_METHOD[plan.mechanism])
    if plan.drafter_model is not None:
        spec["model"] = plan.drafter_model
    spec["num_speculative_tokens"] = plan.draft_len
    if plan.schedule:
        spec["num_speculative_tokens_per_batch_size"] = [list(tier) for tier in plan.schedule]
    if plan.drafter_tp is not None:
        spec["draft_tensor_parallel_size"] = plan.drafter_tp
    if plan.sampling is not None:
        spec["draft_sample_method"] = plan.sampling
    flags: list[tuple[str, ...]] = []
    groups = plan.dp_attention      # vLLM's TP is that of one group; experts, where spread, go over TP x DP GPUs
    if plan.tp > groups:
        flags.append(("--tensor-parallel-size", str(plan.tp // groups)))
    if groups > 1:
        flags.append(("--data-parallel-size", str(groups)))
    if plan.ep > 1:
        flags.append(("--enable-expert-parallel",))
    if plan.weights is not None:
        flags.append(("--quantization", plan.weights))
    if plan.kv_dtype is not None:
        flags.append(("--kv-cache-dtype", plan.kv_dtype))
    if plan.max_batch is not None:
        flags.append(("--max-num-seqs", str(plan.max_batch // groups)))
    flags.append(("--speculative-config", json.dumps(spec)))
    size = max_capture_size(plan)
    if size is not None:
        flags.append(("--compilation-config", json.dumps({"max_cudagraph_capture_size": size})))
    return command(("vllm", "serve", plan.target_model) if plan.target_model else (), flags)
