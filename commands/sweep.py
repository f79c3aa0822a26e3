"""`specplan sweep`: measure this machine's kernels and turn them into a GPU profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from specplan.commands.options import Json, Tp, print_json
from specplan.planner.messages import Fault, InputError

app = typer.Typer(rich_markup_mode=None)

Device = Annotated[str | None, typer.Option(metavar="cuda|cpu", help="What to measure; a CUDA device if left out.")]
Threads = Annotated[int | None, typer.Option(help="Compute threads on a CPU; all cores but one if left out.")]


@app.command(epilog="Example: specplan sweep --model cfg.yaml -o sweep && "
                    "specplan recommend --model cfg.yaml --gpu sweep/profile.yaml")
def sweep(
    model: Annotated[Path | None, typer.Option("--model", "-m", metavar="FILE",
                                               help="cfg.yaml to take shapes from; else a general grid.")] = None,
    device: Device = None,
    minutes: Annotated[float | None, typer.Option(help="Time to measure; 5 if left out.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One minute.")] = False,
    out: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="Folder of the results.")] = "sweep",
    threads: Threads = None, tp: Tp = None, as_json: Json = False,
) -> None:
    """Time real kernels on this machine, fit them, and write measurements.jsonl, profile.yaml and summary.txt.

    Ctrl-C loses nothing: run it again and it goes on. Under torchrun all-reduce is measured too.
    """
    from specplan.microbench.sweep import run_sweep
    from specplan.microbench.sweep_progress import show_progress

    if faults := [Fault((), message, file=option) for option, message, bad in (
        ("--tp", f"must be at least 1, not {tp}", tp is not None and tp < 1),
        ("--output", "must name a folder", not out.strip()),
        ("--threads", f"must be at least 1, not {threads}", threads is not None and threads < 1),
    ) if bad]:
        raise InputError(faults)
    with show_progress() as report:
        if model is None:
            result = run_sweep(device=device, minutes=minutes, quick=quick, out=Path(out), threads=threads,
                               report=report)
        else:
            from specplan.planner.answer.resolve import resolve
            from specplan.planner.config.load import Overrides, read_config

            question = resolve(read_config(str(model), Overrides(tp=tp)))
            deployment = question.deployment
            result = run_sweep(
                model=question.target, tp=deployment.tp, kv_dtype=deployment.kv_dtype, batch=question.batch,
                context_tokens=question.context_tokens, device=device, minutes=minutes, quick=quick, out=Path(out),
                threads=threads, report=report)
    if as_json:
        print_json({"measurements": str(result.measurements), "profile": str(result.profile),
                    "summary": str(result.summary_file), "points": result.points, "interrupted": result.interrupted,
                    "notes": [note.message for note in result.notes]})
    else:
        typer.echo(result.summary, nl=False)
        typer.echo(f"profile: {result.profile}", err=True)
    if result.interrupted:
        typer.echo("interrupted: the points so far are safe; run the same command again to go on", err=True)
        sys.stdout.flush()
        raise typer.Exit(130)
