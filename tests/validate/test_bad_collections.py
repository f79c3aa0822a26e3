"""One bad file, case or row never stops a collection: it is scored where possible and listed otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from specplan.planner.messages import InputError
from specplan.planner.validate.anchored import validate_anchor
from specplan.planner.validate.published import validate_published
from specplan.planner.validate.report import Report, report_json

CASE = """
source: {{title: test}}
cases:
- id: x
  target: Llama-3.1-8B-Instruct
  drafter: EAGLE-3 head
  mechanism: eagle3
  gpu: {gpu}
  n_gpus: 1
  tp: 1
  engine: vLLM 0.24.0
  dataset: MT-bench
  primary_metric: tokens_per_s per user
  quality: {quality}
  rows:
  {rows}
"""
GOOD = "- {D: 3, batch: 1, AL: 2.5, speedup: 1.9}"


def scored(folder: Path, rows: str, *, gpu: str = "H100", quality: str = "A") -> Report:
    (folder / "a.yaml").write_text(CASE.format(rows=rows, gpu=gpu, quality=quality), encoding="utf-8")
    return validate_published(folder)


def reasons(report: Report) -> str:
    return " | ".join(item.reason for item in report.refused)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("- {D: 3, batch: 1, speedup: 1.9}", "no acceptance"),
        ("- {D: 3, batch: 1, AL: 4.5, speedup: 1.9}", "impossible at D = 3"),
        ("- {D: 3, batch: 1, AL: 0.5, speedup: 1.9}", "impossible at D = 3"),
        ("- {D: 3, batch: 1, AL: 2.5, speedup: -1}", "speedup -1 is impossible"),
        ("- {D: 3, batch: 0, AL: 2.5, speedup: 1.9}", "batch 0 is impossible"),
        ("- {D: 3, batch: 1, AL: 2.5, tokens_per_s_user: -5}", "is impossible"),
        ("- {D: -2, batch: 1, AL: 2.5, speedup: 1.9}", "draft length -2 is impossible"),
        ("- {D: null, batch: 1, AL: 2.5, speedup: 1.9}", "draft length is not stated"),
        ("- {D: three, batch: 1, AL: 2.5, speedup: 1.9}", "draft length is not stated"),
        ("- {D: 3, AL: 2.5, speedup: 1.9}", "batch is not stated"),
        ("- {D: 3, batch: 1, AL: 2.5, tokens_per_s_user: 200, speedup: 1.9, baseline: 150}", "contradictory baseline"),
        ("- {D: 3, batch: 1, AL: 2.5, tokens_per_s_user: 200}", "no baseline"),
        ("- {D: 3, batch: 1, AL: 2.5, speedup: 1.4, baseline: D=3 strict}", "baseline speculates too"),
        ("- {D: 3, batch: 1, AL: 2.5}", "no speedup and no rate"),
        ("- {D: 3, batch: 1, accept_rate: 1.4, speedup: 1.9}", "is not a share"),
        ("- just words", "not a mapping"),
        ("- {D: 3, batch: 1, AL: .nan, speedup: 1.9}", "no acceptance"),
        ("- {D: 3, batch: 1, AL: [2], speedup: 1.9}", "no acceptance"),
    ],
)
def test_a_bad_row_is_listed_and_its_neighbour_scored(tmp_path: Path, row: str, reason: str) -> None:
    report = scored(tmp_path, f"{row}\n  {GOOD}")
    assert reason in reasons(report)
    assert report.scored == 1


def test_an_unknown_gpu_lists_its_rows(tmp_path: Path) -> None:
    report = scored(tmp_path, GOOD, gpu="Groq LPU")
    assert report.scored == 0
    assert "no profile for GPU 'Groq LPU'" in reasons(report)
    assert report.headline.speedup.median is None
    report_json(report)


def test_duplicate_rows_and_cases_count_once(tmp_path: Path) -> None:
    report = scored(tmp_path, f"{GOOD}\n  {GOOD}")
    assert report.scored == 1
    assert "the same row" in reasons(report)
    (tmp_path / "b.yaml").write_text((tmp_path / "a.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert validate_published(tmp_path).scored == 1


def test_an_off_row_at_the_same_point_gives_the_baseline(tmp_path: Path) -> None:
    rows = "- {D: 0, batch: 1, tokens_per_s_user: 100}\n  - {D: 3, batch: 1, AL: 2.5, tokens_per_s_user: 190}"
    assert scored(tmp_path, rows).scored_rows[0].measured == pytest.approx(1.9)


def test_rates_positions_and_ranges_count_as_al(tmp_path: Path) -> None:
    rows = (
        "- {D: 3, batch: 1, per_position_accept: [0.7, 0.5, 0.3], speedup: 1.9}\n"
        "  - {D: 3, batch: 2, accept_rate: 0.5, speedup: 1.9}\n  - {D: 3, batch: 4, AL: 2.4-2.6, speedup: 1.8-2.0}"
    )
    found = scored(tmp_path, rows).scored_rows
    assert [row.acceptance_length for row in found] == pytest.approx([2.5, 2.5, 2.5])
    assert [row.acceptance_form for row in found] == ["per_position", "rate", "acceptance_length"]
    assert found[2].measured == pytest.approx(1.9)


@pytest.mark.parametrize(
    "text",
    ["", "cases: 7", "[1, 2]", "cases: [3]", "cases: [{id: z}]", "a: [", "cases: [{id: y, rows: 4}]", "a: 1\na: 2"],
)
def test_a_broken_file_leaves_the_others(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.yaml").write_text(text, encoding="utf-8")
    report = scored(tmp_path, GOOD)
    assert report.scored == 1
    assert any(item.file == "broken" for item in report.refused)
    validate_anchor(tmp_path)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no YAML file"):
        validate_published(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        validate_published(tmp_path / "missing")
    scored(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"missing\.yaml"):
        validate_published(tmp_path, annotations=tmp_path / "missing.yaml")


def test_quality_c_is_scored_apart(tmp_path: Path) -> None:
    report = scored(tmp_path, GOOD, quality="C")
    assert report.headline.speedup.rows == 0
    assert report.scored == 1
