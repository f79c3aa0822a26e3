"""What can be measured: each case declares its axes, its FLOP and its bytes; rates are derived from them.

Work is counted as the model counts it: every operand moves once, no tile padding, masked keys do nothing. What a
kernel does beyond that is what the measurement is to show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from specplan.microbench.measurements import Op, point_key
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT

MEASURED_DTYPES = ("fp32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One piece of work at one shape. `shape` and `dtypes` are those of the measurement file."""

    op: Op
    shape: Mapping[str, int]
    dtypes: Mapping[str, str]
    flop: float
    bytes: float
    options: Mapping[str, int | str] = field(default_factory=dict)      # asked of the kernel: page_tokens, block_m
    cold: bool = True       # False: one buffer set, so that the last-level cache keeps what fits

    def key(self, kernel: str) -> str:
        """Name of the point that this case and a kernel make."""
        return point_key(self.op, kernel, self.shape, self.dtypes, self.options, cold=self.cold)


def gemm(*, rows: int, n: int, k: int, dtype: str, op: Op = "gemm") -> Case:
    """M x N x K product: weights once, activations in, results out.

    >>> gemm(rows=8, n=64, k=32, dtype="fp32").flop
    32768.0
    """
    width = BYTES_PER_WEIGHT[dtype]
    out = 2.0 if width < 2 else width
    return Case(op=op, shape={"rows": rows, "n": n, "k": k}, dtypes={"weight": dtype}, flop=2.0 * rows * n * k,
                bytes=n * k * width + rows * k * width + rows * n * out)


def attention(
    *, batch: int, context_tokens: int, query_len: int, query_heads: int, kv_heads: int, head_dim: int,
    query: str, kv: str, page_tokens: int = 0, block_m: int | None = None, cold: bool = True,
) -> Case:
    """Verify attention of q tokens over a cache of S tokens and themselves: K and V once, Q in, O out."""
    shape = {"batch": batch, "context_tokens": context_tokens, "query_len": query_len, "query_heads": query_heads,
             "kv_heads": kv_heads, "head_dim": head_dim}
    keys = context_tokens + query_len
    moved = 2 * batch * keys * kv_heads * head_dim * BYTES_PER_WEIGHT[kv]
    moved += 2 * batch * query_len * query_heads * head_dim * BYTES_PER_WEIGHT[query]
    return Case(op="attention", shape=shape, dtypes={"query": query, "kv": kv},
                flop=4.0 * batch * query_heads * head_dim * _pairs(context_tokens, query_len), bytes=moved,
                options=_asked(page_tokens=page_tokens, block_m=block_m), cold=cold)


def mla(
    *, batch: int, context_tokens: int, query_len: int, heads: int, latent_width: int = 576, value_width: int = 512,
    query: str, kv: str,
) -> Case:
    """Absorbed MLA: all heads walk one latent; its first `value_width` columns are the values."""
    shape = {"batch": batch, "context_tokens": context_tokens, "query_len": query_len, "heads": heads,
             "latent_width": latent_width, "value_width": value_width}
    moved = batch * (context_tokens + query_len) * latent_width * BYTES_PER_WEIGHT[kv]
    moved += batch * query_len * heads * (latent_width + value_width) * BYTES_PER_WEIGHT[query]
    return Case(op="mla", shape=shape, dtypes={"query": query, "kv": kv},
                flop=2.0 * batch * heads * (latent_width + value_width) * _pairs(context_tokens, query_len),
                bytes=moved)


def moe(*, tokens: int, hidden: int, intermediate: int, experts: int, top_k: int, matrices: int, dtype: str) -> Case:
    """Grouped product of the routed experts under uniform routing; weights of the expected distinct experts once."""
    shape = {"tokens": tokens, "hidden": hidden, "intermediate": intermediate, "experts": experts, "top_k": top_k,
             "matrices": matrices}
    distinct = experts * (1.0 - (1.0 - top_k / experts) ** tokens)
    matrix = hidden * intermediate
    return Case(op="moe", shape=shape, dtypes={"weight": dtype}, flop=2.0 * tokens * top_k * matrices * matrix,
                bytes=distinct * matrices * matrix * BYTES_PER_WEIGHT[dtype] + 4.0 * tokens * hidden)


def copy(*, moved_bytes: int) -> Case:
    """Device copy: half of the bytes are read, half written."""
    return Case(op="copy", shape={"moved_bytes": moved_bytes}, dtypes={}, flop=0.0, bytes=float(moved_bytes))


def launch() -> Case:
    """The smallest kernel: what a call costs that does nothing."""
    return Case(op="launch", shape={}, dtypes={}, flop=0.0, bytes=8.0)


def allreduce(*, message_bytes: int, gpus: int, dtype: str) -> Case:
    """Sum of one message per rank; bytes are those that a ring sends per rank."""
    return Case(op="allreduce", shape={"message_bytes": message_bytes, "gpus": gpus}, dtypes={"message": dtype},
                flop=0.0, bytes=2.0 * message_bytes * (gpus - 1) / gpus)


def draft_step(
    *, batch: int, context_tokens: int, layers: int, hidden: int, intermediate: int, query_heads: int, kv_heads: int,
    head_dim: int, vocab: int, dtype: str,
) -> Case:
    """One serial pass of a small drafter: its layers and its head, one token per sequence."""
    shape = {"batch": batch, "context_tokens": context_tokens, "layers": layers, "hidden": hidden,
             "intermediate": intermediate, "query_heads": query_heads, "kv_heads": kv_heads, "head_dim": head_dim,
             "vocab": vocab}
    heads = head_dim * (2 * query_heads + 2 * kv_heads)
    weights = layers * (hidden * heads + 3 * hidden * intermediate) + hidden * vocab
    walk = attention(batch=batch, context_tokens=context_tokens, query_len=1, query_heads=query_heads,
                     kv_heads=kv_heads, head_dim=head_dim, query=dtype, kv=dtype)
    return Case(op="draft_step", shape=shape, dtypes={"weight": dtype},
                flop=2.0 * batch * weights + layers * walk.flop,
                bytes=weights * BYTES_PER_WEIGHT[dtype] + layers * walk.bytes)


def warm(case: Case) -> Case:
    """The same case with its operands left in the last-level cache."""
    return dataclasses.replace(case, cold=False)


def _pairs(context_tokens: int, query_len: int) -> float:
    """Query-key pairs of one sequence and head: S + 1, S + 2, ..., S + q keys."""
    return query_len * context_tokens + query_len * (query_len + 1) / 2


def _asked(**options: int | None) -> dict[str, int | str]:
    return {name: value for name, value in options.items() if value}
