"""The report as one HTML page without scripts: predicted against measured, and the tables."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from specplan.planner.validate.report import Report, ScoredRow, refusal_rows, rule_rows, slice_rows

SIDE = 520
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right}
td:last-child,th:last-child,td:first-child,th:first-child{text-align:left}svg{background:#fafafa}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}svg{background:#222}td,th{border-color:#444}}"""


def report_html(report: Report) -> str:
    """A page of its own: nothing is loaded from elsewhere."""
    head = report.headline.speedup
    found = "no row" if head.median is None else f"median {head.median:.3f}, 90th percentile {head.p90:.3f}"
    summary = (
        f"{report.directory}: {report.cases} cases, {report.rows} rows, {report.scored} scored, {len(report.refused)} "
        f"listed with a reason. |ln(predicted / measured speedup)| of {report.headline.label}: {found} over "
        f"{head.rows} rows."
    )
    parts = [
        "<h1>specplan against published measurements</h1>",
        f"<p>{html.escape(summary)}</p>",
        _scatter(report.scored_rows),
        "<h2>Rules on the same rows</h2>", _table(rule_rows(report.rules)),
    ]
    for kind in dict.fromkeys(item.kind for item in report.slices):
        parts += [f"<h2>By {kind}</h2>", _table(slice_rows(report.of_kind(kind)))]
    parts += ["<h2>Not scored</h2>", _table(refusal_rows(report.refused))]
    body = "\n".join(parts)
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>specplan: accuracy</title>'
            f"<style>{_STYLE}</style></head><body>{body}</body></html>\n")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{html.escape(str(key))}</th>" for key in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row.values()) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _scatter(rows: Sequence[ScoredRow]) -> str:
    """Predicted over measured speedup on logarithmic axes; the line is equality."""
    shown = [row for row in rows if row.measured > 0 and row.predicted > 0 and math.isfinite(row.predicted)]
    if not shown:
        return ""
    values = [value for row in shown for value in (row.measured, row.predicted)]
    low, high = math.log(min(values)) - 0.05, math.log(max(values)) + 0.05

    def at(value: float) -> float:
        return (math.log(value) - low) / (high - low) * SIDE

    dots = "".join(
        f'<circle cx="{at(row.measured):.1f}" cy="{SIDE - at(row.predicted):.1f}" r="2.5" '
        f'fill="{"#c60" if row.tree else "#06c"}" fill-opacity=".5"><title>{html.escape(row.case)} D={row.draft_len} '
        f"batch {row.batch:g}: {row.predicted:.2f} / {row.measured:.2f}</title></circle>"
        for row in shown
    )
    return (f'<svg viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" role="img" aria-label="predicted over measured speedup">'
            f'<line x1="0" y1="{SIDE}" x2="{SIDE}" y2="0" stroke="#888"/>{dots}</svg>'
            "<p>Predicted (up) against measured speedup (right), logarithmic; orange: trees.</p>")
