"""Rules about values: given twice, of the wrong type, none of the allowed words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from specplan.planner.engines.launch import SPEC, Launch
from specplan.planner.engines.llama_cpp import configuration as llama_cpp
from specplan.planner.engines.lmdeploy import configuration as lmdeploy
from specplan.planner.engines.located import HOLE, UNKNOWN
from specplan.planner.engines.onnxruntime_genai import configuration as onnxruntime_genai
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name
from specplan.planner.engines.rule_examples import example
from specplan.planner.engines.sglang import configuration as sglang
from specplan.planner.engines.tensorrt_llm import configuration as tensorrt_llm
from specplan.planner.engines.vllm import configuration as vllm
from specplan.planner.messages import nearest

_POSITIVE = {"vllm": (SPEC + "num_speculative_tokens", SPEC + "draft_tensor_parallel_size", SPEC + "prompt_lookup_max",
                      SPEC + "prompt_lookup_min", SPEC + "max_model_len", SPEC + "dspark_draft_topk"),
             "sglang": ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens",
                        "--speculative-dflash-block-size", "--speculative-dspark-block-size"),
             "tensorrt_llm": (SPEC + "max_draft_len", SPEC + "max_concurrency"),
             "llama_cpp": ("--spec-draft-n-max",),
             "lmdeploy": ("--speculative-num-draft-tokens",),
             "onnxruntime_genai": ("speculative.max_draft_tokens",), "aiconfigurator": ()}

_CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {SPEC + "method": (*vllm.METHODS, *sorted(vllm.MTP_ALIASES), "[ngram]"),
             SPEC + "rejection_sample_method": ("standard", "synthetic", "block", "fly"),
             SPEC + "draft_sample_method": ("greedy", "probabilistic")},
    "sglang": {"--speculative-algorithm": sglang.ALGORITHMS},
    "tensorrt_llm": {SPEC + "decoding_type": tuple(tensorrt_llm.TYPES)},
    "llama_cpp": {"--spec-type": llama_cpp.TYPES},
    "lmdeploy": {"--speculative-algorithm": lmdeploy.ALGORITHMS},
}
_FORMS = {      # other names of one setting, which launches keep apart
    "tensorrt_llm": (("max_draft_len", "num_nextn_predict_layers"), ("speculative_model", "speculative_model_dir")),
}
_NOW = {"probabilistic": "; that is a draft_sample_method now", "strict": "; it is called 'standard' now",
        "draft": "; it is called draft-simple now", "mtp": "; it is called draft-mtp now"}


def _twice(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    for earlier, later in launch.twice:
        if not later.name.startswith((SPEC, "--spec", "speculative", "nextn", "compilation_config.")):
            continue
        name = later.name.removeprefix(SPEC)
        if earlier.value == later.value:
            yield at_name(later, f"{name} is given twice")
        else:
            yield at_name(later, f"{name} is given twice: {_show(earlier.value)} and here {_show(later.value)}; the "
                                 "engine refuses it or takes the last")


    for new, old in _FORMS.get(launch.engine, ()):
        first, second = launch.settings.get(SPEC + new), launch.settings.get(SPEC + old)
        if first is not None and second is not None:
            yield at_name(second, f"{old} is another name of {new}: both are given, {_show(first.value)} and here "
                                  f"{_show(second.value)}")


def _show(value: Any) -> str:
    return "a templated value" if value is UNKNOWN else json.dumps(value, default=str)


def _range(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    for name in _POSITIVE[launch.engine]:
        setting = launch.settings.get(name)
        if setting is None or setting.value is UNKNOWN or setting.value is None:
            continue
        number, short = launch.number(name), name.removeprefix(SPEC)
        if number is None:
            yield at(setting, f"{short} must be a whole number, not {_show(setting.value)}")
        elif number < 1:
            off = "" if launch.engine != "vllm" else "; leave --speculative-config out for plain decoding"
            yield at(setting, f"{short} must be at least 1, not {number}{off}")
    yield from _choices(launch)
    if launch.engine == "onnxruntime_genai":
        yield from _genai_ranges(launch)


def _choices(launch: Launch) -> Iterator[Hit]:
    for name, taken in _CHOICES.get(launch.engine, {}).items():
        given = launch.settings.get(name)
        if given is None or not isinstance(given.value, str):
            continue
        words = given.value.split(",") if name == "--spec-type" else [given.value]
        for word in words:
            if _known(launch, name, word.strip(), taken) or HOLE in word:
                continue
            near = nearest(word.upper() if taken[0].isupper() else word, taken)
            yield at(given, f"'{word}' is not a {name.removeprefix(SPEC)}" + (_NOW.get(word) or near))


def _known(launch: Launch, name: str, word: str, taken: tuple[str, ...]) -> bool:
    if name == SPEC + "decoding_type":
        return tensorrt_llm.decoding_type(launch) in taken
    return word in taken or (launch.engine == "sglang" and word.upper() in taken)


def _genai_ranges(launch: Launch) -> Iterator[Hit]:
    most = onnxruntime_genai.MAX_DRAFT_TOKENS
    length, size = launch.number("speculative.max_draft_tokens"), launch.number("speculative.ngram_size")
    if length is not None and length > most:
        yield at(launch.settings["speculative.max_draft_tokens"], f"max_draft_tokens is 1 to {most}, not {length}")
    if size is not None and size != 0 and not 2 <= size <= most:
        yield at(launch.settings["speculative.ngram_size"], f"ngram_size is 0 or 2 to {most}, not {size}")


RULES = (
    Rule(
        code="SP003", name="given-twice", severity="error",
        summary="One setting is given twice, or in both of its forms.",
        why="Which of them wins depends on the engine and release; the reader of the file sees the other one.",
        fix="Keep one.",
        source="vLLM 0.33.0: --spec-tokens and the same key in --speculative-config exclude each other; argparse "
               "takes the last of two flags",
        bad=example("serve.sh", "vllm serve Qwen/Qwen3-8B --spec-tokens 5 --speculative-config '{\"method\": "
                                '"ngram", '
                         "\"num_speculative_tokens\": 4}'\n"),
        good=example("serve.sh", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"ngram\", "
                                 "\"num_speculative_tokens\": 4}'\n"),
        check=_twice,
    ),
    Rule(
        code="SP004", name="bad-value", severity="error",
        summary="A value of the wrong type, out of range, or none of the allowed words.",
        why="The engine refuses it at start-up.",
        fix="Take a value from the allowed ones.",
        source="vLLM 0.33.0 vllm/config/speculative.py (gt=0, Literal types); SGLang 0.5.23 fields/spec.py; "
               "onnxruntime-genai src/config.cpp: max_draft_tokens 1 to 16, ngram_size 0 or 2 to 16",
        bad=example("genai_config.json", '{"model": {}, "speculative": {"max_draft_tokens": 32}}\n'),
        good=example("genai_config.json", '{"model": {}, "speculative": {"max_draft_tokens": 7}}\n'),
        check=_range,
    ),
)
