"""The section of docs/accuracy.md on published measurements, and the short table of the README.

python -m specplan.planner.validate.page            # write the pages (scores anew, refit as kept)
python -m specplan.planner.validate.page --refit    # refit the constants first, with all folds (minutes)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specplan.planner.validate.anatomy import Share, shares
from specplan.planner.validate.anchored import AnchorReport, anchor_rows, validate_anchor
from specplan.planner.validate.annotations import read_annotations
from specplan.planner.validate.collection import read_collection
from specplan.planner.validate.published import resolve, validate_published
from specplan.planner.validate.refit import Refit, refit
from specplan.planner.validate.report import Report, markdown, refusal_rows, rule_rows, slice_rows
from specplan.planner.validate.scores import Errors

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "published"
KEPT = ROOT / "tests" / "data" / "published_refit.json"
PAGE = ROOT / "docs" / "accuracy.md"
README = ROOT / "README.md"
TEMPLATE = Path(__file__).parent / "data" / "accuracy.md"
SECTION = "published measurements"      # between `<!-- begin: ... -->` and `<!-- end: ... -->`


def section(
    report: Report, anchored: AnchorReport, kept: Mapping[str, Any], anatomy: Sequence[Share]
) -> str:
    """The generated part of docs/accuracy.md."""
    head = report.headline
    return TEMPLATE.read_text(encoding="utf-8").rstrip().format(
        cases=report.cases,
        rows=report.rows,
        scored=report.scored,
        head=head.speedup.rows,
        inferred=head.inferred_rows,
        goals=_goals(report, anchored, kept),
        rules=markdown(rule_rows(report.rules)),
        slices=markdown([_line(row) for row in slice_rows(report.slices) if row["rows"]]),
        in_sample=_pair(kept["in_sample"]),
        folds=_folds(kept),
        constants=_constants(kept),
        anchored=markdown(anchor_rows(anchored)),
        anatomy=_anatomy(anatomy),
        refused=markdown(refusal_rows(report.refused)),
    )


def readme_table(report: Report) -> str:
    """The short table of the README."""
    return markdown(rule_rows(report.rules))


def put_section(text: str, name: str, content: str) -> str:
    """The page with what stands between its two marks replaced; both marks must be there."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no '{begin}' followed by '{end}'")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def current_section() -> tuple[str, str]:
    """Section and README table from the data in the repository and the refit that is kept."""
    report = validate_published(DATA)
    cases, _ = read_collection(DATA)
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    return section(report, validate_anchor(DATA), kept, shares(cases)), readme_table(report)


def keep(found: Refit) -> dict[str, Any]:
    """A refit as JSON values."""
    return {
        "before": _errors(found.before),
        "in_sample": _errors(found.in_sample),
        "left_out": {
            item.kind: {"folds": item.folds, "all": _errors(item.all_rows),
                        "by_fold": {name: _errors(each) for name, each in item.by_fold.items()}}
            for item in found.left_out
        },
        "constants": [
            {"path": key.path or "shared", "name": key.name, "prior": found.priors[key].value,
             "fitted": float(f"{value:.4g}"), "sd": found.priors[key].sd}
            for key, value in sorted(found.constants.items())
        ],
    }


