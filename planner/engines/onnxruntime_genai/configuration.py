"""ONNX Runtime GenAI's dialect: the `speculative` section of genai_config.json.

Keys and ranges: microsoft/onnxruntime-genai, src/config.cpp, Speculative_Element (2026). `max_draft_tokens` is D;
the block that an exported drafter proposes (`num_draft_tokens`) is another quantity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specplan.planner.engines.launch import Launch, put_mapping
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, format_notes, in_words
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "onnxruntime_genai"
NEWEST = "0.18.0"
OLDEST = None
IMAGE = r"onnxruntime-genai"
MARKERS = ("max_draft_tokens", "num_draft_tokens", "ngram_size")
KEYS = ("max_draft_tokens", "ngram_size", "ngram_chained_lookup", "min_adaptive_k", "cooldown")
MAX_DRAFT_TOKENS, DEFAULT_DRAFT_TOKENS = 16, 4
NGRAM_SIZE = 3      # a start: the plan does not carry it
SPECULATIVE, MODEL = "speculative.", "model."
DRAFTERS: dict[str, Mechanism] = {"draft": "draft_model", "dflash2": "dflash", "dspark": "dspark", "mtp": "mtp",
                                  "eagle": "eagle"}


def invocation(words: Sequence[str]) -> int | None:  # noqa: ARG001
    """The engine is a library: it has no command."""
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """The engine is a library: it has no command."""


def is_configuration(node: Node) -> bool:
    """True for the mapping of a genai_config.json that speculates, or its `speculative` section alone."""
    if not isinstance(node.value, dict):
        return False
    section = node.get("speculative")
    if section is not None and isinstance(section.value, dict) and any(key in section.value for key in KEYS):
        return True
    return node.get("search") is not None and any(node.get("model", name) is not None for name in DRAFTERS)


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:  # noqa: ARG001
    """Read a genai_config.json."""
    for name, prefix in (("speculative", SPECULATIVE), ("model", MODEL), ("search", "search.")):
        section = node.get(name)
        if section is not None and isinstance(section.value, dict):
            put_mapping(launch, section, prefix)


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out; the exported model fixes the mechanism where it ships a drafter."""
    if not any(name.startswith(SPECULATIVE) or name.removeprefix(MODEL) in DRAFTERS for name in launch.settings):
        raise InputError("the configuration does not say that anything drafts: no speculative section, no drafter")
    mechanism = next((value for name, value in DRAFTERS.items() if launch.has(MODEL + name)), None)
    if mechanism is None and launch.number(SPECULATIVE + "ngram_size"):
        mechanism = "ngram"
    draft_len = launch.number(SPECULATIVE + "max_draft_tokens")
    return DraftPlan(mechanism=mechanism, draft_len=DEFAULT_DRAFT_TOKENS if draft_len is None else draft_len)


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:  # noqa: ARG001
    """The part of a plan that the dialect carries, and what is lost, in words."""
    if plan.draft_len > MAX_DRAFT_TOKENS:
        raise InputError(f"ONNX Runtime GenAI drafts at most {MAX_DRAFT_TOKENS} tokens, the plan says {plan.draft_len}")
    notes = []
    if plan.mechanism != "ngram":
        notes.append(Note("mechanism", f"the drafter ({plan.drafter_model or plan.mechanism}) is part of the exported "
                                       "model; this section only limits how much of it is used"))
    if plan.mechanism == "ngram":
        notes.append(Note("ngram_size", f"patterns of {NGRAM_SIZE} tokens are looked up; 2 to 16 are allowed"))
    if plan.schedule:
        notes.append(Note("schedule", f"one draft length for all batches: {plan.draft_len} is used, the schedule "
                                      f"{in_words(plan.schedule)} is lost"))
    notes += format_notes(plan)
    for name, value in (("target_model", plan.target_model), ("max_batch", plan.max_batch), ("tp", plan.tp - 1),
                        ("sampling", plan.sampling), ("block", plan.block),
                        ("min_acceptance_rate", plan.min_acceptance_rate), ("cost_table", plan.cost_table)):
        if value:
            notes.append(Note(name, f"{name} is not set in this section"))
    return DraftPlan(mechanism="ngram" if plan.mechanism == "ngram" else None,
                     draft_len=plan.draft_len), tuple(notes)


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The JSON to merge into genai_config.json."""
    section = {"max_draft_tokens": plan.draft_len}
    if plan.mechanism == "ngram":
        section["ngram_size"] = NGRAM_SIZE
    return json.dumps({"speculative": section}, indent=2) + "\n"

