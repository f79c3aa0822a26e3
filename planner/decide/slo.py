"""Latency targets: the highest request rate at which a replica meets one, and how far a state is from it."""

from __future__ import annotations

import numpy as np

from specplan.planner.decide.load import Replica, SteadyState, per_token_s, saturation_rate, steady_state
from specplan.planner.fact import fact

LOWEST, HIGHEST = 0.01, 0.995   # shares of saturation between which rates are looked for
RATES = 24
HALVINGS = 7


@fact
class Target:
    """What `percentile` of requests must meet; None: no limit."""

    tpot_s: float | None
    ttft_s: float | None
    percentile: float

    def excess(self, state: SteadyState) -> tuple[float, str]:
        """Largest ratio of a state's figure to its limit (at most 1 where the target is met), and which one it is."""
        ratios = [
            (float(found[0]) / limit, name)
            for name, found, limit in (
                ("tpot", state.tpot_top_s, self.tpot_s), ("ttft", state.ttft_top_s, self.ttft_s),
            )
            if limit is not None
        ]
        return max(ratios)


def tpot_limit(replica: Replica, target: Target) -> float:
    """Highest rate at which TPOT meets its limit; 0 where it never does. Never above saturation."""
    rates = np.linspace(LOWEST, HIGHEST, RATES) * saturation_rate(replica)
    if target.tpot_s is None:
        return float(rates[-1])
    meets = per_token_s(replica, rates, target.percentile) <= target.tpot_s
    return float(rates[meets][-1]) if meets.any() else 0.0


def highest_rate(replica: Replica, target: Target, bound: float) -> float:
    """Highest rate up to `bound` (the TPOT limit) at which TTFT meets its limit as well, by halving."""
    if bound <= 0.0 or _meets(replica, target, bound):
        return bound
    low, high = 0.0, bound
    least = LOWEST * saturation_rate(replica)
    if not _meets(replica, target, least):
        return 0.0
    low = least
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _meets(replica, target, middle) else (low, middle)
    return low


def _meets(replica: Replica, target: Target, rate: float) -> bool:
    return target.excess(steady_state(replica, rate, target.percentile))[0] <= 1.0
