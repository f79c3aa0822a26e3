"""Validation reports as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from specplan.planner.output.columns import framed
from specplan.planner.output.tables import console
from specplan.planner.validate.anchored import AnchorReport
from specplan.planner.validate.report import Report, refusal_rows, rule_rows, slice_rows
from specplan.planner.validate.scores import Errors


def print_report(report: Report) -> None:
    """Print scores by slice, the rules on the same rows, and what could not be scored."""
    out = console()
    out.print(
        f"[bold]{escape(report.directory)}[/]: {report.cases} cases, {report.rows} rows, {report.scored} scored; "
        "errors are |ln(predicted / measured speedup)|"
    )
    for kind in dict.fromkeys(item.kind for item in report.slices):
        rows = slice_rows(report.of_kind(kind))
        _print_rows(f"by {kind}", [{kind: row[kind], **row} for row in rows])
    _print_rows("rules on the same rows", rule_rows(report.rules))
    refused = refusal_rows(report.refused)
    _print_rows(f"not scored: {sum(row['rows'] for row in refused)} rows", refused)


def print_anchor_report(report: AnchorReport) -> None:
    """Print errors on the rows that were not given, anchored and not."""
    rows = [
        {
            "given": score.given,
            "sweeps": score.sweeps,
            "rows": score.anchored.rows,
            "anchored": _errors(score.anchored),
            "unanchored": _errors(score.unanchored),
            "AL/(1+rho*D), anchored": _errors(score.depth_rule),
        }
        for score in report.scores
    ]
    _print_rows("median / p90 of |ln(predicted / measured)| on the other rows", rows)


def _errors(found: Errors) -> str:
    return "-" if found.median is None else f"{found.median:.3f} / {found.p90:.3f}"


def _print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    table = framed(title)
    heads = list(dict.fromkeys(head for row in rows for head in row))
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row.get(head, "-"))) for head in heads))
    console().print(table)
