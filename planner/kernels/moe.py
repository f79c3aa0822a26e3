"""E4: routed experts. The weights read grow with the distinct experts that T tokens hit."""

from __future__ import annotations

import math

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div, pnorm
from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

ROW_TILE = 16       # rows of one expert are padded to this (beats 64 and 128 on the five slices tried)
WIDTH_TILE = 128    # intermediate width per GPU is padded to this
OVERLAP = 2.5

# Skew parameter a by routing. A negative a spreads tokens more evenly than chance; -1 is perfectly even.
# balanced, power_law_1.01: how the measured tables route; the latter fitted to the H200 row of kernels.md 2.2.
ROUTING: dict[str, float] = {"balanced": -1.0, "uniform": math.inf, "power_law_1.01": 2.0}


@fact
class MoeKernel:
    """Numbers of one expert block: routing, both grouped products and the permutations, without all-to-all."""

    id: str
    version: str
    weight_dtype: str
    launch_s: float
    stream_bytes_per_s: float
    mma_flop_per_s: float
    token_s_per_byte: float         # per byte of 4 T hidden, all tokens of the group: routing, output
    evidence: Evidence
    row_s_per_byte: float = 0.0     # per byte of 4 rows hidden, the tokens routed to this GPU: gather, permutation
    expert_s: float = 0.0           # per expert hit
    local_expert_s: float = 0.0     # per expert that this GPU holds, hit or not
    k_chain_s: float = 0.0          # per 1024 of hidden + intermediate
    one_token: float = 1.0          # tables only: share of the priced time that one token takes ...
    fade_tokens: float = 1.0        # ... and over how many tokens that fades by 1/e
    notes: tuple[Note, ...] = ()


def distinct_experts(tokens: ArrayLike, *, experts: ArrayLike, top_k: ArrayLike, skew: float) -> Array:
    """Experts hit by `tokens` tokens: A(T) = k + (E - k)(1 - (1 + u/a)^-a) with u = (T - 1) k / E.

    a = `skew` is the shape of a gamma law of expert popularity: infinite is uniform random routing, small is
    skewed, -1 perfectly even. A(1) = k, and A never exceeds E or T k.
    """
    t = np.asarray(tokens, dtype=float)
    load = np.maximum(t - 1.0, 0.0) * top_k / experts
    if math.isinf(skew):
        missed = np.exp(-load)
    elif skew > 0:
        missed = (1.0 + load / skew) ** -skew
    else:
        missed = np.maximum(1.0 + load / skew, 0.0) ** -skew
    hit = top_k + (experts - top_k) * (1.0 - missed)
    return np.asarray(np.minimum(hit, np.minimum(experts, np.maximum(t, 1.0) * top_k)))


def moe_time(
    kernel: MoeKernel,
    *,
    tokens: ArrayLike,
    hidden: ArrayLike,
    intermediate: ArrayLike,
    experts: ArrayLike,
    top_k: ArrayLike,
    matrices: int = 3,
    tp: ArrayLike = 1,
    ep: ArrayLike = 1,
    skew: float,
    weight_bytes: float,
    l2_warm: bool = False,
) -> KernelTime:
    """Seconds of one routed-expert block on one GPU; `tokens` are all tokens of the expert-parallel group.

    A = distinct experts on this GPU, rows = T k / ep, padded = A * 16 * ceil(rows / A / 16)
    t = launch + 4 h (token T + row rows) + pnorm((A W + 4 T h)/stream, 2 padded mats h i/mma)
        + expert A + local_expert E/ep + k_chain (h + i)/1024

    and, `l2_warm`, times 1 - (1 - one_token) exp(-(T - 1)/fade_tokens): the tables send the same tokens to the same few
    experts in every call. That is not all L2 (large experts show it too), but published servers show none of it: with
    it, all mixtures on SGLang would gain too little. So a plan leaves it out.
    """
    t = np.asarray(tokens, dtype=float)
    width = ceil_div(intermediate / np.asarray(tp, dtype=float), WIDTH_TILE) * WIDTH_TILE
    weights = matrices * hidden * width         # of one expert
    hit = distinct_experts(t, experts=experts, top_k=top_k, skew=skew) / ep
    rows = t * top_k / ep
    padded = hit * ROW_TILE * ceil_div(rows / hit, ROW_TILE)
    activations = 4.0 * t * hidden
    memory = (hit * weights * weight_bytes + activations) / kernel.stream_bytes_per_s
    tensor = 2.0 * padded * weights / kernel.mma_flop_per_s
    fixed = (kernel.launch_s + kernel.token_s_per_byte * activations + kernel.row_s_per_byte * 4.0 * rows * hidden
             + kernel.expert_s * hit + kernel.local_expert_s * experts / ep
             + kernel.k_chain_s * (hidden + width) / 1024)
    few = (1.0 - kernel.one_token) * np.exp(-np.maximum(t - 1.0, 0.0) / kernel.fade_tokens)
    share = 1.0 - l2_warm * few
    return KernelTime(
        time_s=share * (fixed + pnorm(memory, tensor, OVERLAP)),
        parts={"memory": share * memory, "tensor": share * tensor, "launch": share * fixed},
    )
