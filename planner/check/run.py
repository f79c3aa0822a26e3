"""Check files: find them, read their configurations, run the rules, leave out what is silenced."""

from __future__ import annotations

import bisect
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from specplan.planner.check import file_rules
from specplan.planner.check.catalog import engine_rules, shared_rules
from specplan.planner.check.extract import RELEVANT, extract
from specplan.planner.check.files import (
    STANDARD_INPUT,
    Kind,
    Refusal,
    Source,
    find,
    kind_of_text,
    read,
    read_standard_input,
)
from specplan.planner.check.options import Options, check_codes
from specplan.planner.check.plan_rules import against_baseline, against_planner
from specplan.planner.check.report import Finding, Report, Skipped
from specplan.planner.check.suppress import Suppressions, suppressions
from specplan.planner.engines.dialects import dialect
from specplan.planner.engines.launch import Launch
from specplan.planner.engines.located import HOLE, MalformedError
from specplan.planner.engines.plan import DraftPlan
from specplan.planner.engines.rule import Context, Hit, Rule
from specplan.planner.messages import InputError


def check_paths(paths: Sequence[str | Path], options: Options | None = None) -> Report:
    """Check files and folders (`-`: standard input); never raises for what stands in a file."""
    options = options or Options()
    check_codes(options)
    report = Report(fail_on=options.fail_on)
    named = [Path(path) for path in paths]
    if STANDARD_INPUT in named:
        _check_standard_input(options, report)
    for item in find([path for path in named if path != STANDARD_INPUT], options.exclude):
        if isinstance(item, Refusal):
            _refuse(report, item)
        else:
            _check_file(item, options, report)
    report.findings.sort(key=lambda one: (one.file, one.line, one.column, one.code))
    return report


def _refuse(report: Report, refusal: Refusal) -> None:
    (report.unreadable if refusal.fatal else report.skipped).append(Skipped(str(refusal.path), refusal.reason))


def _check_standard_input(options: Options, report: Report) -> None:
    text = read_standard_input()
    report.files += 1
    if isinstance(text, Refusal):
        _refuse(report, replace(text, fatal=True))
    else:
        report.findings += check_text(text, str(STANDARD_INPUT), kind_of_text(text), options, report)


def _check_file(item: Source, options: Options, report: Report) -> None:
    text = read(item.path)
    report.files += 1
    if isinstance(text, Refusal):
        _refuse(report, replace(text, fatal=text.fatal and item.named))
        return
    for finding in check_text(text, str(item.path), item.kind, options, report, path=item.path, named=item.named):
        report.findings.append(finding)


def check_text(source: str, file: str, kind: Kind, options: Options | None = None, report: Report | None = None, *,
               path: Path | None = None, named: bool = True) -> list[Finding]:
    """Findings in the text of a file."""
    options, report = options or Options(), report if report is not None else Report()
    places, quiet = _Places(source), suppressions(source)
    ignored = [code for pattern, codes in options.per_file_ignores.items()
               if fnmatch.fnmatch(file, pattern) or fnmatch.fnmatch(Path(file).name, pattern) for code in codes]
    scope = replace(options, ignore=(*options.ignore, *ignored))
    findings: list[Finding] = []
    try:
        for rule, hit, launch in _hits(source, file, kind, scope, report, path):
            _keep(findings, places, quiet, scope, report, file, rule, hit, launch)
    except MalformedError as error:
        line = places.place(error.offset)[0]
        refusal = Skipped(file, f"line {line}: is not valid {'JSON' if kind == 'json' else 'YAML'}: {error}")
        templated = "{{" in source or "{%" in source
        (report.skipped if templated or not named else report.unreadable).append(refusal)
    return findings


