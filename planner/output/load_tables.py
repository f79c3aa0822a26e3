"""The answer under a load as tables: what carries the rate, what users see, what meets the target, what it costs."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from specplan.planner.answer.load_answer import label_of
from specplan.planner.answer.load_types import LoadAnswer, LoadRow
from specplan.planner.output.columns import figure_columns, fitted
from specplan.planner.output.tables import ms


def print_load(load: LoadAnswer, out: Console) -> None:
    """What to run, findings, then one row per way to run."""
    asked = f"{load.request_rate:g} requests/s" if load.request_rate is not None else (
        f"{load.concurrency} users" if load.concurrency is not None else "90 % of what each option carries"
    )
    lengths = f"{load.input_tokens:.0f} tokens in, {load.output_tokens:.0f} out"
    lengths += f", {load.prefix_hit:.0%} of the prompt cached" if load.prefix_hit else ""
    lengths += ", prompts processed on other GPUs" if load.disaggregated else ""
    if load.slo is None or load.slo.met:
        run = load.choice
        name = escape(label_of(run)).replace(" D =", " with D =")
        where = f"under this load, at most {run.max_batch} sequences on {run.tp} GPU" + ("s" if run.tp > 1 else "")
        if run.drafter is None and load.unknown:
            out.print(f"[bold]Acceptance unknown[/]: no recommendation; without speculation {where}")
        else:
            out.print(f"[bold]{'Do not speculate' if run.drafter is None else f'Run {name}'}[/] {where}")
    out.print(f"[bold]Under load[/] ({asked}; {lengths}): {escape(load.finding)}")
    if load.slo is not None:
        out.print(f"[bold]{'Target met' if load.slo.met else 'Target not met'}[/]: {escape(load.slo.finding)}")
    out.print(_table(load, out))
    for check in load.simulation:
        ttft = "" if check.ttft_closed_s is None else (
            f", TTFT {ms(check.ttft_closed_s)} ms against {ms(check.ttft_s)} ms"
        )
        out.print(
            f"Simulated {escape(check.label)} ({check.requests} requests, seed {check.seed}): TPOT "
            f"{ms(check.tpot_closed_s)} ms against {ms(check.tpot_s)} ms simulated, throughput "
            f"{check.tokens_per_s_closed:.0f} against {check.tokens_per_s:.0f} tokens/s{ttft}",
        )
    if load.simulation:
        out.print()


def _table(load: LoadAnswer, out: Console) -> Table:
    """Users' figures and the verdict stay longest."""
    top = f"p{load.percentile:g}"
    names = ["run", "slots", "carries/s", "TPOT ms", f"TPOT {top}", f"gap {top}"]
    names += [] if load.disaggregated else ["TTFT ms", f"TTFT {top}"]
    names += ["answer s", "tok/s/user", "/GPU"]
    names += [] if load.price_per_gpu_hour is None else ["cost/M"]
    names += [] if load.slo is None else ["target"]
    leaving = ("slots", f"gap {top}", "answer s", "/GPU", f"TTFT {top}", "cost/M", f"TPOT {top}", "TTFT ms",
               "tok/s/user")
    lines = []
    for row in load.listed:
        cells = [escape(label_of(row)), *_figures(row, load)]
        if load.slo is not None:
            cells.append("met" if row.meets_target else f"no: {row.binds}")
        lines.append(cells)
    title = "steady state: requests/s carried, what users see (a step brings several tokens: gap is not TPOT)"
    columns = figure_columns(names, leaving, text=("run", "target"))
    beside = {f"TPOT {top}", f"TTFT {top}"}     # of the column to the left
    columns = [replace(column, head=top) if column.name in beside else column for column in columns]
    return fitted(out, title, columns, lines)


def _figures(row: LoadRow, load: LoadAnswer) -> list[str]:
    found = [
        str(row.max_batch), f"{row.saturation_rate:.2f}", ms(row.tpot_s), ms(row.tpot_top_s),
        ms(row.step_gap_top_s),
    ]
    if not load.disaggregated:
        found += [_endless(row.ttft_s, 1e3), _endless(row.ttft_top_s, 1e3)]
    found += [
        _endless(row.request_s, 1.0, digits=2), f"{row.tokens_per_s_per_user:.0f}", f"{row.tokens_per_s_per_gpu:.0f}",
    ]
    return found if row.cost_per_million_tokens is None else [*found, f"{row.cost_per_million_tokens:.3f}"]


def _endless(seconds: float | None, scale: float, digits: int = 0) -> str:
    return "endless" if seconds is None else f"{seconds * scale:.{digits}f}"
