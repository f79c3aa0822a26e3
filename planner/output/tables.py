"""Human output: one table, the recommendation first, then reasons and guidelines; warnings go to stderr.

Scaling (ms, GB, percent) happens here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from specplan.planner.answer.types import Answer, Candidate, Cell, Recommendation, ScheduleAnswer

if TYPE_CHECKING:
    from specplan.planner.decide.anchor import Anchoring
from specplan.planner.decide.choose import NEAR
from specplan.planner.output.columns import Column, figure_columns, fitted, framed

GUIDELINE_TITLES = {
    "G1": "GEMM ridge",
    "G2": "attention tile",
    "G3": "tile multiples",
    "G4": "draft overhead",
    "G5": "mechanism",
}
WIDTH_OF_A_PIPE = 120


def console(*, stderr: bool = False) -> Console:
    """A console that never wraps piped output at 80 columns and colours only terminals."""
    found = Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False)
    if not found.is_terminal:
        found = Console(stderr=stderr, highlight=False, width=WIDTH_OF_A_PIPE, no_color=True, emoji=False)
    return found


def print_answer(answer: Answer, *, verbose: bool = False) -> None:
    """Print an answer to stdout, its warnings to stderr."""
    out = console()
    if answer.room is not None and not answer.room.fits:
        out.print(f"[bold]{escape(answer.room.finding)}[/]; {escape('; '.join(answer.room.remedies))}")
        if answer.load is not None:
            _print_load(answer, out)
        _print_warnings(answer, verbose=verbose)
        return
    if answer.load is not None:
        _print_load(answer, out)
        out.print("\nBatch by batch, whatever the load:")
    out.print(_headline(answer))
    for reason in answer.recommendation.reasons:
        out.print(f"  {escape(reason)}")
    if answer.room is not None:
        out.print(f"  {escape('; '.join((answer.room.finding, *answer.room.remedies)))}")
    if answer.robustness is not None:
        out.print(f"  {escape(answer.robustness.finding)}")
        if answer.robustness.settle is not None:
            out.print(f"  what would settle it: {escape(answer.robustness.settle)}")
    out.print()
    out.print(_cells_table(answer, out))
    out.print(f"[dim]{escape(_legend(answer))}[/]\n")
    if answer.recommendation.speculate is None:
        out.print(_break_even_table(answer))
    elif verbose:
        out.print(_candidates_table(answer.cell, out))
    if answer.schedule is not None:
        out.print(_schedule_lines(answer.schedule))
    if answer.anchoring is not None:
        out.print(_anchoring_table(answer.anchoring))
    out.print(_guidelines_table(answer))
    _print_warnings(answer, verbose=verbose)


def _print_load(answer: Answer, out: Console) -> None:
    from specplan.planner.output.load_tables import print_load  # noqa: PLC0415 - only where a load was stated

    assert answer.load is not None
    print_load(answer.load, out)


def label(item: Candidate | Recommendation) -> str:
    """How people call an option: its mechanism, with the drafter where that says more."""
    mechanism, drafter = str(item.mechanism), str(item.drafter)
    return mechanism if mechanism in drafter else f"{mechanism} {drafter}"


def ms(seconds: float | None) -> str:
    """Milliseconds with three significant digits or so."""
    if seconds is None:
        return "-"
    value = seconds * 1e3
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def times(ratio: float | None) -> str:
    """A ratio such as 1.43x."""
    return "-" if ratio is None else f"{ratio:.2f}x"


def _headline(answer: Answer) -> str:
    best, cell = answer.recommendation, answer.cell
    place = f"batch {cell.batch}, context {cell.context_tokens}"
    model = f"{escape(answer.target.name)} on {answer.workload.tp} x {escape(answer.gpu.name)}"
    model += f", {escape(answer.workload.engine)} ({escape(answer.workload.engine_path)})"
    if best.speculate is None:
        return f"[bold]Acceptance unknown[/]: no recommendation for {model} at {place}"
    if not best.speculate:
        return f"[bold]Do not speculate[/] at {place}: {model}"
    low, high = best.speedup_range or (0.0, 0.0)
    end = f", {times(best.speedup_end_to_end)} end to end" if best.speedup_end_to_end is not None else ""
    return (
        f"[bold]Run {escape(label(best))} with D = {best.draft_len}[/] at {place}: {times(best.speedup)} decode "
        f"({low:.2f}-{high:.2f}){end}; {model}"
    )


def _cells_table(answer: Answer, out: Console) -> Table:
    known_lengths = answer.workload.output_tokens is not None
    names = ["batch", "context", "run", "D (good)", "AL / needs", "ms / off", "speedup (90 %)", "end to end",
             "tok/s/user", "tok/s/GPU"]
    names = names if known_lengths else [name for name in names if name != "end to end"]
    leaving = ("tok/s/GPU", "end to end", "tok/s/user", "AL / needs", "ms / off")
    rows = [_cell_row(cell, known_lengths=known_lengths) for cell in answer.cells]
    title = f"best per batch and context, by {answer.workload.objective}"
    return fitted(out, title, figure_columns(names, leaving, text=("run",)), rows)


def _legend(answer: Answer) -> str:
    """What the columns mean; in full in `recommend --help`."""
    ends = "end to end (prompts included)" if answer.workload.output_tokens is not None else "decoding too"
    return (
        f"D (good): draft length (those within {NEAR:.0%}); AL / needs: tokens a step / to break even; ms / off: a "
        f"step speculating / plain; tok/s/user: decoding only; tok/s/GPU: {ends}"
    )


def _cell_row(cell: Cell, *, known_lengths: bool) -> list[str]:
    best = cell.recommendation
    chosen = label(best) if best.mechanism else ("?" if best.speculate is None else "off")
    chosen = chosen if _fits(cell, best) else "too\N{NO-BREAK SPACE}large"
    needed = "-" if best.break_even_acceptance_length is None else f"{best.break_even_acceptance_length:.2f}"
    row = [
        str(cell.batch),
        str(cell.context_tokens),
        escape(chosen),
        "-" if best.draft_len is None else f"{best.draft_len}{_span(best.draft_len_range)}",
        f"- / {needed}" if best.acceptance_length is None else f"{best.acceptance_length:.2f} / {needed}",
        f"{ms(best.step_s)} / {ms(cell.off.step_s)}",
        f"{times(best.speedup)}{_range(best.speedup_range)}",
    ]
    if known_lengths:
        row.append(times(best.speedup_end_to_end))
    rate = best.tokens_per_s_per_user or cell.off.tokens_per_s_per_user
    return [*row, f"{rate:.0f}", f"{best.tokens_per_s_per_gpu or cell.off.tokens_per_s_per_gpu:.0f}"]


def _anchoring_table(found: Anchoring) -> Table:
    """The user's own measurements beside the model, before and after it was moved to them."""
    table = framed("your measurements")
    for head in ("measured", "figure", "value", "modelled", "anchored", "off by"):
        table.add_column(head, justify="left" if head in ("measured", "figure") else "right")
    for item in found.residuals:
        off_by = f"{(item.after / item.measured - 1) * 100:+.1f} %"
        table.add_row(
            item.label, _FIGURES[item.kind], *(_figure(item.kind, v) for v in (item.measured, item.before, item.after)),
            off_by + (" (contradicts)" if item.contradicts else ""),
        )
    return table


