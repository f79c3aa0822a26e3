"""Scores of measured servers: which rows count, how errors are taken, and the page that shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specplan.microbench.serving import PAGE, SCORES, SECTION, scores, section
from specplan.planner.answer import recommend
from specplan.planner.validate.page import put_section

ROW: dict[str, str] = {
    "mode": "agg", "model_path": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "backend": "vllm",
    "backend_version": "", "precision": "fp8", "gemm_quant_mode": "fp8", "tp_size": "4", "pp_size": "1",
    "attention_dp_size": "1", "moe_ep_size": "", "isl": "1024", "osl": "1024", "batch_size": "16",
    "silicon_tpot_ms": "15.0",
}


def test_a_row_is_scored_by_the_answer_for_its_users() -> None:
    found, left_out = scores([ROW])
    fields: dict[str, Any] = {
        "target": "llama-3.1-70b", "gpu": "h200-sxm", "parallel": {"tp": 4},
        "dtypes": {"weights": "fp8", "kv": "fp8", "activation_scales": "static"},
        "engine": "vllm", "drafters": [{"mechanism": "ngram"}],
        "workload": {"concurrency": 16, "input_tokens": 1024, "output_tokens": 1024, "max_batch": 16,
                     "lengths": {"output_variation": 0.0}},
    }
    load = recommend(fields).load
    assert load is not None
    predicted = load.rows[0].tpot_s * 1e3
    assert left_out == {}
    assert (found[0].rows, found[0].gpu, found[0].precision) == (1, "h200-sxm", "fp8")
    assert found[0].median_pct == pytest.approx(abs(predicted / 15.0 - 1) * 100, abs=0.06)
    assert found[0].ratio == pytest.approx(predicted / 15.0, abs=0.006)


@pytest.mark.parametrize(("changes", "reason"), [
    ({"mode": "disagg"}, "prompts processed on other GPUs"),
    ({"model_path": "x/y"}, "model without a preset of the same precision"),
    ({"attention_dp_size": "4"}, "data or pipeline parallelism"),
    ({"silicon_tpot_ms": ""}, "no measured TPOT"),
    ({"tp_size": "1", "gemm_quant_mode": "bfloat16"}, "does not fit or has no kernel entry"),
])
def test_what_is_left_out_is_counted(changes: dict[str, str], reason: str) -> None:
    assert scores([ROW | changes]) == ([], {reason: 1})


def test_page_shows_the_scores_that_are_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kept = json.loads(SCORES.read_text(encoding="utf-8"))
    assert put_section(page, SECTION, section(kept)) == page, "run: python -m specplan.microbench.serving --page"
