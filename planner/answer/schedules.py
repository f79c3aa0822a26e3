"""The batch -> D table of an answer: the drafter that serves the whole range best, tiers of batches, and off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.types import ScheduleAnswer, SmootherAnswer
from specplan.planner.decide.choose import gain
from specplan.planner.decide.schedule import Schedule, Smoother, schedule, schedule_batches
from specplan.planner.decide.value import DrafterValue


def schedule_of(plan: Plan) -> ScheduleAnswer | None:
    """Schedule over all batches up to the largest asked; None for one batch or without acceptance."""
    question = plan.question
    options = tuple(option for option in question.options if option.acceptance is not None)
    if len(question.batch) < 2 or not options:
        return None
    batches = schedule_batches(max(question.batch))
    return schedule_on(evaluate(replace(question, options=options, batch=tuple(batches))))


def schedule_on(dense: Plan) -> ScheduleAnswer | None:
    """The schedule over the batches of a plan that was evaluated at all of them."""
    question, batches = dense.question, list(dense.question.batch)
    found = [(value, made) for value in dense.values if (made := _schedule(dense, value, batches)) is not None]
    if not found:
        return None
    value, best = max(found, key=lambda item: item[1].mean_gain)
    return ScheduleAnswer(
        mechanism=value.drafter.mechanism,
        drafter=value.drafter.name,
        objective=question.objective,
        context_tokens=question.context_tokens,
        tiers=best.tiers,
        mean_gain=best.mean_gain,
        mean_loss=best.mean_loss,
        worst_loss=best.worst_loss,
        worst_loss_batch=best.worst_loss_batch,
        off_from_batch=best.off_from,
        off_advantage=best.off_advantage,
        finding=_finding(best),
        smoother=None if best.smoother is None else _smoother(best.smoother),
    )


def _smoother(found: Smoother) -> SmootherAnswer:
    tiers = ", ".join(f"{tier.first}-{tier.last}: {tier.draft_len}" for tier in found.tiers)
    cost = f"at most {found.worst_cost:.1%} (batch {found.worst_cost_batch})" if found.worst_cost > 0 else "nothing"
    return SmootherAnswer(
        tiers=found.tiers, mean_cost=found.mean_cost, worst_cost=found.worst_cost,
        worst_cost_batch=found.worst_cost_batch,
        finding="D rises with the batch where graph sizes, tiles or experts make drafts cheap; a table that only "
                f"falls, {tiers}, costs {cost} against it",
    )


def _schedule(plan: Plan, value: DrafterValue, batches: list[int]) -> Schedule | None:
    """Over the batches and contexts that fit with this drafter loaded; contexts that do not fit have no say."""
    gains = gain(value, plan.question.objective)
    if gains is None:
        return None
    shape = (value.draft_lens.size, len(batches), len(plan.question.context_tokens))
    fits = np.broadcast_to(value.memory.fits, shape).all(axis=0)    # (B, S)
    kept = np.flatnonzero(fits.sum(axis=1))
    if not kept.size:
        return None
    full = np.broadcast_to(gains, shape)
    # a context that does not fit takes the geometric mean of those that do, so that it moves nothing
    logs = np.where(fits, np.log(np.maximum(full, 1e-9)), 0.0)
    mean = logs.sum(axis=2) / np.maximum(fits.sum(axis=1), 1)
    draft_lens = [int(d) for d in value.draft_lens[:, 0, 0]]
    return schedule(draft_lens, np.exp(mean[:, kept])[:, :, None], [batches[index] for index in kept])


def _finding(found: Schedule) -> str:
    text = f"loses {found.mean_loss:.1%} on average against the best D of each batch, at most {found.worst_loss:.1%}"
    text += f" (batch {found.worst_loss_batch})" if found.worst_loss > 0 else ""
    if found.off_from is None:
        return text
    return (
        f"{text}; from batch {found.off_from} plain decoding is better than any tier, by {found.off_advantage:.1%} at "
        "the largest: serve that load without a drafter loaded"
    )
