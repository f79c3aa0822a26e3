"""LMDeploy's dialect: flags of `lmdeploy serve api_server`.

Flags: LMDeploy 0.18.0, lmdeploy/cli/utils.py and messages.py; docs/en/advance/spec_decoding.md.
`--speculative-num-draft-tokens` is D here; SGLang's flag of the same name is D + 1. `--speculative-dflash-block-size`
counts the anchor and goes before: D is one less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specplan.planner.engines.launch import Launch, first_positional, words_to_settings
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, format_notes, in_words
from specplan.planner.engines.snippet import command
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "lmdeploy"
NEWEST = "0.18.0"
OLDEST = None
IMAGE = r"(?:^|/)lmdeploy(?::v?(?P<version>\d+\.\d+\S*)|[:@]|$)"
MARKERS = ("lmdeploy",)
FLAGS = frozenset({"--speculative-algorithm", "--speculative-draft-model", "--speculative-num-draft-tokens",
                   "--speculative-dflash-block-size"})
ALGORITHMS = ("eagle", "eagle3", "deepseek_mtp", "hy3_mtp", "qwen3_5_mtp", "dflash")
SWITCHES = frozenset({"--enable-metrics", "--disable-metrics", "--eager-mode", "--enable-prefix-caching"})
DEFAULT_DRAFT_LEN = 1
_ALGORITHM: dict[str, Mechanism] = {
    "eagle": "eagle", "eagle3": "eagle3", "deepseek_mtp": "mtp", "hy3_mtp": "mtp", "qwen3_5_mtp": "mtp",
    "dflash": "dflash",
}


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after `lmdeploy serve api_server`."""
    for at, word in enumerate(words):
        if (word == "lmdeploy" or word.endswith("/lmdeploy")) and words[at + 1:at + 2] == ["serve"]:
            return at + 3
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`."""
    for setting in first_positional(words, "--model"):
        launch.put(setting)
    for setting in words_to_settings(words, {}, SWITCHES):
        launch.put(setting)


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:
    """LMDeploy has no configuration file."""


def algorithm(launch: Launch) -> str | None:
    """The algorithm as given."""
    return launch.text("--speculative-algorithm")


def draft_len(launch: Launch) -> int | None:
    """D, where it is known; None where it is filled in elsewhere."""
    block = launch.number("--speculative-dflash-block-size")
    if block is not None:
        return block - 1
    return launch.number("--speculative-num-draft-tokens")


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out."""
    mechanism = _ALGORITHM.get(algorithm(launch) or "")
    if mechanism is None:
        raise InputError("the LMDeploy command does not say which algorithm drafts")
    return DraftPlan(
        mechanism=mechanism, draft_len=draft_len(launch) or DEFAULT_DRAFT_LEN,
        drafter_model=launch.text("--speculative-draft-model"), target_model=launch.text("--model"),
        max_batch=launch.number("--max-batch-size"), tp=launch.number("--tp") or 1,
    )


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
    """The part of a plan that the dialect carries, and what is lost, in words."""
    if plan.mechanism not in _ALGORITHM.values():
        raise InputError(f"LMDeploy {version} has no drafter of the kind '{plan.mechanism}'; it knows eagle, eagle3, "
                         "mtp and dflash")
    notes = []
    if plan.schedule:
        notes.append(Note("schedule", f"LMDeploy has one draft length for all batches: {plan.draft_len} is used, the "
                                      f"schedule {in_words(plan.schedule)} is lost"))
    if plan.drafter_tp is not None and plan.drafter_tp != plan.tp:
        notes.append(Note("drafter_tp", f"TP {plan.drafter_tp} for the drafter alone cannot be set"))
    notes += format_notes(plan)
    for name, value in (("sampling", plan.sampling), ("block", plan.block),
                        ("min_acceptance_rate", plan.min_acceptance_rate),
                        ("cost_table", plan.cost_table)):
        if value:
            notes.append(Note(name, f"{name} ({value}) has no flag in LMDeploy"))
    return replace(plan, schedule=None, ep=1, dp_attention=1, weights=None, kv_dtype=None, drafter_tp=None,
                   sampling=None, block=None, cost_table=None,
                   min_acceptance_rate=None, acceptance_length=None), tuple(notes)


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The command line."""
    if plan.mechanism == "mtp":
        target = (plan.target_model or "").lower()
        name = "qwen3_5_mtp" if "qwen3" in target else "hy3_mtp" if "hy3" in target else "deepseek_mtp"
    else:
        name = str(plan.mechanism)
    flags: list[tuple[str, ...]] = [("--backend", "pytorch")]
    if plan.tp > 1:
        flags.append(("--tp", str(plan.tp)))
    flags.append(("--speculative-algorithm", name))
    if plan.drafter_model is not None:
        flags.append(("--speculative-draft-model", plan.drafter_model))
    flags.append(("--speculative-num-draft-tokens", str(plan.draft_len)))
    if plan.max_batch is not None:
        flags.append(("--max-batch-size", str(plan.max_batch)))
    return command(("lmdeploy", "serve", "api_server", plan.target_model) if plan.target_model else (), flags)
