"""Commands that answer from a configuration: recommend, explain; and those that help to write one: init, schema."""

# No `from __future__ import annotations`: typer would compile each annotation from its text.

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specplan.commands.options import (
    Engine,
    Gpu,
    Json,
    ModelFile,
    Observe,
    Preliminary,
    Tp,
    Verbose,
    counts,
    load,
    print_json,
    write_text,
)
from specplan.planner.messages import Fault, InputError

if TYPE_CHECKING:
    from specplan.planner.answer import Answer

app = typer.Typer(rich_markup_mode=None)


ANSWER_HELP = """Example: specplan recommend --model cfg.yaml --batch 1-256 --context 2k,32k --json

Columns. D (good): draft length, and the range of lengths within 3 % of it. AL / needs: tokens emitted per step, and
the AL at which speculation breaks even. ms / off: one step with speculation, and without. speedup (90 %): of decoding,
with its 90 % range; end to end: prompts included. tok/s/user: of decoding only. tok/s/GPU: prompts included where
input_tokens and output_tokens are given, else of decoding only.

Least regret: the option that loses least on average over draws of everything that is not known exactly.

G1 to G5: NVIDIA's guidelines, which docs/model.md explains.

Exit codes: 0 answered; 1 nothing feasible (does not fit in memory, or misses the latency target); 2 bad input; 3 a
device or an extra that is needed is missing.
"""


@app.command(epilog=ANSWER_HELP)
def recommend(
    model: ModelFile, gpu: Gpu = None, tp: Tp = None,
    batch: Annotated[str | None, typer.Option(metavar="LIST", help="Batches: 8, 1,8,32, or 1-256.")] = None,
    context: Annotated[str | None, typer.Option(metavar="LIST", help="Context lengths: 2000, 2k,32k.")] = None,
    objective: Annotated[str | None, typer.Option(help="latency or throughput.")] = None,
    engine: Engine = None,
    max_draft_len: Annotated[int | None, typer.Option(help="Longest draft to consider.")] = None,
    emit: Annotated[str | None, typer.Option(metavar="ENGINE[:VERSION]", help="Print a configuration.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the emitted configuration here.")] = None,
    observe: Observe = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Check the answer under load by simulation.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    allow_preliminary: Preliminary = False, as_json: Json = False, verbose: Verbose = False,
) -> None:
    """Say which mechanism and draft length to run, and what it gains over plain decoding."""
    from specplan.planner.answer import recommend as answer_question

    if output is not None and emit is None:
        raise InputError([Fault((), "goes with --emit ENGINE", file="--output")])
    if emit is not None and as_json:
        raise InputError([Fault((), "does not go with --emit, which prints the engine's own form", file="--json")])

    loaded = load(model, gpu=gpu, tp=tp, batch=batch, context=context, objective=objective, engine=engine,
                   max_draft_len=max_draft_len)
    if observe is not None:
        from specplan.planner.answer.observe import with_observations

        loaded = with_observations(loaded, observe)
    if simulate:
        from specplan.planner.output.progress import progress

        with progress("simulating") as report:
            answer = answer_question(loaded, allow_preliminary=allow_preliminary, simulate_seed=seed, progress=report)
    else:
        answer = answer_question(loaded, allow_preliminary=allow_preliminary)
    if emit is not None:
        _emit(answer, emit, output)
    elif as_json:
        from specplan.planner.output.contract import answer_json

        print_json(answer_json(answer))
    else:
        from specplan.planner.output.tables import print_answer

        print_answer(answer, verbose=verbose)
    missed = answer.load is not None and answer.load.slo is not None and not answer.load.slo.met
    if missed or not any(cell.off.fits_memory for cell in answer.cells):
        raise typer.Exit(1)     # nothing feasible