_FIGURES = {"step_s": "step", "token_s": "time per token", "speedup": "speedup", "draft_s": "drafting"}


def _figure(kind: str, value: float) -> str:
    return times(value) if kind == "speedup" else f"{ms(value)} ms"


def _schedule_lines(found: ScheduleAnswer) -> str:
    tiers = ", ".join(
        f"{tier.first}{f'-{tier.last}' if tier.last > tier.first else ''}: D = {tier.draft_len}" for tier in found.tiers
    )
    smoother = "" if found.smoother is None else f"  {escape(found.smoother.finding)}\n"
    return f"[bold]By batch[/] with {escape(found.drafter)}: {tiers}\n  {escape(found.finding)}\n{smoother}"


def _span(span: tuple[int, int] | None) -> str:
    return "" if span is None else f" ({span[0]}-{span[1]})"


def _range(span: tuple[float, float] | None) -> str:
    return "" if span is None or span[0] == span[1] else f" ({span[0]:.2f}-{span[1]:.2f})"


def _fits(cell: Cell, best: Recommendation) -> bool:
    return cell.off.fits_memory if best.drafter is None else True


def _break_even_table(answer: Answer) -> Table:
    """AL that each D must reach, by drafter, in the headline cell."""
    table = framed("AL that must be reached to break even")
    table.add_column("D", justify="right")
    drafters = list(dict.fromkeys(candidate.drafter for candidate in answer.candidates))
    for name in drafters:
        table.add_column(escape(name), justify="right")
    found = {(candidate.drafter, candidate.draft_len): candidate for candidate in answer.candidates}
    for draft_len in sorted({candidate.draft_len for candidate in answer.candidates} - {0}):
        cells = [found.get((name, draft_len)) for name in drafters]
        table.add_row(str(draft_len), *(_needed(candidate) for candidate in cells))
    return table


def _needed(candidate: Candidate | None) -> str:
    if candidate is None:
        return "-"
    needed = candidate.break_even_acceptance_length
    return "never" if needed > 1 + candidate.draft_len else f"{needed:.2f}"


def _candidates_table(cell: Cell, out: Console) -> Table:
    names = ("drafter", "D", "AL", "needs AL", "verify ms", "draft ms", "fixed ms", "speedup", "memory GB")
    leaving = ("fixed ms", "draft ms", "verify ms", "memory GB")
    columns = [*figure_columns(names, leaving, text=("drafter",)), Column(name="bound", leaves=9, text=True)]
    rows = [
        (
            escape(label(candidate)),
            str(candidate.draft_len),
            "-" if candidate.acceptance_length is None else f"{candidate.acceptance_length:.2f}",
            f"{candidate.break_even_acceptance_length:.2f}",
            ms(candidate.verify_s),
            ms(candidate.draft_s),
            ms(candidate.overhead_s),
            times(candidate.speedup),
            f"{candidate.memory_bytes / 1e9:.1f}" + ("" if candidate.fits_memory else " !"),
            ", ".join(f"{part} {bound}" for part, bound in candidate.bound.items() if bound),
        )
        for candidate in cell.candidates
    ]
    return fitted(out, f"all options at batch {cell.batch}, context {cell.context_tokens}", columns, rows)


def _guidelines_table(answer: Answer) -> Table:
    table = framed("NVIDIA's guidelines here (docs/model.md, \"NVIDIA's guidelines\")")
    for name in ("", "D", "applies"):
        table.add_column(name, justify="right" if name == "D" else "left", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for rule in answer.guidelines:
        title = f"{rule.id} {GUIDELINE_TITLES[rule.id]}"
        shown = "-" if rule.draft_len is None else str(rule.draft_len)
        table.add_row(title, shown, "yes" if rule.applies else "no", escape(rule.finding))
    return table


def _print_warnings(answer: Answer, *, verbose: bool) -> None:
    err = console(stderr=True)
    shown = answer.warnings if verbose else answer.warnings[:6]
    for note in shown:
        err.print(f"note: {escape(note.message)}")
    if len(shown) < len(answer.warnings):
        err.print(f"note: {len(answer.warnings) - len(shown)} more notes with -v")
