"""The robust choice in answers: beside the recommendation, with the measurement that would settle a close call."""

from __future__ import annotations

from typing import Any

from specplan.planner.answer import recommend


def config(per_position: list[float], **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "target": "llama-3.3-70b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "dtypes": {"weights": "fp8", "kv": "fp8"},
        "engine": "vllm", "workload": {"batch": [1, 8], "context_tokens": 2000},
        "drafters": [{"mechanism": "eagle3", "acceptance": {"per_position": per_position}}],
    }
    return fields | changes


def test_a_clear_case_needs_no_measurement() -> None:
    answer = recommend(config([0.85, 0.7, 0.6, 0.5]))
    found = answer.robustness
    assert found is not None
    assert not found.straddles
    assert found.settle is None
    assert found.robust.drafter == "eagle3"
    assert (found.batch, found.context_tokens) == (answer.cell.batch, answer.cell.context_tokens)
    assert found.options[0].drafter is None         # off is one of the choices
    assert abs(found.robust.draft_len - (answer.recommendation.draft_len or 0)) <= 1    # type: ignore[operator]


def test_a_close_call_names_the_cheapest_measurement() -> None:
    found = recommend(config([0.30, 0.08])).robustness
    assert found is not None
    assert found.straddles
    assert "the range straddles 1" in found.finding
    assert found.settle is not None
    assert "eagle3" in found.settle
    assert "D = " in found.settle
    assert "batch 1" in found.settle or "target steps" in found.settle


def test_nothing_is_drawn_without_acceptance() -> None:
    assert recommend(config([0.5], drafters=[{"mechanism": "eagle3"}])).robustness is None
