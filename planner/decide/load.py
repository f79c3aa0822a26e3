"""Steady state under a request rate: how many sequences run together, and what users see (closed form).

An engine with chunked prefill runs steps of t(n) + k*P: n sequences decode, and k waiting prompts of P prefill seconds
each join. A request takes the prefill that gives its first token, then

    steps = (L - 1 + excess) / AL,   excess = (E[X^2]/AL - 1) / 2

decode steps, X being the tokens of one step (mean AL): its last step overshoots by the mean excess of a renewal
process. Prefill fills the share phi = rate*P of time, and n sequences share the rest: a birth-death chain with

    mu(n) = n * (1 - phi) / (steps*t(n) + burst(n))

`burst` is what averaging over phi misses: a request starts to decode where prompts arrived, so more prefill lies before
it than behind it. Arrivals that add sequences also stop decoding, so n is spread more than in the chain, by

    dispersion = 1 + phi^1.5 / ((1 - phi) (1 + c^2)),   c: standard deviation / mean of output lengths

(linear noise gives 1 / (1 - phi)^2 for equal lengths and slow batches, 1 for no prefill; the simulation decided the
power). Beyond the full batch requests wait for a slot, and the chain goes on at the rate of a full batch.

Ignored: preemption, growth of the context while a request runs (its mean stands for it). `simulate` checks the rest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.decide.busy_steps import BusySteps, burst_s, quantiles
from specplan.planner.decide.value import others_prefill_s
from specplan.planner.fact import fact

EDGE = 1.0 - 1e-6       # an unstable rate is solved this close to saturation; its waiting is infinite
NODES, STRATA = 24, 96  # of the quantiles over requests
AVERAGED = 0.736        # variance left of a state that forgets itself in the time over which it is averaged: 2/e


@fact
class Replica:
    """One way to run a replica: step seconds by batch (1 ... max_batch), tokens per step, and its requests."""

    step_s: Array                       # step_s[n - 1]: n sequences together
    emitted: float                      # AL
    emitted_variance: float = 0.0       # of the tokens of one step
    output_tokens: float
    output_variation: float = 1.0       # standard deviation / mean of it over requests
    prefill_s: float                    # seconds of prefill that one request adds to the steps that carry it
    prefill_variation: float = 0.0      # standard deviation / mean of it over requests
    chunk_s: float = float("inf")       # prefill seconds that one step carries at most
    gpus: int

    @property
    def max_batch(self) -> int:
        """Sequences admitted at most."""
        return int(self.step_s.size)

    @property
    def steps(self) -> float:
        """Decode steps of a request after its first token."""
        excess = ((self.emitted_variance + self.emitted**2) / self.emitted - 1.0) / 2.0
        return max(self.output_tokens - 1.0 + excess, 1e-9) / self.emitted

    @property
    def full_batch(self) -> int:
        """Sequences that decode in a full replica: its slots less those in prefill, no more than prefill can feed."""
        if self.prefill_s <= 0.0:
            return self.max_batch
        prefill_steps = max(1.0, self.prefill_s / self.chunk_s)
        decoding = self.max_batch * self.steps / (self.steps + prefill_steps)
        fed = self.chunk_s * self.steps / self.prefill_s
        return int(np.clip(round(min(decoding, fed)), 1, self.max_batch))


@fact
class SteadyState:
    """What users and operators see, each an array over the request rates asked. Rates per second, times in seconds.

    `*_top_s` are the percentile asked.
    """

    request_rate: Array
    saturation_rate: float
    mean_batch: Array           # sequences decoding, time average
    mean_waiting: Array         # requests that wait for a slot
    tpot_s: Array               # time per output token after the first: mean
    tpot_p50_s: Array
    tpot_top_s: Array
    ttft_s: Array
    ttft_p50_s: Array
    ttft_top_s: Array
    step_gap_p50_s: Array       # between two arrivals of text at a user; each brings AL tokens on average
    step_gap_top_s: Array
    request_s: Array            # arrival to last token
    request_p50_s: Array
    request_top_s: Array
    tokens_per_s_per_gpu: Array

    @property
    def stable(self) -> Array:
        """Whether the replica carries the rate."""
        return np.asarray(self.request_rate < self.saturation_rate)


def saturation_rate(replica: Replica) -> float:
    """Requests per second that a full replica finishes: n / (steps*t(n) + n*P) at its full batch n."""
    full = replica.full_batch
    return full / (replica.steps * float(replica.step_s[full - 1]) + full * replica.prefill_s)


def steady_state(replica: Replica, request_rate: ArrayLike, percentile: float = 99.0) -> SteadyState:
    """Solve the chain at each request rate; a rate beyond saturation waits for ever."""
    rate = np.atleast_1d(np.asarray(request_rate, dtype=float)).ravel()
    limit = saturation_rate(replica)
    carried = np.minimum(rate, limit * EDGE)
    share, chain_rate = occupancy(replica, carried)
    # the geometric tail beyond the full batch: how many are delayed, and how fast the queue drains
    drain = chain_rate * (1.0 - np.minimum(carried / chain_rate, EDGE)) / _dispersion(replica, carried)
    forever = np.where(rate < limit, 0.0, np.inf)
    delayed = share[:, -1]
    top = percentile / 100.0
    queue = {level: np.log(np.maximum(delayed / (1.0 - level), 1.0)) / drain + forever for level in (0.5, top)}
    found = _state(replica, carried, share, (delayed / drain + forever, queue[0.5], queue[top]), top)
    per_gpu = np.minimum(rate, limit) * replica.output_tokens / replica.gpus
    return replace(found, request_rate=rate, tokens_per_s_per_gpu=per_gpu)


def closed_loop(replica: Replica, concurrency: int, percentile: float = 99.0) -> SteadyState:
    """`concurrency` users who ask again as soon as they are answered: a constant number of requests."""
    users = min(concurrency, replica.max_batch)
    in_prefill = max(1.0, replica.prefill_s / replica.chunk_s) if replica.prefill_s > 0 else 0.0
    decoding = int(np.clip(round(users * replica.steps / (replica.steps + in_prefill)), 1, replica.full_batch))
    steps_s = replica.steps * float(replica.step_s[decoding - 1])
    rate = decoding / (steps_s + decoding * replica.prefill_s)
    decode_s = steps_s + others_prefill_s(decoding, replica.prefill_s)
    share = np.zeros((1, replica.full_batch + 1))
    share[0, decoding] = 1.0
    waiting = np.array([(concurrency - users) / rate])
    others_rate = rate * (decoding - 1) / decoding      # no user waits for a prompt of their own while decoding
    return _state(
        replica, np.array([rate]), share, (waiting, waiting, waiting), percentile / 100.0,
        decode_s=np.array([decode_s]), others_rate=np.array([others_rate]),
    )


def _state(
    replica: Replica, rate: Array, share: Array, waiting_s: tuple[Array, Array, Array], top: float, *,
    decode_s: Array | None = None, others_rate: Array | None = None,
) -> SteadyState:
    """What a given occupancy means for users; `waiting_s` for a slot: mean, median, top. `decode_s` from the first
    token to the last (by Little's law if left out) and the rate of the prompts met (`rate` if left out) of few users.
    """
    mean_batch = share @ np.arange(share.shape[1])
    tokens = max(replica.output_tokens - 1.0, 1e-9)
    if decode_s is None:
        decode_s = mean_batch / rate
    met = rate if others_rate is None else others_rate
    busy = _busy(replica, share, met)
    half, high = (_tpot_quantile(replica, met, decode_s, busy, level) for level in (0.5, top))
    ttft_half, ttft_top = (
        busy.first_token_quantile(level) + queue for level, queue in zip((0.5, top), waiting_s[1:], strict=True)
    )
    ttft = busy.first_token_s + waiting_s[0]
    return SteadyState(
        request_rate=rate,
        saturation_rate=saturation_rate(replica),
        mean_batch=mean_batch,
        mean_waiting=rate * waiting_s[0],
        tpot_s=decode_s / tokens,
        tpot_p50_s=half,
        tpot_top_s=high,
        ttft_s=ttft,
        ttft_p50_s=ttft_half,
        ttft_top_s=ttft_top,
        step_gap_p50_s=busy.gap_quantile(0.5),
        step_gap_top_s=busy.gap_quantile(top),
        request_s=ttft + decode_s,
        request_p50_s=ttft_half + half * tokens,
        request_top_s=ttft_top + high * tokens,
        tokens_per_s_per_gpu=rate * replica.output_tokens / replica.gpus,
    )


def per_token_s(replica: Replica, request_rate: Array, percentile: float) -> Array:
    """TPOT at a percentile over requests, and nothing else: for searching rates below saturation."""
    share, _ = occupancy(replica, request_rate)
    busy = _busy(replica, share, request_rate)
    decode_s = share @ np.arange(share.shape[1]) / request_rate
    return _tpot_quantile(replica, request_rate, decode_s, busy, percentile / 100.0)


def _busy(replica: Replica, share: Array, rate: Array) -> BusySteps:
    return BusySteps.of(
        replica.step_s, share, rate, replica.prefill_s, replica.prefill_variation, replica.chunk_s
    )


def occupancy(replica: Replica, request_rate: Array) -> tuple[Array, Array]:
    """Time shares of 0, 1, ... full_batch sequences decoding, (rates, full_batch + 1), and the rate of a full batch.

    The last state holds the whole tail of requests that wait for a slot.
    """
    full = replica.full_batch
    batch = np.arange(1.0, full + 1)
    rate = request_rate[:, None]
    step = replica.step_s[:full]
    decode = 1.0 - rate * replica.prefill_s
    burst = burst_s(rate, step, replica.prefill_s, replica.prefill_variation, replica.chunk_s)
    burst *= _forgotten(replica, rate * replica.prefill_s, replica.steps)
    burst[:, -1] = 0.0      # a full replica takes a prompt only when a request ends: no bursts
    finish = batch * decode / (replica.steps * step + burst)
    dispersion = _dispersion(replica, rate)
    logs = np.concatenate([np.zeros_like(rate), np.cumsum(np.log(rate) - np.log(finish), axis=1)], axis=1) / dispersion
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    last = finish[:, -1]
    share[:, -1] /= 1.0 - np.minimum(request_rate / last, EDGE) ** (1.0 / dispersion[:, 0])
    return share / share.sum(axis=1, keepdims=True), last


def _dispersion(replica: Replica, rate: Array) -> Array:
    """How much more the number of sequences is spread than without prefill: variances, at least 1."""
    phi = np.minimum(rate * replica.prefill_s, EDGE)
    return np.asarray(1.0 + phi**1.5 / ((1.0 - phi) * (1.0 + replica.output_variation**2)))


def _tpot_quantile(replica: Replica, rate: Array, decode_s: Array, busy: BusySteps, level: float) -> Array:
    """TPOT at a quantile over requests, which differ in length, batches met, tokens accepted, prompts that cut in.

    Ln-normal of the right mean and variance for each length, up to the prefill that steps can carry. Lengths follow a
    Weibull law of the stated variation: all equal at 0, exponential at 1. The prefill of a step is remembered in the
    next with phi, so that S steps vary by P^2 rate/((1 - phi)^2 seconds) (1 - 2 phi (1 - phi^S)/(S (1 - phi^2))).
    """
    tokens = np.maximum(_lengths(replica.output_tokens, replica.output_variation) - 1.0, 1.0)
    part = tokens / max(replica.output_tokens - 1.0, 1.0)
    steps = np.maximum(replica.steps * part, 1.0)
    phi = np.minimum(rate * replica.prefill_s, EDGE)[:, None]
    step_s, decode_s = busy.mean_step_s[:, None], decode_s[:, None]
    burst = np.clip(1.0 - replica.steps * step_s / ((1.0 - phi) * decode_s), 0.0, 1.0)
    early = _forgotten(replica, phi, steps) / np.maximum(_forgotten(replica, phi, max(replica.steps, 1.0)), 1e-300)
    seconds = decode_s * (burst * early + (1.0 - burst) * part)
    accepted = replica.emitted_variance / (replica.emitted**2 * steps)
    square = replica.prefill_s**2 * (1.0 + replica.prefill_variation**2)
    few = 1.0 - 2.0 * phi * (1.0 - phi**steps) / (steps * (1.0 - phi**2))
    prompts = few * rate[:, None] * square / ((1.0 - phi) ** 2 * seconds)
    # what lies between bounds varies at most by the distances of its mean from them
    most = np.maximum(steps * (step_s + replica.chunk_s), seconds)
    with np.errstate(invalid="ignore"):
        room = np.where(np.isinf(most), np.inf, (most - seconds) * np.maximum(seconds - steps * step_s, 0.0) / seconds**2)
    variance = AVERAGED * busy.step_variance[:, None] + accepted + np.minimum(prompts, room)
    nodes = _normal(NODES if tokens.size > 1 else NODES * STRATA)
    spread = np.sqrt(np.log1p(variance))[..., None]
    values = (seconds / tokens)[..., None] * np.exp(spread * nodes - spread**2 / 2.0)
    more = np.sqrt(np.log1p(accepted))[..., None]
    most_steps = np.minimum((steps / tokens)[:, None] * np.exp(more * nodes), 1.0)   # each gives a token at least
    values = np.minimum(values, np.maximum(most_steps * (step_s + replica.chunk_s)[..., None], (seconds / tokens)[..., None]))
    return quantiles(values, np.ones_like(values), level)


def _forgotten(replica: Replica, phi: Array, steps: ArrayLike) -> Array:
    """Share of the burst at its start that a request meets in so many steps: each step remembers phi of it."""
    per_step = min(1.0, replica.chunk_s / replica.prefill_s) if replica.prefill_s > 0.0 else 1.0
    return np.asarray(1.0 - np.minimum(phi, EDGE) ** (np.asarray(steps) * per_step))


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
