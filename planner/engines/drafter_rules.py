"""Rules about the drafter for several engines: generation, trained context, size, shards, vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines import checkpoints
from specplan.planner.engines.facts import (
    drafter,
    drafter_name,
    mechanism,
    names,
    target_name,
)
from specplan.planner.engines.launch import SPEC, Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, replace
from specplan.planner.engines.rule_examples import example
from specplan.planner.engines.rule_examples import vllm as vllm_command

SMALL_DRAFT_BILLIONS = 1.0      # below it an all-reduce per layer costs more than the shard saves (see SP016)
LARGE_DRAFT_SHARE = 0.1         # of the target's parameters (the two losses of SP017)


def _generation(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    name = drafter_name(launch)
    key = {"vllm": SPEC + "method", "sglang": "--speculative-algorithm", "lmdeploy": "--speculative-algorithm",
           "tensorrt_llm": SPEC + "decoding_type", "llama_cpp": "--spec-type"}.get(launch.engine, "")
    setting = launch.settings.get(key)
    if setting is None or not isinstance(setting.value, str) or name is None:
        return
    given = setting.value.lower()
    if checkpoints.is_eagle3(name) and given == "eagle" and launch.engine != "tensorrt_llm":
        new = "EAGLE3" if launch.engine == "sglang" else "eagle3"
        edits = () if setting.node.text is None else (replace(setting.node.text, new),)
        yield at(setting, f"'{setting.value}' for the EAGLE-3 drafter {name}: the target's hidden states are skipped, "
                          "acceptance length stays at 1.00 and nothing is logged", *edits)
    elif checkpoints.is_eagle(name) and given in {"eagle3", "draft-eagle3"}:
        yield at(setting, f"'{setting.value}' for {name}, which is an EAGLE-1 or -2 drafter by its name")
    elif checkpoints.is_eagle(name) and given == "eagle" and launch.engine == "tensorrt_llm":
        yield at(setting, f"decoding_type Eagle means Eagle3; {name} is an EAGLE-1 or -2 drafter by its name")
    elif launch.engine == "sglang" and given == "eagle3" and "assistant" in name.lower():
        yield at(setting, "a Gemma-4 assistant takes NEXTN or EAGLE; SGLang refuses EAGLE3 for it")


def _positions(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    limit, served = checkpoints.positions(drafter_name(launch)), launch.number(names(launch).context)
    place = drafter(launch)
    if limit is not None and served is not None and served > limit and place is not None:
        yield at(place, f"this drafter was trained to {limit} positions and {served} tokens are served; beyond "
                        f"{limit} acceptance collapses")


def _draft_tp(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.engine != "vllm" or mechanism(launch) not in {"draft_model", "pard"}:
        return
    tp, size = launch.number("--tensor-parallel-size"), checkpoints.billions(drafter_name(launch))
    if tp is None or tp < 2 or size is None or size >= SMALL_DRAFT_BILLIONS:
        return
    setting = launch.settings.get(SPEC + "draft_tensor_parallel_size")
    if setting is None:
        place = drafter(launch)
        if place is not None:
            yield at(place, f"a draft of {size:g}B runs on all {tp} GPUs, since draft_tensor_parallel_size is unset; "
                            "its all-reduces cost more than the shards save, set it to 1")
    elif launch.number(setting.name) == tp:
        yield at(setting, f"a draft of {size:g}B sharded over {tp} GPUs: its all-reduces cost more than the shards "
                          "save", replace(setting.node, "1"))


def _large_draft(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if mechanism(launch) != "draft_model":
        return
    name, place = drafter_name(launch), drafter(launch)
    draft, target = checkpoints.billions(name), checkpoints.billions(target_name(launch))
    # heads are named after their target
    head = checkpoints.is_eagle3(name) or checkpoints.is_eagle(name) or "assistant" in (name or "")
    if draft and target and not head and place is not None and draft > LARGE_DRAFT_SHARE * target:
        sparse = " (and the target reads only its active experts)" if checkpoints.is_moe(target_name(launch)) else ""
        yield at(place, f"a draft of {draft:g}B for a target of {target:g}B{sparse}: each drafted token costs "
                        f"{draft / target:.0%} of a target step; drafts up to a tenth pay")


def _vocabulary(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if mechanism(launch) != "draft_model" or launch.flag(SPEC + "use_heterogeneous_vocab"):
        return
    draft, target = checkpoints.families(drafter_name(launch)), checkpoints.families(target_name(launch))
    place = drafter(launch)
    if draft and target and not draft & target and place is not None:
        hint = ("; vLLM refuses it without use_heterogeneous_vocab: true" if launch.engine == "vllm"
                else "; drafts in another vocabulary are noise")
        yield at(place, f"a {'/'.join(sorted(draft))} draft for a {'/'.join(sorted(target))} target{hint}")




RULES = (
    Rule(
        code="SP014", name="eagle-generation", severity="error",
        summary="The EAGLE generation named in the configuration is not the drafter's.",
        why="EAGLE for an EAGLE-3 drafter skips the auxiliary hidden states: acceptance length is exactly 1.00, the "
            "server is slower than without speculation, and no error is printed.",
        fix="Name the drafter's generation; --fix does it for EAGLE-3 drafters.",
        source="sgl-project/sglang#21272; TensorRT-LLM "
               "docs/source/features/speculative-decoding.md ('EAGLE (v1/v2) draft checkpoints are incompatible')",
        bad=example("serve.sh", "python3 -m sglang.launch_server --model-path moonshotai/Kimi-K2.5 "
                                "--speculative-algorithm EAGLE --speculative-draft-model-path "
                                "lightseekorg/kimi-k2.5-eagle3\n"),
        good=example("serve.sh", "python3 -m sglang.launch_server --model-path moonshotai/Kimi-K2.5 "
                                 "--speculative-algorithm EAGLE3 --speculative-draft-model-path "
                                 "lightseekorg/kimi-k2.5-eagle3\n"),
        check=_generation,
    ),
    Rule(
        code="SP015", name="drafter-context", severity="warning",
        summary="The served context is longer than the drafter was trained for.",
        why="Beyond its trained positions a drafter guesses: acceptance falls towards 1 while its cost stays.",
        fix="Serve less context, take a drafter trained for it, or switch speculation off above the limit.",
        source="vLLM 0.33.0 speculative.py, _maybe_override_draft_max_position_embeddings (2048 for "
               "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B); SpecForge configs; sgl-project/sglang#6783",
        bad=vllm_command('{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", '
                         '"num_speculative_tokens": 3}',
                  target="meta-llama/Llama-3.1-8B-Instruct", flags="--max-model-len 32768 "),
        good=vllm_command('{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", '
                          '"num_speculative_tokens": 3}',
                   target="meta-llama/Llama-3.1-8B-Instruct", flags="--max-model-len 2048 "),
        check=_positions,
    ),
    Rule(
        code="SP016", name="draft-tp", severity="warning",
        summary="A draft model under 1B parameters is sharded over all GPUs of the target.",
        why="A pass of such a draft is a few tens of microseconds per layer; two all-reduces per layer cost more than "
            "the shards save. vLLM shards it by default.",
        fix="Set draft_tensor_parallel_size to 1; --fix does it where the key is there.",
        source="vLLM 0.33.0 speculative.py, _verify_and_get_draft_tp (default: the target's); vllm-project/vllm#24322, "
               "#4840, #4632, #31886",
        bad=vllm_command('{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}',
                  target="Qwen/Qwen3-32B", flags="-tp 8 "),
        good=vllm_command('{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3, '
                          '"draft_tensor_parallel_size": 1}', target="Qwen/Qwen3-32B", flags="-tp 8 "),
        check=_draft_tp,
    ),
    Rule(
        code="SP017", name="draft-too-large", severity="note",
        summary="The draft model is larger than a tenth of the target.",
        why="Drafting D tokens costs D passes of the draft: with a ratio near one nothing can be won (1.1B for 13B "
            "and 8B for 70B lost).",
        fix="Take a smaller draft, or an EAGLE-3 or MTP head.",
        source="vllm-project/vllm#5239, #21278; triton-inference-server/tensorrtllm_backend#498; guideline 4 (rho * D)",
        bad=vllm_command('{"method": "draft_model", "model": "Qwen/Qwen3-4B", "num_speculative_tokens": 3}'),
        good=vllm_command('{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}'),
        check=_large_draft,
    ),
    Rule(
        code="SP018", name="vocabulary", severity="warning",
        summary="Draft and target come from families with different vocabularies.",
        why="Tokens of another vocabulary are never accepted; vLLM refuses unequal vocabulary sizes.",
        fix="Take a draft of the target's family, or set use_heterogeneous_vocab (vLLM, greedy drafts only).",
        source="vLLM 0.33.0 speculative.py, verify_equal_vocab_size_if_draft_model; "
               "docs/features/speculative_decoding/draft_model.md",
        bad=vllm_command('{"method": "draft_model", "model": "HuggingFaceTB/SmolLM2-135M-Instruct", '
                         '"num_speculative_tokens": 3}'),
        good=vllm_command('{"method": "draft_model", "model": "HuggingFaceTB/SmolLM2-135M-Instruct", '
                          '"num_speculative_tokens": 3, "use_heterogeneous_vocab": true}'),
        check=_vocabulary,
    ),
)
