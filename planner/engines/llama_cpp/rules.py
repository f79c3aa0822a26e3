"""What can be wrong with a llama.cpp command. Source of the checks: docs/speculative.md and `llama-server --help`,
October 2026, and the threads named with the cases.
"""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch
from specplan.planner.engines.llama_cpp.configuration import types
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name


def _draft_on_cpu(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    target = launch.get("--n-gpu-layers")
    on_gpu = target not in {None, 0, "0"}
    if launch.get("--spec-draft-ngl") in {0, "0"} and (on_gpu or not launch.has("--n-gpu-layers")):
        yield at(launch.settings["--spec-draft-ngl"], "the draft's layers stay on the CPU: 45 tok/s instead of 104 on "
                                                      "an RTX 3090; use all")
    if launch.get("--spec-draft-device") == "none":
        yield at(launch.settings["--spec-draft-device"], "the draft runs on the CPU")


def _bounds(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    low, high = launch.number("--spec-draft-n-min"), launch.number("--spec-draft-n-max")
    if low is not None and high is not None and low > high:
        yield at(launch.settings["--spec-draft-n-min"], f"n-min {low} is above n-max {high}: no draft is long enough")
    gate = launch.get("--spec-draft-p-min")
    if isinstance(gate, int | float) and not 0 <= gate <= 1:
        yield at(launch.settings["--spec-draft-p-min"], "is a probability, 0 to 1")


def _no_drafter(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    wanted = {"draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"} & set(types(launch))
    if wanted and launch.has("--spec-type") and launch.complete and not launch.fragment and \
            not launch.has("--spec-draft-model", "--spec-draft-hf"):
        yield at(launch.settings["--spec-type"], f"{', '.join(sorted(wanted))} needs a draft file (-md)")


def _synthetic(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    for name in ("--spec-synth-len", "--spec-synth-rates"):
        if launch.has(name):
            yield at_name(launch.settings[name], f"{name} accepts drafts by dice: for benchmarks only, answers are "
                                                 "wrong")


def _off(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.text("--spec-type") == "none" and launch.has("--spec-draft-model", "--spec-draft-n-max"):
        place = launch.settings.get("--spec-draft-model") or launch.settings["--spec-draft-n-max"]
        yield at_name(place, "has no effect: --spec-type is none")


def _run(flags: str) -> tuple[str, str]:
    return "serve.sh", f"llama-server -m qwen2.5-32b.gguf -ngl 99 {flags}\n"


_DOCS = "llama.cpp, docs/speculative.md (2026)"
RULES = (
    Rule(code="SP401", name="llama-draft-on-cpu", severity="warning",
         summary="The draft model is left on the CPU while the target runs on the GPU.",
         why="Each drafted token is a pass of the draft: on the CPU it takes longer than what it saves.",
         fix="--spec-draft-ngl all (-ngld), or no draft.", source="ggml-org/llama.cpp#10664; " + _DOCS,
         bad=_run("-md qwen2.5-0.5b.gguf --spec-type draft-simple -ngld 0"),
         good=_run("-md qwen2.5-0.5b.gguf --spec-type draft-simple -ngld 99"), check=_draft_on_cpu),
    Rule(code="SP402", name="llama-bounds", severity="error",
         summary="Draft bounds that exclude each other, or a gate that is no probability.",
         why="With n-min above n-max no draft is used.", fix="n-min <= n-max, p-min from 0 to 1.", source=_DOCS,
         bad=_run("-md d.gguf --spec-type draft-simple --spec-draft-n-min 5 --spec-draft-n-max 3"),
         good=_run("-md d.gguf --spec-type draft-simple --spec-draft-n-min 0 --spec-draft-n-max 3"), check=_bounds),
    Rule(code="SP403", name="llama-no-drafter", severity="error",
         summary="A --spec-type that needs a draft file, without one.",
         why="draft-simple, draft-eagle3, draft-dflash and draft-dspark load a second file; draft-mtp reads the "
             "target's.",
         fix="Add -md FILE or -hfd REPO.", source=_DOCS,
         bad=_run("--spec-type draft-eagle3 --spec-draft-n-max 3"),
         good=_run("--spec-type draft-eagle3 -md eagle3.gguf --spec-draft-n-max 3"), check=_no_drafter),
    Rule(code="SP404", name="llama-synthetic", severity="warning",
         summary="Synthetic acceptance in a command that serves.",
         why="Drafts are accepted by dice, not by the model.", fix="Use it in benchmarks only.",
         source="llama.cpp `--help`, October 2026 (--spec-synth-len: benchmark only)",
         bad=_run("--spec-type draft-mtp --spec-draft-n-max 3 --spec-synth-len 2.5"),
         good=_run("--spec-type draft-mtp --spec-draft-n-max 3"), check=_synthetic),
    Rule(code="SP405", name="llama-off", severity="warning",
         summary="Draft settings beside --spec-type none.",
         why="They have no effect, and the draft's memory may still be taken.", fix="Remove one side.", source=_DOCS,
         bad=_run("--spec-type none -md d.gguf"), good=_run("--spec-type draft-simple -md d.gguf"), check=_off),
)
