"""One attention kernel with its numbers, and the integer side of it: CTAs per KV head, KV splits, padded rows."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div
from specplan.planner.fact import fact
from specplan.planner.kernels.families import AttentionFamily, Form
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Note

FULL_GRID = 0.8         # FlashAttention splits nothing once this share of the CTA slots has work ...
FEW_BLOCKS = 4          # ... or where the cache is this short,
GOOD_FILL = 0.85        # and else takes the smallest split within this share of the best wave fill


@fact
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
    unsplit_cta_bytes_per_s: float = math.inf   # the same at q > 1 where the kernel stops splitting the KV cache
    ctas_per_sm: int = 1
    tile_rows: int = 128                    # rows of one CTA
    row_tile: int = 64                      # rows after which a walk costs one more `wave_s`
    block_s: float = 0.0                    # per KV block along one split
    wave_s: float = 0.0                     # per wave (and row tile)
    row_s: float = 0.0                      # per row and wave
    combine_s: float = 0.0                  # once, where the KV is split ...
    split_s: float = 0.0                    # ... and for each CTA of a KV head that is joined
    split_cap: int = 1
    split_margin: float = 0.0               # > 0: splits chosen at run time, none above this share of an even load
    split_min_blocks: int = 0               # > 0: splits fill the CTA slots and hold at least so many KV blocks
    kv_block_tokens: int = 128              # serves the split rule alone
    ramp_s: float = 0.0
    ramp_half_bytes: float = 0.0
    l2_bytes: float = 0.0
    l2_gain: float = 1.0                    # rate of KV that is still in L2; tables only
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the query rows of one KV head become CTAs; arrays over D."""

    ctas: Array         # per KV head, without splits
    walk_rows: Array    # rows that count in the cost of one CTA's walk
    math_rows: Array    # rows per KV head after padding
    reread: Array       # times the KV cache is fetched


def tiling(kernel: AttentionKernel, query_len: ArrayLike, group: ArrayLike) -> Tiling:
    """CTAs, rows and KV reads for q query tokens of `group` heads each."""
    q = np.asarray(query_len, dtype=float)
    rows, family = group * q, kernel.family
    packed = np.where(rows <= family.math_tile, rows, ceil_div(rows, family.math_tile) * family.math_tile)
    if family.packing != "none":
        ctas = np.ones_like(q) if kernel.form == "walk_gen" else ctas_per_kv_head(kernel, q, group)
        reread = ctas if family.reread == "per_tile" else np.ones_like(q)
        capped = kernel.form in ("walk_fa3", "walk_xqa")
        return Tiling(ctas, np.minimum(rows, kernel.tile_rows) if capped else rows, packed, reread)
    # one CTA per query head and tile of query tokens; a single token may let the heads be the rows
    single = (q <= 1) & family.packs_single_token
    tiles = ceil_div(q, kernel.tile_rows)
    return Tiling(
        ctas=np.where(single, ceil_div(rows, kernel.tile_rows), group * tiles),
        walk_rows=np.where(single, np.minimum(rows, kernel.tile_rows), np.minimum(q, kernel.tile_rows)),
        math_rows=np.where(single, packed, group * tiles * kernel.tile_rows),
        reread=np.where(single | (family.reread == "once"), 1.0, group),
    )


def ctas_per_kv_head(kernel: AttentionKernel, query_len: ArrayLike, group: ArrayLike) -> Array:
    """CTAs that the rows of one KV head fill: rows packed freely, whole tokens, or each head by itself."""
    q = np.asarray(query_len, dtype=float)
    tile = walk_tile_rows(kernel, group * q)
    if kernel.family.packing == "none":
        return group * ceil_div(q, tile)
    if kernel.family.packing == "rows":
        return ceil_div(group * q, tile)
    tokens = np.maximum(np.floor(kernel.tile_rows / np.asarray(group)), 1.0)
    tiles_per_token = 1.0 if kernel.family.tile_grows_with_group else ceil_div(group, kernel.tile_rows)
    return ceil_div(q, tokens) * tiles_per_token


def walk_tile_rows(kernel: AttentionKernel, rows: Array) -> Array:
    """Rows of one CTA: FlashInfer's FA2 template takes tiles of 64 beyond its smallest one."""
    if kernel.form != "walk_tile":
        return np.full_like(rows, kernel.tile_rows)
    return np.where(rows > kernel.tile_rows, 64.0, float(kernel.tile_rows))


def fill_slots(slots: int, tasks: Array, blocks: Array, min_blocks: int) -> Array:
    """Splits that give every CTA slot one CTA of at least `min_blocks` KV blocks; 1 where tasks fill the slots."""
    return np.maximum(np.floor(np.minimum(slots / tasks, blocks / min_blocks)), 1.0)


def kv_splits(kernel: AttentionKernel, tasks: Array, context: Array, query_len: Array) -> Array:
    """KV splits; 1 where the kernel does not split. Three rules: static waves, FA3's at run time, filled slots.

    Static waves: FlashAttention's table below. Run time (`split_margin`, FA3's scheduler for sequences of unequal
    length, hopper/flash_prepare_scheduler.cu): as many splits as keep every CTA within the margin of an even share.
    Filled slots (`split_min_blocks`, trtllm-gen, XQA, FlashInfer): one CTA per slot, unless splits would hold fewer
    blocks than that.
    """
    if kernel.split_cap <= 1 or (kernel.form == "walk_gen" and kernel.split_min_blocks == 0):
        return np.ones_like(tasks)
    slots = kernel.sms * kernel.ctas_per_sm
    blocks = ceil_div(context, kernel.kv_block_tokens)
    if kernel.split_margin > 0:
        splits = ceil_div(blocks, np.ceil(kernel.split_margin * blocks * tasks / slots))
    elif kernel.split_min_blocks > 0:
        splits = fill_slots(slots, tasks, blocks, kernel.split_min_blocks)
    else:
        table = _split_table(slots, kernel.split_cap)
        busy = np.minimum(np.rint(tasks), table.shape[0] - 1).astype(np.intp)
        allowed = np.where(blocks <= FEW_BLOCKS, 1.0, np.minimum(blocks, table.shape[1] - 1)).astype(np.intp)
        splits = table[busy, allowed]
    splits = np.minimum(splits, kernel.split_cap)
    return splits if kernel.family.split.verify else np.where(query_len > 1, 1.0, splits)


@functools.lru_cache(maxsize=32)
def _split_table(slots: int, cap: int) -> Array:
    """Splits by (tasks, splits allowed): the only two numbers that the rule looks at.

    The last row stands for every grid that is full without splitting. Tabulating makes the rule exact on a whole
    grid at the price of one look-up per cell.
    """
    full, cap = math.ceil(FULL_GRID * slots), min(cap, slots)
    waves = np.arange(1.0, full + 1)[:, None] * np.arange(1, cap + 1) / slots
    fill = waves / np.ceil(waves)
    best = np.maximum.accumulate(fill, axis=1)
    table = np.ones((full + 1, cap + 1))
    for allowed in range(1, cap + 1):
        good = fill[:-1, :allowed] >= GOOD_FILL * best[:-1, allowed - 1 : allowed]
        table[1:-1, allowed] = np.argmax(good, axis=1)[: full - 1] + 1
    return table
