"""Every published row is scored or listed with a reason; the scores hold what docs/accuracy.md promises."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from specplan.planner.validate.collection import read_collection
from specplan.planner.validate.html import report_html
from specplan.planner.validate.published import validate_published
from specplan.planner.validate.report import Report, report_json

DATA = Path(__file__).parents[1] / "data" / "published"


def test_no_row_is_dropped(report: Report) -> None:
    """131 cases, 1935 rows: a row is scored, or refused with a reason, or a plain row that others are measured by."""
    cases, _ = read_collection(DATA)
    assert report.cases == len(cases) == 131
    assert report.rows == sum(len(case.rows) for case in cases) == 1935
    assert all(item.reason for item in report.refused)
    plain = sum(row.get("D") == 0 for case in cases for row in case.rows)
    without_al = sum(item.reason.startswith("resolved, but") for item in report.refused)
    assert report.resolved - report.scored - without_al <= plain


def test_speedups_of_chain_rows_are_predicted_to_five_percent(report: Report) -> None:
    """Goals of the project: median 0.05, 90th percentile 0.15 of |ln|."""
    head = report.headline
    assert head.speedup.rows >= 450
    assert head.speedup.median is not None
    assert head.speedup.median <= 0.05
    assert head.speedup.p90 is not None
    assert head.speedup.p90 <= 0.15
    assert head.inside_range is not None
    assert 0.85 <= head.inside_range <= 0.97


def test_rows_whose_hardware_is_stated_hold_too(report: Report) -> None:
    stated = report.slices[1]
    assert stated.inferred_rows == 0
    assert stated.speedup.rows >= 130
    assert stated.speedup.median is not None
    assert stated.speedup.median <= 0.07


def test_trees_by_verified_nodes(report: Report) -> None:
    trees = next(item for item in report.slices if item.label.startswith("trees"))
    assert trees.speedup.rows >= 150
    assert trees.speedup.median is not None
    assert trees.speedup.median <= 0.06


def test_simple_rules_are_far_behind(report: Report) -> None:
    ours, *rules = report.rules
    assert ours.speedup is not None
    assert ours.speedup.median is not None
    for rule in rules:
        if rule.speedup is not None and rule.speedup.median is not None:
            assert rule.speedup.median > 3 * ours.speedup.median
        assert (rule.regret.mean or 0.0) > (ours.regret.mean or 0.0)


def test_trees_of_60_nodes_lose_from_batch_16_on(report: Report) -> None:
    """DFlash paper, table 5: EAGLE-3 with 60 verified tokens on a B200 gains at batch 1 and loses from 16 on."""
    rows = [row for row in report.scored_rows if row.case.startswith("dflash-t5") and row.case.endswith("eagle3-60")]
    assert len(rows) == 15
    for row in rows:
        if row.batch >= 16:
            assert row.measured < 1
            assert row.predicted < 1
        if row.batch <= 4:
            assert row.predicted > 1.3


def test_power_caps_move_the_best_draft_length(report: Report) -> None:
    """RTX 5090, llama.cpp: the best D falls from 4 at 600 W to 3 at 400 W."""
    for case, best in (("q38mtp-rtx5090-cap600w", 4), ("q38mtp-rtx5090-cap400w", 3)):
        rows = [row for row in report.scored_rows if row.case == case]
        assert len(rows) == 6
        assert max(rows, key=lambda row: row.measured).draft_len == best
        assert abs(max(rows, key=lambda row: row.predicted).draft_len - best) <= 1
        assert all(abs(math.log(row.predicted / row.measured)) < 0.04 for row in rows)


def test_rows_on_metal_lose(report: Report) -> None:
    """M3 Ultra, llama.cpp: rows are not amortised; D = 3 and 4 lose."""
    rows = {row.draft_len: row.predicted for row in report.scored_rows if row.case == "q38mtp-m3ultra"}
    assert rows[3] < 1
    assert rows[4] < 1


def test_json_and_page_stand_alone(report: Report) -> None:
    text = json.dumps(report_json(report), allow_nan=False)
    assert json.loads(text)["scored"] == report.scored
    page = report_html(report)
    assert page.count("<circle") == report.scored
    assert "<script" not in page
    assert "src=" not in page


@pytest.mark.parametrize("kind", ["quality", "mechanism", "gpu", "engine path", "batch", "target", "source", "case"])
def test_slices_of_a_kind_hold_each_row_once(report: Report, kind: str) -> None:
    total = report.scored if kind in ("quality", "mechanism", "case") else report.headline.speedup.rows
    assert sum(item.speedup.rows for item in report.of_kind(kind)) == total


def test_annotations_are_found_beside_the_data_or_given(tmp_path: Path, report: Report) -> None:
    assert Path(report.annotations).name == "published_annotations.yaml"
    one = validate_published(DATA / "trtllm_blog01_dsr1_mtp.yaml")
    assert one.headline.speedup.rows == 5
    given = tmp_path / "mine.yaml"
    given.write_text("metric_kind: {trtllm_blog01_dsr1_mtp: end_to_end}\n", encoding="utf-8")
    other = validate_published(DATA / "trtllm_blog01_dsr1_mtp.yaml", annotations=given)
    assert other.scored_rows[0].metric == "end_to_end"
    assert other.scored_rows[0].predicted < one.scored_rows[0].predicted
