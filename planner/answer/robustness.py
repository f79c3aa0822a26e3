"""How sure a recommendation is, as typed facts."""

from __future__ import annotations

from specplan.planner.fact import fact


@fact
class OptionDoubt:
    """One (drafter, D), or off where `drafter` is None."""

    mechanism: str | None
    drafter: str | None
    draft_len: int | None
    speedup_range: tuple[float, float]
    near_best: float        # probability to be within 3 % of the best
    regret: float           # mean loss against the best of each draw


@fact
class Robustness:
    """Decode speedups of one cell under all doubts at once. `robust` has the least mean regret."""

    batch: int
    context_tokens: int
    seed: int
    options: tuple[OptionDoubt, ...]
    robust: OptionDoubt
    straddles: bool         # the range of the best option holds 1
    settle: str | None      # the cheapest measurement that would tell, where it straddles
    finding: str
