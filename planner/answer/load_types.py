"""The answer under a load, as typed facts. Times in seconds, rates per second; None where waiting never ends."""

from __future__ import annotations

from specplan.planner.fact import fact
from specplan.planner.models.drafter import Mechanism

LONG_WAIT = 4.0         # of the rest of a first token's time: a wait for a slot that is said


@fact
class LoadRow:
    """One way to run a replica under the load. `mechanism` None: off. `*_top_s`: the percentile asked.

    A step brings AL tokens at once: `step_gap_*` is the time between two such arrivals, not the time per token.
    """

    mechanism: Mechanism | None
    drafter: str | None
    draft_len: int | None
    tp: int
    max_batch: int
    acceptance_length: float
    saturation_rate: float
    carries: bool
    request_rate: float
    mean_batch: float
    mean_waiting: float | None
    tpot_s: float
    tpot_p50_s: float
    tpot_top_s: float
    step_gap_p50_s: float
    step_gap_top_s: float
    ttft_s: float | None            # None under disaggregation too: other GPUs give the first token
    ttft_p50_s: float | None
    ttft_top_s: float | None
    request_s: float | None
    request_p50_s: float | None
    request_top_s: float | None
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    cost_per_million_tokens: float | None
    meets_target: bool | None
    binds: str | None               # tpot | ttft | saturation, where the target is missed


def wait_of(row: LoadRow) -> str:
    """In words that requests wait for a slot much longer than for their own prompt; empty where they do not."""
    if row.ttft_s is None or not row.mean_waiting:
        return ""
    waiting_s = row.mean_waiting / row.request_rate
    if waiting_s < LONG_WAIT * (row.ttft_s - waiting_s):
        return ""
    return f"requests wait {waiting_s:.3g} s for a slot (TTFT {row.ttft_s:.3g} s on average)"


@fact
class SloAnswer:
    """The option that meets the target, or the one that comes nearest to it."""

    percentile: float
    tpot_s: float | None
    ttft_s: float | None
    met: bool
    choice: LoadRow | None          # the best that meets it; None where none does
    highest_rate: float | None      # requests per second up to which the choice meets it
    nearest: LoadRow | None         # where none meets it
    binds: str | None
    finding: str


@fact
class Check:
    """The closed form beside a simulation of the same replica."""

    label: str
    requests: int
    seed: int
    tpot_s: float
    tpot_closed_s: float
    ttft_s: float
    ttft_closed_s: float | None
    tokens_per_s: float
    tokens_per_s_closed: float
    mean_batch: float
    mean_batch_closed: float

    @property
    def worst(self) -> float:
        """Larger relative error of TPOT and throughput."""
        return max(abs(self.tpot_closed_s / self.tpot_s - 1), abs(self.tokens_per_s_closed / self.tokens_per_s - 1))


@fact
class LoadAnswer:
    """What a replica does under the load: off, and each drafter at its best D there, best first."""

    request_rate: float | None
    concurrency: int | None
    input_tokens: float
    output_tokens: float
    input_variation: float
    output_variation: float
    prefix_hit: float
    context_tokens: float
    prefill_s: float
    disaggregated: bool
    percentile: float
    price_per_gpu_hour: float | None
    rows: tuple[LoadRow, ...]
    finding: str
    unknown: tuple[str, ...] = ()       # drafters without acceptance: not among the rows
    slo: SloAnswer | None = None
    simulation: tuple[Check, ...] = ()

    @property
    def choice(self) -> LoadRow:
        """What to run: the option that meets the target, or comes nearest to it; without a target the best way."""
        found = None if self.slo is None else self.slo.choice or self.slo.nearest
        return found or self.rows[0]

    @property
    def listed(self) -> tuple[LoadRow, ...]:
        """The rows with the choice first, each once."""
        found = None if self.slo is None else self.slo.choice
        return self.rows if found is None else (found, *(row for row in self.rows if row != found))
