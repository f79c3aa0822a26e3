"""What can be wrong with a TensorRT-LLM configuration. Source of the checks: TensorRT-LLM main (1.4.0rc4),
tensorrt_llm/llmapi/llm_args.py (stored copy 00043967).
"""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import SPEC, Launch, at_least, whole
from specplan.planner.engines.located import UNKNOWN
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name
from specplan.planner.engines.tensorrt_llm.configuration import UPPER_BOUNDS_SINCE, decoding_type, schedule

_SCHEDULE = SPEC + "draft_len_schedule"


def _meaning(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    pairs = schedule(launch)
    if pairs is None:
        return
    setting, keys, values = launch.settings[_SCHEDULE], list(pairs), list(pairs.values())
    if at_least(launch.version, UPPER_BOUNDS_SINCE):
        if keys[0] == 1 and len(keys) > 1:
            now = [f"{pairs[1]} at batch 1", *(f"{pairs[key]} to batch {key}" for key in keys[1:])]
            off = ", 0 above" if values[-1] else ""
            yield at(setting, "keys are a tier's highest batch since pull request 10860 (March 2026); a key 1 is the "
                              f"old form, by lowest batch: this now means {', '.join(now)}{off}")
    elif keys[0] != 1:
        yield at(setting, f"in {launch.version} keys are a tier's lowest batch and key 1 is required; this is the "
                          "form by highest batch of March 2026 and later")


def _first(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    pairs, longest = schedule(launch), launch.number(SPEC + "max_draft_len")
    if pairs is None or longest is None:
        return
    setting, first = launch.settings[_SCHEDULE], next(iter(pairs))
    if pairs[first] != longest:
        yield at(setting, f"the smallest key ({first}) must have max_draft_len = {longest}, it has {pairs[first]}")
    for key, value in pairs.items():
        if value > longest and key != first:
            yield at(setting, f"{value} drafts at key {key} is above max_draft_len = {longest}")


def _values(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(_SCHEDULE)
    if setting is None or setting.value is UNKNOWN or setting.value is None:
        return
    if not isinstance(setting.value, dict) or not setting.value:
        yield at(setting, "must map batches to draft lengths")
        return
    for key, child in setting.node.value.items():
        if (whole(key) or 0) < 1 and child.key is not None:
            yield at(child.key, f"a batch is at least 1, not {key}")
        if child.value is not UNKNOWN and (whole(child.value) is None or (whole(child.value) or 0) < 0):
            yield at(child, "a draft length is a whole number, 0 or more")


def _concurrency(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.has(_SCHEDULE) and launch.get(SPEC + "max_concurrency") is not None:
        yield at_name(launch.settings[SPEC + "max_concurrency"],
                      "excludes draft_len_schedule, which already ends speculation above its last key")


def _no_drafter(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind = decoding_type(launch)
    if kind in {"Eagle3", "Draft_Target", "PARD", "DFlash"} and not launch.has(
            SPEC + "speculative_model", SPEC + "speculative_model_dir"):
        yield at(launch.settings[SPEC + "decoding_type"], f"{kind} needs the drafter: speculative_model is missing")


def _dynamic_tree(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    topk, depth = launch.number(SPEC + "dynamic_tree_max_topK"), launch.number(SPEC + "max_draft_len")
    total = launch.number(SPEC + "max_total_draft_tokens")
    on = launch.flag(SPEC + "use_dynamic_tree")
    if not on and topk is not None:
        yield at_name(launch.settings[SPEC + "dynamic_tree_max_topK"], "is ignored: use_dynamic_tree is not true")
    if on and topk is None:
        yield at_name(launch.settings[SPEC + "use_dynamic_tree"], "needs dynamic_tree_max_topK")
    if on and topk and depth and total is not None and not depth <= total <= topk * depth:
        yield at(launch.settings[SPEC + "max_total_draft_tokens"],
                 f"must be between max_draft_len = {depth} and topK x max_draft_len = {topk * depth}, not {total}")
    if on and launch.has(SPEC + "eagle_choices"):
        yield at_name(launch.settings[SPEC + "eagle_choices"], "excludes use_dynamic_tree")


def _threshold(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    rate = launch.settings.get(SPEC + "acceptance_rate_threshold")
    if rate is None:
        return
    if isinstance(rate.value, int | float) and not 0 <= rate.value <= 1:
        yield at(rate, f"is accepted/drafted, from 0 to 1; {rate.value:g} looks like an acceptance length")
    if not launch.number(SPEC + "acceptance_rate_window_size"):
        yield at_name(rate, "has no effect: acceptance_rate_window_size is unset or 0")


def _dspark_block(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    block, length = launch.number(SPEC + "block_size"), launch.number(SPEC + "max_draft_len")
    if decoding_type(launch) == "DSpark" and block is not None and length is not None and block != length:
        yield at(launch.settings[SPEC + "block_size"], f"should equal max_draft_len = {length}, it is {block}")


def _file(*lines: str) -> tuple[str, str]:
    return "config.yaml", "speculative_config:\n" + "".join(f"  {line}\n" for line in lines)


_EAGLE = ("decoding_type: Eagle3", "max_draft_len: 4", "speculative_model: nvidia/gpt-oss-120b-Eagle3")
_CODE = "TensorRT-LLM main (1.4.0rc4), llmapi/llm_args.py"

RULES = (
    Rule(code="SP301", name="trtllm-schedule-meaning", severity="warning",
         summary="draft_len_schedule in the meaning of another release.",
         why="The key was a tier's lowest batch and is its highest since pull request 10860; the field kept its name, "
             "so an old table loads and drafts at the wrong batches.",
         fix="{1: 4, 5: 2, 9: 0} by lowest batch is {4: 4, 8: 2} by highest.",
         source="NVIDIA/TensorRT-LLM#10860; " + _CODE + ", draft_len_schedule",
         bad=_file(*_EAGLE, "draft_len_schedule: {1: 4, 4: 2, 8: 0}"),
         good=_file(*_EAGLE, "draft_len_schedule: {4: 4, 8: 2, 32: 1}"), check=_meaning),
    Rule(code="SP302", name="trtllm-schedule-first", severity="error",
         summary="The smallest key of the schedule does not draft max_draft_len, or a later one drafts more.",
         why="TensorRT-LLM refuses it.", fix="Set max_draft_len to the length of the smallest key.",
         source=_CODE + ", validate_draft_len_schedule_and_sort",
         bad=_file(*_EAGLE, "draft_len_schedule: {4: 3, 8: 2}"),
         good=_file(*_EAGLE, "draft_len_schedule: {4: 4, 8: 2}"), check=_first),
    Rule(code="SP303", name="trtllm-schedule-values", severity="error",
         summary="The schedule has batches below 1 or lengths that are no numbers.",
         why="TensorRT-LLM refuses it.", fix="Batches from 1, lengths from 0.",
         source=_CODE + ", validate_draft_len_schedule_and_sort",
         bad=_file(*_EAGLE, "draft_len_schedule: {0: 4, 8: 2}"),
         good=_file(*_EAGLE, "draft_len_schedule: {4: 4, 8: 2}"), check=_values),
    Rule(code="SP304", name="trtllm-concurrency", severity="error",
         summary="max_concurrency together with draft_len_schedule.",
         why="They are mutually exclusive.", fix="Keep the schedule.",
         source=_CODE + ", validate_max_concurrency_and_draft_len_schedule_mutually_exclusive",
         bad=_file(*_EAGLE, "max_concurrency: 16", "draft_len_schedule: {4: 4, 8: 2}"),
         good=_file(*_EAGLE, "max_concurrency: 16"), check=_concurrency),
    Rule(code="SP305", name="trtllm-no-drafter", severity="error",
         summary="A decoding_type that needs a drafter, without one.",
         why="'Draft model must be provided for EAGLE'.", fix="Name it in speculative_model.",
         source=_CODE + ", validate_speculative_model",
         bad=_file("decoding_type: Eagle3", "max_draft_len: 4"), good=_file(*_EAGLE), check=_no_drafter),
    Rule(code="SP306", name="trtllm-dynamic-tree", severity="error",
         summary="Dynamic tree settings that do not fit together.",
         why="The tree needs a topK, and its budget lies between the depth and topK x depth.",
         fix="max_draft_len <= max_total_draft_tokens <= topK x max_draft_len, with use_dynamic_tree: true.",
         source=_CODE + ", validate_eagle_config",
         bad=_file(*_EAGLE, "use_dynamic_tree: true", "dynamic_tree_max_topK: 2", "max_total_draft_tokens: 60"),
         good=_file(*_EAGLE, "use_dynamic_tree: true", "dynamic_tree_max_topK: 10", "max_total_draft_tokens: 40"),
         check=_dynamic_tree),
    Rule(code="SP307", name="trtllm-threshold", severity="warning",
         summary="The acceptance threshold has no window, or is no rate.",
         why="Without a window the feature is off; a length in place of the rate would switch speculation off for "
             "good.",
         fix="Set acceptance_rate_window_size and a rate from 0 to 1.", source=_CODE + ", acceptance_rate_threshold",
         bad=_file(*_EAGLE, "acceptance_rate_threshold: 0.3"),
         good=_file(*_EAGLE, "acceptance_rate_window_size: 100", "acceptance_rate_threshold: 0.3"), check=_threshold),
    Rule(code="SP308", name="trtllm-dspark-block", severity="warning",
         summary="A DSpark block_size that is not max_draft_len.",
         why="The block is what is drafted in a round.", fix="Give max_draft_len alone; the block is read from the "
                                                             "drafter.",
         source=_CODE + ", DSparkDecodingConfig.block_size",
         bad=_file("decoding_type: DSpark", "max_draft_len: 4", "block_size: 7"),
         good=_file("decoding_type: DSpark", "max_draft_len: 7", "block_size: 7"), check=_dspark_block),
)
