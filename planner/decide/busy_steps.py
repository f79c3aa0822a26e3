"""Steps of a replica that serves prompts beside decoding: their lengths as users meet them, and what bursts cost.

A step of n sequences that k prompts join takes t(n) + k*P. While a prompt fits into one step (P <= chunk), all that
arrived during the last step join the next; k has mean rate*t/(1 - phi) and variance k/(1 - phi^2), phi = rate*P. A
longer prompt is cut: prefill is then a server with the share g = chunk/(chunk + t) of time.
"""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.fact import fact

EDGE = 1.0 - 1e-6       # an unstable rate is solved this close to saturation; its waiting is infinite
MOST_PROMPTS = 16       # joining one step, in the quantiles
GROUPS, LEFT = 4, 5     # of batches, and of how much of a step is left, in the quantiles
SATURATED = 1.0 - 1e-3  # prefill queues are followed up to this load


def burst_s(rate: Array, step_s: Array, prefill_s: float, variation: float, chunk_s: float) -> Array:
    """Prefill seconds that delay a request beyond the mean share: work queued where it starts less where it ends.

    Joining prompts: P * Var(k)/k * phi = P * phi * (1 + phi^2 c^2) / (1 - phi^2). Cut prompts: the M/G/1 queue that a
    departing prompt leaves, times (g - phi)/(1 - phi), since requests end while decoding runs.
    """
    shape = np.broadcast_shapes(rate.shape, step_s.shape)
    if prefill_s <= 0.0:
        return np.zeros(shape)
    phi = np.minimum(rate * prefill_s, SATURATED)
    square = variation**2
    if prefill_s <= chunk_s:
        return np.broadcast_to(prefill_s * phi * (1.0 + phi**2 * square) / (1.0 - phi**2), shape).copy()
    share = chunk_s / (chunk_s + step_s)
    load = np.minimum(phi / share, SATURATED)
    queue = load + load**2 * (1.0 + square) / (2.0 * (1.0 - load))
    return np.asarray(np.maximum(prefill_s * queue * (share - phi) / (1.0 - phi), 0.0))


def forgotten(phi: Array, steps: ArrayLike, prefill_s: float, chunk_s: float) -> Array:
    """Share of the burst around its start that a request meets in so many steps: the next step remembers phi of it."""
    per_step = min(1.0, chunk_s / prefill_s) if prefill_s > 0.0 else 1.0
    return np.asarray(1.0 - np.minimum(phi, EDGE) ** (np.asarray(steps) * per_step))


