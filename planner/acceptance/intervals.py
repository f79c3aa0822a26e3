"""How sure a mean over counted steps is: Wilson's interval, for shares and for means of 0 ... D."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from specplan.planner.arrays import Array


def step_variance(survival: Sequence[float], draft_len: Array) -> Array:
    """Variance over steps of the number of accepted drafts: sum (2k-1) p_k - (sum p_k)^2, exact.

    >>> step_variance([0.5], np.array([1.0])).tolist()
    [0.25]
    """
    p = np.asarray(survival)
    grid = np.arange(len(p) + 1)
    first = np.concatenate([[0.0], np.cumsum(p)])
    second = np.concatenate([[0.0], np.cumsum((2 * np.arange(1, len(p) + 1) - 1) * p)])
    return np.asarray(np.maximum(np.interp(draft_len, grid, second - first**2), 0.0))


def wilson(successes: float, trials: float, level: float = 0.9) -> tuple[float, float]:
    """Wilson's interval of a share.

    >>> low, high = wilson(30, 60); round(low, 3), round(high, 3)
    (0.396, 0.604)
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def wilson_of_mean(mean: Array, d: Array, sampling: Array, steps: float | None, other: Array,
                   level: float) -> tuple[Array, Array]:
    """Interval of AL = 1 + D * share: Wilson's for the `sampling` variance of the mean, widened by `other` variance.

    Wilson's trials are those that would give the share this variance. The ends stay within [1, 1 + D], and a sample
    in which all or nothing was accepted still has a width.
    """
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    width = np.maximum(d, 1e-9)
    share = np.clip((mean - 1.0) / width, 0.0, 1.0)
    centre, half2 = share, np.zeros_like(share)
    if steps:
        binomial = share * (1.0 - share)
        certain = (sampling <= 0) | (binomial <= 1e-12)
        trials = np.where(certain, steps, binomial * width**2 / np.where(certain, 1.0, sampling))
        shrink = 1.0 / (1.0 + z2 / trials)
        centre = (share + z2 / (2.0 * trials)) * shrink
        half2 = z2 * shrink**2 * (binomial / trials + z2 / (4.0 * trials**2))
    half = np.sqrt(half2 + z2 * other / width**2)
    lower, upper = np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
    return np.asarray(1.0 + d * lower), np.asarray(1.0 + d * upper)
