"""A comparison as a table."""

from __future__ import annotations

from collections.abc import Callable

from rich.markup import escape

from specplan.planner.answer.compare import Comparison, Side
from specplan.planner.output.columns import framed
from specplan.planner.output.tables import console, ms


def print_comparison(found: Comparison) -> None:
    """Print both sides and the reasons."""
    out = console()
    verdict = {
        "equal": "equal within 1 %",
        "a": f"{found.a.label} is faster",
        "b": f"{found.b.label} is faster",
    }[found.faster]
    out.print(
        f"[bold]{escape(verdict)}[/]: {escape(found.b.label)} gives {found.ratio:.2f}x the tokens/s/user and "
        f"{found.throughput_ratio:.2f}x the tokens/s/GPU of {escape(found.a.label)}"
    )
    for reason in found.reasons:
        out.print(f"  {escape(reason)}")
    table = framed("side by side")
    for name in ("", "A", "B"):
        table.add_column(name, justify="left" if not name else "right")
    for name, show in _ROWS.items():
        table.add_row(name, show(found.a), show(found.b))
    out.print(table)


def _what(side: Side) -> str:
    return "off" if side.drafter is None else f"{side.drafter} D = {side.draft_len}"


_ROWS: dict[str, Callable[[Side], str]] = {
    "configuration": lambda side: escape(side.label),
    "runs": lambda side: escape(_what(side)),
    "batch, context": lambda side: f"{side.batch}, {side.context_tokens}",
    "acceptance length": lambda side: f"{side.acceptance_length:.2f}",
    "verify ms": lambda side: ms(side.verify_s),
    "draft ms": lambda side: ms(side.draft_s),
    "host ms": lambda side: ms(side.overhead_s),
    "step ms": lambda side: ms(side.step_s),
    "ms per token": lambda side: ms(side.token_s),
    "tokens/s/user": lambda side: f"{side.tokens_per_s_per_user:.1f}",
    "tokens/s/GPU": lambda side: f"{side.tokens_per_s_per_gpu:.1f}",
    "memory GB per GPU": lambda side: f"{side.memory_bytes / 1e9:.1f}" + ("" if side.fits_memory else " (too large)"),
}
