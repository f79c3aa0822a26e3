"""Options and small steps that commands share: completion, lists of counts, configuration, printing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specplan.planner.messages import Fault, InputError

if TYPE_CHECKING:
    from specplan.planner.config.load import LoadedConfig


def gpu_names_starting(incomplete: str) -> list[str]:
    """Complete the name of a GPU profile."""
    from specplan.planner.kernels.profile import gpu_names

    return [name for name in gpu_names() if name.startswith(incomplete)]


def model_names_starting(incomplete: str) -> list[str]:
    """Complete the name of a model preset."""
    from specplan.planner.models.reader import model_names

    return [name for name in model_names() if name.startswith(incomplete)]


ModelFile = Annotated[str, typer.Option("--model", "-m", metavar="FILE", help="cfg.yaml, or a model's config.json.")]
Gpu = Annotated[str | None, typer.Option(help="GPU profile: name or path.", autocompletion=gpu_names_starting)]
Tp = Annotated[int | None, typer.Option(help="Tensor parallelism.")]
Engine = Annotated[str | None, typer.Option(help="Serving engine, as vllm or vllm:0.24.0.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print notes and sources in full.")]
Preliminary = Annotated[bool, typer.Option(help="Accept GPU profiles with pre-release figures.")]
Counts = Annotated[str, typer.Option(metavar="LIST", help="A count, or a list such as 1,2,4.")]
OneGpu = Annotated[str, typer.Option("--gpu", help="GPU profile: name or path.", autocompletion=gpu_names_starting)]
Kernel = Annotated[str | None, typer.Option(help="Kernel id (`specplan profiles show`); vLLM's choice if left out.")]
Warm = Annotated[bool, typer.Option("--l2-warm", help="Operands still in L2, as in benchmark tables.")]
KvDtype = Annotated[str, typer.Option(help="Format of the KV cache.")]
Observe = Annotated[
    Path | None,
    typer.Option("--observe", metavar="FILE", help="Your measurements: CSV, YAML, saved results or their folder."),
]
Dtype = Annotated[str, typer.Option(help="Format of the weights.")]


def load(model: str, **options: Any) -> LoadedConfig:
    """Configuration of a file, with options of the command line above it."""
    from specplan.planner.config.load import Overrides, read_config

    return read_config(model, Overrides(**options))


def counts(options: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Lists of counts from options, by the rules of cfg.yaml; all faults at once."""
    from specplan.planner.config.sizes import sizes

    found, faults = {}, []
    for name, written in options.items():
        try:
            found[name] = sizes(written)
        except ValueError as error:
            faults.append(Fault((), str(error), file="--" + name.replace("_", "-")))
    if faults:
        raise InputError(faults)
    return found


def print_json(value: Any) -> None:
    """Print JSON, and nothing else."""
    typer.echo(json.dumps(value, indent=1, allow_nan=False))


def print_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print rows as JSON or as a table."""
    if as_json:
        print_json(rows)
    else:
        from specplan.planner.output.rows import table_of_rows

        typer.echo(table_of_rows(rows))


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print nested facts as JSON or as YAML."""
    import yaml

    if as_json:
        print_json(facts)
    else:
        plain = json.loads(json.dumps(facts))
        typer.echo(yaml.safe_dump(plain, sort_keys=False, width=120, allow_unicode=True).rstrip())


def write_text(file: Path, text: str, *, replace: bool = True) -> None:
    """Write a file whole or not at all; a fault says why it cannot be."""
    try:
        if file.exists() and not replace:
            raise InputError([Fault((), "exists; --force replaces it", file=str(file))])
        part = file.with_name(f".{file.name}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(file)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:      # ValueError: no name that a file can have
        why = getattr(error, "strerror", None) or error
        raise InputError([Fault((), f"cannot be written: {why}", file=str(file))]) from None
