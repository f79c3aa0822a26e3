"""What the answers say of themselves: columns, guidelines, ties, summaries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.answer import recommend
from specplan.planner.decide.measured_steps import choose_by_times
from specplan.planner.engines.acceptance import read_files

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "llama-3.1-8b-h100.yaml")
READINGS = ROOT / "tests" / "data" / "acceptance"


def said(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_every_column_of_the_answer_is_explained_below_it_and_in_the_help() -> None:
    answer, help_text = said("recommend", "-m", EXAMPLE), said("recommend", "--help")
    for column in ("D (good):", "AL / needs:", "ms / off:", "tok/s/user:"):
        assert column in answer
        assert column.removesuffix(":") in help_text
    assert "tok/s/user: decoding only" in answer
    known = recommend(EXAMPLE).workload.output_tokens is not None
    assert ("tok/s/GPU: end to end (prompts included)" in answer) is known
    assert "Least regret:" in help_text


def test_guidelines_point_to_a_section_that_is_there() -> None:
    assert 'NVIDIA\'s guidelines here (docs/model.md, "NVIDIA\'s guidelines")' in said("recommend", "-m", EXAMPLE)
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    section = page.split("\n## NVIDIA's guidelines\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| (G\d) ", section, re.MULTILINE) == ["G1", "G2", "G3", "G4", "G5"]


def test_help_states_the_exit_codes_of_the_contract() -> None:
    help_text = said("recommend", "--help").split("Exit codes:")[1]
    assert [int(code) for code in re.findall(r"\b(\d) [a-z]", help_text)] == [0, 1, 2, 3]


def test_a_tie_and_interpolated_lengths_are_said() -> None:
    words = ["decide", "--off", "7.2", "--step", "3:9.1", "--step", "5:10.4", "--al", "3:2.6", "--al", "5:3.0"]
    shown = said(*words)
    assert shown.startswith("Run D = 3: D = 5 is 1.0% faster, and within 1 % the shorter wins.")
    assert "4 2.068 interpolated 5 2.077" in shown
    assert shown.count("interpolated") == 1
    found = choose_by_times(off_s=7.2e-3, step_s={3: 9.1e-3, 5: 10.4e-3}, lengths={3: 2.6, 4: 2.8, 5: 3.0})
    assert found.between == (4,)    # its AL is measured, its step is not
    assert said("decide", "--off", "7.2", "--step", "3:8.1", "--al", "3:3") == "Run D = 3. draft_len speedup 3 2.667"


@pytest.mark.parametrize("file", ["vllm-log.log", "sglang-new.log", "stated-contexts.yaml", "trtllm-metrics.json"])
def test_a_printed_reading_has_a_summary_few_digits_no_nulls_and_reads_back(file: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["acceptance", "read", str(READINGS / file)])
    assert result.exit_code == 0, result.output
    printed = result.stdout
    first = read_files([str(READINGS / file)])
    assert "identities hold" in printed.split("acceptance_length:")[0]
    assert "null" not in printed
    assert "{}" not in printed

    assert not re.search(r"\d\.\d{11,}", printed)
    saved = tmp_path / "reading.yaml"
    saved.write_text(printed, encoding="utf-8")
    again = read_files([str(saved)])
    assert (again.acceptance_length or 0) == pytest.approx(first.acceptance_length or 0, rel=1e-5)
    assert len(again.contexts) == len(first.contexts)
    assert (again.per_position or ()) == pytest.approx(first.per_position or (), rel=1e-5)
    assert again.draft_len == first.draft_len


def test_the_summary_of_a_reading_says_al_positions_interval_and_warnings() -> None:
    shown = said("acceptance", "read", str(READINGS / "vllm-log.log"))
    assert shown.startswith("# AL 5.137 at D = 5 (90% interval 4.886 to 5.343, counted steps)")
    assert "# accepted by position: 0.960, 0.863, 0.823, 0.782, 0.710" in shown
    warned = said("acceptance", "read", str(READINGS / "sglang-new.log"))
    assert "# warning: the log prints no step counts" in warned
