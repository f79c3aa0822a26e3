"""SP028: a listed graph that pads the largest batch of a tier; engines' own lists and small batches pass."""

from __future__ import annotations

import json

import pytest

from specplan.planner.check.files import Kind
from specplan.planner.check.run import check_text
from specplan.planner.decide.tier import Tier
from specplan.planner.engines.dialects import emit
from specplan.planner.engines.plan import DraftPlan

FALLING = DraftPlan(mechanism="eagle3", draft_len=6, drafter_model="org/drafter", target_model="org/target",
                    max_batch=128, schedule=(Tier(1, 33, 6), Tier(34, 128, 3)))


def vllm(sizes: list[int]) -> str:
    listed = json.dumps({"cudagraph_capture_sizes": sizes})
    return emit(FALLING, "vllm").replace('{"max_cudagraph_capture_size": 518}', listed)


def trtllm(batches: list[int]) -> str:
    text = emit(FALLING, "tensorrt_llm")
    start = text.index("  batch_sizes:")
    return text[:start] + f"  batch_sizes: {batches}" + text[text.index("\n", start):]


def messages(text: str, kind: Kind = "shell") -> list[str]:
    name = {"yaml": "llm.yaml"}.get(kind, "serve.sh")
    return [finding.message for finding in check_text(text, name, kind) if finding.code == "SP028"]


def test_the_worst_tier_is_named_with_its_rows() -> None:
    [found] = messages(vllm([7, 56, 231, 896]))
    assert found.startswith("batch 128 at D = 3 has 512 rows and replays the graph of 896: 75% more")


def test_tensorrt_llm_lists_sequences() -> None:
    [found] = messages(trtllm([1, 8, 32, 64, 128]), "yaml")
    assert found.startswith("batch 33 at D = 6 has 231 rows and replays the graph of 448: 94% more")


@pytest.mark.parametrize(("text", "kind"), [
    (vllm([7, 56, 112, 231, 518]), "shell"), (trtllm([1, 8, 36, 128]), "yaml"),
    (emit(FALLING, "vllm"), "shell"), (emit(FALLING, "tensorrt_llm"), "yaml"),
    (vllm([7, 14]), "shell"),       # graphs that end below are SP022's
])
def test_lists_that_fit_the_tiers_pass(text: str, kind: Kind) -> None:
    assert messages(text, kind) == []