def _errors(errors: Errors) -> dict[str, Any]:
    return {"rows": errors.rows, "median": _short(errors.median), "p90": _short(errors.p90),
            "bias": _short(errors.bias)}


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A slice row with its kind and label in front."""
    kind = list(row)[-1]
    rest = {key: value for key, value in row.items() if key != kind}
    return {"by": kind, "slice": row[kind], **rest}


def _pair(errors: Errors | Mapping[str, Any] | None) -> str:
    if errors is None:
        return "-"
    median, p90 = (errors.median, errors.p90) if isinstance(errors, Errors) else (errors["median"], errors["p90"])
    return "-" if median is None or p90 is None else f"{median:.3f} / {p90:.3f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value * 100:.{digits}f} %"


def _goals(report: Report, anchored: AnchorReport, kept: Mapping[str, Any]) -> str:
    head = report.headline
    both = [*report.slices[:1], *report.slices[3:4]]
    found, losing = sum(s.signs.found for s in both), sum(s.signs.losing for s in both)
    false = sum(s.signs.false_off for s in both)
    by_given = {score.given: score for score in anchored.scores}
    depth = next(rule for rule in report.rules if rule.name.startswith("AL/"))
    middle, ends = by_given["off + middle row"], by_given["off + both ends"]
    rows = [
        ("median / p90, shipped constants", "0.05 / 0.15", _pair(head.speedup), _pair(depth.speedup)),
        ("median / p90, trees (verified nodes)", "-", _pair(report.slices[3].speedup), "-"),
        ("median / p90, AL from the curve library (chains without one)", "-", _pair(report.slices[5].speedup), "-"),
        ("one (target, GPU, engine) group left out", "0.06 / 0.18", _pair(kept["left_out"]["group"]["all"]), "-"),
        ("one source left out", "0.08 / 0.20", _pair(kept["left_out"]["source"]["all"]), "-"),
        ("rows inside the printed 90 % range", "85-95 %", _percent(head.inside_range), "-"),
        ("mean / worst regret (1 % ties)", "0.5 % / 8 %",
         f"{_percent(head.regret.mean, 2)} / {_percent(head.regret.worst)}",
         f"{_percent(depth.regret.mean, 2)} / {_percent(depth.regret.worst)}"),
        ("losing rows found / false off, chains and trees", "11 of 14 / 5", f"{found} of {losing} / {false}", "-"),
        ("anchored on off + middle row", "0.02 / 0.09", _pair(middle.anchored), _pair(middle.depth_rule)),
        ("anchored on off + both ends", "0.02 / 0.07", _pair(ends.anchored), _pair(ends.depth_rule)),
    ]
    heads = ("measure, quality A and B, AL given", "goal", "specplan", "AL/(1+rho*D)")
    return markdown([dict(zip(heads, row, strict=True)) for row in rows])


def _folds(kept: Mapping[str, Any]) -> str:
    rows = [
        {"left out": kind, "fold": name, "rows": each["rows"], "median / p90": _pair(each),
         "bias": "-" if each["bias"] is None else f"{each['bias']:+.3f}"}
        for kind in ("source",) for name, each in kept["left_out"][kind]["by_fold"].items() if each["rows"]
    ]
    return markdown(rows)


def _constants(kept: Mapping[str, Any]) -> str:
    rows = [
        {"path": item["path"], "constant": item["name"], "prior = shipped": f"{item['prior']:g}",
         "refit": f"{item['fitted']:g}"}
        for item in kept["constants"] if abs(item["fitted"] / item["prior"] - 1.0) > 0.1
    ]
    return "Constants that a refit on all rows would move by more than 10 %:\n\n" + markdown(rows)


def _anatomy(anatomy: Sequence[Share]) -> str:
    rows = [
        {"target": item.target, "drafter": item.mechanism, "batch": f"{item.batch:g}",
         "draft / verify measured": f"{item.measured:.2f}", "model": f"{item.model:.2f}",
         "model, prefills in verify": f"{item.with_prefill:.2f}"}
        for item in anatomy
    ]
    return markdown(rows)


def main(arguments: Sequence[str]) -> None:
    """Write the page and, where it has the marks, the README's table."""
    if "--refit" in arguments:
        cases, _ = read_collection(DATA)
        points, _ = resolve(cases, read_annotations(None, DATA))
        KEPT.write_text(json.dumps(keep(refit(points)), indent=1) + "\n", encoding="utf-8")
    content, table = current_section()
    PAGE.write_text(put_section(PAGE.read_text(encoding="utf-8"), SECTION, content), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    if f"<!-- begin: {SECTION} -->" in readme:
        README.write_text(put_section(readme, SECTION, table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
