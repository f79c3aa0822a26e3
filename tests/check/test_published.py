"""Configurations from public reports, each with the fault that cost time, and valid ones from documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from specplan.planner.check.catalog import rule_named
from specplan.planner.check.run import check_paths

DATA = Path(__file__).parents[1] / "data" / "check"


def entries(name: str) -> Any:
    return yaml.safe_load((DATA / name).read_text(encoding="utf-8"))


CASES = entries("cases.yaml")
VALID = entries("valid_sources.yaml")


@pytest.mark.parametrize("case", CASES["caught"], ids=lambda case: case["case"])
def test_case_is_caught(case: dict[str, str]) -> None:
    report = check_paths([DATA / "cases" / case["file"]])
    assert case["rule"] in {finding.code for finding in report.findings}
    assert report.exit_code == 1, "a note alone would let it pass"


@pytest.mark.parametrize("case", CASES["caught"], ids=lambda case: case["case"])
def test_no_case_meets_a_rule_that_does_not_know_a_setting(case: dict[str, str]) -> None:
    """The settings that people ran are settings of their engines: SP002 on them would be an error of ours."""
    unknown = [finding for finding in check_paths([DATA / "cases" / case["file"]]).findings
               if finding.code == "SP002"]
    assert not unknown or case["case"] == "G02", unknown    # G02 is about SGLang's flags on LMDeploy


def test_at_least_25_cases_are_caught_and_the_others_say_why() -> None:
    caught = {case["case"] for case in CASES["caught"]}
    missed = {case["case"] for case in CASES["cannot"]}
    assert len(caught) >= 25
    assert not caught & missed
    assert len(caught | missed) == 50       # as many of the public cases have one of the five tags
    assert all(case["why"] for case in CASES["cannot"])
    assert all(rule_named(case["rule"]).severity != "note" for case in CASES["caught"])
    files = {path.relative_to(DATA / "cases").as_posix() for path in (DATA / "cases").rglob("*") if path.is_file()}
    assert files == {case["file"] for case in CASES["caught"]}


@pytest.mark.parametrize("entry", VALID, ids=lambda entry: entry["file"])
def test_valid_configuration_raises_no_alarm(entry: dict[str, Any]) -> None:
    report = check_paths([DATA / "valid" / entry["file"]])
    assert report.configurations >= 1
    assert not report.unreadable
    assert [finding.code for finding in report.findings] == entry.get("notes", [])
    assert all(finding.severity == "note" for finding in report.findings)
    assert report.exit_code == 0


def test_at_least_20_valid_configurations_have_a_source() -> None:
    assert len(VALID) >= 20
    assert all(entry["source"] for entry in VALID)
    assert {path.name for path in (DATA / "valid").iterdir()} == {entry["file"] for entry in VALID}
