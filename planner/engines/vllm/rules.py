"""What can be wrong with a vLLM configuration. Source of the checks: vLLM 0.33.0, vllm/config/speculative.py (stored
copy 002e77c1) and docs/features/speculative_decoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from specplan.planner.engines.facts import draft_len, drafter_name
from specplan.planner.engines.launch import SPEC, Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name, replace
from specplan.planner.engines.rule_examples import vllm
from specplan.planner.engines.vllm import schedule_rules
from specplan.planner.engines.vllm.configuration import method

_NEEDS_MODEL = frozenset({"eagle", "eagle3", "dflash", "draft_model", "medusa", "mlp_speculator"})


def _target_tp(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(SPEC + "tensor_parallel_size")
    if setting is not None:
        edits = () if launch.has(SPEC + "draft_tensor_parallel_size") else (
            replace(setting.written, "draft_tensor_parallel_size"),)
        yield at_name(setting, "vLLM refuses tensor_parallel_size here; the drafter's is draft_tensor_parallel_size",
                      *edits)


def _draft_tp(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    draft, target = launch.number(SPEC + "draft_tensor_parallel_size"), launch.number("--tensor-parallel-size")
    if target is None and not launch.has("--tensor-parallel-size") and launch.complete and not launch.fragment:
        target = 1
    if draft is not None and target is not None and draft not in {1, target}:
        yield at(launch.settings[SPEC + "draft_tensor_parallel_size"],
                 f"draft_tensor_parallel_size can be 1 or the target's {target}, not {draft}")


def _synthetic(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    rates, length = launch.settings.get(SPEC + "synthetic_acceptance_rates"), draft_len(launch)
    mean = launch.settings.get(SPEC + "synthetic_acceptance_length")
    synthetic = launch.get(SPEC + "rejection_sample_method") == "synthetic"
    given = [setting for setting in (rates, mean) if setting is not None and setting.value is not None]
    for setting in given:
        if not synthetic:
            yield at_name(setting, f"{setting.name.removeprefix(SPEC)} needs rejection_sample_method: synthetic")
    if synthetic and len(given) != 1:
        yield at(launch.settings[SPEC + "rejection_sample_method"],
                 "synthetic takes exactly one of synthetic_acceptance_rates and synthetic_acceptance_length")
    if rates is not None and isinstance(rates.value, list) and all(isinstance(r, int | float) for r in rates.value):
        values = [float(rate) for rate in rates.value]
        if length is not None and len(values) != length:
            yield at(rates, f"{len(values)} rates for num_speculative_tokens = {length}; it takes one per position")
        if any(later > earlier for earlier, later in pairwise(values)):
            yield at(rates, "the rates rise; they are unconditional (the first i drafts all accepted) and never rise")
        if any(not 0 <= rate <= 1 for rate in values):
            yield at(rates, "a rate is outside 0 to 1")
    if mean is not None and length is not None and isinstance(mean.value, int | float) and not \
            1 <= mean.value <= length + 1:
        yield at(mean, f"an acceptance length is between 1 and D + 1 = {length + 1}, the bonus token counted")


def _vocabularies(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(SPEC + "use_heterogeneous_vocab")
    if setting is None or not launch.flag(setting.name):
        return
    if method(launch) not in {"draft_model", None}:
        yield at_name(setting, f"use_heterogeneous_vocab works with method draft_model only, not {method(launch)}")
    if launch.get(SPEC + "draft_sample_method") == "probabilistic":
        yield at(launch.settings[SPEC + "draft_sample_method"], "use_heterogeneous_vocab takes greedy drafts only")
    if launch.flag(SPEC + "use_local_argmax_reduction"):
        yield at_name(launch.settings[SPEC + "use_local_argmax_reduction"],
                      "local argmax bypasses the vocabulary mask of use_heterogeneous_vocab (vllm#51561)")


def _adaptive(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(SPEC + "enable_adaptive_verification")
    if setting is None or not launch.flag(setting.name):
        return
    if launch.flag("--enforce-eager"):
        yield at_name(setting, "adaptive verification profiles captured graphs; with --enforce-eager start-up fails")
    if launch.flag("--enable-lora"):
        yield at_name(setting, "adaptive verification does not work with LoRA")
    if (launch.number("--pipeline-parallel-size") or 1) > 1:
        yield at_name(setting, "adaptive verification does not work with pipeline parallelism")
    if method(launch) in {"ngram", "medusa", "mlp_speculator"}:
        yield at_name(setting, f"adaptive verification does not work with method {method(launch)}")


def _lora_budget(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    budget, seqs, length = launch.number("--max-num-batched-tokens"), launch.number("--max-num-seqs"), draft_len(launch)
    if launch.flag("--enable-lora") and budget is not None and seqs is not None and length and \
            budget < seqs * (length + 1):
        yield at(launch.settings["--max-num-batched-tokens"],
                 f"with LoRA the token budget must hold max-num-seqs x (D + 1) = {seqs * (length + 1)} rows, it is "
                 f"{budget}")


def _lookup(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    low, high = launch.number(SPEC + "prompt_lookup_min"), launch.number(SPEC + "prompt_lookup_max")
    if low is not None and high is not None and low > high:
        yield at(launch.settings[SPEC + "prompt_lookup_min"], f"prompt_lookup_min {low} is above prompt_lookup_max "
                                                              f"{high}")
    probability = launch.get(SPEC + "suffix_decoding_min_token_prob")
    if isinstance(probability, int | float) and not 0 <= probability <= 1:
        yield at(launch.settings[SPEC + "suffix_decoding_min_token_prob"], "must be a probability, 0 to 1")
    for key, least in (("max_tree_depth", 1), ("max_cached_requests", 0), ("max_spec_factor", 0)):
        value = launch.get(SPEC + "suffix_decoding_" + key)
        if isinstance(value, int | float) and value < least:
            yield at(launch.settings[SPEC + "suffix_decoding_" + key], f"must be at least {least}")


def _no_model(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind = method(launch)
    if kind in _NEEDS_MODEL and not launch.has(SPEC + "model") and launch.has(SPEC + "method"):
        yield at(launch.settings[SPEC + "method"], f"method {kind} needs the drafter: the key model is missing")


def _parallel(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting, kind = launch.settings.get(SPEC + "parallel_drafting"), method(launch)
    if setting is None or kind is None:
        return
    if launch.flag(setting.name) and kind in {"mtp", "ngram", "ngram_gpu", "suffix", "medusa"}:
        yield at_name(setting, "parallel_drafting works with EAGLE and draft_model drafters trained for it, not "
                               f"{kind}")
    if setting.value is False and kind in {"dflash", "dspark"}:
        yield at_name(setting, f"{kind} always drafts in parallel: false is overridden")


def _assistant(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    name = (drafter_name(launch) or "").lower()
    if method(launch) == "draft_model" and "gemma-4" in name and "assistant" in name:
        setting = launch.settings[SPEC + "method"]
        edits = (replace(setting.node.text, "mtp"),) if setting.node.text is not None else ()
        yield at(setting, "a Gemma-4 assistant is no draft model: it reads the target's KV cache, method is mtp",
                 *edits)


def _benchmark_only(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.get(SPEC + "rejection_sample_method") == "synthetic":
        yield at(launch.settings[SPEC + "rejection_sample_method"],
                 "synthetic acceptance answers with wrong tokens on purpose: for timing only, not for a service")



_NGRAM = '"method": "ngram", "num_speculative_tokens": 4'
_DOCS = "vLLM 0.33.0, docs/features/speculative_decoding/"
_CODE = "vLLM 0.33.0, vllm/config/speculative.py"

RULES = (
    *schedule_rules.RULES,
    Rule(code="SP107", name="vllm-target-tp", severity="error",
         summary="tensor_parallel_size inside speculative_config.",
         why="vLLM keeps the key only to refuse it.", fix="Name it draft_tensor_parallel_size; --fix does it.",
         source=_CODE + ", _verify_args",
         bad=vllm('{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 3, '
                  '"tensor_parallel_size": 1}', flags="-tp 2 ", target="meta-llama/Llama-3.1-70B-Instruct"),
         good=vllm('{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 3, '
                   '"draft_tensor_parallel_size": 1}', flags="-tp 2 ", target="meta-llama/Llama-3.1-70B-Instruct"),
         check=_target_tp),
    Rule(code="SP108", name="vllm-draft-tp-value", severity="error",
         summary="draft_tensor_parallel_size is neither 1 nor the target's.",
         why="vLLM refuses it (and early releases ignored it for draft models: check the log).",
         fix="Take 1, or the target's tensor parallel size.",
         source=_CODE + ", _verify_and_get_draft_tp; vllm-project/vllm#31886",
         bad=vllm('{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3, '
                  '"draft_tensor_parallel_size": 2}', flags="-tp 8 ", target="Qwen/Qwen3-32B"),
         good=vllm('{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3, '
                   '"draft_tensor_parallel_size": 1}', flags="-tp 8 ", target="Qwen/Qwen3-32B"),
         check=_draft_tp),
    Rule(code="SP109", name="vllm-synthetic", severity="error",
         summary="Synthetic acceptance settings that contradict each other or D.",
         why="vLLM refuses them at start-up.",
         fix="One rate per position, never rising, or a length between 1 and D + 1, with method synthetic.",
         source=_CODE + ", _resolve_synthetic_acceptance_rates",
         bad=vllm("{" + _NGRAM + ', "synthetic_acceptance_rates": [0.8, 0.6]}'),
         good=vllm("{" + _NGRAM + "}"), check=_synthetic),
    Rule(code="SP110", name="vllm-synthetic-serving", severity="warning",
         summary="Synthetic acceptance in a configuration that serves.",
         why="Tokens are accepted by dice, not by the model: answers are wrong.",
         fix="Use it in benchmarks only; silence this there with a comment and its reason.",
         source=_CODE + ", rejection_sample_method",
         bad=vllm("{" + _NGRAM + ', "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}'),
         good=vllm("{" + _NGRAM + ', "rejection_sample_method": "standard"}'), check=_benchmark_only),
    Rule(code="SP111", name="vllm-vocabularies", severity="error",
         summary="use_heterogeneous_vocab with a method or sampling that it does not support.",
         why="vLLM refuses it.", fix="method draft_model, greedy drafts, no local argmax reduction.",
         source=_CODE + ", _verify_args; " + _DOCS + "draft_model.md",
         bad=vllm("{" + _NGRAM + ', "use_heterogeneous_vocab": true}'), good=vllm("{" + _NGRAM + "}"),
         check=_vocabularies),
    Rule(code="SP112", name="vllm-adaptive", severity="error",
         summary="Adaptive verification with eager mode, LoRA, pipeline stages or a drafter without estimates.",
         why="It profiles captured graphs and cuts drafts on the device.",
         fix="Remove the other setting, or enable_adaptive_verification.", source=_DOCS + "adaptive_verification.md",
         bad=vllm('{"method": "dspark", "model": "deepseek-ai/dspark_qwen3_8b_block7", "num_speculative_tokens": 7, '
                  '"enable_adaptive_verification": true}', flags="--enable-lora ", target="Qwen/Qwen3-8B"),
         good=vllm('{"method": "dspark", "model": "deepseek-ai/dspark_qwen3_8b_block7", "num_speculative_tokens": 7, '
                   '"enable_adaptive_verification": true}', target="Qwen/Qwen3-8B"), check=_adaptive),
    Rule(code="SP113", name="vllm-lora-budget", severity="error",
         summary="With LoRA, the token budget does not hold a verify step.",
         why="A step has max-num-seqs x (D + 1) rows; vLLM refuses a smaller budget with LoRA.",
         fix="Raise --max-num-batched-tokens or lower --max-num-seqs.",
         source="vLLM, vllm/engine/arg_utils.py, create_engine_config (raises ValueError)",
         bad=vllm("{" + _NGRAM + "}", flags="--enable-lora --max-num-batched-tokens 512 --max-num-seqs 128 "),
         good=vllm("{" + _NGRAM + "}", flags="--enable-lora --max-num-batched-tokens 2048 --max-num-seqs 128 "),
         check=_lora_budget),
    Rule(code="SP114", name="vllm-lookup", severity="error",
         summary="N-gram or suffix settings out of order or range.",
         why="vLLM refuses them.", fix="prompt_lookup_min <= prompt_lookup_max; probabilities from 0 to 1.",
         source=_CODE + ", __post_init__ and _validate_suffix_decoding",
         bad=vllm("{" + _NGRAM + ', "prompt_lookup_min": 5, "prompt_lookup_max": 2}'),
         good=vllm("{" + _NGRAM + ', "prompt_lookup_min": 2, "prompt_lookup_max": 5}'), check=_lookup),
    Rule(code="SP115", name="vllm-no-drafter", severity="error",
         summary="A method that needs a drafter, without one.",
         why="'num_speculative_tokens was provided but without speculative model'.", fix="Name the drafter in model.",
         source=_CODE + ", __post_init__",
         bad=vllm('{"method": "eagle3", "num_speculative_tokens": 3}'),
         good=vllm('{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", '
                   '"num_speculative_tokens": 3}'),
         check=_no_model),
    Rule(code="SP116", name="vllm-parallel-drafting", severity="error",
         summary="parallel_drafting for a method that cannot, or must.",
         why="Only EAGLE and draft_model drafters trained for it draft in one pass; DFlash and DSpark always do.",
         fix="Remove the key.", source=_CODE + ", parallel_drafting",
         bad=vllm("{" + _NGRAM + ', "parallel_drafting": true}'),
         good=vllm('{"method": "draft_model", "model": "amd/PARD-Llama-3.2-1B", "num_speculative_tokens": 8, '
                   '"parallel_drafting": true}', target="meta-llama/Llama-3.1-70B-Instruct"), check=_parallel),
    Rule(code="SP117", name="vllm-gemma-assistant", severity="error",
         summary="A Gemma-4 assistant configured as a draft model.",
         why="It shares the target's KV cache and fails as a generic draft model.", fix="method mtp; --fix does it.",
         source=_DOCS + "mtp.md, Gemma 4 Assistant Models",
         bad=vllm('{"method": "draft_model", "model": "google/gemma-4-31B-it-assistant", "num_speculative_tokens": 4}',
                    target="google/gemma-4-31B-it"),
         good=vllm('{"method": "mtp", "model": "google/gemma-4-31B-it-assistant", "num_speculative_tokens": 4}',
                     target="google/gemma-4-31B-it"), check=_assistant),
)
