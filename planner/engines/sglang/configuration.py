"""SGLang's dialect: `--speculative-*` flags of the server, and the adaptive JSON file.

Flags and checks: SGLang 0.5.23, python/sglang/srt/arg_groups/fields/spec.py, speculative_hook.py and
speculative/adaptive_spec_params.py. `--speculative-num-steps` is D; `--speculative-num-draft-tokens` is the verify
width, D + 1; a DFLASH block counts the anchor (D + 1), a DSPARK block does not (D).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specplan.planner.decide.tier import Tier
from specplan.planner.engines.launch import Launch, Setting, at_least, put_mapping, words_to_settings
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, fitted, format_notes, in_words, online_note, without_schedule
from specplan.planner.engines.snippet import command, heredoc
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "sglang"
NEWEST = "0.5.23"
OLDEST = None
IMAGE = r"(?:^|/)sglang(?::v?(?P<version>\d+\.\d+\S*)|[:@]|$)"
MARKERS = ("--speculative-algorithm", "--speculative_algorithm", "--speculative-num-steps", "--speculative-eagle-topk")
WITHOUT_DP_ATTENTION = frozenset({"STANDALONE", "NGRAM", "DFLASH"})
FP8_CACHE = "fp8_e4m3"      # the finer of the two FP8 formats of --kv-cache-dtype
ADAPTIVE_FILE = "adaptive_spec.json"
ADAPTIVE = "adaptive."      # prefix of the settings read from the adaptive JSON

ALIASES = {
    "--tp": "--tp-size", "--tensor-parallel-size": "--tp-size", "--pp": "--pp-size", "--dp": "--dp-size",
    "--pipeline-parallel-size": "--pp-size", "--ep": "--ep-size", "--expert-parallel-size": "--ep-size",
    "--data-parallel-size": "--dp-size", "--model": "--model-path",
    "--speculative-draft-model": "--speculative-draft-model-path", "--attention-backend": "--attention-backend",
    "--cuda-graph-max-bs-decode": "--cuda-graph-max-bs", "--cuda-graph-bs-decode": "--cuda-graph-bs",
}
SWITCHES = frozenset({
    "--disable-cuda-graph", "--enable-dp-attention", "--trust-remote-code", "--speculative-adaptive",
    "--speculative-use-rejection-sampling", "--speculative-use-block-verification", "--enable-multi-layer-eagle",
    "--disable-overlap-schedule", "--speculative-skip-dp-mlp-sync", "--enable-dp-lm-head",
    "--speculative-dspark-align-verify-tokens-to-graph-tier",
})
MANY = frozenset({"--cuda-graph-bs"})
FLAGS = frozenset({
    "--speculative-" + name for name in (
        "algorithm", "draft-model-path", "draft-model-revision", "draft-load-format", "num-steps", "eagle-topk",
        "num-draft-tokens", "dflash-block-size", "domino-candidate-pool-size", "dspark-block-size",
        "dspark-sps-table-path", "dspark-confidence-sts-path", "dspark-align-verify-tokens-to-graph-tier",
        "accept-threshold-single",
        "accept-threshold-acc", "use-rejection-sampling", "use-block-verification", "token-map", "attention-mode",
        "draft-attention-backend", "dsa-topk-backend", "draft-kv-cache-dtype", "draft-window-size",
        "draft-sink-size", "moe-runner-backend", "moe-a2a-backend", "enable-w4a4-mxfp4-megamoe",
        "draft-model-quantization", "adaptive", "adaptive-config", "ngram-min-bfs-breadth",
        "ngram-max-bfs-breadth", "ngram-match-type", "ngram-max-trie-depth", "ngram-capacity",
        "ngram-external-corpus-path", "ngram-external-sam-budget", "ngram-external-corpus-max-tokens",
    )
})
NOT_BEFORE = {      # flags that older releases refuse
    "--speculative-adaptive": "0.5.10",     # sglang#21599, merged by 20 April 2026 (release: weak)
    "--speculative-adaptive-config": "0.5.10",
}
REMOVED = {     # flags of releases before 0.5.23, which has none of them: successor, and what else there is to know
    "--speculative-dflash-draft-window-size": ("--speculative-draft-window-size", ""),
    "--speculative-ngram-branch-length": ("--speculative-ngram-max-trie-depth", ""),
    "--speculative-ngram-min-match-window-size": ("", "; all suffixes up to --speculative-ngram-max-trie-depth match"),
    "--speculative-ngram-max-match-window-size": ("", "; all suffixes up to --speculative-ngram-max-trie-depth match"),
    "--speculative-dspark-confidence-threshold": ("", "; profiled costs decide: --speculative-dspark-sps-table-path"),
    "--speculative-skip-dp-mlp-sync": ("", ""),
}
ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO",
              "FROZEN_KV_MTP")
ADAPTIVE_KEYS = ("candidate_steps", "up_hysteresis", "down_hysteresis", "ceiling_coeff")
ADAPTIVE_GLOBAL = ("ema_alpha", "update_interval", "warmup_batches", "strategy", *ADAPTIVE_KEYS)
_ALGORITHM: dict[Mechanism, str] = {
    "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "draft_model": "STANDALONE", "ngram": "NGRAM",
    "dflash": "DFLASH", "dspark": "DSPARK",
}
_CHAINS = frozenset({"eagle", "eagle3", "mtp", "draft_model"})


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after `sglang.launch_server` or `sglang serve`."""
    for at, word in enumerate(words):
        if word in {"sglang.launch_server", "sglang.srt.entrypoints.http_server"}:
            return at + 1
        if (word == "sglang" or word.endswith("/sglang")) and words[at + 1:at + 2] == ["serve"]:
            return at + 2
        if word.endswith("sglang/launch_server.py"):
            return at + 1
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`."""
    for setting in words_to_settings(words, ALIASES, SWITCHES, MANY):
        launch.put(setting)


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:  # noqa: ARG001
    """Read a `--config` YAML file, whose keys are the flags, or an adaptive JSON file."""
    if is_adaptive(node):
        put_mapping(launch, node, ADAPTIVE)
        return
    for key, child in node.value.items():
        if child.key is not None:
            name = "--" + key.lstrip("-").replace("_", "-")
            launch.put(Setting(ALIASES.get(name, name), child.key, child))


def is_adaptive(node: Node) -> bool:
    """True for the mapping of an adaptive JSON file, old form or new."""
    if not isinstance(node.value, dict):
        return False
    slots = [child for key, child in node.value.items() if key.isdigit()]
    return "candidate_steps" in node.value or any(child.get("candidate_steps") is not None for child in slots)


def algorithm(launch: Launch) -> str | None:
    """The algorithm in capitals, as SGLang reads it."""
    given = launch.text("--speculative-algorithm")
    return given.upper() if given else None


def draft_len(launch: Launch) -> int | None:
    """D of a configuration, None where SGLang would choose it."""
    name = algorithm(launch)
    width = launch.number("--speculative-num-draft-tokens")
    if name == "DSPARK" and (block := launch.number("--speculative-dspark-block-size")) is not None:
        return block
    if name == "DFLASH":
        width = launch.number("--speculative-dflash-block-size") or width
    if name in {"DFLASH", "DSPARK", "NGRAM"}:
        return None if width is None else width - 1
    return launch.number("--speculative-num-steps")


def tiers_of(launch: Launch) -> tuple[Tier, ...] | None:
    """The schedule of an adaptive configuration with one candidate per batch range; None where it adapts."""
    starts = sorted((int(name[len(ADAPTIVE):]), setting) for name, setting in launch.settings.items()
                    if name.startswith(ADAPTIVE) and name[len(ADAPTIVE):].isdigit())
    last = launch.number("--max-running-requests")
    tiers = []
    for number, (first, setting) in enumerate(starts):
        steps = setting.value.get("candidate_steps") if isinstance(setting.value, dict) else None
        if not isinstance(steps, list) or len(steps) != 1 or not isinstance(steps[0], int):
            return None
        end = starts[number + 1][0] - 1 if number + 1 < len(starts) else max(first, last or first)
        tiers.append(Tier(first, end, steps[0]))
    return tuple(tiers) or None


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out."""
    name, drafted = algorithm(launch), draft_len(launch)
    drafter = launch.text("--speculative-draft-model-path")
    if name == "FROZEN_KV_MTP" or (name == "EAGLE" and drafter is None):
        name = "NEXTN"
    mechanism = next((key for key, value in _ALGORITHM.items() if value == name), None)
    if mechanism is None or drafted is None:
        raise InputError("the SGLang configuration does not say which algorithm drafts how many tokens")
    schedule = tiers_of(launch)
    block = {"DFLASH": drafted + 1, "DSPARK": launch.number("--speculative-dspark-block-size")}.get(name or "")
    return DraftPlan(
        mechanism=mechanism, draft_len=max(tier.draft_len for tier in schedule) if schedule else drafted,
        drafter_model=drafter, target_model=launch.text("--model-path"), schedule=schedule,
        max_batch=launch.number("--max-running-requests"),
        cost_table=launch.text("--speculative-dspark-sps-table-path"), tp=launch.number("--tp-size") or 1, block=block,
        ep=launch.number("--ep-size") or 1, weights=launch.text("--quantization"),
        dp_attention=launch.number("--dp-size") or 1 if launch.flag("--enable-dp-attention") else 1,
        kv_dtype="fp8" if launch.get("--kv-cache-dtype") == FP8_CACHE else None,
        sampling="probabilistic" if launch.flag("--speculative-use-rejection-sampling") else None,
    )


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
    """The part of a plan that the dialect carries, and what is lost, in words."""
    notes: list[Note] = []
    since = NOT_BEFORE["--speculative-adaptive"]
    if not at_least(version, since):
        plan = without_schedule(plan, f"SGLang {version} does not have --speculative-adaptive yet, which is there "
                                      f"since {since}", notes)
    if plan.mechanism not in _ALGORITHM:
        raise InputError(f"SGLang {version} has no drafter of the kind '{plan.mechanism}'; "
                         "it knows " + ", ".join(_ALGORITHM))
    lost: dict[str, Any] = {"min_acceptance_rate": None, "acceptance_length": None, "drafter_tp": None}
    if plan.dp_attention > 1 and _ALGORITHM[plan.mechanism] in WITHOUT_DP_ATTENTION:
        notes.append(Note("dp_attention", f"SGLang refuses {_ALGORITHM[plan.mechanism]} under DP attention: the "
                                          f"{plan.dp_attention} groups are left out"))
        plan = replace(plan, dp_attention=1)
    online, cached = plan.weights == "fp8", plan.kv_dtype == "fp8"
    lost |= {"weights": "fp8" if online else None, "kv_dtype": "fp8" if cached else None}
    notes += format_notes(plan, weights=not online, kv=not cached, parallel=False)
    if online:
        notes.append(online_note("fp8"))
    if plan.drafter_tp is not None and plan.drafter_tp != plan.tp:
        notes.append(Note("drafter_tp", f"SGLang shards the drafter like the target: TP {plan.drafter_tp} for the "
                                        "drafter alone cannot be set"))
    if plan.min_acceptance_rate is not None:
        notes.append(Note("threshold", "SGLang has no acceptance rate below which it stops drafting"))
    if plan.sampling == "greedy" or (plan.sampling and plan.mechanism not in {"eagle", "eagle3", "mtp", "dspark"}):
        if plan.sampling == "probabilistic":
            notes.append(Note("sampling", f"SGLang draws drafts greedily for {plan.mechanism}"))
        lost["sampling"] = None
    schedule, max_batch = _schedule(plan, notes)
    block = _block(plan, notes)
    if plan.cost_table is not None:
        if plan.mechanism == "dspark":
            notes.append(Note("cost_table", "the cost table is read under SGLANG_RAGGED_VERIFY_MODE=compact only"))
        else:
            lost["cost_table"] = None
    drafted = max(tier.draft_len for tier in schedule) if schedule else plan.draft_len
    return replace(plan, schedule=schedule, draft_len=drafted, max_batch=max_batch, block=block,
                   **lost), tuple(notes)


def _block(plan: DraftPlan, notes: list[Note]) -> int | None:
    """The block that the flags state: DFLASH with the anchor, DSPARK without; other drafters have none."""
    if plan.mechanism == "dspark":
        return plan.draft_len
    if plan.mechanism != "dflash":
        return None
    if plan.block not in {None, plan.draft_len + 1}:
        notes.append(Note("block", f"the trained block is {plan.block}; SGLang verifies blocks of "
                                   f"{plan.draft_len + 1} here"))
    return plan.draft_len + 1


def _schedule(plan: DraftPlan, notes: list[Note]) -> tuple[tuple[Tier, ...] | None, int | None]:
    """The schedule as slots by lowest batch, and the largest batch, which ends the last slot."""
    if not plan.schedule:
        return None, plan.max_batch
    if plan.mechanism not in {"eagle", "eagle3", "mtp"}:
        notes.append(Note("schedule", f"the schedule {in_words(plan.schedule)} is lost: SGLang's adaptive mode works "
                                      "for EAGLE, EAGLE3 and NEXTN only"))
        return None, plan.max_batch
    if plan.dp_attention > 1:
        notes.append(Note("schedule", f"the schedule {in_words(plan.schedule)} is lost: SGLang's adaptive mode does "
                                      f"not work with DP attention; {plan.draft_len} is used throughout"))
        return None, plan.max_batch
    largest = plan.max_batch or plan.schedule[-1].last
    schedule = fitted(plan.schedule, largest)
    notes.append(Note("adaptive", "one candidate per batch range pins the length; more would let SGLang adapt"))
    return (*schedule[:-1], schedule[-1]._replace(last=largest)), largest


def _placing(plan: DraftPlan) -> list[tuple[str, ...]]:
    """Flags of the GPUs and of number formats; `--tp-size` counts all GPUs, groups and expert GPUs are among them."""
    flags: list[tuple[str, ...]] = []
    if plan.tp > 1:
        flags.append(("--tp-size", str(plan.tp)))
    if plan.dp_attention > 1:
        flags += [("--dp-size", str(plan.dp_attention)), ("--enable-dp-attention",)]
    if plan.ep > 1:
        flags.append(("--ep-size", str(plan.ep)))
    if plan.weights is not None:
        flags.append(("--quantization", plan.weights))
    if plan.kv_dtype is not None:
        flags.append(("--kv-cache-dtype", FP8_CACHE))
    return flags


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The command line, with the adaptive JSON in front where the plan has a schedule."""
    assert plan.mechanism is not None
    flags: list[tuple[str, ...]] = [("--speculative-algorithm", _ALGORITHM[plan.mechanism])]
    if plan.drafter_model is not None:
        flags.append(("--speculative-draft-model-path", plan.drafter_model))
    if plan.mechanism in _CHAINS:
        flags += [("--speculative-num-steps", str(plan.draft_len)), ("--speculative-eagle-topk", "1"),
                  ("--speculative-num-draft-tokens", str(plan.draft_len + 1))]
    elif plan.mechanism == "dspark":
        flags.append(("--speculative-dspark-block-size", str(plan.draft_len)))
        if plan.cost_table is not None:
            flags.append(("--speculative-dspark-sps-table-path", plan.cost_table))
    else:
        flags.append(("--speculative-num-draft-tokens", str(plan.draft_len + 1)))
    text = ""
    if plan.schedule:
        slots = {str(tier.first): {"candidate_steps": [tier.draft_len]} for tier in plan.schedule}
        rows = ",\n".join(f"  {json.dumps(first)}: {json.dumps(slot)}" for first, slot in slots.items())
        text = heredoc(ADAPTIVE_FILE, "{\n" + rows + "\n}")
        flags += [("--speculative-adaptive",), ("--speculative-adaptive-config", ADAPTIVE_FILE)]
    if plan.sampling == "probabilistic":
        flags.append(("--speculative-use-rejection-sampling",))
    if plan.max_batch is not None:
        flags += [("--max-running-requests", str(plan.max_batch)),
                  ("--cuda-graph-max-bs", str(plan.max_batch))]     # SGLang's own list of batches is dense up to it
    flags = _placing(plan) + flags
    start = ("python3", "-m", "sglang.launch_server", "--model-path", plan.target_model) if plan.target_model else ()
    return text + command(start, flags)
