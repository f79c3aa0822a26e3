"""A report as text, JSON, SARIF 2.1.0, GitHub annotations or JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from specplan import __version__
from specplan.planner.check.catalog import all_rules, anchor
from specplan.planner.check.report import SEVERITIES, Finding, Report
from specplan.planner.messages import InputError, nearest

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report, form: str = "text") -> str:
    """The report in one of the formats; InputError for a form that does not exist."""
    if form not in FORMATS:
        raise InputError(f"'{form}' is not a format{nearest(form, FORMATS)}; it is one of {', '.join(FORMATS)}")
    return FORMATS[form](report)


def _text(report: Report) -> str:
    lines = [f"{one.file}:{one.line}:{one.column}: {one.code} {one.severity}: {one.message}"
             + (" [fixable]" if one.edits else "") for one in report.findings]
    lines += [f"{one.file}: unreadable: {one.reason}" for one in report.unreadable]
    lines += [f"{one.file}: skipped: {one.reason}" for one in report.skipped]
    lines.append(summary(report))
    return "\n".join(lines) + "\n"


def summary(report: Report) -> str:
    """One line: how many files, configurations and findings."""
    counts = ", ".join(f"{report.count(severity)} {severity}" + ("s" if report.count(severity) != 1 else "")
                       for severity in reversed(SEVERITIES))
    silenced = f", {report.suppressed} silenced" if report.suppressed else ""
    files = f"{report.files} file" + ("s" if report.files != 1 else "")
    configurations = f"{report.configurations} speculative configuration" + ("s" if report.configurations != 1 else "")
    return f"{files}, {configurations}: {counts}{silenced}"


def _json(report: Report) -> str:
    findings = [{"file": one.file, "line": one.line, "column": one.column, "end_line": one.end_line,
                 "end_column": one.end_column, "code": one.code, "name": one.name, "severity": one.severity,
                 "message": one.message, "engine": one.engine or None, "fixable": bool(one.edits)}
                for one in report.findings]
    return json.dumps({
        "specplan": __version__, "exit_code": report.exit_code, "files": report.files,
        "configurations": report.configurations, "suppressed": report.suppressed, "findings": findings,
        "skipped": [{"file": one.file, "reason": one.reason} for one in report.skipped],
        "unreadable": [{"file": one.file, "reason": one.reason} for one in report.unreadable],
    }, indent=2) + "\n"


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _region(one: Finding) -> dict[str, int]:
    region = {"startLine": one.line, "startColumn": one.column, "endLine": one.end_line, "endColumn": one.end_column}
    return region if (one.end_line, one.end_column) > (one.line, one.column) else {"startLine": one.line,
                                                                                  "startColumn": one.column}


def _sarif(report: Report) -> str:
    used = {one.code for one in report.findings}
    rules = [rule for rule in all_rules() if rule.code in used]
    index = {rule.code: number for number, rule in enumerate(rules)}
    results = [{
        "ruleId": one.code, "ruleIndex": index[one.code], "level": one.severity, "message": {"text": one.message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(one.file)}, "region": _region(one)}}],
    } for one in report.findings]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "specplan", "version": __version__, "rules": [{
            "id": rule.code, "name": rule.name, "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": f"{rule.why} Source: {rule.source}."}, "help": {"text": rule.fix},
            "properties": {"documentation": anchor(rule)}, "defaultConfiguration": {"level": rule.severity},
        } for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [{"executionSuccessful": not report.unreadable, "toolExecutionNotifications": [
            {"level": "error" if one in report.unreadable else "note",
             "message": {"text": f"{one.file}: {one.reason}"}} for one in (*report.unreadable, *report.skipped)]}],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _github(report: Report) -> str:
    words = {"error": "error", "warning": "warning", "note": "notice"}
    lines = []
    for one in report.findings:
        place = f"file={_property(one.file)},line={one.line},col={one.column},endLine={one.end_line}"
        title = _property(f"{one.code} {one.name}")
        lines.append(f"::{words[one.severity]} {place},title={title}::{_data(one.message)}")
    lines += [f"::error file={_property(one.file)},title=unreadable::{_data(one.reason)}" for one in report.unreadable]
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_NOT_XML = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def _attribute(text: str) -> str:
    """A quoted XML attribute; what XML cannot hold at all becomes a replacement character."""
    return '"' + escape(_NOT_XML.sub("\ufffd", text)).replace("\n", "&#10;") + '"'


def _junit(report: Report) -> str:
    failing = [one for one in report.findings if one.severity != "note"]
    cases = "".join(
        f"    <testcase classname={_attribute(one.file)} name={_attribute(f'{one.code} line {one.line}')}>\n"
        f"      <failure type={_attribute(one.severity)} message={_attribute(one.message)}>"
        f"{_attribute(f'{one.file}:{one.line}:{one.column}: {one.code} {one.name}')[1:-1]}</failure>\n    </testcase>\n"
        for one in failing)
    cases += "".join(f'    <testcase classname={_attribute(one.file)} name="readable">\n      <error '
                     f"message={_attribute(one.reason)}/>\n    </testcase>\n" for one in report.unreadable)
    if not cases:
        cases = '    <testcase classname="specplan" name="check"/>\n'
    total = max(1, len(failing) + len(report.unreadable))
    return ('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
            f'  <testsuite name="specplan check" tests="{total}" failures="{len(failing)}" '
            f'errors="{len(report.unreadable)}">\n{cases}  </testsuite>\n</testsuites>\n')


FORMATS: dict[str, Callable[[Report], str]] = {"text": _text, "json": _json, "sarif": _sarif, "github": _github,
                                               "junit": _junit}
