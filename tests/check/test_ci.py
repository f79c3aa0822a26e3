"""The pre-commit hook, the GitHub action and the GitLab job do what docs/ci.md says, on a sample repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
BAD = """#!/bin/sh\nvllm serve m --speculative-config '{"method": "mtp"}'\n"""
GOOD = BAD.replace('"mtp"', '"mtp", "num_speculative_tokens": 1')


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(command, cwd=folder, env=os.environ | {"PATH": scripts} | variables, capture_output=True,
                          text=True, check=False, timeout=120)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    (folder / "deploy").mkdir(parents=True)
    (folder / "deploy" / "serve.sh").write_text(BAD, encoding="utf-8")
    (folder / "deploy" / "tsconfig.json").write_text("{ // a comment\n}\n", encoding="utf-8")
    (folder / "readme.md").write_text(BAD, encoding="utf-8")
    return folder


def hook() -> dict[str, Any]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return dict(found)


def test_hook_stops_a_commit_with_a_finding_and_lets_a_clean_one_pass(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    assert (hook()["language"], hook()["entry"]) == ("python", "specplan check")
    local = hook() | {"language": "system", "entry": f'"{sys.executable}" -m specplan check'}     # nothing to install
    config = {"repos": [{"repo": "local", "hooks": [local]}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        assert run(command, repository).returncode == 0
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    home = str(tmp_path / "pre-commit")
    stopped = run(command, repository, PRE_COMMIT_HOME=home)
    assert stopped.returncode == 1
    assert "deploy/serve.sh:2:" in stopped.stdout
    assert "SP010" in stopped.stdout
    assert "readme.md" not in stopped.stdout
    (repository / "deploy" / "serve.sh").write_text(GOOD, encoding="utf-8")
    passed = run(command, repository, PRE_COMMIT_HOME=home)
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_hook_is_one_that_pre_commit_accepts() -> None:
    pytest.importorskip("pre_commit")
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"]
    assert run(command, ROOT).returncode == 0


@pytest.mark.parametrize(("path", "wanted"), [
    ("deploy/serve.sh", True), ("a/Dockerfile", True), ("Dockerfile.gpu", True), ("Makefile", True), (".env", True),
    (".env.prod", True), ("charts/x/values.yaml", True), ("x.yml", True), ("conf.json", True), ("llm.service", True),
    ("readme.md", False), ("main.py", False), ("dockerfiles.txt", False), ("x.yaml.orig", False), ("env", False),
])
def test_hook_looks_at_files_that_may_hold_configurations(path: str, *, wanted: bool) -> None:
    assert bool(re.search(hook()["files"], path)) == wanted


def check_step() -> str:
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    return str(next(step["run"] for step in steps if step.get("name") == "Check"))


def test_action_annotates_writes_sarif_and_fails(repository: Path) -> None:
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", check_step()]     # as GitHub runs it
    variables: Mapping[str, str] = {"PATHS": "deploy", "ARGUMENTS": "--select SP0", "SARIF": "out.sarif"}
    found = run(bash, repository, **variables)
    assert found.returncode == 1
    assert found.stdout.startswith("::error file=deploy/serve.sh,line=2,")
    schema = json.loads((ROOT / "tests/data/check/sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
    document = json.loads((repository / "out.sarif").read_text(encoding="utf-8"))
    assert list(jsonschema.Draft4Validator(schema).iter_errors(document)) == []
    (repository / "deploy" / "serve.sh").write_text(GOOD, encoding="utf-8")
    clean = run(bash, repository, PATHS="deploy", ARGUMENTS="", SARIF="")
    assert (clean.returncode, clean.stdout) == (0, "")


def test_inputs_of_the_action_never_stand_inside_its_script() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    assert not any("${{" in step.get("run", "") for step in steps)


def snippets() -> list[Any]:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]


def test_gitlab_job_writes_a_report_and_fails(repository: Path) -> None:
    job = next(snippet["speculation"] for snippet in snippets() if "speculation" in snippet)
    found = run(["bash", "-ec", "\n".join(job["script"])], repository)
    assert found.returncode == 1
    report = ElementTree.parse(repository / job["artifacts"]["reports"]["junit"]).getroot()
    assert report.find("testsuite").attrib["failures"] == "1"       # type: ignore[union-attr]


def test_snippets_name_hook_and_inputs_that_exist() -> None:
    github = next(snippet for snippet in snippets() if "jobs" in snippet)
    uses = next(step for step in github["jobs"]["speculation"]["steps"] if step["uses"].startswith("SPECPLAN"))
    assert set(uses["with"]) <= set(yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"])
    (repository,) = next(snippet for snippet in snippets() if "repos" in snippet)["repos"]
    assert [one["id"] for one in repository["hooks"]] == [hook()["id"]]
