"""`specplan check -` reads what another command wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.check.files import kind_of_text

SERVE = (
    "vllm serve m --speculative-config "
    "'{\"method\": \"eagle3\", \"model\": \"x\", \"num_speculative_tokens\": 6}'\n"
)


@pytest.mark.parametrize(("text", "kind"), [
    (SERVE, "shell"), ('{"a": 1}', "json"), ("# written by hand\n---\nspeculative_config:\n  a: 1\n", "yaml"),
    ("export A=1\nvllm serve m\n", "shell"), ("", "shell"),
])
def test_the_kind_of_a_text_without_a_name(text: str, kind: str) -> None:
    assert kind_of_text(text) == kind


def test_findings_of_standard_input_are_those_of_the_same_file(tmp_path: Path) -> None:
    run, text = CliRunner().invoke, SERVE.replace("num_speculative_tokens", "num_speculative_token")
    file = tmp_path / "serve.sh"
    file.write_text(text, encoding="utf-8")
    named, piped = run(app, ["check", str(file)]), run(app, ["check", "-"], input=text)
    assert named.exit_code == piped.exit_code == 1, piped.output
    assert piped.stdout == named.stdout.replace(str(file), "-")


def test_what_cannot_be_read_or_mended_is_said() -> None:
    run = CliRunner().invoke
    assert run(app, ["check", "-"], input=b"\xff\xfe\x00").exit_code == 2
    refused = run(app, ["check", "-", "--fix"], input=SERVE)
    assert refused.exit_code == 2
    assert "standard input cannot be mended" in refused.output