@fact
class BusySteps:
    """Steps met at each request rate: arrays (rates, batches), batch 0 (nothing decodes) first."""

    rate: Array             # (rates, 1)
    step_s: Array           # (batches,)
    share: Array            # time share of each batch
    prefill_s: float
    chunk_s: float
    variation: float

    @classmethod
    def of(
        cls, step_s: Array, share: Array, rate: Array, prefill_s: float, variation: float, chunk_s: float
    ) -> BusySteps:
        """Steps of batches 0 ... n from `step_s` of batches 1 ... n."""
        steps = np.concatenate([[0.0], step_s[: share.shape[1] - 1]])
        return cls(
            rate=rate[:, None], step_s=steps, share=share, prefill_s=prefill_s, chunk_s=chunk_s, variation=variation
        )

    @property
    def mean_step_s(self) -> Array:
        """Mean step without prompts, as decoding sequences meet it."""
        return np.asarray(self._met() @ self.step_s)

    @property
    def step_variance(self) -> Array:
        """Relative variance of the same."""
        return np.asarray((self._met() @ self.step_s**2) / self.mean_step_s**2 - 1.0)

    @property
    def first_token_s(self) -> Array:
        """Mean of what is left of the running step, and the steps that carry the own prompt."""
        left, own = self._arrival(self.step_s)
        return np.asarray((self.share * (left + own)).sum(axis=1))

    def first_token_quantile(self, level: float) -> Array:
        """The same at a quantile.

        A prompt that fits meets a step with k prompts (more likely the longer it is), waits for what is left of it
        and shares the next with all that arrived in it. A cut one waits behind an exponential queue.
        """
        share, steps = self._grouped()
        if self.prefill_s <= 0.0 or self.prefill_s > self.chunk_s:
            left, own = self._arrival(steps)
            fixed = self.prefill_s * (1.0 + steps / self.chunk_s) if self.prefill_s > 0 else steps
            queued = np.maximum(own - fixed, 0.0) + left
            return np.asarray((share * fixed).sum(axis=1) - (share * queued).sum(axis=1) * np.log(1.0 - level))
        counts = np.arange(float(MOST_PROMPTS))
        phi = np.minimum(self.rate * self.prefill_s, SATURATED)
        running = steps[..., None] + self.prefill_s * counts                    # (rates, groups, k)
        met = _counted(self._joining(steps), phi[..., None] ** 2, counts) * running
        idle = (steps <= 0.0)[..., None]    # nothing decodes: a prompt is being worked on in the share phi of time
        prompt_alone = np.where(counts == 0, 1.0 - phi[..., None], np.where(counts == 1, phi[..., None], 0.0))
        met = np.where(idle, prompt_alone, met / np.maximum(met.sum(axis=-1, keepdims=True), 1e-300))
        others = _poisson(self.rate[..., None] * running, counts)               # (rates, groups, k, joining)
        passed = (np.arange(LEFT) + 0.5) / LEFT
        values = (
            running[..., None, None] * passed[:, None]
            + steps[..., None, None, None] + self.prefill_s * (1.0 + counts)
        )
        weights = share[..., None, None, None] * met[..., None, None] * others[..., None, :] + 0.0 * values
        return quantiles(values, weights, level)

    def gap_quantile(self, level: float) -> Array:
        """Length of a step with the prompts that join it, as decoding sequences meet it."""
        weight = self._met()
        unit = min(self.prefill_s, self.chunk_s)
        if unit <= 0.0:
            return quantiles(np.broadcast_to(self.step_s, weight.shape)[..., None], weight[..., None], level)
        joining = self._joining(self.step_s) * self.prefill_s / unit
        counts = np.arange(float(MOST_PROMPTS))
        if self.prefill_s <= self.chunk_s:
            chance = _counted(joining, np.minimum(self.rate * self.prefill_s, SATURATED)[..., None] ** 2, counts)
        else:
            some = np.minimum(joining, 1.0)[..., None]
            chance = np.where(counts == 0, 1.0 - some, np.where(counts == 1, some, 0.0))
        length = self.step_s[:, None] + np.minimum(unit * counts, self.chunk_s)
        return quantiles(length + 0.0 * chance, weight[..., None] * chance, level)

    def _met(self) -> Array:
        """Share of decoding sequences that meet each batch."""
        weight = self.share * np.arange(self.step_s.size)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def _grouped(self) -> tuple[Array, Array]:
        """The idle state and a few groups of batches of equal share: their shares and mean steps."""
        busy = self.share[:, 1:]
        below = (np.cumsum(busy, axis=1) - busy / 2.0) / busy.sum(axis=1, keepdims=True)
        group = np.minimum(below * GROUPS, GROUPS - 1).astype(int)
        member = group[:, None, :] == np.arange(GROUPS)[:, None]    # (rates, groups, batches)
        share = (member * busy[:, None, :]).sum(axis=2)
        steps = (member * busy[:, None, :] * self.step_s[1:]).sum(axis=2) / np.maximum(share, 1e-300)
        return np.concatenate([self.share[:, :1], share], axis=1), np.concatenate([0.0 * self.rate, steps], axis=1)

    def _joining(self, step_s: Array) -> Array:
        """Mean prompts that join a step."""
        return np.asarray(self.rate * step_s / (1.0 - np.minimum(self.rate * self.prefill_s, SATURATED)))

    def _arrival(self, step_s: Array) -> tuple[Array, Array]:
        """Mean seconds left of the running step, and of the steps that carry the own prompt, by step met."""
        phi = np.minimum(self.rate * self.prefill_s, SATURATED)
        square = 1.0 + self.variation**2
        if self.prefill_s <= self.chunk_s:
            joining = self._joining(step_s)
            mean = step_s + joining * self.prefill_s
            second = mean**2 + self.prefill_s**2 * joining * square / (1.0 - phi**2)
            # nothing decodes: prompts alone, an M/G/1 queue
            biased = np.where(step_s > 0, second / np.where(mean > 0, mean, 1.0), phi * self.prefill_s * square)
            own = step_s + self.prefill_s * (1.0 + self.rate * biased) if self.prefill_s > 0 else step_s
            return biased / 2.0, np.broadcast_to(own, biased.shape)
        service = self.prefill_s * (1.0 + step_s / self.chunk_s)
        load = np.minimum(self.rate * service, SATURATED)
        queue = load * service * square / (2.0 * (1.0 - load))
        return np.broadcast_to(step_s / 2.0, queue.shape), queue + service


def quantiles(values: ArrayLike, weights: Array, level: float) -> Array:
    """Weighted quantile along all axes but the first."""
    flat, weight = np.asarray(values).reshape(len(weights), -1), weights.reshape(len(weights), -1)
    order = np.argsort(flat, axis=1)
    reached = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    at = (reached < level * reached[:, -1:]).sum(axis=1)
    picked = np.take_along_axis(order, np.minimum(at, flat.shape[1] - 1)[:, None], axis=1)
    return np.asarray(np.take_along_axis(flat, picked, axis=1)[:, 0])


def _poisson(mean: Array, counts: Array) -> Array:
    """Chance of each count along a last axis."""
    logs = counts * np.log(np.maximum(mean, 1e-300))[..., None] - mean[..., None]
    return np.asarray(np.exp(logs - np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, counts.size)))])))


def _counted(mean: Array, excess: Array, counts: Array) -> Array:
    """Chance of each count of a negative binomial with variance mean / (1 - excess)."""
    success = np.maximum(np.broadcast_to(excess, (*mean.shape, 1)), 1e-9)      # variance/mean = 1 / (1 - success)
    size = mean[..., None] * (1.0 - success) / success
    ratios = (size + counts[:-1]) / counts[1:] * success
    start = np.exp(size * np.log1p(-success))
    return np.asarray(np.concatenate([start, start * np.cumprod(ratios, axis=-1)], axis=-1))
