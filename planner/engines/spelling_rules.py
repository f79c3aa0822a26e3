"""Rules about names and JSON: what the engine does not know, knows no longer, or gets from a template."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specplan.planner.engines.aiconfigurator import configuration as aiconfigurator
from specplan.planner.engines.launch import SPEC, Launch, Setting, at_least
from specplan.planner.engines.llama_cpp import configuration as llama_cpp
from specplan.planner.engines.lmdeploy import configuration as lmdeploy
from specplan.planner.engines.located import HOLE
from specplan.planner.engines.onnxruntime_genai import configuration as onnxruntime_genai
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name, replace
from specplan.planner.engines.rule_examples import example
from specplan.planner.engines.sglang import configuration as sglang
from specplan.planner.engines.tensorrt_llm import configuration as tensorrt_llm
from specplan.planner.engines.vllm import configuration as vllm
from specplan.planner.messages import nearest

# (engine, name) -> (new name, what else the reader has to know)
RENAMED: dict[tuple[str, str], tuple[str, str]] = {
    ("vllm", SPEC + "speculative_model"): ("model", ""),
    ("vllm", SPEC + "draft_model"): ("model", ""),
    ("vllm", SPEC + "ngram_prompt_lookup_max"): ("prompt_lookup_max", ""),
    ("vllm", SPEC + "ngram_prompt_lookup_min"): ("prompt_lookup_min", ""),
    ("vllm", SPEC + "adaptive_verification"): ("enable_adaptive_verification", ""),
    ("vllm", SPEC + "disable_by_batch_size"): (
        "", "; say it with num_speculative_tokens_per_batch_size: [[1, N, D], [N + 1, max, 0]]"),
    ("vllm", SPEC + "synthetic_acceptance_rate"): ("", "; use synthetic_acceptance_rates, one rate per position"),
    ("tensorrt_llm", SPEC + "acceptance_window"): ("acceptance_rate_window_size", ""),
    ("tensorrt_llm", SPEC + "acceptance_length_threshold"): (
        "", "; acceptance_rate_threshold takes accepted/drafted, a rate from 0 to 1, not a length"),
    ("aiconfigurator", "nextn_accept_rates"): (
        "", ("; nextn_accepted takes one number, the accepted drafts per step: the sum of the per-position rates "
             "(0.85, 0.3 gives 1.15)")),
    **{("llama_cpp", old): (new, "; the old default was 16 with p-min 0.75, now it is 3 with p-min 0"
                            if new.endswith("max") else "") for old, new in llama_cpp.REMOVED.items()},
    **{("sglang", old): successor for old, successor in sglang.REMOVED.items()},
}
_VLLM_FLAGS = {
    "--speculative-model": "model", "--num-speculative-tokens": "num_speculative_tokens",
    "--speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "--speculative-max-model-len": "max_model_len", "--ngram-prompt-lookup-max": "prompt_lookup_max",
    "--ngram-prompt-lookup-min": "prompt_lookup_min",
    "--speculative-disable-by-batch-size": "num_speculative_tokens_per_batch_size",
}
_DEPRECATED = {("tensorrt_llm", SPEC + "num_nextn_predict_layers"): "max_draft_len"}


def _malformed(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    for name, error in launch.malformed:
        yield Hit(error.offset, error.offset + 1, f"{name} is not valid JSON: {error}")


def known_keys(launch: Launch) -> frozenset[str]:
    """Names of speculative settings that the engine of a launch takes."""
    if launch.engine == "vllm":
        return frozenset(SPEC + key for key in vllm.KEYS)
    if launch.engine == "tensorrt_llm":
        own = tensorrt_llm.TYPES.get(tensorrt_llm.decoding_type(launch) or "")
        keys = own if own is not None else frozenset().union(*tensorrt_llm.TYPES.values())
        return frozenset(SPEC + key for key in tensorrt_llm.BASE_KEYS | keys)
    return {
        "sglang": sglang.FLAGS, "llama_cpp": llama_cpp.FLAGS, "lmdeploy": lmdeploy.FLAGS,
        "onnxruntime_genai": frozenset("speculative." + key for key in onnxruntime_genai.KEYS),
        "aiconfigurator": frozenset(aiconfigurator.KEYS),
    }[launch.engine]


def _unknown(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    known = known_keys(launch)
    prefixes = {"sglang": ("--speculative-",), "lmdeploy": ("--speculative-",), "llama_cpp": ("--spec-",),
                "onnxruntime_genai": ("speculative.",), "aiconfigurator": ()}.get(launch.engine, (SPEC,))
    for name, setting in launch.settings.items():
        if name in known:
            yield from _too_new(launch, setting)
        if not name.startswith(prefixes) or name in known or (launch.engine, name) in RENAMED or HOLE in name:
            continue
        if launch.engine in {"sglang", "lmdeploy"} and sum(key.startswith(name) for key in known) == 1:
            continue        # argparse takes an unambiguous beginning of a flag
        short = name.removeprefix(SPEC).removeprefix("speculative.")
        near = nearest(short, [key.removeprefix(SPEC).removeprefix("speculative.") for key in known])
        where = f" for decoding_type {tensorrt_llm.decoding_type(launch)}" if launch.engine == "tensorrt_llm" else ""
        yield at_name(setting, f"{launch.engine} has no speculative setting '{short}'{where}{near}{_since(near)}")


def _since(near: str) -> str:
    found = re.search(r"'(\w+)'", near)
    since = vllm.NOT_BEFORE.get(found[1]) if found else None
    return f" (since {since})" if since else ""


def _too_new(launch: Launch, setting: Setting) -> Iterator[Hit]:
    short = setting.name.removeprefix(SPEC)
    named, not_before = {"vllm": ("vLLM", vllm.NOT_BEFORE), "sglang": ("SGLang", sglang.NOT_BEFORE)}.get(
        launch.engine, (launch.engine, {}))
    since = not_before.get(short)
    if since is not None and not at_least(launch.version, since):
        yield at_name(setting, f"{named} {launch.version} does not have '{short}' yet: it is there since {since}")


def _templated(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    relevant = [launch.settings[name] for name in launch.unknown if name.startswith((SPEC, "--spec", "nextn"))]
    if any(setting.name.startswith(SPEC) for setting in relevant):
        relevant = [setting for setting in relevant if setting.name != "--speculative-config"]    # its parts are named
    if relevant:
        listed = ", ".join(setting.name.removeprefix(SPEC) for setting in relevant)
        yield at(relevant[0], f"filled in elsewhere, so not checked: {listed}")


def _renamed(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    for name, setting in launch.settings.items():
        if launch.engine == "vllm" and name in _VLLM_FLAGS and not name.startswith(SPEC):
            yield at_name(setting, f"{name} is gone; it is the key {_VLLM_FLAGS[name]} of --speculative-config now")
            continue
        entry = RENAMED.get((launch.engine, name))
        if entry is None or (launch.engine == "sglang" and not at_least(launch.version, "0.5.23")):
            continue
        new, more = entry
        short = name.removeprefix(SPEC)
        if not new:
            yield at_name(setting, f"{short} is gone{more}")
        elif setting.written.value in llama_cpp.ENVIRONMENT:
            variable = next(key for key, flag in llama_cpp.ENVIRONMENT.items() if flag == new)
            yield at_name(setting, f"{setting.written.value} is gone, it is {variable} now{more}",
                          replace(setting.written, variable))
        else:
            yield at_name(setting, f"{short} is gone, it is {new} now{more}", replace(setting.written, new))


def _deprecated(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    method = launch.settings.get(SPEC + "method")
    if launch.engine == "vllm" and method is not None and method.value in vllm.MTP_ALIASES and method.node.text:
        yield at(method, f"method '{method.value}' is deprecated, it is 'mtp' now", replace(method.node.text, "mtp"))
    for (engine, name), new in _DEPRECATED.items():
        setting = launch.settings.get(name)
        if engine == launch.engine and setting is not None:
            edits = () if launch.has(SPEC + new) else (replace(setting.written, new),)
            yield at_name(setting, f"{name.removeprefix(SPEC)} is deprecated, it is {new} now", *edits)



RULES = (
    Rule(
        code="SP001", name="malformed-json", severity="error",
        summary="A setting that must be JSON is not.",
        why="The server refuses to start, often with a message that does not point into the quoted text.",
        fix="Repair the JSON at the marked place: double quotes, no trailing comma, true/false/null in small letters.",
        source="vLLM 0.33.0, docs/features/speculative_decoding/README.md: the flag takes a JSON object",
        bad=example("serve.sh", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"ngram\", "
                                "\"num_speculative_tokens\": 4,}'\n"),
        good=example("serve.sh", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"ngram\", "
                                 "\"num_speculative_tokens\": 4}'\n"),
        check=_malformed,
    ),
    Rule(
        code="SP002", name="unknown-setting", severity="error",
        summary="A speculative setting that the engine does not have.",
        why="vLLM and TensorRT-LLM refuse unknown keys, command lines refuse unknown flags: a typing error costs a "
            "start.",
        fix="Take the nearest name that is suggested, or remove the setting.",
        source="vLLM 0.33.0 vllm/config/speculative.py; SGLang 0.5.23 arg_groups/fields/spec.py; TensorRT-LLM main "
               "llmapi/llm_args.py (StrictBaseModel); llama.cpp docs/speculative.md; LMDeploy cli/utils.py",
        bad=example("serve.sh", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"ngram\", "
                                "\"num_speculative_tokens\": 4, \"promt_lookup_max\": 4}'\n"),
        good=example("serve.sh", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"ngram\", "
                                 "\"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4}'\n"),
        check=_unknown,
    ),
    Rule(
        code="SP005", name="templated", severity="note",
        summary="Values that a template or a variable fills in were not checked.",
        why="specplan does not guess them; check the rendered file too (`helm template`, `envsubst`).",
        fix="Run specplan check on the rendered configuration.",
        source="specplan: a template is unknown, not a default",
        bad=example("serve.sh", 'vllm serve Qwen/Qwen3-8B --speculative-config "{\\"method\\": \\"ngram\\", '
                                '\\"num_speculative_tokens\\": ${K}}"\n'),
        good=example("serve.sh", 'vllm serve Qwen/Qwen3-8B --speculative-config "{\\"method\\": \\"ngram\\", '
                                 '\\"num_speculative_tokens\\": 4}"\n'),
        check=_templated,
    ),
    Rule(
        code="SP006", name="deprecated-name", severity="note",
        summary="A name that still works and will go.",
        why="The engine logs a warning today and refuses it in a later release.",
        fix="Use the new name; --fix does it.",
        source="vLLM 0.33.0 speculative.py: 'method `%s` is deprecated and replaced with mtp'; TensorRT-LLM main "
               "llm_args.py: num_nextn_predict_layers is deprecated, use max_draft_len",
        bad=example("config.yaml", "speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3\n"),
        good=example("config.yaml", "speculative_config:\n  decoding_type: MTP\n  max_draft_len: 3\n"),
        check=_deprecated,
    ),
    Rule(
        code="SP007", name="removed-name", severity="error",
        summary="A name that current releases refuse.",
        why="The server does not start; where only the default moved, the same command behaves differently ("
            "acceptance 0.94 became 0.30 when llama.cpp's p-min default went from 0.75 to 0).",
        fix="Use the new name; --fix does it where the meaning is the same.",
        source="llama.cpp b9235 and later: --draft-max is --spec-draft-n-max; TensorRT-LLM 1.4: acceptance_window and "
               "acceptance_length_threshold became the rate settings; aiconfigurator 0.12: nextn_accepted for "
               "nextn_accept_rates; ggml-org/llama.cpp#25792, ai-dynamo/dynamo#10197",
        bad=example("serve.sh", "llama-server -m target.gguf -md draft.gguf --draft-max 16\n"),
        good=example("serve.sh", "llama-server -m target.gguf -md draft.gguf --spec-type draft-simple "
                                 "--spec-draft-n-max 3\n"),
        check=_renamed,
    ),
)
