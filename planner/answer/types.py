"""The answer as typed facts: the same numbers as the JSON of DESIGN's output contract. Seconds and bytes, unrounded."""

from __future__ import annotations

from collections.abc import Mapping

from specplan.planner.answer.load_types import LoadAnswer
from specplan.planner.answer.robustness import Robustness
from specplan.planner.decide.anchor import Anchoring
from specplan.planner.decide.guidelines import Guideline
from specplan.planner.decide.tier import Tier
from specplan.planner.engines.plan import DraftPlan
from specplan.planner.fact import fact
from specplan.planner.messages import Note
from specplan.planner.models.drafter import Mechanism


@fact
class TargetSummary:
    """The model that is served."""

    name: str
    parameters: int
    active_parameters: int
    group_size: float | None    # query heads per KV head on one GPU; None without softmax attention
    layers: int


@fact
class GpuSummary:
    """The GPU and the kernels that its times come from."""

    name: str
    kernel_attention: str | None
    kernel_gemm: str
    evidence: str               # measured | prior


@fact
class Workload:
    """What was asked."""

    engine: str
    engine_path: str
    tp: int
    dtypes: Mapping[str, str]
    objective: str
    input_tokens: float | None
    output_tokens: float | None
    engine_named: str       # as asked; `engine` is generic where it has no costs of its own
    engine_version: str | None      # as asked; None: the newest known


@fact
class OffAnswer:
    """Plain decoding in one cell."""

    step_s: float
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    fits_memory: bool
    memory_bytes: float
    max_batch: int
    breakdown: Mapping[str, float]


@fact
class Candidate:
    """One drafter at one D in one cell. D = 0 is the loaded drafter that does not draft: not the same as off."""

    mechanism: str
    drafter: str
    draft_len: int
    acceptance_length: float | None
    acceptance_source: str | None
    break_even_acceptance_length: float
    verify_s: float
    draft_s: float
    overhead_s: float
    step_s: float
    tokens_per_s_per_user: float | None
    tokens_per_s_per_gpu: float | None
    speedup: float | None
    speedup_end_to_end: float | None
    fits_memory: bool
    memory_bytes: float
    max_batch: int
    bound: Mapping[str, str | None]


@fact
class Recommendation:
    """What to run in one cell. Nulls: no acceptance was given (speculate null) or off wins (mechanism null)."""

    speculate: bool | None
    mechanism: str | None
    drafter: str | None
    draft_len: int | None
    draft_len_range: tuple[int, int] | None
    acceptance_length: float | None
    step_s: float | None
    tokens_per_s_per_user: float | None
    tokens_per_s_per_gpu: float | None
    speedup: float | None
    speedup_end_to_end: float | None
    speedup_range: tuple[float, float] | None
    break_even_acceptance_length: float | None
    reasons: tuple[str, ...]


@fact
class Cell:
    """One (batch, context) of the workload."""

    batch: int
    context_tokens: int
    off: OffAnswer
    recommendation: Recommendation
    candidates: tuple[Candidate, ...]


@fact
class Provenance:
    """Where one number of the model came from."""

    parameter: str
    value: str
    source: str


@fact
class ScheduleAnswer:
    """One draft length per range of batches, for engines that take such a table."""

    mechanism: Mechanism
    drafter: str
    objective: str
    context_tokens: tuple[int, ...]
    tiers: tuple[Tier, ...]
    mean_gain: float            # relative to off, geometric mean over batches and contexts
    mean_loss: float            # against the best D of each batch
    worst_loss: float
    worst_loss_batch: int
    off_from_batch: int | None  # from here on plain decoding beats every tier
    off_advantage: float
    finding: str
    smoother: SmootherAnswer | None = None      # where D rises with the batch: a table that only falls


@fact
class SmootherAnswer:
    """D only falls as the batch grows; the finding says what that costs against the shortest table."""

    tiers: tuple[Tier, ...]
    mean_cost: float
    worst_cost: float
    worst_cost_batch: int
    finding: str


@fact
class Room:
    """Memory of one GPU where plain decoding does not fit in all cells; bytes of the least demanding cell."""

    fits: bool                                  # in any cell
    batch: int
    context_tokens: int
    weights_bytes: float
    cache_bytes: float
    usable_bytes: float
    largest_batch: tuple[tuple[int, int], ...]  # (context, largest batch that fits)
    finding: str
    remedies: tuple[str, ...]


@fact
class Answer:
    """Everything that `specplan recommend` knows. The headline cell is the one that the summary speaks of."""

    specplan: str
    target: TargetSummary
    gpu: GpuSummary
    workload: Workload
    cells: tuple[Cell, ...]
    headline: int
    guidelines: tuple[Guideline, ...]
    warnings: tuple[Note, ...]
    provenance: tuple[Provenance, ...]
    schedule: ScheduleAnswer | None = None
    deployment: DraftPlan | None = None     # what the engines' configuration writers take
    robustness: Robustness | None = None    # of the headline cell, where acceptance is known
    anchoring: Anchoring | None = None      # multipliers and residuals from the user's own measurements
    room: Room | None = None                # where some cell does not fit in memory
    load: LoadAnswer | None = None          # under a request rate, a number of users or a latency target

    @property
    def cell(self) -> Cell:
        """The headline cell."""
        return self.cells[self.headline]

    @property
    def off(self) -> OffAnswer:
        """Plain decoding in the headline cell."""
        return self.cell.off

    @property
    def recommendation(self) -> Recommendation:
        """What to run in the headline cell."""
        return self.cell.recommendation

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All options of the headline cell."""
        return self.cell.candidates
