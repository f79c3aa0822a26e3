"""Commands that show the answer to people: operating points, pictures, a report."""

# No `from __future__ import annotations`: typer would compile each annotation from its text.

from pathlib import Path
from typing import Annotated

import typer

from specplan.commands.options import Engine, Gpu, Json, ModelFile, Preliminary, Tp, load, print_json, write_text
from specplan.planner.messages import Fault, InputError, nearest

app = typer.Typer(rich_markup_mode=None)

Batch = Annotated[str | None, typer.Option(metavar="LIST", help="Batches: 8, 1,8,32, or 1-256.")]
Context = Annotated[str | None, typer.Option(metavar="LIST", help="Context lengths: 2000, 2k,32k.")]


@app.command(epilog="Example: specplan pareto --model cfg.yaml --batch 1-512 --plot pareto.svg")
def pareto(
    model: ModelFile, gpu: Gpu = None, tp: Tp = None, batch: Batch = None, context: Context = None,
    engine: Engine = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .svg, .png or .pdf.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV only.")] = False,
    allow_preliminary: Preliminary = False, as_json: Json = False,
) -> None:
    """Weigh users' speed against throughput over batch: off, each mechanism at its best D, and the schedule."""
    from specplan.planner.answer.pareto import pareto_of
    from specplan.planner.answer.resolve import resolve
    from specplan.planner.output.contract import plain
    from specplan.planner.output.pareto_tables import pareto_csv, print_pareto

    if as_csv and as_json:
        raise InputError([Fault((), "goes without --json", file="--csv")])
    loaded = load(model, gpu=gpu, tp=tp, batch=batch, context=context, engine=engine)
    if plot is not None:
        from specplan.planner.output.pictures import check_picture_file

        check_picture_file(plot)
    question = resolve(loaded, allow_preliminary=allow_preliminary)
    answer = pareto_of(question)
    if plot is not None:
        from specplan.planner.output.figures import pareto_figure
        from specplan.planner.output.pictures import save

        save(pareto_figure(answer), plot)
        typer.echo(f"Wrote {plot}", err=True)
    if as_json:
        print_json(plain(answer))
    elif as_csv:
        typer.echo(pareto_csv(answer), nl=False)
    else:
        print_pareto(answer, question.batch)


KINDS = ("step", "speedup", "roofline", "map", "pareto", "acceptance")


@app.command(epilog="Example: specplan plot step --model cfg.yaml -o step.svg")
def plot(
    kind: Annotated[str, typer.Argument(help="step, speedup, roofline, map, pareto or acceptance.")],
    model: ModelFile, gpu: Gpu = None, tp: Tp = None, batch: Batch = None, context: Context = None,
    engine: Engine = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=".svg, .png or .pdf.")] = None,
    allow_preliminary: Preliminary = False,
) -> None:
    """Draw one picture, in the terminal or into a file; the first batch and context where it shows one cell."""
    from specplan.planner.answer.plan import evaluate
    from specplan.planner.answer.resolve import resolve
    from specplan.planner.output.drawing import draw

    if kind not in KINDS:
        known = f"there are {', '.join(KINDS)}{nearest(kind, KINDS)}"
        raise InputError([Fault((), f"no picture '{kind}': {known}", "KIND")])
    if output is not None:
        from specplan.planner.output.pictures import check_picture_file

        check_picture_file(output)
    loaded = load(model, gpu=gpu, tp=tp, batch=batch, context=context, engine=engine)
    draw(kind, evaluate(resolve(loaded, allow_preliminary=allow_preliminary)), output)
    if output is not None:
        typer.echo(f"Wrote {output}", err=True)


@app.command(epilog="Example: specplan report --model cfg.yaml -o report.html")
def report(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")],
    gpu: Gpu = None, tp: Tp = None, batch: Batch = None, context: Context = None, engine: Engine = None,
    allow_preliminary: Preliminary = False,
) -> None:
    """Write one HTML page with the answer, reasons, figures to explore, sources and configurations to paste."""
    from specplan.planner.answer.report_facts import report_facts
    from specplan.planner.answer.resolve import resolve
    from specplan.planner.output.progress import progress
    from specplan.planner.output.report import report_html

    loaded = load(model, gpu=gpu, tp=tp, batch=batch, context=context, engine=engine)
    question = resolve(loaded, allow_preliminary=allow_preliminary)
    with progress("report:") as tell:
        page = report_html(report_facts(question, tell))
    write_text(output, page)
    typer.echo(f"Wrote {output}", err=True)
