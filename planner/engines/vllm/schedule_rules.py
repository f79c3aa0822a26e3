"""vLLM's batch schedule, num_speculative_tokens_per_batch_size. Source: vLLM 0.33.0,
vllm/v1/spec_decode/dynamic/utils.py and docs/features/speculative_decoding/dynamic_speculative_decoding.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specplan.planner.engines.facts import draft_len
from specplan.planner.engines.launch import SPEC, Launch, whole
from specplan.planner.engines.located import UNKNOWN, Node
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name, replace
from specplan.planner.engines.rule_examples import vllm
from specplan.planner.engines.vllm.configuration import schedule

_SCHEDULE = SPEC + "num_speculative_tokens_per_batch_size"


def _schedule_form(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(_SCHEDULE)
    if setting is None or setting.value is UNKNOWN or setting.value is None:
        return
    node = setting.node
    if isinstance(node.value, dict):
        rows = _rows(node)
        yield at(node, 'the form {"1-16": 3} of the first release (May 2026) is gone; it takes a list of '
                       "[first, last, D]", *([replace(node, rows)] if rows else []))
        return
    if not isinstance(node.value, list) or not node.value:
        yield at(node, "must be a list of [first batch, last batch, D]")
        return
    for row in node.value:
        if not isinstance(row.value, list) or len(row.value) not in {3, 5} or \
                any(whole(cell.value) is None and cell.value is not UNKNOWN for cell in row.value):
            yield at(row, "must be three whole numbers [first batch, last batch, D]")


def _rows(node: Node) -> str:
    found = []
    for key, child in node.value.items():
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", key.strip())
        if not match or whole(child.value) is None:
            return ""
        found.append(f"[{match[1]}, {match[2] or match[1]}, {child.value}]")
    return "[" + ", ".join(found) + "]"


def _schedule_ranges(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    tiers = schedule(launch)
    if tiers is None:
        return
    rows = launch.settings[_SCHEDULE].node.value
    if min(tier.first for tier in tiers) != 1:
        yield at(rows[0], "the schedule must start at batch 1, so that each batch has a length")
    end, before = 0, None
    for tier, row in zip(tiers, rows, strict=True):
        if tier.first > tier.last:
            yield at(row, f"the range ends ({tier.last}) before it starts ({tier.first})")
        elif tier.first <= end:
            yield at(row, f"the range {tier.first}-{tier.last} overlaps the one before it, which ends at {end}")
        elif end and tier.first > end + 1:
            yield at(row, f"batches {end + 1}-{tier.first - 1} are in no range: they keep D = {before} of the range "
                          "before")
        if tier.draft_len < 0:
            yield at(row, f"D = {tier.draft_len} is negative; 0 switches drafting off")
        end, before = max(end, tier.last), tier.draft_len


def _schedule_above(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    tiers, length = schedule(launch), draft_len(launch)
    for tier, row in zip(tiers or (), launch.settings[_SCHEDULE].node.value if tiers else (), strict=True):
        if length is not None and tier.draft_len > length:
            yield at(row.value[2], f"D = {tier.draft_len} is above num_speculative_tokens = {length}, which caps it")


def _schedule_runner(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.has(_SCHEDULE) and launch.environment("VLLM_USE_V2_MODEL_RUNNER") == "0":
        yield at_name(launch.settings[_SCHEDULE], "a schedule on the V1 model runner (VLLM_USE_V2_MODEL_RUNNER=0) "
                                                  "replays piecewise graphs only: up to 21.6 % slower than off where "
                                                  "it never drafts (vllm#52087), and it thrashes at its thresholds "
                                                  "(vllm#49548)")


def _schedule_dp(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.has(_SCHEDULE) and (launch.number("--data-parallel-size") or 1) > 1:
        yield at_name(launch.settings[_SCHEDULE], "ignored with data parallelism: vLLM falls back to the fixed "
                                                  f"num_speculative_tokens = {draft_len(launch)}")


def _schedule_zero(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    tiers = schedule(launch)
    if tiers and all(tier.draft_len == 0 for tier in tiers):
        yield at(launch.settings[_SCHEDULE], "no range drafts: the loaded drafter and the scheduler still cost up to "
                                             "21.6 % (vllm#52087); remove --speculative-config for plain decoding")



def _with_schedule(rows: str, *, flags: str = "", env: str = "") -> tuple[str, str]:
    return vllm('{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 3, '
                f'"num_speculative_tokens_per_batch_size": {rows}}}', flags=flags, env=env)


_GOOD = "[[1, 64, 3], [65, 128, 1], [129, 512, 0]]"
_DOCS = "vLLM 0.33.0, docs/features/speculative_decoding/"

RULES = (
    Rule(code="SP101", name="vllm-schedule-form", severity="error",
         summary="The batch schedule is not a list of [first, last, D].",
         why="The dictionary of the first release is refused now.", fix="Write triples; --fix converts the old form.",
         source="vLLM 0.33.0, vllm/v1/spec_decode/dynamic/utils.py; vllm-project/vllm#32374 (first release, May 2026)",
         bad=_with_schedule('{"1-64": 3, "65-512": 1}'), good=_with_schedule(_GOOD), check=_schedule_form),
    Rule(code="SP102", name="vllm-schedule-ranges", severity="error",
         summary="The ranges of the batch schedule overlap, leave a gap or do not start at 1.",
         why="vLLM refuses overlaps and a late start; a gap silently keeps the length of the range before it.",
         fix="Let each range start one after the end of the one before.",
         source="vLLM 0.33.0, vllm/v1/spec_decode/dynamic/utils.py, validate_and_normalize_dynamic_sd_schedule",
         bad=_with_schedule("[[1, 64, 3], [64, 128, 1]]"), good=_with_schedule(_GOOD), check=_schedule_ranges),
    Rule(code="SP103", name="vllm-schedule-above", severity="warning",
         summary="A tier drafts more than num_speculative_tokens.",
         why="num_speculative_tokens is the largest window: the tier is cut to it.",
         fix="Raise num_speculative_tokens to the longest tier, or lower the tier.",
         source=_DOCS + "dynamic_speculative_decoding.md ('must be less than or equal')",
         bad=_with_schedule("[[1, 16, 5], [17, 512, 1]]"), good=_with_schedule(_GOOD), check=_schedule_above),
    Rule(code="SP104", name="vllm-schedule-runner", severity="warning",
         summary="A batch schedule on the V1 model runner.",
         why="There, variable draft lengths replay piecewise graphs only.",
         fix="Remove VLLM_USE_V2_MODEL_RUNNER=0, or use one draft length.",
         source=_DOCS + "dynamic_speculative_decoding.md, Limitations; vllm-project/vllm#49548, #52087",
         bad=_with_schedule(_GOOD, env="VLLM_USE_V2_MODEL_RUNNER=0 "), good=_with_schedule(_GOOD),
         check=_schedule_runner),
    Rule(code="SP105", name="vllm-schedule-dp", severity="warning",
         summary="A batch schedule with data parallelism.",
         why="Ranks would pick different lengths and block each other, so vLLM switches the schedule off.",
         fix="Choose one draft length, or serve without data parallelism.",
         source=_DOCS + "dynamic_speculative_decoding.md, Limitations",
         bad=_with_schedule(_GOOD, flags="-dp 2 "), good=_with_schedule(_GOOD, flags="-tp 2 "), check=_schedule_dp),
    Rule(code="SP106", name="vllm-schedule-zero", severity="warning",
         summary="A batch schedule that never drafts.",
         why="D = 0 with a drafter loaded is not plain decoding: KV memory, hidden states and graphs are paid.",
         fix="Remove --speculative-config.",
         source="vllm-project/vllm#52087 (+6.5 to +21.6 % time per token)",
         bad=_with_schedule("[[1, 512, 0]]"), good=_with_schedule(_GOOD), check=_schedule_zero),
)
