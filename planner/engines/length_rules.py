"""Rules about D for several engines: what a block counts, what MTP modules take, when a tree pays."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines import checkpoints
from specplan.planner.engines.facts import (
    draft_len,
    drafter_name,
    is_speculative,
    length_setting,
    mechanism,
    names,
    target_name,
)
from specplan.planner.engines.launch import SPEC, Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, replace
from specplan.planner.engines.rule_examples import example
from specplan.planner.engines.rule_examples import vllm as vllm_command
from specplan.planner.engines.sglang import configuration as sglang
from specplan.planner.engines.tensorrt_llm import configuration as tensorrt_llm
from specplan.planner.engines.vllm import configuration as vllm


def _missing(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.engine == "vllm" and is_speculative(launch) and not launch.has(SPEC + "num_speculative_tokens"):
        kind, place = vllm.method(launch), launch.settings.get("--speculative-config")
        if not launch.has(SPEC + "method") and not launch.has(SPEC + "model"):
            return
        inside = kind in {"mtp", "dspark"} and not launch.has(SPEC + "model")
        if inside or kind in {"ngram", "ngram_gpu", "draft_model"}:
            why = "vLLM cannot read it from this checkpoint" if inside else f"{kind} has no default"
            yield at(place or launch.settings[SPEC + ("method" if launch.has(SPEC + "method") else "model")],
                     f"num_speculative_tokens is missing: {why}, start-up fails")
    if launch.engine == "tensorrt_llm" and launch.has(SPEC + "decoding_type"):
        kind = tensorrt_llm.decoding_type(launch)
        needed = kind in {"Eagle3", "NGram", "Draft_Target", "SA", "PARD", "DFlash"}
        if needed and not launch.has(SPEC + "max_draft_len"):
            yield at(launch.settings[SPEC + "decoding_type"], f"max_draft_len is missing: {kind} has no default")


def _block(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind, length, setting = mechanism(launch), draft_len(launch), length_setting(launch)
    name = drafter_name(launch)
    size = checkpoints.block(name if launch.has(names(launch).drafter) else target_name(launch))
    if kind != "dflash" or length is None or setting is None or size is None or launch.engine == "sglang":
        return
    if length == size and not checkpoints.drafts_from_anchor(name):
        edits = (replace(setting.node, str(size - 1)),)
        yield at(setting, f"D = {length} is the block size of this DFlash drafter; the anchor takes one place, so "
                          f"{size - 1} tokens are drafted", *edits)
    elif length > size:
        yield at(setting, f"D = {length} is beyond the drafter's block of {size} (D = {size - 1} at most)")


def _trained(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    length, setting = draft_len(launch), length_setting(launch)
    if length is None or setting is None:
        return
    kind, name = mechanism(launch), drafter_name(launch)
    size = checkpoints.block(name) or checkpoints.block(target_name(launch))
    if kind == "dspark" and size is not None:
        if length > size and not launch.flag(SPEC + "enable_adaptive_verification"):
            yield at(setting, f"D = {length} is beyond the drafter's trained block of {size}: acceptance of all "
                              "positions may collapse")
        elif length < size and launch.engine == "vllm" and (launch.version or "").startswith("0.26."):
            yield at(setting, f"vLLM 0.26 refuses a D below the DSpark block of {size}")
    if kind == "dflash" and launch.engine == "sglang" and size is not None and length + 1 > size:
        yield at(setting, f"a verify block of {length + 1} is beyond the drafter's trained block of {size}")


def _mtp_multiple(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.engine != "vllm" or mechanism(launch) != "mtp":
        return
    length, setting = draft_len(launch), length_setting(launch)
    depth = checkpoints.mtp_depth(drafter_name(launch) or target_name(launch))
    if length is not None and setting is not None and depth and length > depth and length % depth:
        near = sorted({length - length % depth, length - length % depth + depth})
        yield at(setting, f"D = {length} is above the {depth} MTP modules and not a multiple of them: vLLM refuses "
                          f"it; take {' or '.join(map(str, near))}")


def _tree(launch: Launch, context: Context) -> Iterator[Hit]:
    topk, setting = launch.number("--speculative-eagle-topk"), launch.settings.get("--speculative-eagle-topk")
    if launch.engine != "sglang" or topk is None or topk < 2 or setting is None:
        return
    steps, width = launch.number("--speculative-num-steps"), launch.number("--speculative-num-draft-tokens")
    target, kind = target_name(launch), sglang.algorithm(launch)
    inside = kind == "NEXTN" or (kind == "EAGLE" and not launch.has("--speculative-draft-model-path"))
    if inside:
        why = "an MTP module is trained as a chain"
    elif checkpoints.is_moe(target) or checkpoints.is_moe(drafter_name(launch)):
        why = "each extra row of a mixture of experts reads other experts"
    elif context.batch is not None and context.batch > 1:
        why = f"at batch {context.batch} ({context.batch_source}) the rows are {(width or 0) * context.batch}"
    else:
        return
    rows = f"{width} rows are verified per sequence for a depth of D = {steps}" if width and steps else "a tree"
    chain = f"; the chain of the same depth is topk 1 with num-draft-tokens {steps + 1}" if steps else ""
    yield at(setting, f"topk {topk} makes a tree: {rows}, and {why}{chain}")




RULES = (
    Rule(
        code="SP010", name="draft-length-missing", severity="error",
        summary="The draft length is left to the engine, which has no value for it.",
        why="For a checkpoint with MTP modules inside, vLLM takes the target as drafter only when "
            "num_speculative_tokens is given; without it start-up fails.",
        fix="Write the draft length.",
        source="vLLM 0.33.0 speculative.py, __post_init__ and _verify_args; recipes models/Qwen/Qwen3.8-27B.yaml; "
               "TensorRT-LLM main llm_args.py ('max_draft_len must be > 0')",
        bad=vllm_command('{"method": "mtp"}', target="Qwen/Qwen3.8-27B"),
        good=vllm_command('{"method": "mtp", "num_speculative_tokens": 3}', target="Qwen/Qwen3.8-27B"),
        check=_missing,
    ),
    Rule(
        code="SP011", name="block-counts-anchor", severity="warning",
        summary="D equals (or exceeds) the block size of a DFlash drafter, which counts the anchor.",
        why="Slot 0 of a DFlash block repeats the last accepted token: a block of 16 drafts 15. One more is outside "
            "what the drafter was trained for. Domino and speculators heads that sample from the anchor are exempt.",
        fix="Take block size - 1; --fix does it.",
        source="vLLM recipes models/meta-models/Muse-Glimmer-30B.yaml ('15 is what remains'), "
               "models/Qwen/Qwen3.8-27B.yaml (block_size 8 minus one); microsoft/onnxruntime-genai#2559",
        bad=vllm_command('{"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 16}'),
        good=vllm_command('{"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 15}'),
        check=_block,
    ),
    Rule(
        code="SP012", name="beyond-trained-block", severity="warning",
        summary="D is outside the block that a DSpark or DFlash drafter was trained for.",
        why="Positions beyond the block are untrained, and the noise tokens there disturb the positions before them.",
        fix="Keep D within the block, or let confidence decide (enable_adaptive_verification).",
        source="vllm-project/vllm#41834 (D = 7 on a block of 5: acceptance length 1.31, at 5 it is 2.74), #47419 and "
               "#50012 (the check of 0.26), vllm-project/recipes#967; SGLang 0.5.23 speculative_hook.py (verify window "
               "= gamma + 1)",
        bad=vllm_command('{"method": "dspark", "model": "deepseek-ai/dspark_qwen3_8b_block7", '
                         '"num_speculative_tokens": 9}'),
        good=vllm_command('{"method": "dspark", "model": "deepseek-ai/dspark_qwen3_8b_block7", '
                          '"num_speculative_tokens": 7}'),
        check=_trained,
    ),
    Rule(
        code="SP013", name="mtp-not-a-multiple", severity="error",
        summary="D is above the number of MTP modules and not a multiple of it.",
        why="vLLM runs the modules in rounds and refuses a broken round at start-up.",
        fix="Take a multiple of the module count, or at most the count itself.",
        source="vLLM 0.33.0 speculative.py: 'num_speculative_tokens must be divisible by n_predict'",
        bad=vllm_command('{"method": "mtp", "num_speculative_tokens": 4}', target="MiniMaxAI/MiniMax-M2.5"),
        good=vllm_command('{"method": "mtp", "num_speculative_tokens": 3}', target="MiniMaxAI/MiniMax-M2.5"),
        check=_mtp_multiple,
    ),
    Rule(
        code="SP019", name="tree", severity="warning",
        summary="A tree of drafts where a chain does better: MTP, mixtures of experts, batches.",
        why="A tree verifies many rows per sequence to gain a little acceptance. MTP modules are trained as chains, "
            "extra rows of a mixture of experts read more weights, and rows of a batch add up. At "
            "topk 1 num-draft-tokens = num-steps + 1 is right: the extra row is the root, not a mistake.",
        fix="topk 1 and num-draft-tokens = num-steps + 1.",
        source="sgl-project/SpecForge#164; Tencent/AngelSlim#9; THUDM/slime#1248; SafeAILab/EAGLE#298",
        bad=example("serve.sh", "python3 -m sglang.launch_server --model XiaomiMiMo/MiMo-7B-RL "
                                "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 2 "
                                "--speculative-num-draft-tokens 5\n"),
        good=example("serve.sh", "python3 -m sglang.launch_server --model XiaomiMiMo/MiMo-7B-RL "
                                 "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
                                 "--speculative-num-draft-tokens 4\n"),
        check=_tree,
    ),
)
