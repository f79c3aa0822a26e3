"""E3: sparse attention. Each query token fetches its own top-k tokens, so work steps in B * q, not in G * q."""

from __future__ import annotations

from typing import Literal

import numpy as np

from specplan.planner.arrays import ArrayLike, ceil_div
from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

HEADS_PER_TOKEN = 64    # the measured kernel works on 64 heads of one token at a time
MEASURED_TOP_K = 2048


@fact
class SparseKernel:
    """Numbers of one sparse-attention kernel: `wave` (DSA), `decode` or `affine` (DeepSeek-V4)."""

    id: str
    version: str
    form: Literal["wave", "decode", "affine"]
    launch_s: float
    evidence: Evidence
    width_tokens: float = 1.0               # query tokens that one wave of SMs takes
    wave_s: float = 0.0
    seq_s: float = 0.0
    token_s: float = 0.0
    seq_s_per_context_token: float = 0.0
    token_s_per_context_token: float = 0.0
    notes: tuple[Note, ...] = ()


def sparse_time(
    kernel: SparseKernel,
    *,
    batch: ArrayLike,
    query_len: ArrayLike,
    context_tokens: ArrayLike,
    heads: ArrayLike,
    top_k: ArrayLike,
) -> KernelTime:
    """Seconds of one sparse attention layer; `heads` are those of one GPU.

    wave:   t = launch + wave ceil(B q / width) * ceil(heads / 64) * top_k / 2048, also where the context is shorter
    decode: t = launch + ceil(heads / 64) (wave ceil(B q / width) + token' S B q)
    affine: t = launch + seq B + seq' B S + ceil(heads / 64) (token + token' S) B q

    Measured at 64 heads and top-k 2048; proportional work elsewhere is an assumption.
    """
    b = np.asarray(batch, dtype=float)
    tokens = b * np.asarray(query_len, dtype=float)
    launch = np.asarray(kernel.launch_s)
    groups = ceil_div(heads, HEADS_PER_TOKEN)
    if kernel.form == "affine":
        by_token = groups * kernel.token_s_per_context_token * tokens
        fetched = (kernel.seq_s_per_context_token * b + by_token) * context_tokens
        fixed = launch + kernel.seq_s * b + groups * kernel.token_s * tokens
        return KernelTime(time_s=fixed + fetched, parts={"memory": fetched, "launch": fixed})
    waves = groups * kernel.wave_s * ceil_div(tokens, kernel.width_tokens)
    if kernel.form == "decode":
        fetched = waves + groups * kernel.token_s_per_context_token * tokens * context_tokens
    else:   # a context shorter than top_k is padded: the tables show the same time from 4 tokens to 200,000
        fetched = waves * np.asarray(top_k, dtype=float) / MEASURED_TOP_K
    return KernelTime(time_s=launch + fetched, parts={"memory": fetched, "launch": launch})
