"""aiconfigurator's dialect: `--nextn` and `--nextn-accepted`, or the same keys in a YAML.

Flags and ranges: aiconfigurator 0.12.0, cli/main.py. `nextn` is D; `nextn_accepted` is AL - 1, the drafts accepted
per step, and is required with it. Speculation is modelled as MTP.
"""

from __future__ import annotations

from collections.abc import Sequence

from specplan.planner.engines.launch import Launch, Setting, put_mapping, words_to_settings
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, format_notes, in_words
from specplan.planner.engines.snippet import command
from specplan.planner.messages import InputError, Note

ENGINE = "aiconfigurator"
NEWEST = "0.12.0"
OLDEST = None
IMAGE = r"aiconfigurator"
MARKERS = ("nextn",)
KEYS = ("nextn", "nextn_accepted")


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after `aiconfigurator`."""
    for at, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == "aiconfigurator":
            return at + 1
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`."""
    for setting in words_to_settings(words, {"--model": "--model-path", "--model_path": "--model-path"}):
        name = setting.name.removeprefix("--").replace("-", "_") if "nextn" in setting.name else setting.name
        launch.put(Setting(name, setting.written, setting.node))


def is_configuration(node: Node) -> bool:
    """True for a mapping that sets nextn."""
    return isinstance(node.value, dict) and any(key in node.value for key in (*KEYS, "nextn_accept_rates"))


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:  # noqa: ARG001
    """Read a mapping with nextn."""
    put_mapping(launch, node, "")


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration models."""
    draft_len, accepted = launch.number("nextn"), launch.get("nextn_accepted")
    if draft_len is None:
        raise InputError("the aiconfigurator settings do not say how many tokens are drafted (nextn)")
    known = isinstance(accepted, int | float)
    return DraftPlan(mechanism="mtp", draft_len=draft_len, target_model=launch.text("--model-path"),
                     acceptance_length=round(1 + accepted, 9) if known else None)


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:  # noqa: ARG001
    """The part of a plan that the dialect carries, and what is lost, in words."""
    if plan.draft_len > 0 and plan.acceptance_length is None:
        raise InputError("aiconfigurator needs the accepted drafts beside nextn; give the plan an acceptance length")
    notes = []
    if plan.mechanism != "mtp":
        notes.append(Note("mechanism", f"aiconfigurator prices speculation as MTP layers; {plan.mechanism} costs "
                                       "something else"))
    if plan.schedule:
        notes.append(Note("schedule", f"one draft length per search: {plan.draft_len} is used, the schedule "
                                      f"{in_words(plan.schedule)} is lost"))
    notes += format_notes(plan)
    notes.append(Note("settings", "batch, parallelism and drafter are searched or assumed by aiconfigurator itself"))
    return DraftPlan(mechanism="mtp", draft_len=plan.draft_len, target_model=plan.target_model,
                     acceptance_length=plan.acceptance_length), tuple(notes)


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The flags."""
    flags: list[tuple[str, ...]] = [("--nextn", str(plan.draft_len))]
    if plan.acceptance_length is not None:
        flags.append(("--nextn-accepted", f"{plan.acceptance_length - 1:.9g}"))
    return command(("aiconfigurator", "cli", "default", "--model-path", plan.target_model)
                   if plan.target_model else (), flags)
