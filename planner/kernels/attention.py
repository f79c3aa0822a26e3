"""E2: softmax attention of q query tokens per sequence over a KV cache that is read once, tile by tile.

All forms add launch, bytes over a rate, and the time that the grid of CTAs needs to walk its KV blocks; padded
math and exp time are a maximum over that sum. Values and held-out errors: kernel_fits.md, section 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div, pnorm
from specplan.planner.kernels.families import AttentionFamily
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

BLOCK_TOKENS = 128      # the walk counts blocks of this many cached tokens
MATH_TILE = 64          # rows are padded to this in the math once they exceed it
FULL_GRID = 0.8         # FlashAttention splits nothing once this share of the SMs has work ...
FEW_BLOCKS = 4          # ... or where the cache is this short
GOOD_FILL = 0.85        # and takes the smallest split within this share of the best wave fill

Form = Literal["walk_fa3", "walk_fa2", "walk_gen", "walk_tile", "ramp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """Numbers of one attention kernel on one GPU for one head width and KV format."""

    id: str
    version: str
    family: AttentionFamily
    form: Form
    head_dim: int
    kv_dtype: str
    kv_bytes: float                         # per cached element
    sms: int
    launch_s: float
    stream_bytes_per_s: float
    math_flop_per_s: float
    evidence: Evidence
    exp_per_s: float = math.inf
    cta_bytes_per_s: float = math.inf       # what one CTA can stream
    ctas_per_sm: int = 1
    tile_rows: int = 128                    # rows of one CTA
    row_tile: int = 64                      # rows after which a walk costs one more `wave_s`
    block_s: float = 0.0                    # per KV block along one split
    wave_s: float = 0.0                     # per wave (and row tile)
    row_s: float = 0.0                      # per row and wave
    combine_s: float = 0.0                  # once, where the KV is split
    split_cap: int = 1
    kv_block_tokens: int = BLOCK_TOKENS     # serves the split rule alone
    ramp_s: float = 0.0
    ramp_half_bytes: float = 0.0
    l2_bytes: float = 0.0
    l2_gain: float = 1.0                    # rate of KV that is still in L2; tables only
    notes: tuple[Note, ...] = ()


def attention_time(
    kernel: AttentionKernel,
    *,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    query_len: ArrayLike,
    query_heads: int,
    kv_heads: int,
    value_head_dim: int | None = None,
    l2_warm: bool = False,
) -> KernelTime:
    """Seconds of one layer's attention; heads are those of one GPU.

    walk: t = launch + bytes reread / stream + waves (blocks block + row cost) + [s > 1] (combine + partials)
    ramp: t = launch + bytes / stream + ramp c(M) KV / (KV + half)

    with M = G q rows per KV head. The result is never below the padded math once M > 64, nor below the exp time.
    """
    b = np.asarray(batch, dtype=float)
    s = np.asarray(context_tokens, dtype=float)
    q = np.asarray(query_len, dtype=float)
    group = query_heads / kv_heads
    value_width = value_head_dim or kernel.head_dim
    width = kernel.head_dim + value_width
    rows = group * q
    work = _tiles(kernel, q, group)

    kv = b * s * (kv_heads * width * kernel.kv_bytes)
    moved = kv * work.reread + b * q * (query_heads * width * 2.0)
    padded = np.where(work.rows <= MATH_TILE, work.rows, ceil_div(work.rows, MATH_TILE) * MATH_TILE) * work.copies
    tensor = 2.0 * kv_heads * width / kernel.math_flop_per_s * (b * padded) * s
    exp = kv_heads / kernel.exp_per_s * (b * padded) * s

    stream: ArrayLike = kernel.stream_bytes_per_s
    if kernel.form == "ramp":
        stream = _warm(kernel, stream, kv, l2_warm)
        memory = moved / stream
        walk = kernel.ramp_s * _ramp_steps(work.rows, q, group) * kv / (kv + kernel.ramp_half_bytes)
        total = kernel.launch_s + memory + walk
    else:
        tasks = b * (kv_heads * work.tasks)
        splits = _splits(kernel, tasks, s, q)
        ctas = tasks * splits
        slots = kernel.sms * kernel.ctas_per_sm
        if math.isfinite(kernel.cta_bytes_per_s):
            stream = np.minimum(stream, np.minimum(ctas, slots) * kernel.cta_bytes_per_s)
        stream = _warm(kernel, stream, kv, l2_warm)
        memory = moved / stream
        blocks = ceil_div(ceil_div(s, BLOCK_TOKENS), splits)
        walk = ceil_div(ctas, slots) * (blocks * (kernel.block_s * work.block_factor) + _row_cost(kernel, work.rows))
        partials = np.where(splits > 1, b * rows * (kv_heads * (value_width + 2) * 8.0) * splits / stream, 0.0)
        combine = np.where(splits > 1, kernel.combine_s, 0.0)
        if kernel.form == "walk_tile":
            total = kernel.launch_s + pnorm(memory, walk, 4.0) + partials
        else:
            total = kernel.launch_s + memory + walk + combine + partials
    time = np.maximum(total, np.maximum(tensor, exp))
    parts = {"memory": memory, "tensor": tensor, "exp": exp, "launch": np.maximum(total - memory, 0.0)}
    return KernelTime(time_s=time, parts={name: part for name, part in parts.items() if np.any(part)})  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """How the query rows of one KV head become CTAs; each is an array over D."""

    tasks: Array            # CTAs per KV head and split
    rows: Array             # rows that count in the row cost of one CTA walk
    copies: ArrayLike       # such row groups per KV head, for the math
    reread: Array           # times the KV is fetched
    block_factor: ArrayLike


def _tiles(kernel: AttentionKernel, q: Array, group: float) -> _Tiles:
    rows = group * q
    one = np.ones_like(q)
    if kernel.family.packing == "none":
        # one CTA per query head and tile of query tokens, except where a single token lets the heads be rows
        packed = (q <= 1) & kernel.family.packs_single_token
        tiles = ceil_div(q, kernel.tile_rows)
        reread = np.where(packed, one, group if kernel.family.reread == "per_head" else one)
        return _Tiles(np.where(packed, ceil_div(rows, kernel.tile_rows), group * tiles),
                      np.where(packed, rows, np.minimum(q, kernel.tile_rows)),
                      np.where(packed, one, group * np.maximum(q / kernel.tile_rows, 1.0)), reread, one)
    if kernel.form == "walk_gen":
        return _Tiles(one, rows, one, _reread(kernel, q, group), one)
    if kernel.form == "walk_tile":
        wide = rows > kernel.tile_rows
        tile = np.where(wide, 64.0, float(kernel.tile_rows))
        return _Tiles(ceil_div(rows, tile), rows, one, one, np.where(wide, 2.0, 1.0))
    return _Tiles(tiles_per_kv_head(kernel, q, group), rows, one, _reread(kernel, q, group), one)


def _reread(kernel: AttentionKernel, q: Array, group: float) -> Array:
    return tiles_per_kv_head(kernel, q, group) if kernel.family.reread == "per_tile" else np.ones_like(q)


def tiles_per_kv_head(kernel: AttentionKernel, query_len: ArrayLike, group: float) -> Array:
    """Tiles that the packed rows of one KV head fill: rows packed freely, or whole tokens only."""
    q = np.asarray(query_len, dtype=float)
    if kernel.family.packing == "none":
        return group * ceil_div(q, kernel.tile_rows)
    if kernel.family.packing == "whole_tokens":
        if group > kernel.tile_rows:
            return q if kernel.family.grows_with_group else q * math.ceil(group / kernel.tile_rows)
        return ceil_div(q, math.floor(kernel.tile_rows / group))
    return ceil_div(group * q, kernel.tile_rows)


def _row_cost(kernel: AttentionKernel, rows: Array) -> Array:
    if kernel.form == "walk_gen":
        return kernel.row_s * rows
    if kernel.form == "walk_fa3":
        return kernel.wave_s * ceil_div(np.minimum(rows, kernel.tile_rows), kernel.row_tile)
    return np.full_like(rows, kernel.wave_s)


def _ramp_steps(rows: Array, q: Array, group: float) -> Array:
    """XQA: 1, 1.25, 2 to 8, 16, 32 rows; beyond, whole-token CTAs of 64 rows at 2 each (a prior)."""
    tokens = max(math.floor(64 / group), 1)
    ctas = ceil_div(q, tokens) * math.ceil(group / 64)
    return np.where(rows <= 8, 1.0, np.where(rows <= 16, 1.25, np.where(rows <= 32, 2.0, 2.0 * ctas)))


def _warm(kernel: AttentionKernel, stream: ArrayLike, kv: Array, l2_warm: bool) -> ArrayLike:
    if not l2_warm:
        return stream
    return stream * np.where(kv <= kernel.l2_bytes, kernel.l2_gain, 1.0)


def _splits(kernel: AttentionKernel, tasks: Array, context: Array, q: Array) -> Array:
    """KV splits by FlashAttention's rule; 1 where the kernel does not split (trtllm-gen's own rule is closed)."""
    if kernel.form == "walk_gen" or kernel.split_cap <= 1:
        return np.ones_like(tasks)
    blocks = ceil_div(context, kernel.kv_block_tokens)
    slots = kernel.sms * kernel.ctas_per_sm
    table = _split_table(slots, kernel.split_cap)
    busy = np.minimum(np.rint(tasks), table.shape[0] - 1).astype(np.intp)
    allowed = np.where(blocks <= FEW_BLOCKS, 1.0, np.minimum(blocks, table.shape[1] - 1)).astype(np.intp)
    splits = table[busy, allowed]
    if not kernel.family.splits_verify:
        splits = np.where(q > 1, 1.0, splits)
    return splits


@functools.lru_cache(maxsize=32)
def _split_table(slots: int, cap: int) -> Array:
    """Split for (tasks, splits allowed), the only two numbers that the rule looks at. Row 0 is unused.

    The last row stands for every grid that is full without splitting.
    """
    full = math.ceil(FULL_GRID * slots)
    cap = min(cap, slots)
    tasks = np.arange(full + 1, dtype=float)[:, None]
    waves = tasks * np.arange(1, cap + 1) / slots
    fill = np.divide(waves, np.ceil(waves), out=np.zeros_like(waves), where=waves > 0)
    best = np.maximum.accumulate(fill, axis=1)
    table = np.ones((full + 1, cap + 1))
    for allowed in range(1, cap + 1):
        good = fill[:, :allowed] >= GOOD_FILL * best[:, allowed - 1 : allowed]
        table[:, allowed] = np.argmax(good, axis=1) + 1
    table[full] = 1.0
    table[0] = 1.0
    return table


# ---- what the guidelines and `explain` ask a kernel ----------------------------------------------------------


def tile_rows(kernel: AttentionKernel) -> int:
    """Rows of the kernel's largest tile: the T of the guideline D = T/G - 1."""
    return kernel.family.tiles(kernel.head_dim)[-1]


