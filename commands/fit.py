"""`specplan fit`: turn measurements into a GPU profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specplan.planner.messages import InputError

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: specplan fit --from silicon --system h200-sxm -o profile.yaml; "
                    "specplan fit sweep/measurements.jsonl -o profile.yaml")
def fit(
    measurements: Annotated[Path | None, typer.Argument(metavar="FILE", help="Measurements of a sweep.")] = None,
    tables: Annotated[str | None, typer.Option("--from", metavar="silicon",
                                               help="Measured operator tables of the extra `silicon`.")] = None,
    system: Annotated[str | None, typer.Option(help="GPU of the tables.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only this engine's kernels.")] = None,
    base: Annotated[str | None, typer.Option(help="Profile with the hardware facts of the measured device.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Profile to write; stdout if left out.")] = None,
) -> None:
    """Fit kernel numbers to measurements and write them as a profile, each with its error on rows never seen."""
    from specplan.microbench.fit_measurements import fit_measurements
    from specplan.microbench.fit_profile import fit_silicon

    def told(name: str) -> None:
        typer.echo(f"fitting {name}", err=True)

    if tables is None and measurements is not None and system is None and engine is None:
        report = fit_measurements(measurements, base=base, out=output)
    elif tables == "silicon" and measurements is None and system is not None and base is None:
        report = fit_silicon(system, engine, out=output, progress=told)
    else:
        raise InputError("give a measurements file, or --from silicon with --system (see specplan fit --help)")
    for line in report.lines():
        typer.echo(line, err=True)
    if output is None:
        typer.echo(report.text, nl=False)
