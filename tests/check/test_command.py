"""`specplan check` as people and scripts call it: exit codes, output on the right stream, models and stored plans."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from specplan.cli import app

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples" / "llama-3.3-70b-h200.yaml")
CLEAN = """vllm serve m --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'\n"""
OLD = CLEAN.replace("mtp", "deepseek_mtp")


def specplan(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("content", "code"), [
    (CLEAN, 0), (CLEAN.replace(', "num_speculative_tokens": 1', ""), 1), (OLD, 0), ("ls\n", 0)])
def test_exit_code_says_clean_or_not(folder: Path, content: str, code: int) -> None:
    (folder / "serve.sh").write_text(content, encoding="utf-8")
    result = specplan("check", "serve.sh")
    assert result.exit_code == code, result.output
    assert result.stdout.splitlines()[-1].startswith("1 file, ")


def test_unreadable_paths_and_bad_arguments_give_2(folder: Path) -> None:
    (folder / "serve.sh").write_text(CLEAN, encoding="utf-8")
    for arguments in (("missing.sh",), ("serve.sh", "--format", "sarf"), ("serve.sh", "--select", "SP99"), (),
                      ("serve.sh", "--max-loss", "many"), ("serve.sh", "--baseline", "none.json")):
        result = specplan("check", *arguments)
        assert result.exit_code == 2, arguments
        assert "Traceback" not in result.output


def test_explain_prints_the_rule(folder: Path) -> None:
    result = specplan("check", "--explain", "SP301")
    assert result.exit_code == 0
    assert result.stdout.startswith("SP301 trtllm-schedule-meaning (warning)")
    assert specplan("check", "--explain", "SP3O1").exit_code == 2
    assert list(folder.iterdir()) == []


def test_fix_shows_the_difference_and_leaves_stdout_to_the_report(folder: Path) -> None:
    (folder / "serve.sh").write_text(OLD, encoding="utf-8")
    result = specplan("check", "serve.sh", "--fix", "--format", "json")
    assert json.loads(result.stdout)["findings"] == []
    assert "-vllm serve m" in result.stderr
    assert (folder / "serve.sh").read_text(encoding="utf-8") == CLEAN


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX")
def test_fix_of_a_read_only_file_says_so(folder: Path) -> None:
    (folder / "serve.sh").write_text(OLD, encoding="utf-8")
    (folder / "serve.sh").chmod(0o444)
    result = specplan("check", "serve.sh", "--fix")
    assert "serve.sh: is read-only" in result.stderr
    assert (folder / "serve.sh").read_text(encoding="utf-8") == OLD


def test_settings_of_the_project_count(folder: Path) -> None:
    (folder / "serve.sh").write_text(CLEAN.replace("1}", "0}"), encoding="utf-8")
    assert specplan("check", "serve.sh").exit_code == 1
    (folder / "specplan.toml").write_text('ignore = ["SP004"]\n', encoding="utf-8")
    assert specplan("check", "serve.sh").exit_code == 0
    assert specplan("check", "serve.sh", "--ignore", "SP002").exit_code == 1, "the command line replaces the setting"


def test_emitted_configuration_is_clean_under_its_own_plan_and_drift_is_found(folder: Path) -> None:
    plan = specplan("recommend", "--model", MODEL, "--batch", "1-64", "--json")
    (folder / "plan.json").write_text(plan.stdout, encoding="utf-8")
    emitted = specplan("recommend", "--model", MODEL, "--batch", "1-64", "--emit", "vllm")
    (folder / "serve.sh").write_text(emitted.stdout, encoding="utf-8")
    held = ("check", "serve.sh", "--model", MODEL, "--baseline", "plan.json")
    assert specplan(*held).exit_code == 0, specplan(*held).output
    first = json.loads(plan.stdout)["schedule"]["tiers"][0]
    text = emitted.stdout.replace(f'[1, {first["last_batch"]}, {first["draft_len"]}]', f'[1, {first["last_batch"]}, 1]')
    assert text != emitted.stdout
    (folder / "serve.sh").write_text(text, encoding="utf-8")
    result = specplan(*held)
    assert result.exit_code == 1
    assert {"SP604", "SP601"} == {line.split()[1] for line in result.stdout.splitlines()[:-1]}
    assert specplan("check", "serve.sh", "--model", MODEL, "--max-loss", "80%").exit_code == 0


def test_two_engine_configurations_are_compared_under_one_model(folder: Path) -> None:
    config = {"method": "eagle3", "model": "d", "num_speculative_tokens": 3}
    for name, more in (("now.sh", {}), ("next.sh", {"num_speculative_tokens_per_batch_size": [[1, 4, 2], [5, 64, 3]]}),
                       ("other.sh", {"num_speculative_tokens": 4000})):
        text = f"vllm serve m --speculative-config '{json.dumps(config | more)}'\n"
        (folder / name).write_text(text, encoding="utf-8")
    result = specplan("compare", "--model", MODEL, "now.sh", "next.sh", "--json")
    found = json.loads(result.stdout)
    assert (found["a"]["draft_len"], found["b"]["draft_len"]) == (3, 2), "the headline's batch is 1: its tier drafts 2"
    assert found["a"]["label"] == "now.sh"
    assert "no candidate with D = 4000" in specplan("compare", "--model", MODEL, "now.sh", "other.sh").output
    (folder / "two.sh").write_text((folder / "now.sh").read_text(encoding="utf-8") * 2, encoding="utf-8")
    assert "holds 2 speculative configurations" in specplan("compare", "--model", MODEL, "now.sh", "two.sh").output
