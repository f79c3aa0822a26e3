"""One answer per (batch, context): the choice, its range, and all candidates beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specplan.planner.acceptance.curve import interval
from specplan.planner.answer.candidates import Column, candidate_columns, candidates_of_cell, off_of_cell
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.reasons import reasons
from specplan.planner.answer.types import Candidate, Cell, OffAnswer, Recommendation
from specplan.planner.arrays import Array
from specplan.planner.decide.choose import cell
from specplan.planner.decide.uncertainty import speedup_range
from specplan.planner.decide.value import DrafterValue
from specplan.planner.models.architecture import MoeFfn
from specplan.planner.step.engine_paths import speedup_sd


def cells(plan: Plan) -> tuple[Cell, ...]:
    """One answer per (batch, context), batch by batch in the order asked."""
    contexts = range(len(plan.question.context_tokens))
    columns = [candidate_columns(value) for value in plan.values]
    return tuple(_cell(plan, columns, b, s) for b in range(len(plan.question.batch)) for s in contexts)


def headline(plan: Plan, found: tuple[Cell, ...]) -> int:
    """Index of the cell that the summary speaks of.

    latency: the first one listed. throughput: the largest batch (first context) that fits with the drafter chosen
    there loaded; the first cell where none fits.
    """
    if plan.question.objective == "latency":
        return 0
    contexts = len(plan.question.context_tokens)
    firsts = [index for index in range(0, len(found), contexts) if _fits(found[index])]
    return max(firsts, key=lambda index: found[index].batch, default=0)


def speedup_interval(plan: Plan, value: DrafterValue, row: int, context: int, speedup: float) -> tuple[float, float]:
    """90 % range of the speedup: doubt of the model (ln-normal) and of AL, as independent errors."""
    moe = any(isinstance(group.layer.ffn, MoeFfn) for group in plan.question.target.groups)
    anchored = plan.question.anchoring is not None and value.drafter.name in plan.question.anchoring.by_drafter
    sd = speedup_sd(
        moe=moe, path=plan.question.deployment.path, mechanism=value.drafter.mechanism, anchored=anchored
    )
    assert value.acceptance is not None
    at = value.off.context_tokens[0, 0, context] if value.acceptance.contexts else None
    low, high = interval(value.acceptance, value.draft_lens[row, 0, 0], context_tokens=at)
    length = _row(value.acceptance_length, value, row, 0, context)
    ends = speedup_range(speedup, model_sd=sd, length=length, length_low=low, length_high=high)
    return float(ends[0]), float(ends[1])


def _fits(found: Cell) -> bool:
    chosen = found.recommendation
    for candidate in found.candidates:
        if candidate.drafter == chosen.drafter and candidate.draft_len == chosen.draft_len:
            return candidate.fits_memory
    return found.off.fits_memory


def _row(array: Array | None, value: DrafterValue, row: int, batch: int, context: int) -> float:
    assert array is not None
    return float(cell(array, value.draft_lens.size, batch, context)[row])


def _cell(plan: Plan, columns: Sequence[Mapping[str, Column | None]], batch: int, context: int) -> Cell:
    question = plan.question
    off = off_of_cell(plan.off, batch, context)
    found: list[Candidate] = []
    for value, column in zip(plan.values, columns, strict=True):
        found += candidates_of_cell(value, column, batch, context)
    return Cell(
        batch=question.batch[batch],
        context_tokens=question.context_tokens[context],
        off=off,
        recommendation=_recommendation(plan, off, batch, context),
        candidates=tuple(found),
    )


def _recommendation(plan: Plan, off: OffAnswer, batch: int, context: int) -> Recommendation:
    known = [value for value in plan.values if value.acceptance_length is not None]
    choice = plan.choice(batch, context)
    told = reasons(plan, choice, batch, context)
    if choice.drafter is None or choice.row is None:
        return Recommendation(
            speculate=False if known else None,
            mechanism=None,
            drafter=None,
            draft_len=None,
            draft_len_range=None,
            acceptance_length=None,
            step_s=off.step_s,
            tokens_per_s_per_user=off.tokens_per_s_per_user,
            tokens_per_s_per_gpu=off.tokens_per_s_per_gpu,
            speedup=1.0 if known else None,
            speedup_end_to_end=1.0 if known and plan.off.lengths is not None else None,
            speedup_range=(1.0, 1.0) if known else None,
            break_even_acceptance_length=_easiest_break_even(plan, batch, context),
            reasons=told,
        )
    value = plan.values[choice.drafter]

    def at(array: Array | None) -> float:
        return _row(array, value, choice.row or 0, batch, context)

    speedup = at(value.speedup)
    return Recommendation(
        speculate=True,
        mechanism=value.drafter.mechanism,
        drafter=value.drafter.name,
        draft_len=choice.draft_len,
        draft_len_range=choice.draft_len_range,
        acceptance_length=at(value.acceptance_length),
        step_s=at(value.step.step_s),
        tokens_per_s_per_user=at(value.tokens_per_s_per_user),
        tokens_per_s_per_gpu=at(value.tokens_per_s_per_gpu),
        speedup=speedup,
        speedup_end_to_end=None if plan.off.lengths is None else at(value.speedup_end_to_end),
        speedup_range=speedup_interval(plan, value, choice.row, context, speedup),
        break_even_acceptance_length=at(value.break_even),
        reasons=told,
    )


def _easiest_break_even(plan: Plan, batch: int, context: int) -> float | None:
    """Least AL that any listed option with D >= 1 must reach."""
    least = [
        float(cell(value.break_even, value.draft_lens.size, batch, context)[value.draft_lens[:, 0, 0] > 0].min())
        for value in plan.values
        if np.any(value.draft_lens > 0)
    ]
    return min(least, default=None)
