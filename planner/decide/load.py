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
power), and tilted until as many requests finish as come. Beyond the full batch requests wait for a slot, and the chain
goes on at the rate of a full batch.

Ignored: preemption, growth of the context while a request runs (its mean stands for it). `simulate` checks the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.decide.busy_steps import EDGE, BusySteps, burst_s, forgotten
from specplan.planner.decide.per_token import tpot_quantile
from specplan.planner.decide.value import others_prefill_s
from specplan.planner.fact import fact

NEWTON_STEPS, BALANCED, LARGEST_TILT = 30, 1e-9, 8.0     # flow balance: relative, and the bracket


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
    def excess(self) -> float:
        """Tokens by which the last step of a request overshoots."""
        return ((self.emitted_variance + self.emitted**2) / self.emitted - 1.0) / 2.0

    @property
    def steps(self) -> float:
        """Decode steps of a request after its first token."""
        return max(self.output_tokens - 1.0 + self.excess, 1e-9) / self.emitted

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
    half, high = (tpot_quantile(replica, met, decode_s, busy, level) for level in (0.5, top))
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
    return tpot_quantile(replica, request_rate, decode_s, busy, percentile / 100.0)


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
    burst *= forgotten(rate * replica.prefill_s, replica.steps, replica.prefill_s, replica.chunk_s)
    burst[:, -1] = 0.0      # a full replica takes a prompt only when a request ends: no bursts
    finish = batch * decode / (replica.steps * step + burst)
    dispersion = _dispersion(replica, rate)
    logs = np.concatenate([np.zeros_like(rate), np.cumsum(np.log(rate) - np.log(finish), axis=1)], axis=1) / dispersion
    last = finish[:, -1]
    rho = np.minimum(request_rate / last, EDGE) ** (1.0 / dispersion[:, 0])
    finish = np.concatenate([np.zeros_like(rate), finish], axis=1)
    return _balanced(logs, rho, finish, request_rate), last


def _balanced(logs: Array, rho: Array, finish: Array, rate: Array) -> Array:
    """Shares exp(logs + tilt*n), the last with its tail, at the tilt at which as many requests finish as come.

    Without dispersion the tilt is 0. Newton's method, halving where it leaves the bracket.
    """
    count = np.arange(logs.shape[1])
    low, high, tilt = np.full(rho.shape, -LARGEST_TILT), -np.log(rho), np.zeros_like(rho)
    for _ in range(NEWTON_STEPS):
        share = logs + tilt[:, None] * count
        share = np.exp(share - share.max(axis=1, keepdims=True))
        tail = rho * np.exp(tilt)
        share[:, -1] /= 1.0 - tail
        share /= share.sum(axis=1, keepdims=True)
        flow = share * finish
        missing = rate - flow.sum(axis=1)
        if np.all(np.abs(missing) <= BALANCED * rate):
            break
        low, high = np.where(missing > 0.0, tilt, low), np.where(missing > 0.0, high, tilt)
        waiting = tail / (1.0 - tail)
        slope = flow @ count + flow[:, -1] * waiting - flow.sum(axis=1) * (share @ count + share[:, -1] * waiting)
        newton = tilt + missing / np.maximum(slope, 1e-300)
        tilt = np.where((newton > low) & (newton < high), newton, (low + high) / 2.0)
    return share


def _dispersion(replica: Replica, rate: Array) -> Array:
    """How much more the number of sequences is spread than without prefill: variances, at least 1."""
    phi = np.minimum(rate * replica.prefill_s, EDGE)
    return np.asarray(1.0 + phi**1.5 / ((1.0 - phi) * (1.0 + replica.output_variation**2)))
