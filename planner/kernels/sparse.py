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
    """Numbers of one sparse-attention kernel: `wave` (DSA) or `affine` (DeepSeek-V4 HCA over a piece of a prompt)."""

    id: str
    version: str
    form: Literal["wave", "affine"]
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
    affine: t = launch + seq B + token B q + (seq' B + token' B q) S

    Measured at 64 heads and top-k 2048; proportional work elsewhere is an assumption.
    """
    b = np.asarray(batch, dtype=float)
    tokens = b * np.asarray(query_len, dtype=float)
    launch = np.asarray(kernel.launch_s)
    if kernel.form == "affine":
        fetched = (kernel.seq_s_per_context_token * b + kernel.token_s_per_context_token * tokens) * context_tokens
        fixed = launch + kernel.seq_s * b + kernel.token_s * tokens
        return KernelTime(time_s=fixed + fetched, parts={"memory": fetched, "launch": fixed})
    # a context shorter than top_k is padded: the tables show the same time from 4 tokens to 200,000
    work = np.ceil(heads / HEADS_PER_TOKEN) * np.asarray(top_k, dtype=float) / MEASURED_TOP_K
    fetched = kernel.wave_s * ceil_div(tokens, kernel.width_tokens) * work
    return KernelTime(time_s=launch + fetched, parts={"memory": fetched, "launch": launch})
