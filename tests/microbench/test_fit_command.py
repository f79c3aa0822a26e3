"""`specplan fit`: a profile in a file, each number's error on stderr, and refusals of half a request."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.kernels.profile import read_profile
from tests.microbench.test_fit_measurements import gemm_points, write


def test_a_profile_is_written_and_each_error_said(tmp_path: Path) -> None:
    file, profile = write(tmp_path / "measurements.jsonl", gemm_points()), tmp_path / "profile.yaml"
    result = CliRunner().invoke(app, ["fit", str(file), "-o", str(profile)])
    assert result.exit_code == 0, result.output
    assert "any-torch-mm" in result.stderr
    assert "gemm" in read_profile(profile.read_text(encoding="utf-8")).kernels
    printed = CliRunner().invoke(app, ["fit", str(file)])
    assert printed.stdout == profile.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [
    [], ["m.jsonl", "--from", "silicon"], ["--from", "silicon"], ["m.jsonl", "--engine", "vllm"],
])
def test_half_a_request_is_refused(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["fit", *words])
    assert result.exit_code == 2
    assert "specplan fit --help" in result.stderr
