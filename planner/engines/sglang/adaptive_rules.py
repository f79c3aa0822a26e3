"""SGLang's adaptive mode. Source: SGLang 0.5.23, python/sglang/srt/speculative/adaptive_spec_params.py."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch
from specplan.planner.engines.located import UNKNOWN, Node
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name
from specplan.planner.engines.rule_examples import CHAIN, example
from specplan.planner.engines.rule_examples import sglang as sglang_command
from specplan.planner.engines.sglang.configuration import (
    ADAPTIVE,
    ADAPTIVE_GLOBAL,
    ADAPTIVE_KEYS,
    algorithm,
)
from specplan.planner.messages import nearest

_STEPS, _TOPK, _WIDTH = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"


def _adaptive_flags(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if not launch.flag("--speculative-adaptive"):
        if launch.has("--speculative-adaptive-config"):
            yield at_name(launch.settings["--speculative-adaptive-config"],
                          "is read only with --speculative-adaptive, which is not given")
        return
    setting, kind, topk = launch.settings["--speculative-adaptive"], algorithm(launch), launch.number(_TOPK)
    if kind is not None and kind not in {"EAGLE", "EAGLE3", "NEXTN"}:
        yield at_name(setting, f"adaptive mode works with EAGLE and EAGLE3; for {kind} SGLang keeps the fixed length")
    if topk is not None and topk != 1:
        yield at_name(setting, f"adaptive mode works with topk 1; at topk {topk} SGLang keeps the fixed length")
    for name in ("--enable-dp-attention", "--enable-multi-layer-eagle", "--enable-two-batch-overlap", "--enable-pdmux"):
        if launch.flag(name):
            yield at_name(setting, f"adaptive mode is switched off by {name}")


def _adaptive_file(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    entries = {name[len(ADAPTIVE):]: setting for name, setting in launch.settings.items() if name.startswith(ADAPTIVE)}
    if not entries:
        return
    slots = {int(key): setting for key, setting in entries.items() if key.isdigit()}
    if not slots:
        first = next(iter(entries.values()))
        yield at_name(first, "the form of April 2026 (candidate_steps at the top) is gone: put it under a batch, "
                             '{"1": {"candidate_steps": [1, 3, 7]}}')
        return
    for key, setting in entries.items():
        if not key.isdigit() and key not in ADAPTIVE_GLOBAL:
            yield at_name(setting, f"unknown key '{key}'{nearest(key, ADAPTIVE_GLOBAL)}")
    if min(slots) != 1:
        yield at_name(slots[min(slots)], f'batches below {min(slots)} have no slot; start with "1"')
    for batch, slot in slots.items():
        yield from _slot(batch, slot.node)
    wanted = launch.number(_STEPS)
    union = {step for slot in slots.values() for step in _steps(slot.value)}
    if wanted is not None and union and wanted not in union:
        yield at(launch.settings[_STEPS], f"num-steps {wanted} is in no candidate_steps ({sorted(union)}); SGLang "
                                          "refuses it")


def _slot(first: int, node: Node) -> Iterator[Hit]:
    if not isinstance(node.value, dict):
        yield at(node, f"the slot of batch {first} must be an object with candidate_steps")
        return
    for key, child in node.value.items():
        if key not in (*ADAPTIVE_KEYS, "ema_alpha", "update_interval", "warmup_batches") and child.key is not None:
            yield at(child.key, f"unknown key '{key}'{nearest(key, ADAPTIVE_KEYS)}")
    steps = node.get("candidate_steps")
    plain = steps.plain() if steps is not None else None
    good = isinstance(plain, list) and plain and all(
        step is UNKNOWN or (isinstance(step, int) and not isinstance(step, bool) and step >= 0) for step in plain)
    if plain is not UNKNOWN and not good:
        yield at(steps or node, f"candidate_steps of batch {first} must list steps, 0 or more")


def _steps(slot: object) -> list[int]:
    steps = slot.get("candidate_steps") if isinstance(slot, dict) else None
    return [step for step in steps if isinstance(step, int)] if isinstance(steps, list) else []




RULES = (
    Rule(code="SP209", name="sglang-adaptive", severity="warning",
         summary="Adaptive mode that SGLang switches off.",
         why="It falls back to fixed settings with a warning in the log.",
         fix="EAGLE or EAGLE3 at topk 1 without DP attention, or no adaptive flags.",
         source="SGLang 0.5.23, speculative/adaptive_spec_params.py, adaptive_unsupported_reason",
         bad=sglang_command("--speculative-adaptive", algorithm="STANDALONE"),
         good=sglang_command(*CHAIN, "--speculative-adaptive"), check=_adaptive_flags),
    Rule(code="SP210", name="sglang-adaptive-file", severity="error",
         summary="The adaptive JSON has no slots, wrong steps or unknown keys.",
         why="Slots are keyed by the lowest batch; each needs candidate_steps. The form of April 2026 is refused.",
         fix='{"1": {"candidate_steps": [1, 3]}, "8": {"candidate_steps": [0, 1]}}',
         source="SGLang 0.5.23, speculative/adaptive_spec_params.py, _load_adaptive_config",
         bad=example("adaptive_spec.json", '{"candidate_steps": [1, 3, 7]}\n'),
         good=example("adaptive_spec.json", '{"1": {"candidate_steps": [1, 3, 7]}, "32": {"candidate_steps": [0, '
                                            '1]}}\n'),
         check=_adaptive_file),
)