def _emit(answer: "Answer", engine: str, output: Path | None) -> None:
    """Write what the answer recommends in an engine's own words; stdout carries nothing else.

    Without a version, for the engine planned with, that of the plan.
    """
    from specplan.planner.engines.dialects import canonical_name, write_configuration
    from specplan.planner.messages import Note

    if answer.recommendation.speculate is None or answer.deployment is None:
        raise InputError("acceptance is not known, so there is no recommendation to write; give `acceptance:`")
    name, _, version = engine.partition(":")
    asked, planned, named = canonical_name(name), answer.workload.engine, canonical_name(answer.workload.engine_named)
    release = version or (answer.workload.engine_version if asked == named else None)
    hint = "" if asked == named else f": give `engine: {name}` to plan for it"
    other = [] if asked == canonical_name(planned) else [
        Note("other-engine", f"planned with the kernels and fixed costs of {planned} ({answer.workload.engine_path}), "
                             f"not of {asked}{hint}")
    ]
    if answer.schedule is not None and answer.schedule.smoother is not None:
        other.append(Note("smoother-schedule", answer.schedule.smoother.finding))
    written = write_configuration(answer.deployment, name, release, first=other)
    slo = answer.load.slo if answer.load is not None else None
    if slo is not None and not slo.met:
        typer.echo(f"note: {slo.finding}", err=True)
    for note in written.notes:
        typer.echo(f"note: {note.message}", err=True)
    if output is None:
        typer.echo(written.text, nl=not written.text.endswith("\n"))
    else:
        write_text(output, written.text)


@app.command(epilog="Example: specplan explain -m cfg.yaml --mechanism eagle3 --draft-len 3 --batch 8 --context 4k")
def explain(
    model: ModelFile,
    mechanism: Annotated[str | None, typer.Option(help="Mechanism, name of a drafter, or off; else the best.")] = None,
    draft_len: Annotated[int | None, typer.Option(help="Draft length; 0: loaded but idle; else the best.")] = None,
    batch: Annotated[str | None, typer.Option(help="One batch; else the first.")] = None,
    context: Annotated[str | None, typer.Option(help="One context length, such as 4k; else the first.")] = None,
    gpu: Gpu = None, tp: Tp = None, engine: Engine = None,
    allow_preliminary: Preliminary = False, as_json: Json = False,
) -> None:
    """Show where the time of one step goes, op by op, and what binds at each draft length."""
    from specplan.planner.answer import explain as explain_step

    cell = counts({name: text for name, text in (("batch", batch), ("context", context)) if text is not None})
    if several := [name for name, values in cell.items() if len(values) > 1]:
        raise InputError(Fault((), "must be one number", file=f"--{name}") for name in several)
    loaded = load(model, gpu=gpu, tp=tp, batch=batch, context=context, engine=engine)
    found = explain_step(loaded, mechanism=mechanism, draft_len=draft_len, batch=_only(cell, "batch"),
                         context_tokens=_only(cell, "context"), allow_preliminary=allow_preliminary)
    if as_json:
        from specplan.planner.output.contract import explanation_json

        print_json(explanation_json(found))
    else:
        from specplan.planner.output.explained import print_explanation

        print_explanation(found)


def _only(cell: Mapping[str, tuple[int, ...]], name: str) -> int | None:
    return cell[name][0] if name in cell else None


@app.command(epilog="Example: specplan init my.yaml && specplan recommend --model my.yaml")
def init(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("cfg.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented cfg.yaml for this machine's GPU."""
    from specplan.planner.config.local_gpu import local_gpu
    from specplan.planner.config.template import template

    text = template(local_gpu(), file=str(file))
    write_text(file, text, replace=force)
    typer.echo(f"Wrote {file}; next: specplan recommend --model {file}", err=True)


@app.command(epilog="Example: specplan schema > cfg.schema.json")
def schema() -> None:
    """Print the JSON Schema of cfg.yaml, for editors."""
    from specplan.planner.config.editor_schema import json_schema

    print_json(json_schema())
