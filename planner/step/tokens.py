"""What one forward pass works on: sequences, tokens per sequence, cached context, GEMM rows."""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.fact import fact


@fact
class Tokens:
    """What a pass works on; arrays broadcast over (D, B, S).

    `rows` are the GEMM rows: B*q, or more where a CUDA graph is padded.
    """

    batch: Array
    query_len: Array
    context_tokens: Array
    rows: Array


def tokens(batch: ArrayLike, query_len: ArrayLike, context_tokens: ArrayLike, rows: ArrayLike | None = None) -> Tokens:
    """Tokens of a pass from scalars or arrays."""
    batch_, query = np.asarray(batch, dtype=float), np.asarray(query_len, dtype=float)
    return Tokens(
        batch=batch_,
        query_len=query,
        context_tokens=np.asarray(context_tokens, dtype=float),
        rows=np.asarray(batch_ * query if rows is None else rows, dtype=float),
    )
