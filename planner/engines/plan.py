"""What the planner decided, in the terms that every engine's configuration is written from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from specplan.planner.decide.tier import Tier
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, Note

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism


@fact
class DraftPlan:
    """One deployment: a drafter, a draft length (or one per batch), and the settings that these need.

    `draft_len` is the largest length of the schedule, where there is one; 0 without a schedule is plain decoding.
    `mechanism` is None where the exported model fixes it (ONNX Runtime GenAI).
    """

    mechanism: Mechanism | None
    draft_len: int
    drafter_model: str | None = None
    target_model: str | None = None
    schedule: tuple[Tier, ...] | None = None    # from batch 1, without gaps, rising
    max_batch: int | None = None                # sequences that the server admits
    tp: int = 1                                 # GPUs that share the layers; the next two lie among them
    ep: int = 1                                 # GPUs that hold whole experts
    dp_attention: int = 1                       # groups that attend to different sequences
    weights: str | None = None                  # format of the weights; None: that of the checkpoint that is named
    kv_dtype: str | None = None                 # format of the KV cache; None: likewise
    drafter_tp: int | None = None               # None: whatever the engine takes by default
    block: int | None = None                    # DFlash, DSpark: trained block, as the checkpoint counts it
    sampling: Literal["greedy", "probabilistic"] | None = None      # how drafts are drawn; None: engine's default
    acceptance_length: float | None = None      # expected tokens per step at `draft_len`, bonus included
    cost_table: str | None = None               # DSpark: file with profiled step costs, for confidence scheduling
    min_acceptance_rate: float | None = None    # the engine switches speculation off below it, where it can

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The schedule; without one, a single tier."""
        return self.schedule or (Tier(1, self.max_batch or 1, self.draft_len),)

    @property
    def largest_step_rows(self) -> int | None:
        """Most rows of a verify step, batch x (1 + D) over all tiers; None where the largest batch is not known."""
        largest = self.max_batch or (self.schedule[-1].last if self.schedule else None)
        if largest is None:
            return None
        tiers = [*fitted(self.tiers, largest), Tier(largest, largest, self.length_at(largest))]
        return max(tier.last * (1 + tier.draft_len) for tier in tiers)

    def length_at(self, batch: int) -> int:
        """D at a batch; above the schedule that of its last tier."""
        return next((tier.draft_len for tier in self.tiers if batch <= tier.last), self.tiers[-1].draft_len)


def check_plan(plan: DraftPlan) -> None:
    """Raise InputError with everything that is wrong with a plan; engines may rely on what passes."""
    from specplan.planner.models.drafter import MECHANISMS  # noqa: PLC0415  (reading files needs no model code)

    faults: list[Fault] = []

    def need(good: bool, field: str, message: str) -> None:
        if not good:
            faults.append(Fault((field,), message))

    need(plan.mechanism is None or plan.mechanism in MECHANISMS, "mechanism", f"'{plan.mechanism}' is unknown")
    need(plan.draft_len >= 0, "draft_len", "must not be negative")
    need(plan.tp >= 1, "tp", "must be at least 1")
    need(plan.ep >= 1 and plan.tp % max(plan.ep, 1) == 0, "ep", "must divide tp")
    need(plan.dp_attention >= 1 and plan.tp % max(plan.dp_attention, 1) == 0, "dp_attention", "must divide tp")
    need(plan.drafter_tp is None or plan.drafter_tp >= 1, "drafter_tp", "must be at least 1")
    need(plan.max_batch is None or plan.max_batch >= 1, "max_batch", "must be at least 1")
    if plan.acceptance_length is not None:
        need(1 <= plan.acceptance_length <= 1 + plan.draft_len, "acceptance_length",
             f"{plan.acceptance_length:g} is not between 1 and 1 + draft_len = {1 + plan.draft_len}")
    if plan.schedule is not None:
        faults.extend(_schedule_faults(plan))
    if faults:
        raise InputError(faults)


def _schedule_faults(plan: DraftPlan) -> list[Fault]:
    tiers = plan.schedule or ()
    if not tiers:
        return [Fault(("schedule",), "is empty; leave it out for one draft length")]
    faults = []
    expected = 1
    for number, tier in enumerate(tiers):
        if tier.first != expected or tier.last < tier.first:
            faults.append(Fault(("schedule", number), f"must start at batch {expected} and not end before it"))
        if tier.draft_len < 0:
            faults.append(Fault(("schedule", number), "has a negative draft length"))
        expected = tier.last + 1
    longest = max(tier.draft_len for tier in tiers)
    if longest != plan.draft_len:
        faults.append(Fault(("draft_len",), f"is {plan.draft_len}, but the longest tier drafts {longest}"))
    return faults


def format_notes(plan: DraftPlan, *, weights: bool = True, kv: bool = True, parallel: bool = True) -> list[Note]:
    """What to say where number formats or groups of GPUs cannot be flags: the server must be given them otherwise."""
    notes = []
    if weights and plan.weights is not None:
        notes.append(Note("weights", f"the plan assumes {plan.weights.upper()} weights: serve a checkpoint in that "
                                     "format"))
    if kv and plan.kv_dtype is not None:
        notes.append(Note("kv_dtype", f"the plan assumes a KV cache in {plan.kv_dtype.upper()}: set it yourself"))
    if parallel and (plan.ep > 1 or plan.dp_attention > 1):
        notes.append(Note("parallel", f"the plan spreads experts over {plan.ep} GPUs and attention over "
                                      f"{plan.dp_attention} groups of different sequences: set them yourself"))
    return notes


def online_note(weights: str) -> Note:
    """For engines that quantise a 16-bit checkpoint while it loads."""
    return Note("weights", f"--quantization {weights} converts a 16-bit checkpoint as it loads; with a checkpoint in "
                           f"{weights.upper()}, name that one and drop the flag")


def per_rank(plan: DraftPlan, reason: str, notes: list[Note]) -> DraftPlan:
    """The plan of a server whose limits count the sequences of one of the data-parallel groups; no schedule there."""
    if plan.dp_attention == 1:
        return plan
    plan = without_schedule(plan, reason, notes)
    largest = plan.max_batch
    if largest is not None:
        each = -(-largest // plan.dp_attention)
        notes.append(Note("max_batch", f"batches count the sequences of one group: {each} of {largest} in all"))
        largest = each * plan.dp_attention
    return replace(plan, max_batch=largest)


def without_schedule(plan: DraftPlan, reason: str, notes: list[Note]) -> DraftPlan:
    """The plan with its longest draft length throughout, and why."""
    if plan.schedule:
        notes.append(Note("schedule", f"the schedule {in_words(plan.schedule)} is lost: {reason}; {plan.draft_len} is "
                                      "used throughout"))
    return replace(plan, schedule=None)


def fitted(schedule: tuple[Tier, ...], max_batch: int) -> tuple[Tier, ...]:
    """The schedule up to the largest batch that the server admits."""
    return tuple(tier._replace(last=min(tier.last, max_batch)) for tier in schedule if tier.first <= max_batch)


def in_words(schedule: tuple[Tier, ...]) -> str:
    """'1-4: 3, 5-64: 1'."""
    return ", ".join(f"{tier.first}-{tier.last}: {tier.draft_len}" for tier in schedule)
