"""Steady state under a request rate: how many sequences run together, and what users see (closed form).

A replica that decodes n sequences finishes n*AL/(L*t(n)) requests per second, t(n) being the step at batch n, AL tokens
per step, L output tokens. Requests that arrive at random share it, so the number in the system is a birth-death chain
with arrival rate lambda and

    mu(n) = n * AL * (1 - lambda*prefill_s) / (L * t(n)),   n beyond max_batch waits: mu(max_batch)

A prefill stops decoding for prefill_s, which is why only the share 1 - lambda*prefill_s of the time decodes. Processor
sharing makes the result insensitive to how output lengths are spread: only their mean enters. The chain is stable
while lambda < mu(max_batch), i.e. below the saturation rate.

Ignored: chunked prefill that hides behind decode steps (its cost is in prefill_s), preemption, growth of the context
while a request runs (its mean stands for it). `simulate` checks the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specplan.planner.arrays import Array

TAIL_STATES = 4000      # queue lengths beyond max_batch that the chain follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One way to run a replica: step seconds by batch (1 ... max_batch), tokens per step, and its requests."""

    step_s: Array               # step_s[n - 1]: n sequences together
    emitted: float              # AL
    output_tokens: float
    prefill_s: float            # seconds that inserting one request takes from decoding
    gpus: int

    @property
    def max_batch(self) -> int:
        """Sequences admitted at most."""
        return int(self.step_s.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """What users and operators see at one request rate. Rates per second, times in seconds."""

    request_rate: float
    saturation_rate: float
    mean_batch: float           # sequences decoding, time average
    mean_waiting: float         # requests that wait for a slot
    tpot_s: float               # mean time per output token after the first
    tpot_p99_s: float
    ttft_s: float
    ttft_p99_s: float
    step_gap_p50_s: float       # between two arrivals of tokens at a user; each brings AL tokens on average
    step_gap_p99_s: float
    request_s: float            # first byte in to last token out, mean
    tokens_per_s_per_gpu: float

    @property
    def stable(self) -> bool:
        """Whether the replica carries the rate."""
        return self.request_rate < self.saturation_rate


def saturation_rate(replica: Replica) -> float:
    """Requests per second that a full replica finishes: the largest B*AL / (L*t(B) + B*AL*prefill_s) over batches."""
    batch = np.arange(1.0, replica.max_batch + 1)
    work = replica.output_tokens * replica.step_s + batch * replica.emitted * replica.prefill_s
    return float((batch * replica.emitted / work).max())


def steady_state(replica: Replica, request_rate: float) -> SteadyState:
    """Solve the chain at one request rate; an unstable rate gives infinite waiting."""
    limit = saturation_rate(replica)
    if request_rate >= limit:
        return _saturated(replica, request_rate, limit)
    share, running = occupancy(replica, request_rate)
    busy = share[running > 0] / max(float(share[running > 0].sum()), 1e-300)
    batch = running[running > 0].astype(int)
    mean_batch = float(share @ running)
    states = np.arange(share.size)
    mean_waiting = float(share @ (states - running))
    prefilling = request_rate * replica.prefill_s
    # a user's token arrives from a step weighted by how many users share it
    weight = busy * batch / float(busy @ batch)
    step = replica.step_s[batch - 1]
    tpot = mean_batch / (request_rate * replica.output_tokens)
    waiting = mean_waiting / request_rate
    # the current step ends, prefills that arrived before are done first (M/D/1), then its own
    queue = prefilling * replica.prefill_s / (2.0 * (1.0 - prefilling))
    ttft = float(weight @ step) / 2.0 + queue + waiting + replica.prefill_s
    doubt = queue + waiting + float(weight @ step) / 2.0
    gap99 = _quantile(step, weight, 0.99)
    interrupted = 1.0 - np.exp(-request_rate * gap99)
    return SteadyState(
        request_rate=request_rate,
        saturation_rate=limit,
        mean_batch=mean_batch,
        mean_waiting=mean_waiting,
        tpot_s=tpot,
        tpot_p99_s=_quantile(step, weight, 0.99) / replica.emitted / (1.0 - prefilling),
        ttft_s=ttft,
        ttft_p99_s=replica.prefill_s + doubt * float(np.log(100.0)),
        step_gap_p50_s=_quantile(step, weight, 0.50),
        step_gap_p99_s=gap99 + (replica.prefill_s if interrupted > 0.01 else 0.0),
        request_s=ttft + tpot * replica.output_tokens,
        tokens_per_s_per_gpu=request_rate * replica.output_tokens / replica.gpus,
    )


def occupancy(replica: Replica, request_rate: float) -> tuple[Array, Array]:
    """Time shares of 0, 1, 2, ... requests in the system, and how many of them are decoding in each state."""
    decode = 1.0 - request_rate * replica.prefill_s
    states = np.arange(1.0, replica.max_batch + TAIL_STATES + 1)
    running = np.minimum(states, replica.max_batch)
    step = replica.step_s[running.astype(int) - 1]
    finish = running * replica.emitted * decode / (replica.output_tokens * step)
    logs = np.concatenate([[0.0], np.cumsum(np.log(request_rate) - np.log(finish))])
    share = np.exp(logs - logs.max())
    return share / share.sum(), np.concatenate([[0.0], running])


def concurrency_state(replica: Replica, concurrency: int) -> SteadyState:
    """A closed loop of `concurrency` users: the rate that keeps as many requests running."""
    batch = min(concurrency, replica.max_batch)
    step = float(replica.step_s[batch - 1])
    rate = batch * replica.emitted / (replica.output_tokens * step + batch * replica.emitted * replica.prefill_s)
    decode = 1.0 - rate * replica.prefill_s
    tpot = step / replica.emitted / decode
    waiting = (concurrency - batch) / rate
    return SteadyState(
        request_rate=rate,
        saturation_rate=saturation_rate(replica),
        mean_batch=float(batch),
        mean_waiting=float(concurrency - batch),
        tpot_s=tpot,
        tpot_p99_s=tpot,
        ttft_s=step / 2.0 + replica.prefill_s + waiting,
        ttft_p99_s=step + 2.0 * replica.prefill_s + waiting,
        step_gap_p50_s=step,
        step_gap_p99_s=step + replica.prefill_s,
        request_s=step / 2.0 + replica.prefill_s + waiting + tpot * replica.output_tokens,
        tokens_per_s_per_gpu=rate * replica.output_tokens / replica.gpus,
    )


def _saturated(replica: Replica, request_rate: float, limit: float) -> SteadyState:
    step = float(replica.step_s[-1])
    tpot = step / replica.emitted / max(1.0 - limit * replica.prefill_s, 1e-9)
    forever = float("inf")
    return SteadyState(
        request_rate=request_rate,
        saturation_rate=limit,
        mean_batch=float(replica.max_batch),
        mean_waiting=forever,
        tpot_s=tpot,
        tpot_p99_s=tpot,
        ttft_s=forever,
        ttft_p99_s=forever,
        step_gap_p50_s=step,
        step_gap_p99_s=step + replica.prefill_s,
        request_s=forever,
        tokens_per_s_per_gpu=limit * replica.output_tokens / replica.gpus,
    )


def _quantile(values: Array, weights: Array, level: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(reached, level)), values.size - 1)])
