"""E2: softmax attention of q query tokens per sequence over a KV cache.

Every form adds a launch, bytes over a rate, and the time that the grid of CTAs needs to walk its KV blocks; padded
math and exponentials are a maximum over that sum. Values and held-out errors: kernel_fits.md, section 2. No public
table has q > 1: M = G q packed rows stand for it, as G rows were measured at q = 1.
"""

from __future__ import annotations

import math

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div, pnorm
from specplan.planner.kernels.attention_kernel import AttentionKernel, Tiling, kv_splits, tiling, walk_tile_rows
from specplan.planner.kernels.timing import Bound, KernelTime, range_notes
from specplan.planner.messages import Note

__all__ = ["AttentionKernel", "attention_notes", "attention_time", "math_knee_rows", "tile_edges", "tile_rows"]

BLOCK_TOKENS = 128      # the walk counts blocks of this many cached tokens
QUERY_BYTES = 2.0       # queries and outputs are 16 bit


def attention_time(
    kernel: AttentionKernel,
    *,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    query_len: ArrayLike,
    query_heads: ArrayLike,
    kv_heads: ArrayLike,
    value_head_dim: int | None = None,
    l2_warm: bool = False,
) -> KernelTime:
    """Seconds of one layer's attention; heads are those of one GPU.

    walk: t = launch + bytes/stream + waves (blocks block + row cost) + [splits > 1] (combine + CTAs split + partials)
    ramp: t = launch + bytes/stream + ramp c(M) KV/(KV + half)

    Bytes are the KV cache (once, or as often as the kernel re-reads it), queries and outputs. The result is never
    below the math of the padded rows, nor below their exponentials. `l2_warm` is for comparison with tables.
    """
    b = np.asarray(batch, dtype=float)
    s = np.asarray(context_tokens, dtype=float)
    q = np.asarray(query_len, dtype=float)
    value_width = value_head_dim or kernel.head_dim
    width = kernel.head_dim + value_width
    work = tiling(kernel, q, query_heads / kv_heads)

    kv = b * s * (kv_heads * width * kernel.kv_bytes)
    moved = kv * work.reread + b * q * (query_heads * width * QUERY_BYTES)
    scores = b * (kv_heads * work.math_rows) * s
    tensor = scores * (2.0 * width / kernel.math_flop_per_s)

    if kernel.form == "ramp":
        memory = moved / _warm(kernel, kernel.stream_bytes_per_s, kv, l2_warm)
        steps = _ramp_steps(q, query_heads / kv_heads)
        total = kernel.launch_s + memory + kernel.ramp_s * steps * kv / (kv + kernel.ramp_half_bytes)
    else:
        partial_bytes = b * q * (query_heads * (value_width + 2) * 8.0)     # fp32, written and read back
        total, memory = _walk(kernel, work, b, s, q, kv_heads, kv, moved, partial_bytes, l2_warm)
    # what is neither bytes nor start-up is time inside the SMs: walking blocks and rows, conversion, math
    walked = np.maximum(total - memory - kernel.launch_s, tensor)
    parts: dict[Bound, Array] = {"memory": memory, "tensor": walked, "launch": np.asarray(kernel.launch_s)}
    if math.isfinite(kernel.exp_per_s):
        parts["exp"] = scores / kernel.exp_per_s
        total = np.maximum(total, parts["exp"])
    return KernelTime(time_s=np.maximum(total, tensor), parts=parts)


def _walk(
    kernel: AttentionKernel, work: Tiling, b: Array, s: Array, q: Array, kv_heads: ArrayLike, kv: Array, moved: Array,
    partial_bytes: Array, l2_warm: bool,
) -> tuple[Array, Array]:
    """Total time and memory part of the walk forms."""
    tasks = b * (kv_heads * work.ctas)
    splits = kv_splits(kernel, tasks, s, q)
    ctas, slots = tasks * splits, float(kernel.sms * kernel.ctas_per_sm)
    stream: ArrayLike = kernel.stream_bytes_per_s
    cta_rate: ArrayLike = kernel.cta_bytes_per_s
    if not kernel.family.split.verify and math.isfinite(kernel.unsplit_cta_bytes_per_s):
        cta_rate = np.where(q > 1, np.minimum(cta_rate, kernel.unsplit_cta_bytes_per_s), cta_rate)
    if np.any(np.isfinite(cta_rate)):
        readers = b * (kv_heads * work.reread) * splits     # row tiles of one head read the same cache
        stream = np.minimum(stream, np.minimum(readers, slots) * cta_rate)
    stream = _warm(kernel, stream, kv, l2_warm)
    memory = moved / stream
    walk = ceil_div(ctas, slots) * (
        ceil_div(ceil_div(s, BLOCK_TOKENS), splits) * _block_s(kernel, work) + _row_cost_s(kernel, work)
    )
    split = splits > 1
    partials = np.where(split, partial_bytes * splits / stream, 0.0)
    joined = partials + np.where(split, kernel.combine_s + kernel.split_s * splits * work.ctas, 0.0)
    if kernel.form == "walk_tile":
        return kernel.launch_s + pnorm(memory, walk, 4.0) + joined, memory
    return kernel.launch_s + memory + walk + joined, memory


