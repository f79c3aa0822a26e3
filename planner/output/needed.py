"""Needed acceptance as tables, one per (batch, context) and drafter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.markup import escape

from specplan.planner.answer.needed import Needed
from specplan.planner.output.columns import framed
from specplan.planner.output.tables import console


def print_needed(rows: Sequence[Needed]) -> None:
    """Print what each D must reach; 'never' where even full acceptance does not pay."""
    out = console()
    for (drafter, batch, context), group in groupby(rows, key=lambda row: (row.drafter, row.batch, row.context_tokens)):
        table = framed(f"{escape(drafter)} at batch {batch}, context {context}")
        for name in ("D", "AL to break even", "alpha", "AL for 1.2x", "alpha"):
            table.add_column(name, justify="right")
        for row in group:
            table.add_row(
                str(row.draft_len),
                _shown(row.break_even_acceptance_length),
                _shown(row.break_even_alpha),
                _shown(row.acceptance_length_for_gain),
                _shown(row.alpha_for_gain),
            )
        out.print(table)


def _shown(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"
