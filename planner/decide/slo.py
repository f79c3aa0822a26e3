"""Latency targets: the highest request rate at which a replica meets one, and how far a state is from it."""

from __future__ import annotations

import numpy as np

from specplan.planner.decide.load import Replica, SteadyState, per_token_s, saturation_rate, steady_state
from specplan.planner.fact import fact

LOWEST, HIGHEST = 0.01, 0.995   # shares of saturation between which rates are looked for
RATES = 16                      # looked at between them, and again between the last that meets and the next
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


def lowest_rate(replica: Replica) -> float:
    """The rate of a replica that is nearly idle."""
    return LOWEST * saturation_rate(replica)


def top_rate(replica: Replica) -> float:
    """The highest rate that is looked at."""
    return HIGHEST * saturation_rate(replica)


def tpot_limit(replica: Replica, target: Target) -> float:
    """Rate up to which TPOT meets its limit; 0 where it never does. Never above saturation."""
    low, high = lowest_rate(replica), top_rate(replica)
    if target.tpot_s is None:
        return high
    for _ in range(2):
        rates = np.linspace(low, high, RATES)
        misses = np.flatnonzero(per_token_s(replica, rates, target.percentile) > target.tpot_s)
        if not misses.size:
            return high
        if misses[0] == 0:
            return 0.0
        low, high = float(rates[misses[0] - 1]), float(rates[misses[0]])
    return low


def highest_rate(replica: Replica, target: Target, bound: float, low: float = 0.0) -> float:
    """Highest rate up to `bound` (the TPOT limit) at which TTFT meets its limit as well, by halving from `low`.

    `low` is known to meet it, if it is above 0.
    """
    if bound <= 0.0 or target.ttft_s is None or meets(replica, target, bound):
        return bound
    if low <= 0.0:
        low = lowest_rate(replica)
        if not meets(replica, target, low):
            return 0.0
    high = bound
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if meets(replica, target, middle) else (low, middle)
    return low


def meets(replica: Replica, target: Target, rate: float) -> bool:
    """Whether a rate below saturation meets the target."""
    return target.excess(steady_state(replica, rate, target.percentile))[0] <= 1.0
