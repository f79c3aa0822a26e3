"""What the planner decided, in the terms that every engine's configuration is written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specplan.planner.decide.tier import Tier
from specplan.planner.messages import Fault, InputError

if TYPE_CHECKING:
    from specplan.planner.models.drafter import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
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
    tp: int = 1
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


def fitted(schedule: tuple[Tier, ...], max_batch: int) -> tuple[Tier, ...]:
    """The schedule up to the largest batch that the server admits."""
    return tuple(tier._replace(last=min(tier.last, max_batch)) for tier in schedule if tier.first <= max_batch)


def in_words(schedule: tuple[Tier, ...]) -> str:
    """'1-4: 3, 5-64: 1'."""
    return ", ".join(f"{tier.first}-{tier.last}: {tier.draft_len}" for tier in schedule)
