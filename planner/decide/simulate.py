"""A small discrete check of the closed form: continuous batching with random arrivals and per-request acceptance.

Each loop takes one prefill if a request waits and a slot is free, then one decode step in which every running sequence
emits 1 + (accepted drafts) tokens, drawn from its survival per position. Nothing else is modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.load import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Averages over the requests that finished after the warm-up."""

    requests: int
    tpot_s: float
    ttft_s: float
    requests_per_s: float
    mean_batch: float


def simulate(
    replica: Replica,
    survival: Array,
    request_rate: float,
    *,
    requests: int = 4000,
    seed: int = 0,
    fixed_length: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Simulated:
    """Serve `requests` Poisson arrivals; output lengths are geometric (or all equal), the first fifth is warm-up."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1.0 / request_rate, requests))
    mean = replica.output_tokens
    lengths = np.full(requests, mean) if fixed_length else random.geometric(1.0 / mean, requests).astype(float)
    conditional = _conditional(survival)
    now, following = 0.0, 0
    waiting: deque[int] = deque()
    running: list[int] = []
    left = lengths.copy()
    first, last = np.full(requests, np.nan), np.full(requests, np.nan)
    busy_area = 0.0
    while following < requests or waiting or running:
        while following < requests and arrivals[following] <= now:
            waiting.append(following)
            following += 1
        if not waiting and not running:
            now = float(arrivals[following])
            continue
        if waiting and len(running) < replica.max_batch:
            now += replica.prefill_s
            running.append(waiting.popleft())
            first[running[-1]] = now
            left[running[-1]] -= 1.0    # a prefill emits the first token
        elif not running:
            continue
        running = _finish(running, left, last, now)
        if running:
            step = float(replica.step_s[len(running) - 1])
            now += step
            busy_area += step * len(running)
            left[running] -= _emitted(conditional, len(running), random)
            running = _finish(running, left, last, now)
        if progress is not None and following % 100 == 0:
            progress(following / requests)
    kept = slice(requests // 5, requests - requests // 10)
    tokens = np.maximum(lengths[kept] - 1.0, 0.0)
    span = last[kept] - first[kept]
    return Simulated(
        requests=int(span.size),
        tpot_s=float(span.sum() / tokens.sum()),
        ttft_s=float(np.mean(first[kept] - arrivals[kept])),
        requests_per_s=float((span.size - 1) / (np.sort(last[kept])[-1] - np.sort(last[kept])[0])),
        mean_batch=busy_area / now,
    )


def _conditional(survival: Array) -> Array:
    before = np.concatenate([[1.0], survival[:-1]])
    return np.asarray(np.divide(survival, before, out=np.zeros_like(survival), where=before > 0))


def _emitted(conditional: Array, sequences: int, random: np.random.Generator) -> Array:
    """Tokens of one step per sequence: the bonus token and the accepted prefix of the draft."""
    hits = random.random((sequences, conditional.size)) < conditional
    return np.asarray(1.0 + np.cumprod(hits, axis=1).sum(axis=1))


def _finish(running: list[int], left: Array, last: Array, now: float) -> list[int]:
    done = [request for request in running if left[request] <= 0]
    last[done] = now
    return [request for request in running if left[request] > 0]
