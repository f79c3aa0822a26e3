"""llama.cpp's dialect: flags of llama-server and their LLAMA_ARG_* environment form.

Flags: docs/speculative.md and `llama-server --help`, October 2026. `--spec-draft-n-max` is D; DFlash clamps it to
block - 1, DSpark to block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specplan.planner.engines.launch import Launch, Setting, words_to_settings
from specplan.planner.engines.located import Node, Text
from specplan.planner.engines.plan import DraftPlan, format_notes, in_words
from specplan.planner.engines.snippet import command
from specplan.planner.messages import InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

ENGINE = "llama_cpp"
NEWEST = "b10472"      # newest build that a public report names with these flags (qwen38-mtp sweeps, August 2026)
IMAGE = r"(?:^|/)llama\.cpp(?::[a-z]+(?:-[a-z0-9]+)*?(?:-(?P<version>b\d+))?|[@]|$)"
OLDEST = "b9235"        # --spec-draft-* and --spec-type draft-* (pull requests 22397 and 22964, May 2026)
MARKERS = ("--spec-type", "--spec-draft", "-md", "--model-draft", "--draft", "LLAMA_ARG_SPEC", "LLAMA_ARG_DRAFT")
PROGRAMS = ("llama-server", "llama-cli", "llama-speculative", "llama-speculative-simple", "llama-bench")

ALIASES = {
    "-m": "--model", "-hf": "--hf-repo", "-np": "--parallel", "-ngl": "--n-gpu-layers",
    "--gpu-layers": "--n-gpu-layers",
    "-md": "--spec-draft-model", "--model-draft": "--spec-draft-model",
    "-hfd": "--spec-draft-hf", "-hfrd": "--spec-draft-hf", "--hf-repo-draft": "--spec-draft-hf",
    "-ngld": "--spec-draft-ngl", "--gpu-layers-draft": "--spec-draft-ngl", "--n-gpu-layers-draft": "--spec-draft-ngl",
    "-devd": "--spec-draft-device", "--device-draft": "--spec-draft-device",
    "-ctkd": "--spec-draft-type-k", "--cache-type-k-draft": "--spec-draft-type-k",
    "-ctvd": "--spec-draft-type-v", "--cache-type-v-draft": "--spec-draft-type-v",
    "--draft-p-min": "--spec-draft-p-min", "--draft-p-split": "--spec-draft-p-split",
    "-c": "--ctx-size", "-ot": "--override-tensor", "-ncmoe": "--n-cpu-moe", "-cmoe": "--cpu-moe",
    "-td": "--spec-draft-threads", "--threads-draft": "--spec-draft-threads",
    "-cd": "--ctx-size-draft", "-cmoed": "--spec-draft-cpu-moe", "--cpu-moe-draft": "--spec-draft-cpu-moe",
}
SWITCHES = frozenset({"--cpu-moe", "--spec-default", "--spec-draft-cpu-moe", "--jinja", "--no-mmap", "--mlock"})
REMOVED = {     # start-up error since the --spec-draft-* names came; the old default was 16
    "--draft": "--spec-draft-n-max", "--draft-n": "--spec-draft-n-max", "--draft-max": "--spec-draft-n-max",
    "--draft-min": "--spec-draft-n-min", "--draft-n-min": "--spec-draft-n-min",
}
FLAGS = frozenset({
    "--spec-" + name for name in (
        "type", "default", "synth-len", "synth-rates", "draft-model", "draft-hf", "draft-n-max", "draft-n-min",
        "draft-p-min", "draft-p-split", "draft-conf-min", "draft-ngl", "draft-device", "draft-threads",
        "draft-threads-batch", "draft-cpu-mask", "draft-cpu-range", "draft-cpu-strict", "draft-prio", "draft-poll",
        "draft-cpu-mask-batch", "draft-cpu-range-batch", "draft-cpu-strict-batch", "draft-prio-batch",
        "draft-poll-batch", "draft-type-k", "draft-type-v", "draft-override-tensor", "draft-cpu-moe",
        "draft-n-cpu-moe", "draft-ncmoe", "draft-ubatch-size", "draft-backend-sampling",
        "no-draft-backend-sampling", "ngram-mod-n-match", "ngram-mod-n-min", "ngram-mod-n-max",
        "ngram-simple-size-n", "ngram-simple-size-m", "ngram-simple-min-hits", "ngram-map-k-size-n",
        "ngram-map-k-size-m", "ngram-map-k-min-hits", "ngram-map-k4v-size-n", "ngram-map-k4v-size-m",
        "ngram-map-k4v-min-hits", "ngram-size-n", "ngram-size-m", "ngram-check-rate", "ngram-min-hits",
        "conf-min", "use-checkpoints",
    )
})
TYPES = ("none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple",
         "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
ENVIRONMENT = {
    "LLAMA_ARG_SPEC_TYPE": "--spec-type", "LLAMA_ARG_SPEC_DRAFT_MODEL": "--spec-draft-model",
    "LLAMA_ARG_SPEC_DRAFT_HF_REPO": "--spec-draft-hf", "LLAMA_ARG_SPEC_DRAFT_N_MAX": "--spec-draft-n-max",
    "LLAMA_ARG_SPEC_DRAFT_N_MIN": "--spec-draft-n-min", "LLAMA_ARG_SPEC_DRAFT_P_MIN": "--spec-draft-p-min",
    "LLAMA_ARG_SPEC_DRAFT_P_SPLIT": "--spec-draft-p-split", "LLAMA_ARG_N_GPU_LAYERS_DRAFT": "--spec-draft-ngl",
    "LLAMA_ARG_DRAFT_MAX": "--draft-max", "LLAMA_ARG_DRAFT_MIN": "--draft-min", "LLAMA_ARG_MODEL": "--model",
    "LLAMA_ARG_MODEL_DRAFT": "--spec-draft-model", "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_N_GPU_LAYERS": "--n-gpu-layers", "LLAMA_ARG_CPU_MOE": "--cpu-moe", "LLAMA_ARG_N_CPU_MOE": "--n-cpu-moe",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size",
}
_TYPE: dict[Mechanism, str] = {
    "draft_model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "dflash": "draft-dflash",
    "dspark": "draft-dspark", "ngram": "ngram-simple",
}


def invocation(words: Sequence[str]) -> int | None:
    """Index of the first argument after a llama.cpp program."""
    for at, word in enumerate(words):
        if word.rsplit("/", 1)[-1].removesuffix(".exe") in PROGRAMS:
            return at + 1
    return None


def read_words(words: Sequence[Text], launch: Launch) -> None:
    """Read command-line arguments into `launch`; the environment stands for flags that are not given."""
    for setting in words_to_settings(words, ALIASES, SWITCHES):
        launch.put(setting)
    read_environment(launch)


def read_environment(launch: Launch) -> None:
    """Take LLAMA_ARG_* variables as the flags they stand for; a flag on the command line wins."""
    for name, flag in ENVIRONMENT.items():
        setting = launch.env.get(name)
        if setting is not None and flag not in launch.settings:
            launch.settings[flag] = Setting(flag, setting.written, setting.node)


def read_mapping(node: Node, launch: Launch, around: Node | None = None) -> None:  # noqa: ARG001
    """A mapping of LLAMA_ARG_* variables."""
    for key, child in node.value.items():
        if child.key is not None:
            launch.env[key] = Setting(key, child.key, child)
    read_environment(launch)


def types(launch: Launch) -> tuple[str, ...]:
    """The kinds of speculation that are switched on; a draft model without `--spec-type` is draft-simple."""
    given = launch.text("--spec-type")
    if given is not None:
        return tuple(part.strip() for part in given.split(",") if part.strip() not in {"", "none"})
    return ("draft-simple",) if launch.has("--spec-draft-model", "--spec-draft-hf") else ()


def plan_of(launch: Launch) -> DraftPlan:
    """The plan that a configuration carries out."""
    mechanism = next((key for kind in types(launch) for key, value in _TYPE.items() if value == kind), None)
    flag = "--spec-ngram-simple-size-m" if mechanism == "ngram" else "--spec-draft-n-max"
    draft_len = launch.number(flag)
    if draft_len is None and launch.has("--spec-type") and not launch.has(flag):
        draft_len = 48 if mechanism == "ngram" else 3       # defaults, October 2026
    if mechanism is None or draft_len is None:
        raise InputError("the llama.cpp command does not say which kind drafts how many tokens")
    return DraftPlan(
        mechanism=mechanism, draft_len=draft_len, drafter_model=launch.text("--spec-draft-model"),
        target_model=launch.text("--model"), max_batch=launch.number("--parallel"),
    )


def _gguf(name: str | None, stands_for: str, notes: list[Note]) -> str | None:
    """The file itself; a path to fill in where a repository of another form is named."""
    if name is None or name.lower().endswith(".gguf"):
        return name
    notes.append(Note("gguf", f"llama.cpp reads GGUF files: put the path of {name} in that form for "
                              f"{stands_for}.gguf"))
    return f"{stands_for}.gguf"


def expressible(plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
    """The part of a plan that the dialect carries, and what is lost, in words."""
    if plan.mechanism not in _TYPE:
        raise InputError(f"llama.cpp {version} has no drafter of the kind '{plan.mechanism}'; it "
                         "knows " + ", ".join(_TYPE))
    notes: list[Note] = []
    if plan.schedule:
        notes.append(Note("schedule", f"llama.cpp has one draft length for all batches: {plan.draft_len} is used, the "
                                      f"schedule {in_words(plan.schedule)} is lost"))
    if plan.tp > 1 or (plan.drafter_tp or 1) > 1:
        notes.append(Note("tp", f"TP {plan.tp} is not a flag here: --split-mode and --tensor-split place the layers"))
    notes += format_notes(plan)
    target, drafter = _gguf(plan.target_model, "YOUR-MODEL", notes), _gguf(plan.drafter_model, "YOUR-DRAFTER", notes)
    if plan.sampling == "probabilistic":
        notes.append(Note("sampling", "drafts are drawn greedily; --spec-draft-p-min gates them by probability"))
    if plan.min_acceptance_rate is not None:
        notes.append(Note("threshold", "llama.cpp has no acceptance rate below which it stops drafting"))
    if plan.cost_table is not None:
        notes.append(Note("cost_table", "llama.cpp reads no cost table"))
    if plan.block is not None:
        notes.append(Note("block", f"the block ({plan.block}) is read from the draft file"))
    return replace(plan, target_model=target, drafter_model=drafter, schedule=None, tp=1, ep=1, dp_attention=1,
                   weights=None, kv_dtype=None, drafter_tp=None,
                   sampling=None, block=None,
                   cost_table=None, min_acceptance_rate=None, acceptance_length=None), tuple(notes)


def write(plan: DraftPlan, version: str) -> str:  # noqa: ARG001
    """The command line."""
    assert plan.mechanism is not None
    flags: list[tuple[str, ...]] = [("--spec-type", _TYPE[plan.mechanism])]
    if plan.drafter_model is not None:
        flags += [("--spec-draft-model", plan.drafter_model), ("--spec-draft-ngl", "all")]
    length = "--spec-ngram-simple-size-m" if plan.mechanism == "ngram" else "--spec-draft-n-max"
    flags.append((length, str(plan.draft_len)))
    if plan.max_batch is not None:
        flags.append(("--parallel", str(plan.max_batch)))
    return command(("llama-server", "--model", plan.target_model) if plan.target_model else (), flags)
