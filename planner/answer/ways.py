"""Ways to run a replica under a load: off and every (drafter, D), each with its step times by batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.acceptance.intervals import step_variance
from specplan.planner.answer.loads import Load
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.resolve import Question
from specplan.planner.arrays import Array
from specplan.planner.decide.load import Replica
from specplan.planner.decide.schedule import schedule_batches
from specplan.planner.decide.value import DrafterValue
from specplan.planner.fact import fact
from specplan.planner.models.drafter import Mechanism


@fact
class Way:
    """One way to run: off where `mechanism` is None. `survival` draws the tokens of a step in a simulation."""

    mechanism: Mechanism | None
    drafter: str | None
    draft_len: int | None
    tp: int
    replica: Replica
    survival: Array

    @property
    def label(self) -> str:
        """How people call it."""
        if self.drafter is None:
            return "off"
        mechanism = str(self.mechanism)
        return f"{self.drafter if mechanism in self.drafter else f'{mechanism} {self.drafter}'} D = {self.draft_len}"

    def with_slots(self, slots: int) -> Way:
        """The same with fewer sequences admitted."""
        return replace(self, replica=replace(self.replica, step_s=self.replica.step_s[:slots]))


def ways_of(question: Question, load: Load, *, slots: int | None = None, tp: int | None = None) -> list[Way]:
    """Off first, then every drafter with known acceptance at every D >= 1 of which one sequence fits at least."""
    if tp is not None and tp != question.deployment.tp:
        question = replace(question, deployment=replace(question.deployment, tp=tp))
    options = tuple(option for option in question.options if option.acceptance is not None)
    batches = schedule_batches(slots or load.slots)
    plan = evaluate(
        replace(question, options=options, batch=tuple(batches), context_tokens=(round(load.context_tokens),))
    )
    found = []
    off = _row(plan, plan.off.step.step_s, 0), float(_row(plan, plan.off.memory.max_batch, 0)[0])
    if off[1] >= 1:
        replica = _replica(plan, load, off[0], off[1], 1.0, 0.0)
        found.append(
            Way(
                mechanism=None, drafter=None, draft_len=None, tp=question.deployment.tp, replica=replica,
                survival=np.zeros(1),
            )
        )
    for value in plan.values:
        found += _ways_of_drafter(plan, load, value)
    return found


def _ways_of_drafter(plan: Plan, load: Load, value: DrafterValue) -> list[Way]:
    assert value.acceptance is not None
    assert value.acceptance_length is not None
    found = []
    lengths = np.broadcast_to(value.acceptance_length, (value.draft_lens.size, 1, 1))[:, 0, 0]
    for row, draft_len in enumerate(value.draft_lens[:, 0, 0].astype(int).tolist()):
        room = float(_row(plan, value.memory.max_batch, row)[0])
        if draft_len == 0 or room < 1:
            continue
        survival = np.diff(np.interp(np.arange(draft_len + 1), value.draft_lens[:, 0, 0], lengths))
        variance = float(step_variance(survival.tolist(), np.array(float(draft_len))))
        replica = _replica(plan, load, _row(plan, value.step.step_s, row), room, float(lengths[row]), variance)
        found.append(
            Way(
                mechanism=value.drafter.mechanism,
                drafter=value.drafter.name,
                draft_len=draft_len,
                tp=plan.question.deployment.tp,
                replica=replica,
                survival=np.clip(survival, 0.0, 1.0),
            )
        )
    return found


def _replica(plan: Plan, load: Load, step_s: Array, room: float, emitted: float, variance: float) -> Replica:
    batches = np.asarray(plan.question.batch, dtype=float)
    slots = max(1, int(min(batches[-1], room)))
    lengths = plan.off.lengths
    assert lengths is not None
    anchoring = plan.question.anchoring
    scale = 1.0 if anchoring is None else anchoring.of("").scale    # the prefill has it already
    fixed = scale * plan.question.deployment.path.constant("prefill_s_per_layer") * plan.question.target.layers
    prefill = lengths.prefill_s
    rows = load.input_tokens * (1.0 - load.prefix_hit)
    return Replica(
        step_s=np.interp(np.arange(1.0, slots + 1), batches, step_s),
        emitted=emitted,
        emitted_variance=variance,
        output_tokens=load.output_tokens,
        output_variation=load.output_variation,
        prefill_s=prefill,
        prefill_variation=0.0 if prefill <= 0 else load.input_variation * max(1.0 - fixed / prefill, 0.0),
        chunk_s=prefill * load.chunk_tokens / rows if prefill > 0 else float("inf"),
        gpus=plan.question.deployment.gpus,
    )


def _row(plan: Plan, array: Array, row: int) -> Array:
    """Values over batches at one D."""
    full = np.asarray(array, dtype=float)
    full = full.reshape((1,) * (3 - full.ndim) + full.shape)
    picked = full[row if full.shape[0] > 1 else 0, :, 0]
    return np.broadcast_to(picked, (len(plan.question.batch),))
