"""Operating points over batch: off, each mechanism at its best D, and the schedule; tokens/s per user and per GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.room import shortage
from specplan.planner.answer.schedules import schedule_on
from specplan.planner.answer.types import ScheduleAnswer
from specplan.planner.arrays import Array
from specplan.planner.decide.pareto import nondominated
from specplan.planner.decide.schedule import schedule_batches
from specplan.planner.decide.value import DrafterValue
from specplan.planner.fact import fact
from specplan.planner.messages import SpecplanError

OFF, SCHEDULE = "off", "schedule"


@fact
class ParetoPoint:
    """One batch of one option. `draft_len` None: off. `frontier`: no other option's point beats it in both rates."""

    context_tokens: int
    option: str             # off | drafter | schedule
    mechanism: str | None
    batch: int
    draft_len: int | None
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    frontier: bool


@fact
class ParetoAnswer:
    """Points of all contexts; batches that do not fit in memory with that drafter loaded are left out."""

    target: str
    gpu: str
    gpus: int
    metric: str             # end_to_end: prefill included | decode
    disaggregated: bool
    points: tuple[ParetoPoint, ...]
    finding: str                    # of the first context
    findings: Mapping[int, str]     # of each context


def pareto_of(question: Question) -> ParetoAnswer:
    """Evaluate all batches up to the largest asked."""
    batches = schedule_batches(max(question.batch))
    options = tuple(option for option in question.options if option.acceptance is not None)
    plan = evaluate(replace(question, options=options, batch=tuple(batches)))
    schedule = schedule_on(plan) if plan.values and len(batches) > 1 else None
    curves = [_off(plan), *(_best(plan, value) for value in plan.values)]
    if schedule is not None:
        curves.append(_scheduled(plan, schedule))
    points: list[ParetoPoint] = []
    for context in range(len(question.context_tokens)):
        points += _points(plan, curves, context)
    if not points:
        missing = shortage(question.target, question.deployment, min(batches), min(question.context_tokens))
        raise SpecplanError(f"nothing is feasible: no batch fits in memory at any of these contexts; {missing}")
    unknown = tuple(option.drafter.name for option in question.options if option.acceptance is None)
    said = f"acceptance of {', '.join(unknown)} unknown; " if unknown else ""
    findings = {
        context: said + _finding(points, context, compared=bool(options)) for context in question.context_tokens
    }
    decode_only = plan.off.lengths is None or question.disaggregated
    return ParetoAnswer(
        target=question.target.name,
        gpu=question.deployment.gpu.name,
        gpus=question.deployment.gpus,
        metric="decode" if decode_only else "end_to_end",
        disaggregated=question.disaggregated,
        points=tuple(points),
        finding=findings[question.context_tokens[0]],
        findings=findings,
    )


@dataclass(frozen=True, slots=True)
class _Curve:
    """One option over (B, S): tokens/s/user, draft lengths (-1: off), and whether it fits."""

    option: str
    mechanism: str | None
    per_user: Array
    draft_len: Array
    fits: npt.NDArray[np.bool_]


def _off(plan: Plan) -> _Curve:
    shape = (1, len(plan.question.batch), len(plan.question.context_tokens))
    rate = np.broadcast_to(1.0 / plan.off.end_to_end_step_s, shape)[0]
    fits = np.broadcast_to(plan.off.memory.fits, shape)[0]
    return _Curve(OFF, None, rate, np.full(shape[1:], -1.0), fits)


def _best(plan: Plan, value: DrafterValue) -> _Curve:
    """The fastest D >= 1 that fits, per batch and context."""
    rate, fits = _rates(plan, value)
    allowed = np.where(fits & (value.draft_lens > 0), rate, -np.inf)
    row = allowed.argmax(axis=0)[np.newaxis]
    chosen = np.take_along_axis(allowed, row, axis=0)[0]
    lens = value.draft_lens[row[0], 0, 0]
    return _Curve(value.drafter.name, value.drafter.mechanism, chosen, lens, np.isfinite(chosen))


