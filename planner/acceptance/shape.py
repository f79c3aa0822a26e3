"""Shapes that acceptance must have: survival never rises with the position, so AL(D) rises ever more slowly.

p_k is the unconditional probability that draft token k is accepted ("survival"), AL(D) = 1 + p_1 + ... + p_D.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specplan.planner.arrays import Array


def antitonic(values: Sequence[float] | Array, weights: Sequence[float] | Array | None = None) -> Array:
    """Least-squares fit that never rises: pool adjacent violators.

    >>> antitonic([0.8, 0.5, 0.6, 0.2]).tolist()
    [0.8, 0.55, 0.55, 0.2]
    """
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    blocks: list[list[float]] = []      # [sum of weight*value, sum of weight, members]
    for value, w in zip(values, weight, strict=True):
        blocks.append([float(value) * w, float(w), 1])
        while len(blocks) > 1 and blocks[-1][0] * blocks[-2][1] > blocks[-2][0] * blocks[-1][1]:
            total, mass, members = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + mass, blocks[-1][2] + members]
    return np.concatenate([np.full(int(members), total / mass) for total, mass, members in blocks])


def survival_from_lengths(draft_lens: Sequence[int], lengths: Sequence[float],
                          weights: Sequence[float] | None = None) -> Array:
    """p_1 ... p_K whose running sum passes through AL(D) - 1 as well as 1 >= p_1 >= p_2 >= ... >= 0 allows.

    A survival that never rises is a non-negative mixture of steps (1 up to j, 0 beyond), so the fit is a
    non-negative least squares on the step heights, with the heights summing to at most 1. Faint rows that keep the
    second difference small fill the gaps between measured D's smoothly and leave measured points alone.
    """
    k = max(draft_lens)
    steps = np.triu(np.ones((k, k)))                     # survival = steps @ heights
    running = np.tril(np.ones((k, k)))[np.asarray(draft_lens) - 1] @ steps
    weight = np.ones(len(lengths)) if weights is None else np.sqrt(np.asarray(weights) / np.max(weights))
    bend = np.diff(np.eye(k), n=2, axis=0) @ steps * 1e-3
    rows = np.vstack([running * weight[:, None], bend])
    wanted = np.concatenate([(np.asarray(lengths) - 1.0) * weight, np.zeros(len(bend))])
    slack = 10.0                                         # heights + slack = 1, as a heavy row
    rows = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), np.full((1, k + 1), slack)])
    heights = non_negative_least_squares(rows, np.append(wanted, slack))[:k]
    return np.clip(steps @ heights, 0.0, 1.0)


def non_negative_least_squares(rows: Array, wanted: Array) -> Array:
    """Lawson and Hanson's active set, for a few dozen unknowns (scipy's would cost its import on every run)."""
    unknowns = rows.shape[1]
    gram, target = rows.T @ rows, rows.T @ wanted
    free = np.zeros(unknowns, dtype=bool)
    x = np.zeros(unknowns)
    tolerance = 1e-14 * float(np.abs(target).max() + 1.0)
    for _ in range(10 * unknowns):
        gradient = np.where(free, -np.inf, target - gram @ x)
        if gradient.max() <= tolerance:
            break
        free[int(gradient.argmax())] = True
        while True:
            trial = np.zeros(unknowns)
            trial[free] = np.linalg.lstsq(rows[:, free], wanted, rcond=None)[0]
            if trial[free].min() > 0:
                break
            blocked = free & (trial <= 0)
            share = float(np.min(x[blocked] / (x[blocked] - trial[blocked] + 1e-300)))
            x = x + share * (trial - x)
            free &= x > 1e-14
            x[~free] = 0.0
            if not free.any():
                return x
        x = trial
    return x


def geometric(length: float, draft_len: int) -> float:
    """Find the alpha whose AL(D) = (1 - alpha^(D+1)) / (1 - alpha) is `length`.

    >>> round(geometric(1 + 0.8 + 0.64 + 0.512, 3), 6)
    0.8
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if alpha_length(middle, draft_len) < length else (low, middle)
    return (low + high) / 2


def alpha_length(alpha: float, draft_len: float | Array) -> Array:
    """AL(D) where each draft token is accepted with probability alpha, whatever came before it."""
    d = np.asarray(draft_len, dtype=float)
    return d + 1.0 if alpha >= 1.0 else (1.0 - alpha ** (d + 1.0)) / (1.0 - alpha)


def minimum_variance(length: float, draft_len: int) -> Array:
    """p_1 ... p_D that reach AL with the least variance per step, as vLLM's synthetic acceptance splits a length.

    Each step accepts floor(AL - 1) drafts or one more.

    >>> minimum_variance(2.6, 3).tolist()
    [1.0, 0.6, 0.0]
    """
    return np.asarray(np.clip(length - 1.0 - np.arange(draft_len), 0.0, 1.0).round(12))
