"""The decision as a deployment plan: what the engines' configuration writers need."""

from __future__ import annotations

from specplan.planner.answer.load_types import LoadAnswer
from specplan.planner.answer.options import Option
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.types import Answer
from specplan.planner.decide.tier import Tier
from specplan.planner.engines.plan import DraftPlan


def deployment_under_load(question: Question, load: LoadAnswer) -> DraftPlan:
    """What to deploy under a load: the choice's D throughout and its slots, which a batch schedule was not made for."""
    row = load.choice
    if row.drafter is None or not row.draft_len:
        return _plain(question, tp=row.tp, largest=row.max_batch)
    return _drafting(
        question, row.drafter, row.draft_len, tp=row.tp, largest=row.max_batch, acceptance_length=row.acceptance_length
    )


def deployment_plan(plan: Plan, answer: Answer, *, temperature: float | None = None) -> DraftPlan:
    """What to deploy: the schedule where batches were a range, else the headline's D; draft_len 0 = plain decoding."""
    question, best = plan.question, answer.recommendation
    largest, tp = max(question.batch), question.deployment.tp
    if answer.schedule is not None and any(tier.draft_len for tier in answer.schedule.tiers):
        name, tiers = answer.schedule.drafter, answer.schedule.tiers
        length = max(tier.draft_len for tier in tiers)
        schedule = tiers if len(tiers) > 1 else None
    elif best.drafter is not None and best.draft_len:
        name, length, schedule = best.drafter, best.draft_len, None
    else:
        return _plain(question, tp=tp, largest=largest)
    emitted = _acceptance_length(answer, name, length)
    return _drafting(
        question, name, length, tp=tp, largest=largest, acceptance_length=emitted, schedule=schedule,
        temperature=temperature,
    )


def _target(question: Question) -> str:
    return question.target.weights_name or question.target.name


def _plain(question: Question, *, tp: int, largest: int) -> DraftPlan:
    return DraftPlan(mechanism=None, draft_len=0, target_model=_target(question), tp=tp, max_batch=largest)


def _drafting(
    question: Question, name: str, draft_len: int, *, tp: int, largest: int, acceptance_length: float | None,
    schedule: tuple[Tier, ...] | None = None, temperature: float | None = None,
) -> DraftPlan:
    """The plan of one drafter; `tp` may be another than the configuration's, where a target let it be chosen."""
    option = next(option for option in question.options if option.drafter.name == name)
    return DraftPlan(
        mechanism=option.drafter.mechanism,
        draft_len=draft_len,
        drafter_model=drafter_weights(option),
        target_model=_target(question),
        schedule=schedule,
        max_batch=largest,
        tp=tp,
        ep=question.deployment.ep,
        dp_attention=question.deployment.dp_attention,
        weights=_changed(question.dtypes["weights"], question.checkpoint_dtypes[0]),
        kv_dtype=_changed(question.dtypes["kv"], question.checkpoint_dtypes[1] or "bf16"),
        drafter_tp=option.drafter_tp,
        block=option.drafter.block,
        sampling="probabilistic" if temperature else None,
        acceptance_length=acceptance_length,
    )


def _changed(planned: str, checkpoint: str) -> str | None:
    """A format that the server must be told: not the checkpoint's own, and not just another 16-bit one."""
    wide = {"bf16", "fp16", "fp32"}
    return None if planned == checkpoint or {planned, checkpoint} <= wide else planned


def drafter_weights(option: Option) -> str | None:
    """What the engine loads as the drafter; a name to replace where the configuration only knew its shape."""
    if option.drafter.network is None or option.drafter.mechanism == "mtp":
        return None
    return option.weights_name or f"YOUR-{option.drafter.mechanism.upper().replace('_', '-')}-DRAFTER"


def _acceptance_length(answer: Answer, drafter: str, draft_len: int) -> float | None:
    for candidate in answer.candidates:
        if candidate.drafter == drafter and candidate.draft_len == draft_len:
            return candidate.acceptance_length
    return None
