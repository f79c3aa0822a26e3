"""Commands that show what ships with specplan: GPU profiles and model presets."""

from __future__ import annotations

from typing import Annotated

import typer

from specplan.commands.options import (
    Json,
    gpu_names_starting,
    model_names_starting,
    print_facts,
    print_rows,
)
from specplan.planner.messages import InputError, nearest

profiles_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="GPU profiles that ship with specplan.")
models_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Model presets that ship with specplan.")
app = typer.Typer(rich_markup_mode=None)
app.add_typer(profiles_app, name="profiles")
app.add_typer(models_app, name="models")


@profiles_app.command("list", epilog="Example: specplan profiles list --json")
def profiles_list(as_json: Json = False) -> None:
    """List GPU profiles and whether their kernels were measured."""
    from specplan.planner.kernels.profile import gpu_names, load_gpu
    from specplan.planner.kernels.summary import gpu_line

    rows = [gpu_line(load_gpu(name, allow_preliminary=True)) for name in gpu_names()]
    print_rows(rows, as_json=as_json)


@profiles_app.command("show", epilog="Example: specplan profiles show h200-sxm --kernel fa3")
def profiles_show(
    name: Annotated[str, typer.Argument(help="Name or path.", autocompletion=gpu_names_starting)],
    kernel: Annotated[str | None, typer.Option(metavar="ID", help="Kernels with this in their name, whole.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything, parameters and sources included.")] = False,
    as_json: Json = False,
) -> None:
    """Show a GPU's hardware and kernels with their errors; JSON holds everything."""
    from specplan.planner.kernels.profile import load_gpu
    from specplan.planner.kernels.summary import gpu_summary
    from specplan.planner.output.catalog import gpu_overview, kernel_names, kernels_named

    if kernel is not None and not kernel.strip():
        raise InputError("--kernel: must name a kernel, or a part of its name")
    facts = gpu_summary(load_gpu(name, allow_preliminary=True))
    if kernel is not None:
        found = kernels_named(facts, kernel)
        known = kernel_names(facts)
        if not found:
            listed = f"; `specplan profiles show {name}` lists its {len(known)}" if known else "; it has none"
            raise InputError(f"--kernel: {facts['name']} has no kernel '{kernel}'{nearest(kernel, known) or listed}")
        matched = [one for one in known if kernel.lower() in one.lower()]
        if kernel.lower() not in map(str.lower, known):
            typer.echo(f"note: no kernel is called '{kernel}'; with it in their name: {', '.join(matched)}", err=True)
        print_facts(found, as_json=as_json)
    elif everything or as_json:
        print_facts(facts, as_json=as_json)
    else:
        typer.echo(gpu_overview(facts))


@models_app.command("list", epilog="Example: specplan models list --json")
def models_list(as_json: Json = False) -> None:
    """List model presets with their size."""
    from specplan.planner.models.reader import load_model, model_names
    from specplan.planner.models.summary import model_line

    print_rows([model_line(load_model(name)) for name in model_names()], as_json=as_json)


@models_app.command("show", epilog="Example: specplan models show llama-3.3-70b --json")
def models_show(
    name: Annotated[str, typer.Argument(help="Preset or config.json.", autocompletion=model_names_starting)],
    as_json: Json = False,
) -> None:
    """Show what a model is made of: parameters, KV bytes per token, layers by kind."""
    from specplan.planner.models.reader import load_model
    from specplan.planner.models.summary import model_summary

    print_facts(model_summary(load_model(name)), as_json=as_json)
