"""A small discrete check of the closed form: continuous batching with random arrivals and per-request acceptance.

Each step admits waiting requests into free slots, spends at most `chunk_s` on the prompts admitted (first come, first
served), and lets every running sequence emit 1 + (accepted drafts) tokens, drawn from its survival per position. A
prompt that is done gives the first token at the end of its step. Nothing else is modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.load import Replica
from specplan.planner.fact import fact

FIFTHS = 5              # the first fifth of the requests warms up and does not count
REPORT_EVERY = 2048     # steps between two calls of `progress`


@fact
class Requests:
    """Requests in order of arrival."""

    arrival_s: Array
    output_tokens: Array
    prefill_s: Array


@fact
class Simulated:
    """Averages over the requests that arrived after the warm-up; rates over the time in which they arrived."""

    requests: int
    tpot_s: float
    tpot_top_s: float
    ttft_s: float
    ttft_top_s: float
    step_gap_top_s: float
    requests_per_s: float
    tokens_per_s: float
    mean_batch: float


def poisson_requests(
    replica: Replica, request_rate: float, *, requests: int, variation: float = 1.0, seed: int = 0
) -> Requests:
    """Poisson arrivals; output lengths fixed (variation 0), geometric (1) or gamma, prompts likewise by theirs.

    Each fifth holds its distributions' quantiles in random order: warm-up and the rest have exactly the means asked.
    """
    random = np.random.default_rng(seed)
    size = -(-requests // FIFTHS)
    level = (np.arange(size) + 0.5) / size
    mean = replica.output_tokens
    if variation == 1.0 and mean > 1.0:
        lengths = np.ceil(np.log(level) / np.log1p(-1.0 / mean))
    else:
        lengths = np.round(_gamma(level, mean, variation))

    def shuffled(values: Array) -> Array:
        return np.concatenate([random.permutation(values) for _ in range(FIFTHS)])

    return Requests(
        arrival_s=np.cumsum(shuffled(-np.log(level))) / request_rate,
        output_tokens=shuffled(np.maximum(lengths, 1.0)),
        prefill_s=shuffled(_gamma(level, replica.prefill_s, replica.prefill_variation)),
    )


def simulate(
    replica: Replica,
    survival: Array,
    requests: Requests,
    *,
    percentile: float = 99.0,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Simulated:
    """Serve the requests; the last ones that are still running when the last arrives do not count."""
    random = np.random.default_rng(seed)
    step_s, slots, chunk = replica.step_s.tolist(), replica.max_batch, replica.chunk_s
    arrivals, prefills = requests.arrival_s.tolist(), requests.prefill_s.tolist()
    total = len(arrivals)
    first, last = np.full(total, np.nan), np.full(total, np.nan)
    below = np.cumsum(np.concatenate([-np.diff(np.concatenate([[1.0], survival])), [survival[-1]]]))[:-1]
    running, left = np.empty(0, dtype=int), np.empty(0)
    prompts: deque[list[float]] = deque()      # [request, prefill seconds left]
    now, following, steps = 0.0, 0, 0
    begin, end = arrivals[total // FIFTHS - 1], arrivals[-1]
    area, gaps = 0.0, []
    while following < total:
        if not running.size and not prompts and arrivals[following] > now:
            now = arrivals[following]
        while following < total and arrivals[following] <= now and running.size + len(prompts) < slots:
            prompts.append([following, prefills[following]])
            following += 1
        done, spent = [], 0.0
        while prompts and spent < chunk:
            piece = min(prompts[0][1], chunk - spent)
            spent += piece
            prompts[0][1] -= piece
            if prompts[0][1] <= 1e-12:
                done.append(int(prompts.popleft()[0]))
            elif spent >= chunk * (1.0 - 1e-12):
                break
        decoding = running.size
        length = spent + (step_s[decoding - 1] if decoding else 0.0)
        now += length
        if decoding:
            if now > begin:
                area += length * decoding
                gaps.append((length, decoding))
            left -= 1.0 + np.searchsorted(below, random.random(decoding), side="right")
            finished = left <= 0
            if finished.any():
                last[running[finished]] = now
                running, left = running[~finished], left[~finished]
        if done:
            first[done] = now
            need = requests.output_tokens[done] - 1.0
            last[[request for request, tokens in zip(done, need, strict=True) if tokens <= 0]] = now
            keep = need > 0
            running = np.concatenate([running, np.asarray(done)[keep]])
            left = np.concatenate([left, need[keep]])
        steps += 1
        if progress is not None and steps % REPORT_EVERY == 0:
            progress(following / total)
    return _measured(requests, first, last, (begin, min(end, now)), area / (now - begin), gaps, percentile)


def _measured(
    requests: Requests,
    first: Array,
    last: Array,
    window: tuple[float, float],
    mean_batch: float,
    gaps: list[tuple[float, int]],
    percentile: float,
) -> Simulated:
    begin, end = window
    finished = (last > begin) & (last <= end)
    # requests that finished while others still arrived; those that started before the warm-up ended are out
    counted = np.flatnonzero(finished & (requests.arrival_s >= begin))
    tokens = requests.output_tokens[counted] - 1.0
    span = last[counted] - first[counted]
    several = tokens >= 1
    waited = first[counted] - requests.arrival_s[counted]
    lengths, weights = np.array(gaps).T
    order = np.argsort(lengths)
    reached = np.cumsum(weights[order])
    gap = lengths[order][np.searchsorted(reached, percentile / 100.0 * reached[-1])]
    return Simulated(
        requests=int(counted.size),
        tpot_s=float(span.sum() / tokens.sum()),
        tpot_top_s=float(np.percentile(span[several] / tokens[several], percentile)),
        ttft_s=float(waited.mean()),
        ttft_top_s=float(np.percentile(waited, percentile)),
        step_gap_top_s=float(gap),
        requests_per_s=float(finished.sum() / (end - begin)),
        tokens_per_s=float(requests.output_tokens[finished].sum() / (end - begin)),
        mean_batch=mean_batch,
    )


def _gamma(level: Array, mean: float, variation: float) -> Array:
    if variation <= 0.0 or mean <= 0.0:
        return np.full(level.size, mean)
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(1.0 / variation**2, level) * mean * variation**2)
