"""The report of a validation: typed, and as JSON, text and Markdown tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from specplan.planner.fact import fact
from specplan.planner.validate.collection import Refusal
from specplan.planner.validate.scores import Errors, Regret, Signs, Trends


@fact
class ScoredRow:
    """One published row and what specplan says of it."""

    file: str
    case: str
    row: int
    quality: str
    target: str
    mechanism: str
    tree: bool
    gpu: str
    gpus: int
    engine_path: str
    metric: str
    draft_len: int
    verified_tokens: float
    batch: float
    context_tokens: float
    acceptance_length: float
    acceptance_form: str
    measured: float
    predicted: float
    low: float
    high: float
    step_ratio_measured: float      # t_sd / t_ar = AL / speedup
    step_ratio_predicted: float
    inferred: tuple[str, ...]
    assumed: tuple[str, ...]


@fact
class Slice:
    """Scores of one slice of the rows."""

    kind: str
    label: str
    speedup: Errors
    step_ratio: Errors
    inside_range: float | None      # share of rows inside the printed 90 % range
    regret: Regret
    signs: Signs
    trends: Trends
    inferred_rows: int


@fact
class Rule:
    """Specplan or a baseline on the headline rows; None where a rule has no such figure."""

    name: str
    speedup: Errors | None
    regret: Regret
    signs: Signs | None
    trends: Trends | None


@fact
class Report:
    """Everything that `specplan validate published` found."""

    directory: str
    annotations: str
    cases: int
    rows: int
    resolved: int       # rows understood, off rows included
    scored: int         # speculative rows with an acceptance length
    slices: tuple[Slice, ...]
    rules: tuple[Rule, ...]
    scored_rows: tuple[ScoredRow, ...]
    refused: tuple[Refusal, ...]

    @property
    def headline(self) -> Slice:
        """Quality A and B, chain drafts, AL given."""
        return self.slices[0]

    def of_kind(self, kind: str) -> tuple[Slice, ...]:
        """Slices of one kind, in order."""
        return tuple(item for item in self.slices if item.kind == kind)


def report_json(report: Any) -> dict[str, Any]:
    """The report as JSON values; what is not computable is null."""
    found: dict[str, Any] = _plain(dataclasses.asdict(report))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def slice_rows(slices: Sequence[Slice]) -> list[dict[str, Any]]:
    """Slices as rows of a table."""
    return [
        {
            "rows": item.speedup.rows,
            "median": _figure(item.speedup.median),
            "p90": _figure(item.speedup.p90),
            "bias": _signed(item.speedup.bias),
            "in range": _percent(item.inside_range),
            "regret": _percent(item.regret.mean, 2),
            "worst": _percent(item.regret.worst),
            "losing found": f"{item.signs.found}/{item.signs.losing}",
            "false off": item.signs.false_off,
            "trend": f"{item.trends.right}/{item.trends.sweeps}",
            "inferred": item.inferred_rows,
            item.kind: item.label,
        }
        for item in slices
    ]


def rule_rows(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Specplan beside the baselines."""
    return [
        {
            "rule": rule.name,
            "rows": "-" if rule.speedup is None else str(rule.speedup.rows),
            "median": "-" if rule.speedup is None else _figure(rule.speedup.median),
            "p90": "-" if rule.speedup is None else _figure(rule.speedup.p90),
            "regret": _percent(rule.regret.mean, 2),
            "worst": _percent(rule.regret.worst),
            "sweeps": str(rule.regret.sweeps),
            "losing found": "-" if rule.signs is None else f"{rule.signs.found}/{rule.signs.losing}",
            "false off": "-" if rule.signs is None else str(rule.signs.false_off),
            "trend": "-" if rule.trends is None else f"{rule.trends.right}/{rule.trends.sweeps}",
        }
        for rule in rules
    ]


def refusal_rows(refused: Sequence[Refusal]) -> list[dict[str, Any]]:
    """Refusals counted by case and reason."""
    counted: dict[tuple[str, str, str], int] = {}
    for item in refused:
        key = (item.file, item.case, item.reason)
        counted[key] = counted.get(key, 0) + 1
    return [{"rows": count, "case": case or file, "reason": reason} for (file, case, reason), count in counted.items()]


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table; columns of words to the left, figures to the right."""
    if not rows:
        return ""
    heads = list(rows[0])
    left = [isinstance(rows[0][head], str) and not _numeric(str(rows[0][head])) for head in heads]
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join("---" if text else "--:" for text in left) + "|"]
    lines += ["| " + " | ".join(str(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines)


def _numeric(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "+-"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value * 100:.{digits}f} %"