def _block_s(kernel: AttentionKernel, work: Tiling) -> ArrayLike:
    """Time of one KV block; FlashInfer's larger tile costs in proportion to its rows (measured 4 for 64 to 16)."""
    if kernel.form == "walk_xqa":
        return kernel.block_s * xqa_steps(work.walk_rows)
    if kernel.form == "walk_tile":
        return kernel.block_s * walk_tile_rows(kernel, work.walk_rows) / kernel.tile_rows
    return kernel.block_s


def _row_cost_s(kernel: AttentionKernel, work: Tiling) -> ArrayLike:
    if kernel.form == "walk_gen":
        return kernel.row_s * work.walk_rows
    if kernel.form == "walk_fa3":
        return kernel.wave_s * ceil_div(work.walk_rows, kernel.row_tile)
    if kernel.form == "walk_xqa":
        return kernel.wave_s * xqa_steps(work.walk_rows)
    return kernel.wave_s


def xqa_steps(rows: Array) -> Array:
    """Relative cost of an XQA tile by the rows in it: 1, 1.25, 2 to 8, 16 and more rows."""
    return np.where(rows <= 8, 1.0, np.where(rows <= 16, 1.25, 2.0))


def _ramp_steps(q: Array, group: ArrayLike) -> Array:
    """XQA as a ramp: beyond 32 rows, whole-token CTAs of 64 rows at 2 each (a prior)."""
    rows = group * q
    ctas = ceil_div(q, np.maximum(np.floor(64 / np.asarray(group)), 1.0)) * ceil_div(group, 64)
    return np.where(rows <= 32, xqa_steps(rows), 2.0 * ctas)


def _warm(kernel: AttentionKernel, stream: ArrayLike, kv: Array, l2_warm: bool) -> ArrayLike:
    return stream * np.where(kv <= kernel.l2_bytes, kernel.l2_gain, 1.0) if l2_warm else stream


# ---- what the guidelines and `explain` ask a kernel ----------------------------------------------------------


def tile_rows(kernel: AttentionKernel) -> int:
    """Rows of the kernel's largest tile: the T of the guideline D = T/G - 1."""
    return kernel.family.tiles(kernel.head_dim)[-1]


def tile_edges(kernel: AttentionKernel, *, group_size: float, max_query_len: int) -> tuple[int, ...]:
    """Query lengths up to the longest that start another tile, or a larger one; the one before fills its tile."""
    q = np.arange(1.0, max_query_len + 1)
    *smaller, largest = kernel.family.tiles(kernel.head_dim)
    rows = group_size * q
    if kernel.family.packing == "none":
        filled = ceil_div(q, largest)
    elif kernel.family.packing == "rows":
        filled = ceil_div(rows, largest)
    elif group_size <= largest:
        filled = ceil_div(q, math.floor(largest / group_size))
    else:
        filled = q
    if kernel.family.packing != "none":
        filled = filled + sum((rows > tile).astype(float) for tile in smaller)
    return tuple(int(length) for length in q[1:][np.diff(filled) > 0])


def math_knee_rows(kernel: AttentionKernel) -> float:
    """Rows per KV head at which the math takes as long as reading the KV cache: beyond, time grows with D."""
    return kernel.kv_bytes * kernel.math_flop_per_s / (2.0 * kernel.stream_bytes_per_s)


def attention_notes(kernel: AttentionKernel, *, group_size: float, max_query_len: int) -> tuple[Note, ...]:
    """Warnings for this group size and query lengths up to the longest: cliffs, re-read KV, rows that no fit saw."""
    engine = kernel.id.partition("-")[0]
    notes = [
        Note(f"kernel-cliff-{cliff.name}", f"{kernel.id}: {cliff.message}")
        for cliff in kernel.family.cliffs if cliff.reached(engine, group_size, max_query_len)
    ]
    if max_query_len > 1 and kernel.family.reread != "once":
        often = "query head at q > 1" if kernel.family.reread == "per_head" else "tile of query rows"
        notes.append(Note("kv-reread", f"{kernel.id} does not share one read of the KV cache among all rows, but reads "
                                       f"it once per {often}: verify attention costs more than a decode step's"))
    rows = (group_size, group_size * max_query_len)
    return (*notes, *range_notes(kernel.id, kernel.evidence, rows=rows))
