"""How sure the headline recommendation is, the choice that holds up best, and what would settle it most cheaply."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from specplan.planner.acceptance.curve import interval
from specplan.planner.acceptance.intervals import step_variance
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.robustness import OptionDoubt, Robustness
from specplan.planner.arrays import Array
from specplan.planner.decide.choose import TIE, cell
from specplan.planner.decide.robust import NEAR, RANGE_SDS, Doubt, Uncertain, doubt, steps_to_settle
from specplan.planner.decide.value import DrafterValue
from specplan.planner.models.architecture import MoeFfn
from specplan.planner.step.engine_paths import speedup_sd

MOST_STEPS = 20_000     # of counted acceptance that are still cheaper than timing a run


def robustness(plan: Plan, batch: int, context: int, *, seed: int = 0) -> Robustness | None:
    """Draw one cell; None where no acceptance is known or nothing with D >= 1 fits."""
    found = [
        (value, rows, uncertain)
        for value in plan.values
        if value.acceptance is not None and (rows := _rows(value, batch, context)).size
        for uncertain in [_uncertain(plan, value, rows, batch, context)]
    ]
    if not found:
        return None
    drawn = doubt([uncertain for _, _, uncertain in found], seed=seed)
    off = OptionDoubt(
        mechanism=None, drafter=None, draft_len=None, speedup_range=(1.0, 1.0), near_best=drawn.off_near_best,
        regret=drawn.off_regret,
    )
    options = [off]
    for index, (value, rows, _) in enumerate(found):
        options += [
            OptionDoubt(
                mechanism=value.drafter.mechanism,
                drafter=value.drafter.name,
                draft_len=int(value.draft_lens[row, 0, 0]),
                speedup_range=(float(drawn.low[index][k]), float(drawn.high[index][k])),
                near_best=float(drawn.near_best[index][k]),
                regret=float(drawn.regret[index][k]),
            )
            for k, row in enumerate(rows)
        ]
    robust = min(options, key=lambda option: option.regret)
    leading = int(np.argmax([float((u.acceptance_length * u.off_s / _step(u)).max()) for _, _, u in found]))
    value, rows, uncertain = found[leading]
    gains = uncertain.acceptance_length * uncertain.off_s / _step(uncertain)
    at = int(np.argmax(gains >= gains.max() / (1.0 + TIE)))
    straddles = bool(drawn.low[leading][at] < 1.0 < drawn.high[leading][at])
    settle = _settle(plan, value, uncertain, drawn, (leading, at, int(rows[at])), batch) if straddles else None
    return Robustness(
        batch=plan.question.batch[batch],
        context_tokens=plan.question.context_tokens[context],
        seed=seed,
        options=tuple(options),
        robust=robust,
        straddles=straddles,
        settle=settle,
        finding=_finding(robust, straddles),
    )


def _rows(value: DrafterValue, batch: int, context: int) -> npt.NDArray[np.intp]:
    size = value.draft_lens.size
    fits = cell(value.memory.fits, size, batch, context).astype(bool)
    return np.flatnonzero(fits & (value.draft_lens[:, 0, 0] > 0))


def _uncertain(
    plan: Plan, value: DrafterValue, rows: npt.NDArray[np.intp], batch: int, context: int
) -> Uncertain:
    assert value.acceptance is not None
    assert value.acceptance_length is not None
    question, path = plan.question, plan.question.deployment.path
    size = value.draft_lens.size
    draft_lens = value.draft_lens[rows, 0, 0]
    at = value.off.context_tokens[0, 0, context] if value.acceptance.contexts else None
    low, high = interval(value.acceptance, draft_lens, context_tokens=at)
    off = float(cell(value.off.step.step_s, 1, batch, context)[0])
    host = path.host_step_s.value
    sequences = question.batch[batch]
    fixed = path.spec_extra_s.value + path.per_seq_s.value * sequences
    costs = (path.spec_extra_s, path.per_seq_s)
    widths = [np.log(cost.high / cost.low) / RANGE_SDS if cost.low > 0 else 1.0 for cost in costs]
    weights = np.array([path.spec_extra_s.value, path.per_seq_s.value * sequences]) / max(fixed, 1e-12)
    verify = cell(value.step.verify_s, size, batch, context)[rows]
    moe = any(isinstance(group.layer.ffn, MoeFfn) for group in question.target.groups)
    return Uncertain(
        acceptance_length=cell(value.acceptance_length, size, batch, context)[rows],
        al_low=low,
        al_high=high,
        off_s=off,
        verify_extra_s=np.maximum(verify - (off - host), 0.0),
        draft_s=cell(value.step.draft_s, size, batch, context)[rows],
        fixed_s=fixed,
        fixed_sd=float(np.hypot(*(weights * widths))),
        model_sd=speedup_sd(moe=moe, path=path, mechanism=value.drafter.mechanism),
    )


def _step(uncertain: Uncertain) -> Array:
    return uncertain.off_s + uncertain.verify_extra_s + uncertain.draft_s + uncertain.fixed_s


def _settle(
    plan: Plan, value: DrafterValue, uncertain: Uncertain, drawn: Doubt, place: tuple[int, int, int], batch: int
) -> str:
    """Counting acceptance is cheapest where AL is the larger doubt and enough steps tell; else timing one run."""
    leading, at, row = place
    assert value.acceptance is not None
    name, draft_len = value.drafter.name, int(value.draft_lens[row, 0, 0])
    length = float(uncertain.acceptance_length[at])
    ln_gain = float(np.log(length * uncertain.off_s / _step(uncertain)[at]))
    variance = float(step_variance(value.acceptance.survival, np.array(float(draft_len))))
    steps = steps_to_settle(variance, length, ln_gain, uncertain.model_sd)
    share = float(drawn.al_share[leading][at])
    if steps is not None and steps <= MOST_STEPS:
        count = max(int(np.ceil(steps / 100.0)) * 100, 100)
        return f"count the acceptance of {name} over {count} target steps at D = {draft_len}: that alone would tell"
    return (
        f"time one run with {name} at D = {draft_len} and batch {plan.question.batch[batch]} beside off: step times "
        f"hold {1.0 - share:.0%} of the doubt, so counting acceptance alone would not tell"
    )


def _finding(robust: OptionDoubt, straddles: bool) -> str:
    name = "off" if robust.drafter is None else f"{robust.drafter} D = {robust.draft_len}"
    text = (
        f"least regret: {name}, within {NEAR:.0%} of the best in {robust.near_best:.0%} of the draws, "
        f"{robust.regret:.1%} behind it on average"
    )
    return text + ("; the range straddles 1" if straddles else "")
