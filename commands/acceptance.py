"""`specplan acceptance ...`: read measured acceptance, look up published curves, say what would be needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from specplan.commands.options import Gpu, Json, ModelFile, load, print_facts, print_json, write_text

acceptance_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Read, look up and plan the acceptance of drafted tokens."
)
app = typer.Typer(rich_markup_mode=None)
app.add_typer(acceptance_app, name="acceptance")


@acceptance_app.command(
    "read",
    epilog="Example: specplan acceptance read server.log --json; of several curves in a file, one: "
    "specplan acceptance read speed-bench.csv --select coding -o acceptance.json",
)
def read(
    files: Annotated[list[str], typer.Argument(help="Logs, metrics, benchmark results; - is standard input.")],
    source_format: Annotated[str, typer.Option("--format", help="auto, or whose numbers these are.")] = "auto",
    draft_len: Annotated[int | None, typer.Option(help="Draft length, where the source does not tell.")] = None,
    select: Annotated[str | None, typer.Option(metavar="NAME", help="Which of several curves in a file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write a file that cfg.yaml takes.")] = None,
    as_json: Json = False,
) -> None:
    """Read acceptance from any engine's numbers, say which definition was found, and check its identities."""
    from specplan.planner.acceptance.canonical import canonical
    from specplan.planner.engines.acceptance import read_files
    from specplan.planner.output.readings import reading_text

    found = canonical(read_files(files, format=source_format, draft_len=draft_len, select=select))
    if output is not None:
        write_text(output, json.dumps(found, indent=1, allow_nan=False) + "\n")
    for warning in found["warnings"]:
        typer.echo(f"note: {warning['message']}", err=True)
    if as_json:
        print_json(found)
    else:
        typer.echo(reading_text(found), nl=False)


@acceptance_app.command("list", epilog="Example: specplan acceptance list --mechanism eagle3 --domain coding")
def list_curves(
    mechanism: Annotated[str | None, typer.Option(help="Only this mechanism.")] = None,
    domain: Annotated[str | None, typer.Option(help="Only this kind of text.")] = None,
    target: Annotated[str | None, typer.Option(help="Only targets with this in their name.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every curve, not an overview.")] = False,
    as_json: Json = False,
) -> None:
    """List the published curves that ship with specplan: an overview, or those asked for."""
    from specplan.planner.acceptance.library import check_names, curve_line, find_curves
    from specplan.planner.output.catalog import curve_list, curve_overview

    check_names(mechanism=mechanism, domain=domain, target=target)
    curves = [curve_line(curve) for curve in find_curves(mechanism=mechanism, domain=domain, target=target)]
    if as_json:
        print_json(curves)
    elif everything or mechanism or domain or target:
        typer.echo(curve_list(curves))
    else:
        typer.echo(curve_overview(curves))


@acceptance_app.command("show", epilog="Example: specplan acceptance show golden-glm5.2_mtp-thinking_on")
def show(
    curve: Annotated[str, typer.Argument(metavar="ID", help="Id of a curve (`specplan acceptance list`).")],
    as_json: Json = False,
) -> None:
    """Show one published curve with its conditions and source."""
    from specplan.planner.acceptance.library import curve_facts, load_curve

    print_facts(curve_facts(load_curve(curve)), as_json=as_json)


@acceptance_app.command("needed", epilog="Example: specplan acceptance needed --model cfg.yaml --json")
def needed(
    model: ModelFile, gpu: Gpu = None,
    batch: Annotated[str | None, typer.Option(metavar="LIST", help="Batches.")] = None,
    context: Annotated[str | None, typer.Option(metavar="LIST", help="Context lengths.")] = None,
    as_json: Json = False,
) -> None:
    """Say which acceptance length (and alpha) breaks even and which gains 1.2x, for each drafter and draft length."""
    from specplan.planner.answer.needed import needed as needed_acceptance
    from specplan.planner.answer.plan import evaluate
    from specplan.planner.answer.resolve import resolve
    from specplan.planner.output.contract import plain
    from specplan.planner.output.needed import print_needed

    found = needed_acceptance(evaluate(resolve(load(model, gpu=gpu, batch=batch, context=context))))
    if as_json:
        print_json(plain(found))
    else:
        print_needed(found)
