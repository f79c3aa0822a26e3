"""--fix mends what has one meaning, in one step, and never half."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from specplan.planner.check.fix import fix_files
from specplan.planner.check.run import check_paths

SCRIPT = (
    "#!/bin/sh\n"
    "llama-server -m a.gguf -md b.gguf --spec-type draft-simple \\\r\n  --draft-max 4 --draft-min 1  # ünïcode 😀\n"
    "vllm serve m --speculative-config "
    '\'{"method": "deepseek_mtp", "num_speculative_tokens": 1}\'\n'
)
MENDED = SCRIPT.replace("--draft-max", "--spec-draft-n-max").replace("--draft-min", "--spec-draft-n-min").replace(
    "deepseek_mtp", "mtp")


def script(folder: Path) -> Path:
    path = folder / "serve.sh"
    path.write_bytes(SCRIPT.encode())
    return path


def test_safe_findings_are_mended_and_shown(tmp_path: Path) -> None:
    path = script(tmp_path)
    (fixed,) = fix_files(check_paths([path]).findings)
    assert path.read_bytes().decode() == MENDED, "nothing else changes, line ends neither"
    assert (fixed.edits, fixed.refused) == (3, "")
    assert "+vllm serve m --speculative-config '{\"method\": \"mtp\"" in fixed.diff
    assert fix_files(check_paths([path]).findings) == []


def test_without_writing_only_the_difference_is_shown(tmp_path: Path) -> None:
    path = script(tmp_path)
    (fixed,) = fix_files(check_paths([path]).findings, write=False)
    assert path.read_bytes().decode() == SCRIPT
    removed = [line for line in fixed.diff.split("\n") if line.startswith("-") and not line.startswith("---")]
    assert len(removed) == 2, "three edits on two lines"


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX")
def test_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
    path = script(tmp_path)
    path.chmod(0o444)
    (fixed,) = fix_files(check_paths([path]).findings)
    assert fixed.refused == "is read-only"
    assert path.read_bytes().decode() == SCRIPT
    assert [entry.name for entry in tmp_path.iterdir()] == ["serve.sh"]


def test_nothing_is_half_written_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (fixed,) = fix_files(check_paths([path]).findings)
    assert "No space left" in fixed.refused
    assert path.read_bytes().decode() == SCRIPT
    assert [entry.name for entry in tmp_path.iterdir()] == ["serve.sh"]


@pytest.mark.skipif(os.name != "posix", reason="links and permissions as on POSIX")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    path = script(tmp_path)
    path.chmod(0o750)
    link = tmp_path / "link.sh"
    link.symlink_to("serve.sh")
    assert fix_files(check_paths([link]).findings)[0].refused == ""
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert path.read_bytes().decode() == MENDED


MTP = '{"method": "mimo_mtp", "num_speculative_tokens": 1}'
ESCAPED = MTP.replace('"', '\\"')


@pytest.mark.parametrize(("name", "before", "old", "new"), [
    ("llm.yaml", "speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3   # layers\n",
     "num_nextn_predict_layers", "max_draft_len"),
    (".env", "LLAMA_ARG_DRAFT_MAX=4\nLLAMA_ARG_SPEC_TYPE=draft-simple\nLLAMA_ARG_SPEC_DRAFT_MODEL=b.gguf\n",
     "LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    ("serve.sh", f"vllm serve m --speculative-config '{MTP}'\n", "mimo_mtp", "mtp"),
    ("serve.sh", f'vllm serve m --speculative-config "{ESCAPED}"\n', "mimo_mtp", "mtp"),
    ("serve.sh", "vllm serve m --speculative-config.method 'mimo_mtp'\n", "mimo_mtp", "mtp"),
    ("serve.sh", 'vllm serve m --speculative-config.method="mimo_mtp"\n', "mimo_mtp", "mtp"),
    ("pod.yaml", f'a:\n- image: vllm/vllm-openai\n  args: ["--speculative-config", "{ESCAPED}"]\n', "mimo_mtp", "mtp"),
    ("pod.yaml", f"a:\n- image: vllm/vllm-openai\n  args: ['--speculative-config', '{MTP}']\n", "mimo_mtp", "mtp"),
    ("pod.yaml", f"a:\n- image: vllm/vllm-openai\n  args:\n  - >-\n    --speculative-config\n    '{MTP}'\n", "mimo_mtp",
     "mtp"),
    ("Dockerfile", f'FROM vllm/vllm-openai\nCMD ["--speculative-config", "{ESCAPED}"]\n', "mimo_mtp", "mtp"),
])
def test_names_are_mended_inside_any_file(tmp_path: Path, name: str, before: str, old: str, new: str) -> None:
    path = tmp_path / name
    path.write_text(before, encoding="utf-8")
    fix_files(check_paths([path]).findings)
    assert path.read_text(encoding="utf-8") == before.replace(old, new)
    assert not any(finding.edits for finding in check_paths([path]).findings)


def test_both_names_of_a_setting_are_left_to_the_author(tmp_path: Path) -> None:
    path = tmp_path / "llm.yaml"
    path.write_text("speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3\n  max_draft_len: 1\n",
                    encoding="utf-8")
    findings = check_paths([path]).findings
    assert {finding.code for finding in findings} >= {"SP003", "SP006"}
    assert fix_files(findings) == []
