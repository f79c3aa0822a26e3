"""What a configuration of any engine says about drafting, under one set of names: the rules about D need no dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specplan.planner.decide.tier import Tier
from specplan.planner.engines.dialects import dialect
from specplan.planner.engines.launch import SPEC, Launch, Setting
from specplan.planner.engines.lmdeploy import configuration as lmdeploy
from specplan.planner.engines.located import Node
from specplan.planner.engines.onnxruntime_genai import configuration as onnxruntime_genai
from specplan.planner.engines.sglang import configuration as sglang
from specplan.planner.fact import fact
from specplan.planner.messages import InputError

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism

_ONE = Node(1, 0, 0)        # stands for a draft length that is not written


@fact
class Names:
    """Where an engine keeps the facts: canonical setting names, '' where it has none."""

    length: str
    drafter: str
    target: str = ""
    admitted: str = ""
    context: str = ""
    tp: str = ""
    pp: str = ""
    drafter_tp: str = ""


NAMES = {
    "vllm": Names(length=SPEC + "num_speculative_tokens", drafter=SPEC + "model", target="--model",
                  admitted="--max-num-seqs", context="--max-model-len", tp="--tensor-parallel-size",
                  pp="--pipeline-parallel-size", drafter_tp=SPEC + "draft_tensor_parallel_size"),
    "sglang": Names(length="--speculative-num-steps", drafter="--speculative-draft-model-path",
                    target="--model-path", admitted="--max-running-requests", context="--context-length",
                    tp="--tp-size", pp="--pp-size"),
    "tensorrt_llm": Names(length=SPEC + "max_draft_len", drafter=SPEC + "speculative_model", target="--model",
                          admitted="max_batch_size", context="max_seq_len", tp="tensor_parallel_size",
                          pp="pipeline_parallel_size"),
    "llama_cpp": Names(length="--spec-draft-n-max", drafter="--spec-draft-model", target="--model",
                       admitted="--parallel", context="--ctx-size"),
    "lmdeploy": Names(length="--speculative-num-draft-tokens", drafter="--speculative-draft-model", target="--model",
                      admitted="--max-batch-size", context="--session-len", tp="--tp"),
    "onnxruntime_genai": Names(length="speculative.max_draft_tokens", drafter=""),
    "aiconfigurator": Names(length="nextn", drafter="", target="--model-path"),
}


def names(launch: Launch) -> Names:
    """The names of the launch's engine."""
    return NAMES[launch.engine]


def length_setting(launch: Launch) -> Setting | None:
    """The setting that fixes D."""
    if launch.engine == "sglang":
        kind = sglang.algorithm(launch)
        order = {"DFLASH": ("--speculative-dflash-block-size", "--speculative-num-draft-tokens"),
                 "DSPARK": ("--speculative-dspark-block-size", "--speculative-num-draft-tokens"),
                 "NGRAM": ("--speculative-num-draft-tokens",)}.get(kind or "", ("--speculative-num-steps",))
        return next((launch.settings[name] for name in order if name in launch.settings), None)
    if launch.engine == "lmdeploy" and launch.has("--speculative-dflash-block-size"):
        return launch.settings["--speculative-dflash-block-size"]
    found = launch.settings.get(names(launch).length)
    if found is None and launch.engine == "tensorrt_llm":
        return launch.settings.get(SPEC + "num_nextn_predict_layers")
    return found


def draft_len(launch: Launch) -> int | None:
    """D, where it is written and known."""
    if launch.engine in {"sglang", "lmdeploy"}:
        return sglang.draft_len(launch) if launch.engine == "sglang" else lmdeploy.draft_len(launch)
    setting = length_setting(launch)
    return launch.number(setting.name) if setting is not None else None


def mechanism(launch: Launch) -> Mechanism | None:
    """How the configuration drafts, None where that is not said or not known to specplan."""
    if launch.engine == "lmdeploy" and lmdeploy.algorithm(launch) is None:
        return None
    probe = Launch(launch.engine, launch.place, version=launch.version, settings=dict(launch.settings))
    length = names(launch).length
    for name in {"sglang": ("--speculative-num-draft-tokens", length)}.get(launch.engine, (length,)):
        probe.settings.setdefault(name, Setting(name, launch.place, _ONE))
    try:
        return dialect(launch.engine).plan_of(probe).mechanism
    except (InputError, TypeError, ValueError):
        return None


def schedule(launch: Launch) -> tuple[Tier, ...]:
    """D by batch, where the configuration holds a schedule that can be read."""
    try:
        return dialect(launch.engine).plan_of(launch).schedule or ()
    except InputError:
        return ()


def drafter(launch: Launch) -> Setting | None:
    """The setting that names the drafter's files, where its value is known."""
    for name in (names(launch).drafter, SPEC + "speculative_model_dir", "--spec-draft-hf"):
        if name and launch.text(name):
            return launch.settings[name]
    return None


def drafter_name(launch: Launch) -> str | None:
    """The drafter's path or repository."""
    found = drafter(launch)
    return str(found.value) if found is not None else None


def target_name(launch: Launch) -> str | None:
    """The target's path or repository."""
    return launch.text(names(launch).target) or (launch.text("--hf-repo") if launch.engine == "llama_cpp" else None)


def is_speculative(launch: Launch) -> bool:
    """True if the configuration switches speculation on, or tries to."""
    if launch.engine == "onnxruntime_genai" and any(launch.has("model." + name) for name in onnxruntime_genai.DRAFTERS):
        return True
    prefixes = ("--speculative", "--spec-", SPEC, "speculative.", "nextn", "adaptive.", "--draft")
    return any(name.startswith(prefixes) for name in launch.settings)

