"""`specplan explain` for people: every op of a step, and the sweep over D."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from specplan.planner.answer.explanation import Explanation
from specplan.planner.answer.recommended import OFF
from specplan.planner.output.columns import Column, figure_columns, fitted
from specplan.planner.output.tables import console, ms, times

STAGES = ("decode", "verify", "draft", "fixed")


def print_explanation(explanation: Explanation) -> None:
    """Print every op of a step and the sweep over D."""
    out = console()
    e = explanation
    what = "plain decoding" if e.mechanism == OFF else f"{e.drafter}, D = {e.draft_len}"
    beside = "" if e.mechanism == OFF else f", {ms(e.off_step_s)} ms off"
    out.print(
        f"[bold]{escape(e.target)}[/] on {escape(e.gpu)}: {escape(what)}, batch {e.batch}, context "
        f"{e.context_tokens}: {ms(e.step_s)} ms a step{beside}"
    )
    out.print(_ops_table(e, out))
    if e.sweep:
        out.print(_sweep_table(e, out))
    err = console(stderr=True)
    for note in e.warnings:
        err.print(f"note: {escape(note.message)}")


def _ops_table(e: Explanation, out: Console) -> Table:
    lines = sorted(e.ops, key=lambda line: (STAGES.index(line.stage), -line.time_s))
    rows = [
        (line.stage, line.name, f"{line.count:g}", ms(line.time_s), f"{line.share:.1%}", line.bound) for line in lines
    ]
    names = ("stage", "op", "calls", "ms", "share", "bound by")
    columns = figure_columns(names, leaving=("calls", "bound by"), text=("stage", "op", "bound by"))
    return fitted(out, "one step, op by op", columns, rows)


def _sweep_table(e: Explanation, out: Console) -> Table:
    moe = any(line.experts_touched is not None for line in e.sweep)
    names = ["D", "verify ms", "draft ms", "fixed ms", "step ms", "AL", "needs AL", "speedup", "rows", "tiles"]
    leaving = ("expert share", "experts", "rows", "fixed ms", "tiles", "draft ms", "verify ms", "AL", "needs AL")
    columns = [*figure_columns(names, leaving), Column(name="bound", leaves=6, text=True, wraps=True)]
    columns += figure_columns(["experts", "expert share"], leaving) if moe else []
    rows = []
    for line in e.sweep:
        row = [
            str(line.draft_len),
            ms(line.verify_s),
            ms(line.draft_s),
            ms(line.overhead_s),
            ms(line.step_s),
            "-" if line.acceptance_length is None else f"{line.acceptance_length:.2f}",
            f"{line.break_even_acceptance_length:.2f}",
            times(line.speedup),
            "-" if line.attention_rows is None else str(line.attention_rows),
            "-" if line.attention_tiles is None else f"{line.attention_tiles}{'*' if line.tile_edge else ''}",
            ", ".join(f"{part} {bound}" for part, bound in line.bound.items() if bound),
        ]
        if moe:
            row += [f"{line.experts_touched:.1f}", f"{line.expert_share:.0%}"]
        rows.append(row)
    starred = any(line.tile_edge and line.attention_tiles is not None for line in e.sweep)
    legend = " (* = the attention kernel takes a larger tile, or one more)" if starred else ""
    return fitted(out, f"over D{legend}", columns, rows)
