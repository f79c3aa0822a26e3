"""Formats that machines read: SARIF against its official schema, JUnit, GitHub annotations, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from specplan.planner.check.catalog import all_rules
from specplan.planner.check.formats import FORMATS, render, summary
from specplan.planner.check.report import Finding, Report, Skipped
from specplan.planner.check.run import check_paths
from specplan.planner.messages import InputError

DATA = Path(__file__).parents[1] / "data" / "check"
AWKWARD = Finding(file="a b/ü,1:%.sh", line=2, column=3, end_line=2, end_column=3, code="SP012",
                  name="beyond-trained-block", severity="error", engine="vllm",
                  message='50% <&> "x"\nnext, line \x1b[0m')


@pytest.fixture(scope="module")
def report() -> Report:
    found = check_paths([DATA / "cases", DATA / "valid", "missing.sh"])
    found.findings.append(AWKWARD)
    found.skipped.append(Skipped("big.sh", "is 3.0 MB, larger than any configuration"))
    return found


def test_sarif_fulfils_the_official_schema(report: Report) -> None:
    schema = json.loads((DATA / "sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    for each in (report, Report()):
        document = json.loads(render(each, "sarif"))
        assert list(validator.iter_errors(document)) == []
    document["runs"][0]["results"] = [{"level": "severe"}]
    assert list(validator.iter_errors(document)), "the schema does look at results"


def test_sarif_holds_every_finding_with_its_rule(report: Report) -> None:
    (run,) = json.loads(render(report, "sarif"))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(report.findings)
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (finding.line, finding.column)
    location = run["results"][-1]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == "a%20b/%C3%BC%2C1%3A%25.sh"
    assert run["invocations"][0]["executionSuccessful"] is False
    levels = {note["level"] for note in run["invocations"][0]["toolExecutionNotifications"]}
    assert levels == {"error", "note"}


def test_sarif_of_all_rules_fulfils_the_schema() -> None:
    schema = json.loads((DATA / "sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
    all_of_them = Report(findings=[Finding("a.sh", 1, 1, 1, 9, rule.code, rule.name, rule.severity, "x", "")
                                   for rule in all_rules()])
    assert list(jsonschema.Draft4Validator(schema).iter_errors(json.loads(render(all_of_them, "sarif")))) == []


def test_junit_counts_what_it_holds(report: Report) -> None:
    suites = ElementTree.fromstring(render(report, "junit"))
    (suite,) = suites
    failures = suite.findall("testcase/failure")
    assert int(suite.attrib["failures"]) == len(failures) == sum(one.severity != "note" for one in report.findings)
    assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error")) == len(report.unreadable)
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert failures[-1].attrib["message"] == AWKWARD.message.replace("\x1b", "\ufffd")
    assert len(ElementTree.fromstring(render(Report(), "junit")).findall("testsuite/testcase")) == 1


def test_github_annotations_escape_what_would_end_them(report: Report) -> None:
    lines = render(report, "github").splitlines()
    assert len(lines) == len(report.findings) + len(report.unreadable)
    assert lines[-2] == ("::error file=a b/ü%2C1%3A%25.sh,line=2,col=3,endLine=2,title=SP012 beyond-trained-block"
                         '::50%25 <&> "x"%0Anext, line \x1b[0m')
    assert {line.split(" ")[0] for line in lines} == {"::error", "::warning", "::notice"}
    assert render(Report(), "github") == ""


def test_json_says_all_that_text_says(report: Report) -> None:
    document = json.loads(render(report, "json"))
    assert document["exit_code"] == 2
    assert len(document["findings"]) == len(report.findings)
    assert document["findings"][-1]["message"] == AWKWARD.message
    assert document["skipped"][-1] == {"file": "big.sh", "reason": "is 3.0 MB, larger than any configuration"}
    assert document["unreadable"][0]["file"] == "missing.sh"


def test_text_names_place_rule_and_sum(report: Report) -> None:
    lines = render(report, "text").splitlines()
    assert "a b/ü,1:%.sh:2:3: SP012 error: 50% <&>" in "\n".join(lines)
    assert "missing.sh: unreadable: no such file or folder" in lines
    assert "big.sh: skipped: is 3.0 MB, larger than any configuration" in lines
    assert lines[-1] == summary(report)
    assert summary(Report(files=1)) == "1 file, 0 speculative configurations: 0 errors, 0 warnings, 0 notes"


def test_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'sarif'"):
        render(Report(), "sarf")
    assert set(FORMATS) == {"text", "json", "sarif", "github", "junit"}
