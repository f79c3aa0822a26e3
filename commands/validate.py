"""`specplan validate ...`: predictions beside measurements, published or your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specplan.commands.options import Gpu, Json, ModelFile, print_json, print_rows, write_text

validate_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Score predictions against measurements."
)
app = typer.Typer(rich_markup_mode=None)
app.add_typer(validate_app, name="validate")

Collection = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of YAML files with measured cases.")]
Annotations = Annotated[
    Path | None, typer.Option(help="Facts that the sources do not state (lengths, hardware, engine paths).")
]


@validate_app.command(epilog="Example: specplan validate published tests/data/published --html report.html")
def published(
    directory: Collection,
    annotations: Annotations = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the scatter and all tables.")] = None,
    as_json: Json = False,
) -> None:
    """Predict every published row, and score specplan and simpler rules on the same rows."""
    from specplan.planner.output.validation import print_report
    from specplan.planner.validate.html import report_html
    from specplan.planner.validate.published import validate_published
    from specplan.planner.validate.report import report_json

    report = validate_published(directory, annotations=annotations)
    if html is not None:
        write_text(html, report_html(report))
    if as_json:
        print_json(report_json(report))
    else:
        print_report(report)


@validate_app.command(epilog="Example: specplan validate anchor tests/data/published")
def anchor(directory: Collection, annotations: Annotations = None, as_json: Json = False) -> None:
    """Anchor each published sweep on plain decoding and one or two of its rows, and predict the others."""
    from specplan.planner.output.validation import print_anchor_report
    from specplan.planner.validate.anchored import validate_anchor
    from specplan.planner.validate.report import report_json

    report = validate_anchor(directory, annotations=annotations)
    if as_json:
        print_json(report_json(report))
    else:
        print_anchor_report(report)


@validate_app.command(epilog="Example: specplan validate refit tests/data/published")
def refit(directory: Collection, annotations: Annotations = None, as_json: Json = False) -> None:
    """Fit the fixed costs of engine paths to the rows, held to their priors, and score it left out; minutes."""
    from specplan.planner.validate.annotations import read_annotations
    from specplan.planner.validate.collection import read_collection
    from specplan.planner.validate.page import keep
    from specplan.planner.validate.published import resolve
    from specplan.planner.validate.refit import refit as fit

    read, _ = read_collection(directory)
    points, _ = resolve(read, read_annotations(annotations, directory))
    found = keep(fit(points))
    if as_json:
        print_json(found)
        return
    print_rows(found["constants"], as_json=False)
    scores = [{"scored": "priors", **found["before"]}, {"scored": "in sample", **found["in_sample"]}]
    scores += [{"scored": f"one {kind} left out", **item["all"]} for kind, item in found["left_out"].items()]
    typer.echo("")
    print_rows(scores, as_json=False)


@validate_app.command(epilog="Example: specplan validate step --model cfg.yaml --gpu sweep/profile.yaml --device cpu")
def step(
    model: ModelFile, gpu: Gpu = None,
    device: Annotated[str | None, typer.Option(metavar="cuda|cpu", help="A CUDA device if left out.")] = None,
    drafter: Annotated[str | None, typer.Option(help="A drafter of the file; else the first.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers to build; as many as fit if left out.")] = None,
    threads: Annotated[int | None, typer.Option(help="Compute threads on a CPU; else all cores but one.")] = None,
    as_json: Json = False,
) -> None:
    """Build a decode step in torch with random weights, time it for D = 0 to 12, and compare with the prediction."""
    from specplan.microbench.validate_step import validate_step
    from specplan.microbench.validate_step_text import validation_json, validation_text
    from specplan.planner.output.progress import progress

    with progress("timing") as report:
        result = validate_step(Path(model), gpu=gpu, device=device, threads=threads, layers=layers, drafter=drafter,
                               report=lambda done, total: report("steps", done / total))
    if as_json:
        print_json(validation_json(result))
    else:
        typer.echo(validation_text(result), nl=False)