def tile_edges(kernel: AttentionKernel, *, group_size: float, max_query_len: int) -> tuple[int, ...]:
    """Query lengths at which a new tile starts, up to `max_query_len`; the length before each fills its tiles."""
    lengths = np.arange(1, max_query_len + 1, dtype=float)
    filled = _filled_tiles(kernel, lengths, group_size)
    return tuple(int(q) for q in lengths[1:][np.diff(filled) > 0])


def _filled_tiles(kernel: AttentionKernel, q: Array, group: float) -> Array:
    """A count that rises by at least one whenever the kernel starts another tile, or takes a larger one."""
    tiles: Sequence[int] = kernel.family.tiles(kernel.head_dim)
    largest = tiles[-1]
    if kernel.family.packing == "none":
        return ceil_div(q, largest)
    rows = group * q
    smaller = np.sum([rows > tile for tile in tiles[:-1]], axis=0) if len(tiles) > 1 else np.zeros_like(q)
    if kernel.family.packing == "whole_tokens":
        many = ceil_div(q, math.floor(largest / group)) if group <= largest else q * (1 if kernel.family.grows_with_group else math.ceil(group / largest))
    else:
        many = ceil_div(rows, largest)
    return np.asarray(smaller + many, dtype=float)


def math_knee_rows(kernel: AttentionKernel, *, value_head_dim: int | None = None) -> float:
    """Rows per KV head at which math takes as long as reading the KV: beyond, time grows with D."""
    del value_head_dim      # both math and bytes are proportional to the width
    return kernel.kv_bytes * kernel.math_flop_per_s / (2.0 * kernel.stream_bytes_per_s)


def attention_notes(kernel: AttentionKernel, *, group_size: float, max_query_len: int) -> tuple[Note, ...]:
    """Warnings for this shape: cliffs of the kernel, re-read KV, rows beyond what the fit saw."""
    notes = list(kernel.notes)
    for cliff in kernel.family.cliffs:
        if cliff.holds(group_size, max_query_len, kernel.evidence.level):
            notes.append(Note(f"kernel-cliff-{cliff.name}", f"{kernel.id}: {cliff.message}"))
    if max_query_len > 1 and kernel.family.reread != "once":
        times = "once per query head" if kernel.family.reread == "per_head" else "once per tile of query rows"
        notes.append(Note("kv-reread", f"{kernel.id} does not pack the group at q > 1: it reads the KV cache {times}, "
                                       "so attention grows with the draft length"))
    limit = kernel.evidence.fitted_range.get("rows", (1.0, 128.0))[1]
    if group_size * max_query_len > limit:
        notes.append(Note("attention-extrapolated", f"{kernel.id}: {group_size * max_query_len:.0f} rows per KV head; "
                                                    f"measured up to {limit:.0f}"))
    return tuple(notes)


