"""What one GPU must hold: weights, drafter, KV caches with look-ahead slots, saved states; and what it has for them.

usable = memory_fraction * memory of the GPU - memory_reserve: the share that an engine plans with, less what is neither
weights nor cache (context, activations, graphs). Both are constants of the engine path, with range and source.

A verify pass writes the cache of 1 + D tokens before it knows which survive, so each sequence needs that many slots
beyond its context; a recurrent layer keeps 1 + q states while verifying (the last true one and one per token).
"""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.fact import fact
from specplan.planner.models.architecture import Model
from specplan.planner.models.counts import kv_bytes, state_bytes_per_sequence, weight_bytes
from specplan.planner.models.drafter import Drafter
from specplan.planner.models.drafters import drafter_kv_bytes, drafter_weight_bytes
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.drafting import drafter_deployment


@fact
class Memory:
    """Bytes on one GPU; arrays over (D, B, S)."""

    weights_bytes: float
    drafter_bytes: float
    cache_bytes: Array      # all sequences: KV of target and drafter, look-ahead slots, states
    usable_bytes: float     # for all of that
    max_batch: Array        # sequences that fit, of this context and D

    @property
    def total_bytes(self) -> Array:
        """Everything on one GPU."""
        return self.weights_bytes + self.drafter_bytes + self.cache_bytes

    @property
    def fits(self) -> Array:
        """Whether it fits, per cell."""
        return np.asarray(self.total_bytes <= self.usable_bytes)


def memory(
    target: Model,
    deployment: Deployment,
    drafter: Drafter | None,
    draft_len: ArrayLike,
    batch: ArrayLike,
    context_tokens: ArrayLike,
) -> Memory:
    """Memory of one GPU with `drafter` loaded (None: off)."""
    draft = np.asarray(draft_len, dtype=float)
    slots = np.asarray(context_tokens, dtype=float) + 1.0 + draft
    tp = deployment.attention_tp
    per_sequence = kv_bytes(target, deployment.kv_dtype, slots, tp=tp, pp=deployment.pp)
    states = 1.0 if drafter is None else 2.0 + draft
    per_sequence = per_sequence + state_bytes_per_sequence(target, tp=tp) / deployment.pp * states
    weights = weight_bytes(target, tp=deployment.tp, ep=deployment.ep, pp=deployment.pp, attention_tp=tp)
    extra = 0.0
    if drafter is not None and drafter.network is not None:
        mine = drafter_deployment(deployment)
        extra = drafter_weight_bytes(drafter, tp=mine.tp, ep=mine.ep, attention_tp=mine.attention_tp)
        # each attention group keeps the drafter's cache of its own sequences, as it keeps the target's
        per_sequence = per_sequence + drafter_kv_bytes(drafter, deployment.kv_dtype, slots, tp=mine.attention_tp)
    usable = usable_bytes(deployment)
    room = np.maximum(usable - weights - extra, 0.0)
    # attention groups hold different sequences; the fullest decides
    groups = deployment.dp_attention
    here = np.ceil(np.asarray(batch, dtype=float) / groups)
    return Memory(
        weights_bytes=weights,
        drafter_bytes=extra,
        cache_bytes=here * per_sequence,
        usable_bytes=usable,
        max_batch=np.floor(room / per_sequence) * groups,
    )


def usable_bytes(deployment: Deployment) -> float:
    """Bytes of one GPU for weights, drafter and caches."""
    path = deployment.path
    planned = deployment.gpu.hardware.memory_bytes * path.constant("memory_fraction")
    return max(planned - path.constant("memory_reserve_bytes"), 0.0)