def _hits(source: str, file: str, kind: Kind, options: Options, report: Report, path: Path | None
          ) -> Iterator[tuple[Rule, Hit, Launch | None]]:
    if kind == "log" or (kind == "shell" and path is not None and path.suffix not in {".sh", ".mk"}
                         and file_rules.ACCEPTANCE.search(source)):
        match = file_rules.ACCEPTANCE.search(source)
        if match is not None and path is not None:
            for rule, message in file_rules.in_log(path):
                yield rule, Hit(match.start(), match.end(), message), None
        return
    if kind == "yaml" and path is not None and file_rules.is_own_configuration(source):
        starts = [0, *(at + 1 for at, char in enumerate(source) if char == "\n")]
        for rule, line, message in file_rules.in_own_configuration(path):
            start = starts[min(line, len(starts)) - 1]
            yield rule, Hit(start, start, message), None
        return
    if not RELEVANT.search(source):
        return
    found = extract(source, kind, dict(options.engines))
    report.skipped.extend(Skipped(file, f"line {source.count(chr(10), 0, error.offset) + 1}: a here-document cannot be "
                                        f"read: {error}") for error in found.unread)
    context = found.context
    if options.batch is not None:
        context = replace(context, batch=options.batch, batch_source="the planned batch")
    if options.temperature is not None:
        context = replace(context, temperature=options.temperature)
    for launch in found.launches:
        report.configurations += 1
        yield from ((rule, hit, launch) for rule, hit in rule_hits(launch, context, options))


def rule_hits(launch: Launch, context: Context, options: Options) -> Iterator[tuple[Rule, Hit]]:
    """What the rules say about one launch."""
    for rule in (*shared_rules(), *engine_rules(launch.engine)):
        if rule.check is not None and options.wants(rule.code, rule.name):
            for hit in rule.check(launch, context):
                yield rule, hit
    if options.planner is not None:
        planner = options.planner
        if options.max_loss is not None:
            planner = replace(planner, max_loss=options.max_loss)
        yield from against_planner(launch, context, planner)
    if options.baseline is not None:
        yield from against_baseline(launch, options.baseline)


def _keep(findings: list[Finding], places: _Places, quiet: Suppressions, options: Options, report: Report, file: str,
          rule: Rule, hit: Hit, launch: Launch | None) -> None:
    if not options.wants(rule.code, rule.name):
        return
    line, column = places.place(hit.start)
    end_line, end_column = places.place(max(hit.start, hit.end))
    anchor = places.place(launch.place.start)[0] if launch is not None else line
    finding = Finding(file=file, line=line, column=column, end_line=end_line, end_column=end_column, code=rule.code,
                      name=rule.name, severity=rule.severity, message=hit.message.replace(HOLE, "${...}"),
                      engine=launch.engine if launch is not None else "", edits=hit.edits, anchor_line=anchor)
    if finding in findings:
        return
    if quiet.silence(rule.code, rule.name, line, anchor):
        report.suppressed += 1
        return
    findings.append(finding)


class _Places:
    """Line and column (from 1) of an offset."""

    def __init__(self, source: str) -> None:
        self.starts, self.end = [0], len(source)
        at = source.find("\n")
        while at >= 0:
            self.starts.append(at + 1)
            at = source.find("\n", at + 1)

    def place(self, offset: int) -> tuple[int, int]:
        offset = min(offset, self.end)      # "is missing at the end" points there
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1


def read_plans(path: str | Path) -> list[DraftPlan]:
    """The plans that the configurations in a file carry out; for `specplan compare`."""
    plans: list[DraftPlan] = []
    for item in find([Path(path)]):
        text = read(item.path) if isinstance(item, Source) else item
        if isinstance(text, Refusal):
            raise InputError(f"{text.path}: {text.reason}")
        kind = item.kind if isinstance(item, Source) else "shell"
        try:
            launches: Iterable[Launch] = extract(text, kind).launches
        except MalformedError as error:
            raise InputError(f"{path}: {error}") from None
        for launch in launches:
            try:
                plans.append(dialect(launch.engine).plan_of(launch))
            except InputError:
                continue
    if not plans:
        raise InputError(f"{path}: no configuration that says which drafter drafts how many tokens")
    return plans
