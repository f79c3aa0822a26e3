"""What pictures show, as plain facts: the same for matplotlib, terminals and the HTML report. SI units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specplan.planner.acceptance.curve import acceptance_length, interval
from specplan.planner.answer.plan import Plan
from specplan.planner.arrays import Array
from specplan.planner.decide.choose import cell, gain
from specplan.planner.decide.value import DrafterValue
from specplan.planner.fact import fact
from specplan.planner.step.forward import PARTS, breakdown_s
from specplan.planner.step.tiles import edge_query_lens

PART_NAMES = {
    "gemm": "GEMMs", "attention": "attention", "moe": "experts", "collective": "collectives", "state": "states",
    "small": "small kernels", "lm_head": "LM head", "draft": "drafting", "fixed": "host and fixed",
}


@fact
class StepPicture:
    """Seconds of one step by part, over D."""

    title: str
    drafter: str
    batch: int
    context_tokens: int
    draft_lens: tuple[int, ...]
    parts_s: Mapping[str, tuple[float, ...]]
    off_s: float
    tile_edges: tuple[int, ...]     # D at which the attention kernel starts another tile
    chosen: int | None


@fact
class SpeedupPicture:
    """Gain over D, one line per batch."""

    title: str
    drafter: str
    context_tokens: int
    metric: str                     # decode | end to end
    draft_lens: tuple[int, ...]
    by_batch: Mapping[int, tuple[float | None, ...]]    # None: does not fit


@fact
class MapPicture:
    """Chosen D by batch and context: 0 is off, None does not fit."""

    title: str
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    draft_lens: tuple[tuple[int | None, ...], ...]      # [batch][context]
    drafters: tuple[tuple[str | None, ...], ...]
    gains: tuple[tuple[float, ...], ...]


@fact
class AcceptancePicture:
    """AL over D with its 90 % interval, one curve per drafter."""

    title: str
    draft_lens: tuple[int, ...]
    curves: Mapping[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]    # mean, low, high
    known: Mapping[str, int]        # last D that was measured


def step_picture(plan: Plan, batch: int, context: int) -> StepPicture | None:
    """The chosen drafter of a cell, or the first; None without drafters."""
    value, row = leading(plan, batch, context)
    if value is None:
        return None
    size = value.draft_lens.size
    parts = {
        PART_NAMES[part]: cell(seconds, size, batch, context)
        for part, seconds in breakdown_s(list(value.step.verify_ops)).items() if part in PARTS
    }
    verify = cell(value.step.verify_s, size, batch, context)
    fixed = cell(value.step.overhead_s, size, batch, context) + verify - sum(parts.values())
    parts[PART_NAMES["draft"]] = cell(value.step.draft_s, size, batch, context)
    parts[PART_NAMES["fixed"]] = fixed
    lens = _lens(value)
    edges = edge_query_lens(plan.question.target, plan.question.deployment, max(lens) + 1)
    off = float(cell(value.off.step.step_s, 1, batch, context)[0])
    step = cell(value.step.step_s, size, batch, context)
    return StepPicture(
        title=_step_title(value, parts, step, off, row, batch, context),
        drafter=value.drafter.name,
        batch=plan.question.batch[batch],
        context_tokens=plan.question.context_tokens[context],
        draft_lens=lens,
        parts_s={name: _floats(seconds) for name, seconds in parts.items() if float(np.max(seconds)) > 0},
        off_s=off,
        tile_edges=tuple(edge - 1 for edge in edges if 1 <= edge - 1 <= max(lens)),
        chosen=None if row is None else lens[row],
    )


def _step_title(
    value: DrafterValue, parts: Mapping[str, Array], step: Array, off: float, row: int | None, batch: int, context: int
) -> str:
    at = row if row is not None else value.draft_lens.size - 1
    largest = max(parts, key=lambda name: float(parts[name][at]))
    verb = "takes" if largest in {"attention", "drafting", "LM head"} else "take"
    head = f"{largest[0].upper()}{largest[1:]} {verb} the most time"
    text = f"{head}: D = {_lens(value)[at]} makes a step {step[at] / off - 1:.0%} longer than off"
    if row is not None and value.acceptance_length is not None:
        emitted = float(cell(value.acceptance_length, value.draft_lens.size, batch, context)[at])
        return f"{text} and emits {emitted:.1f} tokens"
    return text


def speedup_picture(plan: Plan, context: int) -> SpeedupPicture | None:
    """The drafter that leads at the first batch, over all batches; None without acceptance."""
    known = [value for value in plan.values if value.acceptance_length is not None]
    if not known:
        return None
    value, _ = leading(plan, 0, context)
    if value is None or value.acceptance_length is None:
        value = known[0]
    gains = gain(value, plan.question.objective)
    assert gains is not None
    lens, size = _lens(value), value.draft_lens.size
    by_batch: dict[int, tuple[float | None, ...]] = {}
    bests = []
    for index, batch in enumerate(plan.question.batch):
        fits = cell(value.memory.fits, size, index, context)
        here = cell(gains, size, index, context)
        by_batch[batch] = tuple(float(g) if ok else None for g, ok in zip(here, fits, strict=True))
        allowed = np.where(fits.astype(bool) & (value.draft_lens[:, 0, 0] > 0), here, -np.inf)
        if np.isfinite(allowed).any():
            bests.append((batch, lens[int(allowed.argmax())], float(allowed.max())))
    decode = plan.question.objective == "latency" or value.speedup_end_to_end is None
    return SpeedupPicture(
        title=_speedup_title(value.drafter.name, bests),
        drafter=value.drafter.name,
        context_tokens=plan.question.context_tokens[context],
        metric="decode" if decode else "end to end",
        draft_lens=lens,
        by_batch=by_batch,
    )


def _speedup_title(name: str, bests: list[tuple[int, int, float]]) -> str:
    if not bests:
        return f"{name} does not fit in memory at any batch"
    first, last = min(bests), max(bests)
    if first == last:
        return f"{name} gains most at D = {first[1]}: {first[2]:.2f}x"
    end = "does not pay" if last[2] < 1.0 else f"gains {last[2]:.2f}x at D = {last[1]}"
    return f"{name} gains {first[2]:.2f}x at batch {first[0]} with D = {first[1]}; at batch {last[0]} it {end}"


def map_picture(plan: Plan) -> MapPicture | None:
    """Chosen D in every cell; None where no acceptance is known."""
    if all(value.acceptance_length is None for value in plan.values):
        return None
    shape = (1, len(plan.question.batch), len(plan.question.context_tokens))
    off_fits = np.broadcast_to(plan.off.memory.fits, shape)[0]
    lens: list[tuple[int | None, ...]] = []
    names: list[tuple[str | None, ...]] = []
    gains: list[tuple[float, ...]] = []
    for batch in range(shape[1]):
        choices = [plan.choice(batch, context) for context in range(shape[2])]
        lens.append(tuple(
            (choice.draft_len or 0) if off_fits[batch, context] else None for context, choice in enumerate(choices)
        ))
        names.append(tuple(
            None if choice.drafter is None else plan.values[choice.drafter].drafter.name for choice in choices
        ))
        gains.append(tuple(choice.gain for choice in choices))
    found = [item for row in lens for item in row if item]
    some = "Speculation pays nowhere here" if not found else (
        f"D = {found[0]} is best in every cell where speculation pays" if min(found) == max(found)
        else f"The best D runs from {max(found)} down to {min(found)}"
    )
    if found and any(item == 0 for row in lens for item in row):
        some += "; off wins in some cells"
    return MapPicture(
        title=some, batches=plan.question.batch, contexts=plan.question.context_tokens, draft_lens=tuple(lens),
        drafters=tuple(names), gains=tuple(gains),
    )


def acceptance_picture(plan: Plan) -> AcceptancePicture | None:
    """AL of all drafters with known acceptance."""
    known = [value for value in plan.values if value.acceptance is not None]
    if not known:
        return None
    longest = max(max(_lens(value)) for value in known)
    curves, last = {}, {}
    for value in known:
        assert value.acceptance is not None
        lens = np.arange(0.0, max(_lens(value)) + 1)
        low, high = interval(value.acceptance, lens)
        curves[value.drafter.name] = _floats(acceptance_length(value.acceptance, lens)), _floats(low), _floats(high)
        last[value.drafter.name] = min(value.acceptance.known_draft_len, longest)
    name, ends = max(((name, tuple(curve[-1] for curve in curves[name])) for name in curves), key=lambda item: item[1])
    at = len(curves[name][0]) - 1
    return AcceptancePicture(
        title=f"{name} emits {ends[0]:.2f} tokens a step at D = {at} ({ends[1]:.2f} to {ends[2]:.2f})",
        draft_lens=tuple(range(longest + 1)), curves=curves, known=last,
    )


def leading(plan: Plan, batch: int, context: int) -> tuple[DrafterValue | None, int | None]:
    """The chosen drafter of a cell and its row; the first drafter and None where off wins or nothing is known."""
    choice = plan.choice(batch, context)
    if choice.drafter is not None:
        return plan.values[choice.drafter], choice.row
    return (plan.values[0] if plan.values else None), None


def _lens(value: DrafterValue) -> tuple[int, ...]:
    return tuple(int(d) for d in value.draft_lens[:, 0, 0])


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in np.asarray(values).ravel())
