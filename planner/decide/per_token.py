"""Time per output token over requests: they differ in length, and each meets its own batches and prompts."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.busy_steps import EDGE, BusySteps, forgotten, quantiles

if TYPE_CHECKING:
    from specplan.planner.decide.load import Replica

NODES, STRATA = 24, 96  # of the quantiles over requests
AVERAGED = 0.736        # variance left of a state that forgets itself in the time over which it is averaged: 2/e
UNBOUNDED_S = 1e9       # a step without a bound on its prefill


def tpot_quantile(replica: Replica, rate: Array, decode_s: Array, busy: BusySteps, level: float) -> Array:
    """TPOT at a quantile over requests, which differ in length, batches met, tokens accepted, prompts that cut in.

    Ln-normal of the right mean and variance for each length, up to the prefill that steps can carry. Lengths follow a
    Weibull law of the stated variation: all equal at 0, exponential at 1. The prefill of a step is remembered in the
    next with phi, so that S steps vary by P^2 rate/((1 - phi)^2 seconds) (1 - 2 phi (1 - phi^S)/(S (1 - phi^2))).
    """
    tokens = np.maximum(_lengths(replica.output_tokens, replica.output_variation) - 1.0, 1.0)
    steps = np.maximum((tokens + replica.excess) / replica.emitted, 1.0)
    usual = max(replica.steps, 1.0)
    phi = np.minimum(rate * replica.prefill_s, EDGE)[:, None]
    step_s, decode_s = busy.mean_step_s[:, None], decode_s[:, None]
    burst = np.clip(1.0 - replica.steps * step_s / ((1.0 - phi) * decode_s), 0.0, 1.0)
    met, whole = (forgotten(phi, each, replica.prefill_s, replica.chunk_s) for each in (steps, usual))
    early = met / np.maximum(whole, 1e-300)
    seconds = decode_s * (burst * early + (1.0 - burst) * steps / usual)
    accepted = replica.emitted_variance / (replica.emitted**2 * steps)
    square = replica.prefill_s**2 * (1.0 + replica.prefill_variation**2)
    few = 1.0 - 2.0 * phi * (1.0 - phi**steps) / (steps * (1.0 - phi**2))
    prompts = few * rate[:, None] * square / ((1.0 - phi) ** 2 * seconds)
    # a step carries a chunk at most: what lies between bounds varies at most by the distances of its mean from them
    most = np.maximum(steps * np.minimum(step_s + replica.chunk_s, UNBOUNDED_S), seconds)
    room = (most - seconds) * np.maximum(seconds - steps * step_s, 0.0) / seconds**2
    variance = AVERAGED * busy.step_variance[:, None] + accepted + np.minimum(prompts, room)
    nodes = _normal(NODES if tokens.size > 1 else NODES * STRATA)
    mean = (seconds / tokens)[..., None]
    more = np.minimum((steps / tokens)[:, None] * _ln_normal(accepted, nodes, 0.0), 1.0)    # a token a step at least
    longest = np.maximum(more * (step_s + replica.chunk_s)[..., None], mean)
    values = np.minimum(mean * _ln_normal(variance, nodes, 0.5), longest)
    return quantiles(values, np.ones_like(values), level)


def _ln_normal(variance: Array, nodes: Array, centred: float) -> Array:
    """Ln-normal values of a relative variance along a last axis: of mean 1 if centred by 0.5, of median 1 by 0."""
    square = np.log1p(variance)[..., None]
    return np.asarray(np.exp(np.sqrt(square) * nodes - centred * square))


@cache
def _normal(count: int) -> Array:
    """Equally likely values of the standard normal law."""
    law = NormalDist()
    return np.array([law.inv_cdf((k + 0.5) / count) for k in range(count)])


def _lengths(mean: float, variation: float) -> Array:
    """Equally likely output lengths."""
    if variation <= 0.0:
        return np.array([mean])
    level = (np.arange(STRATA) + 0.5) / STRATA
    shape = variation**-1.086      # Weibull shape of a coefficient of variation, within 2 % from 0.2 to 2
    return np.asarray(mean * (-np.log1p(-level)) ** (1.0 / shape) / math.gamma(1.0 + 1.0 / shape))
