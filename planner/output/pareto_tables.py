"""Operating points as a table for people, as CSV for spreadsheets."""

from __future__ import annotations

import csv
import dataclasses
import io

from rich.markup import escape

from specplan.planner.answer.pareto import ParetoAnswer, ParetoPoint
from specplan.planner.output.columns import figure_columns, fitted
from specplan.planner.output.tables import console


def pareto_csv(answer: ParetoAnswer) -> str:
    """One line per point; an empty cell where there is nothing (draft_len of off)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [field.name for field in dataclasses.fields(ParetoPoint)]
    writer.writerow(names)
    for point in answer.points:
        values = (getattr(point, name) for name in names)
        writer.writerow("" if value is None else int(value) if isinstance(value, bool) else value for value in values)
    return out.getvalue()


def print_pareto(answer: ParetoAnswer, batches: tuple[int, ...]) -> None:
    """The finding, then the points at the batches asked; * marks points that no option beats."""
    out = console()
    out.print(
        f"[bold]{escape(answer.target)}[/] on {answer.gpus} x {escape(answer.gpu)}: {escape(answer.finding)}"
    )
    metric = "prefill included" if answer.metric == "end_to_end" else "decode steps only"
    for context in dict.fromkeys(point.context_tokens for point in answer.points):
        here = [point for point in answer.points if point.context_tokens == context]
        options = list(dict.fromkeys(point.option for point in here))
        found = {(point.option, point.batch): point for point in here}
        rows = [(str(batch), *(_cell(found.get((option, batch))) for option in options)) for batch in batches]
        columns = figure_columns(["batch", *options], leaving=options[:0:-1])
        title = f"tokens/s/user and tokens/s/GPU at context {context} ({metric}; * = no option beats it)"
        out.print(fitted(out, title, columns, rows))


def _cell(point: ParetoPoint | None) -> str:
    if point is None:
        return "too large"
    draft = "" if point.draft_len is None else f"D{point.draft_len} "
    star = "*" if point.frontier else " "
    return f"{draft}{point.tokens_per_s_per_user:.0f} / {point.tokens_per_s_per_gpu:.0f}{star}"
