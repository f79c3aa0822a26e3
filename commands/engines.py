"""Commands about engine configurations: check existing ones, compare two ways to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specplan.commands.options import Json, load, print_json
from specplan.planner.messages import InputError

if TYPE_CHECKING:
    from specplan.planner.answer.compare import Side
    from specplan.planner.answer.types import Cell
    from specplan.planner.check.plan_rules import Planner

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: specplan check deploy/ --model cfg.yaml --max-loss 5% --format sarif")
def check(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and folders; - is standard input.")] = None,
    output_format: Annotated[str, typer.Option("--format", help="text, json, sarif, github or junit.")] = "text",
    select: Annotated[str | None, typer.Option(metavar="CODES", help="Only these rules: SP1,SP203,loss.")] = None,
    ignore: Annotated[str | None, typer.Option(metavar="CODES", help="Leave these rules out.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="cfg.yaml: compare with the plan.")] = None,
    max_loss: Annotated[str | None, typer.Option(metavar="SHARE", help="Loss that is still fine: 5%.")] = None,
    baseline: Annotated[Path | None, typer.Option(help="Stored `recommend --json`: fail on drift.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Sequences in flight that are planned for.")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend; shows the diff.")] = False,
    explain: Annotated[str | None, typer.Option(metavar="CODE", help="Say what a rule is about, and stop.")] = None,
) -> None:
    """Find configurations of engines and what is wrong with them; exit code 1 on findings, 2 on unreadable files."""
    from specplan.planner.check import catalog
    from specplan.planner.check.fix import fix_files
    from specplan.planner.check.formats import render
    from specplan.planner.check.options import fraction, read_options, with_command_line
    from specplan.planner.check.plan_rules import read_baseline
    from specplan.planner.check.run import check_paths

    if explain is not None:
        typer.echo(catalog.explain(explain))
        return
    if not paths:
        raise InputError("no file or folder given; see specplan check --help")
    if fix and "-" in paths:
        raise InputError("--fix: standard input cannot be mended; give a file")
    limit = None if max_loss is None else fraction(max_loss)
    options = with_command_line(
        read_options(),
        select=None if select is None else tuple(select.split(",")),
        ignore=None if ignore is None else tuple(ignore.split(",")),
        max_loss=limit,
        batch=batch,
        planner=None if model is None else _planner(model, limit),
        baseline=None if baseline is None else read_baseline(baseline),
    )
    report = check_paths(paths, options)
    if fix:
        for mended in fix_files(report.findings):
            typer.echo(mended.diff, nl=False, err=True)
            if mended.refused:
                typer.echo(f"{mended.file}: {mended.refused}", err=True)
        report = check_paths(paths, options)
    typer.echo(render(report, output_format), nl=False)
    raise typer.Exit(report.exit_code)


def _planner(model: str, max_loss: float | None) -> Planner:
    from specplan.planner.check.from_plan import planner_from  # the model's arithmetic: only where a model is given

    return planner_from(load(model), max_loss=max_loss)


@app.command(epilog="Example: specplan compare now.yaml next.yaml; specplan compare --model cfg.yaml --draft-len 3,5; "
                    "specplan compare --model cfg.yaml serve.sh serve-next.sh")
def compare(
    files: Annotated[list[str] | None, typer.Argument(
        help="Two cfg.yaml: what each recommends; with --model, two engine configurations.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="One cfg.yaml that both run under.")] = None,
    draft_len: Annotated[str | None, typer.Option(metavar="A,B", help="Two draft lengths; 0 is off.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Mechanism or drafter; else the one recommended.")] = None,
    as_json: Json = False,
) -> None:
    """Put two configurations, or two draft lengths of one, side by side: speed, memory, and why."""
    from specplan.planner.answer import recommend
    from specplan.planner.answer.compare import chosen_side, recommended_side
    from specplan.planner.answer.compare import compare as side_by_side
    from specplan.planner.output.comparison import print_comparison
    from specplan.planner.output.contract import plain

    if files and model is None and draft_len is None and len(files) == 2:
        found = side_by_side(*(recommended_side(recommend(load(file)), file) for file in files))
    elif files and model is not None and draft_len is None and len(files) == 2:
        cell = recommend(load(model)).cell
        found = side_by_side(*(_served_side(cell, file) for file in files))
    elif model is not None and draft_len is not None and not files:
        words = draft_len.split(",")
        lengths = [int(word) for word in words if word.strip().isdecimal() and len(word) < 10]
        if len(words) != 2 or len(lengths) != 2:
            raise InputError(f"--draft-len: must be two draft lengths such as 3,5, not '{draft_len}'")
        cell = recommend(load(model)).cell
        mechanism = mechanism or cell.recommendation.drafter    # where off wins, one that there is no choice about
        found = side_by_side(*(chosen_side(cell, mechanism, length, f"D = {length}") for length in lengths))
    else:
        raise InputError("give two cfg.yaml, --model with two engine configurations, or --model with --draft-len A,B")
    if as_json:
        print_json(plain(found))
    else:
        print_comparison(found)


def _served_side(cell: Cell, file: str) -> Side:
    """What the engine configuration in a file runs at the batch of a cell."""
    from specplan.planner.answer.compare import chosen_side
    from specplan.planner.check.run import read_plans

    plans = read_plans(file)
    if len(plans) > 1:
        raise InputError(f"{file}: holds {len(plans)} speculative configurations; give a file with one")
    return chosen_side(cell, plans[0].mechanism, plans[0].length_at(cell.batch), file)