def _scheduled(plan: Plan, schedule: ScheduleAnswer) -> _Curve:
    """The D of the tier of each batch, the drafter loaded throughout."""
    value = next(value for value in plan.values if value.drafter.name == schedule.drafter)
    rate, fits = _rates(plan, value)
    batches = np.asarray(plan.question.batch)
    lasts = np.array([tier.last for tier in schedule.tiers])
    tier = np.minimum(np.searchsorted(lasts, batches), lasts.size - 1)
    lens = np.array([tier.draft_len for tier in schedule.tiers], dtype=float)[tier]
    rows = np.searchsorted(value.draft_lens[:, 0, 0], lens)
    at = np.arange(batches.size)
    return _Curve(
        SCHEDULE, value.drafter.mechanism, rate[rows, at], np.repeat(lens[:, None], rate.shape[2], axis=1),
        fits[rows, at],
    )


def _rates(plan: Plan, value: DrafterValue) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Tokens/s/user, prefill of replaced requests included where lengths are known, and fit, over (D, B, S)."""
    shape = (value.draft_lens.size, len(plan.question.batch), len(plan.question.context_tokens))
    step = value.end_to_end_step_s
    assert value.acceptance_length is not None
    rate = value.acceptance_length / (value.step.step_s if step is None else step)
    return np.broadcast_to(rate, shape), np.broadcast_to(value.memory.fits, shape)


def _points(plan: Plan, curves: list[_Curve], context: int) -> Iterator[ParetoPoint]:
    batches = plan.question.batch
    kept = [(curve, row) for curve in curves for row in range(len(batches)) if curve.fits[row, context]]
    if not kept:
        return
    user = np.array([curve.per_user[row, context] for curve, row in kept])
    gpu = user * np.array([batches[row] for _, row in kept]) / plan.off.gpus
    # the schedule repeats points of its drafter: it stands beside the frontier, not in the contest
    contest = np.array([curve.option != SCHEDULE for curve, _ in kept])
    frontier = np.zeros(len(kept), dtype=bool)
    frontier[contest] = nondominated(user[contest], gpu[contest])
    for index, (curve, row) in enumerate(kept):
        draft_len = int(curve.draft_len[row, context])
        yield ParetoPoint(
            context_tokens=plan.question.context_tokens[context],
            option=curve.option,
            mechanism=curve.mechanism,
            batch=batches[row],
            draft_len=None if draft_len < 0 else draft_len,
            tokens_per_s_per_user=float(user[index]),
            tokens_per_s_per_gpu=float(gpu[index]),
            frontier=bool(frontier[index]),
        )


def _finding(points: list[ParetoPoint], context: int, *, compared: bool) -> str:
    """Who holds the frontier of a context, from fast users to full GPUs."""
    here = [point for point in points if point.frontier and point.context_tokens == context]
    here.sort(key=lambda point: -point.tokens_per_s_per_user)
    if not here:
        return f"no batch fits in memory at context {context}"
    runs: list[list[ParetoPoint]] = []
    for point in here:
        if runs and runs[-1][0].option == point.option:
            runs[-1].append(point)
        else:
            runs.append([point])
    if len(runs) == 1:
        low, high = here[0], here[-1]
        verdict = "is best at every point" if compared else "alone is priced"
        return (
            f"{runs[0][0].option} {verdict}, from {low.tokens_per_s_per_user:.0f} tokens/s/user to "
            f"{high.tokens_per_s_per_gpu:.0f} tokens/s/GPU"
        )
    told = [
        f"{run[0].option} above {run[-1].tokens_per_s_per_user:.0f} tokens/s/user" for run in runs[:-1][:3]
    ]
    return f"best: {', '.join(told)}; below that {runs[-1][0].option} gives most per GPU"
