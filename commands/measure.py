"""Commands around a user's own measurements: what to run, and what times alone decide."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from specplan.commands.options import Engine, Gpu, Json, ModelFile, Tp, load, print_json, print_rows
from specplan.planner.messages import Fault, InputError

if TYPE_CHECKING:
    from specplan.planner.decide.measured_steps import MeasuredChoice

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: specplan measure --model cfg.yaml --engine vllm > runs.sh")
def measure(
    model: ModelFile, gpu: Gpu = None, tp: Tp = None, engine: Engine = None,
    batch: Annotated[str | None, typer.Option(metavar="LIST", help="Batch to measure at (the first).")] = None,
) -> None:
    """Print the benchmark runs that tell the most: off, a middle draft length, the two ends."""
    from specplan.planner.answer.measure import measure_commands

    loaded = load(model, gpu=gpu, tp=tp, engine=engine, batch=batch)
    typer.echo(measure_commands(loaded, engine), nl=False)


@app.command(epilog="Example: specplan decide --off 7.2 --step 3:9.1 --step 5:10.4 --al 3:2.6 --al 5:3.0")
def decide(
    off: Annotated[float, typer.Option(metavar="MS", help="Milliseconds of a plain decode step.")],
    al: Annotated[list[str], typer.Option(metavar="D:AL", help="Tokens per step at a draft length; repeat it.")],
    step: Annotated[list[str] | None, typer.Option(metavar="D:MS", help="Whole step at D; repeat it.")] = None,
    draft: Annotated[float | None, typer.Option(metavar="MS", help="Drafting per drafted token.")] = None,
    verify: Annotated[str | None, typer.Option(metavar="D:MS", help="Target pass over 1 + D tokens.")] = None,
    as_json: Json = False,
) -> None:
    """Choose a draft length from step times and acceptance alone: no target, no GPU, no model."""
    from specplan.planner.decide.measured_steps import choose_by_times, steps_from_split
    from specplan.planner.output.contract import plain

    if faults := [Fault((), f"must be a number of milliseconds above 0, not {value:g}", file=option)
                  for option, value in (("--off", off), ("--draft", draft)) if value is not None and not _real(value)]:
        raise InputError(faults)
    lengths = _pairs(al, "--al")
    steps = {length: seconds / 1e3 for length, seconds in _pairs(step or [], "--step").items()}
    if not steps:
        if draft is None or verify is None:
            raise InputError("give --step for one draft length at least, or --draft and --verify")
        (length, seconds), = _pairs([verify], "--verify").items()
        steps = steps_from_split(
            off_s=off / 1e3, draft_s=draft * length / 1e3, verify_s=seconds / 1e3, draft_len=length, up_to=max(lengths)
        )
    found = choose_by_times(off_s=off / 1e3, step_s=steps, lengths=lengths)
    if as_json:
        print_json(plain(found))
        return
    typer.echo(_verdict(found))
    rows = [
        {"draft_len": d, "speedup": f"{s:.3f}", "": "interpolated" if d in found.between else ""}
        for d, s in found.speedups.items()
    ]
    print_rows(rows if found.between else [{"draft_len": r["draft_len"], "speedup": r["speedup"]} for r in rows],
               as_json=False)


def _verdict(found: MeasuredChoice) -> str:
    top = max(found.speedups, key=lambda d: found.speedups[d])
    if not found.draft_len:
        reached = found.speedups[top]
        return "Plain decoding wins." if reached <= 1 else f"Plain decoding wins: {reached:.3f}x is within 1 % of it."
    if found.draft_len == top:
        return f"Run D = {top}."
    gain = found.speedups[top] / found.speedups[found.draft_len] - 1
    return f"Run D = {found.draft_len}: D = {top} is {gain:.1%} faster, and within 1 % the shorter wins."


def _pairs(written: list[str], option: str) -> dict[int, float]:
    """'3:2.6' -> {3: 2.6}."""
    found: dict[int, float] = {}
    for item in written:
        length, _, value = item.partition(":")
        try:
            found[int(length)] = float(value)
        except ValueError:
            message = f"is a draft length and a number, such as 3:2.6, not '{item}'"
            raise InputError([Fault((), message, file=option)]) from None
        if int(length) < 1:
            raise InputError([Fault((), f"a draft length is 1 or more, not {length}", file=option)])
        if not _real(found[int(length)]):
            raise InputError([Fault((), f"must be a number above 0 at D = {length}, not '{value}'", file=option)])
    return found


def _real(value: float) -> bool:
    """A time or a count of tokens that something can take."""
    return 0 < value < math.inf
