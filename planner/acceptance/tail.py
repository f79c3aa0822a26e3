"""Acceptance beyond the measured draft length: a two-parameter tail.

S(k) = exp(-(k/scale)^shape) (Weibull). shape = 1 is the geometric rule; above 1 each further position is
harder than the one before (a reused MTP module), below 1 easier (those who came this far are on easy text).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.fact import fact

FLOOR = 1e-6


@fact
class Tail:
    """ln(-ln S(k)) = shape * ln k + level, with the covariance of (shape, level)."""

    shape: float
    level: float
    covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)    # var(shape), cov, var(level)

    @staticmethod
    def geometric(alpha: float) -> Tail:
        """p_k = alpha^k."""
        return Tail(shape=1.0, level=math.log(-math.log(min(max(alpha, FLOOR), 1 - FLOOR))))

    def survival(self, position: Array | float) -> Array:
        """S(k)."""
        k = np.asarray(position, dtype=float)
        return np.asarray(np.exp(-np.exp(np.minimum(self.level + self.shape * np.log(k), 6.0))))

    def ratio(self, start: float, position: Array | float) -> Array:
        """S(k) / S(start): the share of those at `start` that reach k."""
        log_start, k = math.log(start), np.log(np.asarray(position, dtype=float))
        excess = math.exp(self.level + self.shape * log_start) * np.expm1(self.shape * (k - log_start))
        return np.asarray(np.exp(-np.minimum(excess, 700.0)))

    def doubt(self, start: float, positions: Array) -> Array:
        """Standard deviation of the sums of `ratio` up to each position, from the covariance of the fit."""
        variance_shape, both, variance_level = self.covariance
        values, vectors = np.linalg.eigh([[variance_shape, both], [both, variance_level]])
        total = np.zeros_like(positions)
        for value, (shape, level) in zip(values, vectors.T, strict=True):
            size = math.sqrt(max(float(value), 0.0))
            ends = [Tail(shape=max(self.shape + sign * size * shape, 0.05), level=self.level + sign * size * level)
                    for sign in (1.0, -1.0)]
            sums = [np.cumsum(end.ratio(start, positions)) for end in ends]
            total = total + ((sums[0] - sums[1]) / 2.0) ** 2
        return np.asarray(np.sqrt(total))


def fit_tail(survival: Sequence[float] | Array, steps: float | None = None) -> Tail:
    """Least squares on ln(-ln p_k) against ln k, later positions weighing more; one position gives shape 1."""
    p = np.asarray(survival, dtype=float)
    k = np.arange(1, len(p) + 1, dtype=float)
    use = (p > FLOOR) & (p < 1 - FLOOR)
    if use.sum() == 0:
        return Tail.geometric(float(p[-1]))
    y, x = np.log(-np.log(p[use])), np.log(k[use])
    # noise of y is that of p through dy/dp = 1 / (p ln p)
    noise = np.sqrt(p[use] * (1 - p[use]) / (steps or 1000.0) + 0.01**2) / np.abs(p[use] * np.log(p[use]))
    if use.sum() == 1:
        return Tail(shape=1.0, level=float(y[0] - x[0]), covariance=(0.1, -0.1 * float(x[0]), 0.1 * float(x[0]) ** 2))
    weight = k[use] / noise
    design = np.column_stack([x, np.ones_like(x)])
    solution = np.linalg.lstsq(design * weight[:, None], y * weight, rcond=None)[0]
    spread = np.linalg.inv(design.T @ (design / noise[:, None] ** 2))
    misfit = float(np.mean(((y - design @ solution) / noise) ** 2))
    covariance = spread * max(misfit, 1.0)
    return Tail(shape=max(float(solution[0]), 0.05), level=float(solution[1]),
                covariance=(float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])))
