"""What can be wrong with an SGLang configuration. Source of the checks: SGLang 0.5.23, python/sglang/srt/arg_groups/
speculative_hook.py (stored copy 004c82e0) and speculative/eagle_utils.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name, replace
from specplan.planner.engines.rule_examples import CHAIN, example
from specplan.planner.engines.rule_examples import sglang as sglang_command
from specplan.planner.engines.sglang import adaptive_rules
from specplan.planner.engines.sglang.configuration import (
    WITHOUT_DP_ATTENTION,
    algorithm,
)

_STEPS, _TOPK, _WIDTH = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"
_SERIAL = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})


def _chain_width(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    steps, topk, width = (launch.number(name) for name in (_STEPS, _TOPK, _WIDTH))
    if algorithm(launch) in _SERIAL and topk == 1 and steps is not None and width is not None and width != steps + 1:
        setting, drafts = launch.settings[_WIDTH], "1 draft" if width == 2 else f"{width - 1} drafts"
        yield at(setting, f"num-draft-tokens counts the root: at topk 1 it is num-steps + 1 = {steps + 1}, not "
                          f"{width}; old releases verify {drafts} of {steps}, new ones reset it",
                 replace(setting.node, str(steps + 1)))


def _tree_nodes(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    steps, topk, width = (launch.number(name) for name in (_STEPS, _TOPK, _WIDTH))
    if algorithm(launch) not in _SERIAL or steps is None or topk is None or width is None or topk < 2:
        return
    nodes = topk + (steps - 1) * topk * topk
    if width - 1 > nodes:
        yield at(launch.settings[_WIDTH], f"{width - 1} drafts are asked from a tree of {nodes} nodes (topk {topk}, "
                                          f"{steps} steps): 'selected index k out of range'")


def _partial(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if algorithm(launch) not in _SERIAL or launch.has(_STEPS) or launch.flag("--speculative-adaptive"):
        return
    given = [launch.settings[name] for name in (_TOPK, _WIDTH) if launch.has(name)]
    if given and launch.complete:
        names = " and ".join(setting.written.value for setting in given)
        yield at_name(given[0], f"{names} without --speculative-num-steps: SGLang stops with an assertion; set all "
                                "three or none")


def _block_width(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    width, kind = launch.number(_WIDTH), algorithm(launch)
    if width is None:
        return
    dflash, dspark = (launch.number(f"--speculative-{name}-block-size") for name in ("dflash", "dspark"))
    if kind == "DFLASH" and dflash is not None and dflash != width:
        yield at(launch.settings[_WIDTH], f"for DFLASH it is the block, anchor included: {dflash}, not {width}")
    if kind == "DSPARK" and dspark is not None and width != dspark + 1:
        yield at(launch.settings[_WIDTH], f"for DSPARK it is the block + 1 = {dspark + 1}, not {width}")


def _rejection(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if not launch.flag("--speculative-use-rejection-sampling"):
        return
    topk, kind = launch.number(_TOPK), algorithm(launch)
    setting = launch.settings["--speculative-use-rejection-sampling"]
    if topk is not None and topk > 1:
        yield at_name(setting, f"rejection sampling needs topk 1, not {topk}")
    if kind in {"STANDALONE", "NGRAM", "DFLASH"}:
        yield at_name(setting, f"rejection sampling is not implemented for {kind}")
    for name in ("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc"):
        value = launch.get(name, 1.0)
        if isinstance(value, int | float) and float(value) != 1.0:
            yield at(launch.settings[name], "rejection sampling ignores the accept thresholds; SGLang refuses both "
                                            "together")


def _dp_attention(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind = algorithm(launch)
    if launch.flag("--enable-dp-attention") and kind in WITHOUT_DP_ATTENTION:
        yield at_name(launch.settings["--enable-dp-attention"], f"{kind} does not work with DP attention")


def _backend(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    topk, backend, page = launch.number(_TOPK), launch.text("--attention-backend"), launch.number("--page-size")
    if topk is None or topk < 2 or backend is None or algorithm(launch) not in _SERIAL:
        return
    setting = launch.settings["--attention-backend"]
    if backend == "trtllm_mha":
        yield at(setting, f"trtllm_mha verifies chains only (topk 1), not topk {topk}")
    elif page is not None and page > 1 and backend not in {"flashinfer", "fa3", "triton"}:
        yield at(setting, f"topk {topk} with page size {page} works on flashinfer, fa3 and triton, not on {backend}")


def _no_drafter(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind = algorithm(launch)
    if kind in {"EAGLE3", "STANDALONE", "DFLASH"} and launch.complete and not launch.fragment and \
            not launch.has("--speculative-draft-model-path"):
        yield at(launch.settings["--speculative-algorithm"], f"{kind} needs --speculative-draft-model-path")


def _removed_variable(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.env.get("SGLANG_ENABLE_SPEC_V2")
    if setting is not None:
        yield at_name(setting, "SGLANG_ENABLE_SPEC_V2 is gone: the V2 worker always runs; --disable-overlap-schedule "
                               "is the other path")



_HOOK = "SGLang 0.5.23, python/sglang/srt/arg_groups/speculative_hook.py"

RULES = (
    *adaptive_rules.RULES,
    Rule(code="SP201", name="sglang-chain-width", severity="warning",
         summary="At topk 1, num-draft-tokens is not num-steps + 1.",
         why="It is the verify width, the root included. 2 with 2 steps verifies one draft of two (a lower AL than "
             "vLLM with the same weights); new releases reset it with a warning, so the file lies.",
         fix="num-draft-tokens = num-steps + 1; --fix does it.",
         source=_HOOK + ", _handle_eagle_family; sgl-project/sglang#8228, #3582",
         bad=sglang_command(_STEPS + " 2", _TOPK + " 1", _WIDTH + " 2"), good=sglang_command(*CHAIN),
         check=_chain_width),
    Rule(code="SP202", name="sglang-tree-nodes", severity="error",
         summary="More drafts are asked from the tree than it has nodes.",
         why="The draft picks num-draft-tokens - 1 of topk + (steps - 1) x topk^2 candidates and stops with 'selected "
             "index k out of range'.",
         fix="Lower num-draft-tokens, or raise steps or topk.",
         source="SGLang 0.5.23, speculative/eagle_utils.py, organize_draft_results; sgl-project/sglang#5160",
         bad=sglang_command(_STEPS + " 1", _TOPK + " 4", _WIDTH + " 16"),
         good=sglang_command(_STEPS + " 3", _TOPK + " 4", _WIDTH + " 16"),
         check=_tree_nodes),
    Rule(code="SP203", name="sglang-partial-triple", severity="error",
         summary="topk or num-draft-tokens is set, num-steps is not.",
         why="SGLang chooses all three or none; with some it stops with an assertion. Which of the numbers is the "
             "draft length is asked often: num-steps is.",
         fix="Set all three flags, or none.", source=_HOOK + ", _handle_eagle_family; sgl-project/sglang#3883",
         bad=sglang_command(_TOPK + " 8", _WIDTH + " 64"), good=sglang_command(*CHAIN), check=_partial),
    Rule(code="SP204", name="sglang-block-width", severity="error",
         summary="Block size and num-draft-tokens contradict each other.",
         why="A DFLASH block is the verify window (anchor included), a DSPARK block is one less than it; SGLang "
             "refuses other pairs.",
         fix="Give the block size alone.", source=_HOOK + ", _handle_dflash and _handle_dspark",
         bad=sglang_command("--speculative-dspark-block-size 7", _WIDTH + " 7", algorithm="DSPARK"),
         good=sglang_command("--speculative-dspark-block-size 7", algorithm="DSPARK"), check=_block_width),
    Rule(code="SP205", name="sglang-rejection-sampling", severity="error",
         summary="Rejection sampling with a tree, thresholds or an algorithm that lacks it.",
         why="SGLang refuses the combination.", fix="topk 1, thresholds at 1.0, EAGLE, EAGLE3, NEXTN or DSPARK.",
         source=_HOOK + ", _handle_eagle_family",
         bad=sglang_command(_STEPS + " 3", _TOPK + " 4", _WIDTH + " 8", "--speculative-use-rejection-sampling"),
         good=sglang_command(*CHAIN, "--speculative-use-rejection-sampling"), check=_rejection),
    Rule(code="SP206", name="sglang-dp-attention", severity="error",
         summary="An algorithm that does not work with DP attention.",
         why="SGLang refuses STANDALONE, NGRAM and DFLASH with it.",
         fix="Remove --enable-dp-attention or take EAGLE.", source=_HOOK,
         bad=sglang_command("--enable-dp-attention", algorithm="STANDALONE"),
         good=sglang_command("--enable-dp-attention", *CHAIN),
         check=_dp_attention),
    Rule(code="SP207", name="sglang-tree-backend", severity="error",
         summary="A tree on an attention backend that verifies chains only.",
         why="trtllm_mha takes topk 1; with pages larger than 1 only flashinfer, fa3 and triton take trees.",
         fix="topk 1, or another backend.", source=_HOOK + ", _handle_eagle_family",
         bad=sglang_command(_STEPS + " 3", _TOPK + " 4", _WIDTH + " 8", "--attention-backend trtllm_mha"),
         good=sglang_command(*CHAIN, "--attention-backend trtllm_mha"), check=_backend),
    Rule(code="SP208", name="sglang-no-drafter", severity="error",
         summary="An algorithm that needs a drafter, without one.",
         why="EAGLE3, STANDALONE and DFLASH load their drafter from --speculative-draft-model-path.",
         fix="Name the drafter.", source=_HOOK + "; docs_new speculative_decoding.mdx",
         bad=example("serve.sh", "python3 -m sglang.launch_server --model-path org/target --speculative-algorithm "
                                 "DFLASH\n"),
         good=sglang_command(algorithm="DFLASH"), check=_no_drafter),
    Rule(code="SP211", name="sglang-removed-variable", severity="note",
         summary="SGLANG_ENABLE_SPEC_V2 has no effect any more.",
         why="The V2 worker always runs.", fix="Remove the variable.", source=_HOOK + ", handle_speculative_decoding",
         bad=example("serve.sh", "SGLANG_ENABLE_SPEC_V2=True " + sglang_command(*CHAIN)[1]),
         good=sglang_command(*CHAIN), check=_removed_variable),
)
