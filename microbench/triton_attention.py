"""Launch the Triton attention kernel: tile and split choice, scratch buffers, layouts.

The choice of tiles is this kernel's own rule and goes into every measurement (`options`), so that a fit can tell a
step of the tile from a property of the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FULL_GRID, GOOD_FILL, FEW_BLOCKS, SPLIT_CAP = 0.8, 0.85, 4, 32     # FlashAttention's split rule (kernels.md 1.1, FA3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """One variant of the kernel: rows and keys per step, warps, pipeline stages, programs per (sequence, KV head).

    `halves` is 2 where queries, keys and accumulators are held in two parts by column, to need fewer registers.
    """

    block_m: int
    block_n: int
    warps: int
    stages: int
    halves: int = 1
    splits: int = 1


# (architecture, head block, rows) -> keys per step, warps, stages, halves: where the rule of `tiling` spills
SPARED: Mapping[tuple[int, int, int], tuple[int, int, int, int]] = {
    (80, 128, 16): (64, 4, 3, 2),
    (89, 64, 32): (64, 4, 3, 2),
    (89, 64, 128): (32, 8, 3, 2),
    (90, 128, 16): (64, 4, 2, 1),
    (90, 64, 32): (64, 4, 3, 2),
    (100, 256, 16): (32, 8, 2, 2),
    (100, 128, 256): (32, 8, 2, 2),      # tensor memory: an accumulator of 128 columns would be rescaled in one piece
    (120, 256, 16): (32, 8, 2, 2),
}


def row_tiles(head_dim: int, capability: int) -> tuple[int, ...]:
    """Row tiles that compile without a spill; `capability` is 10 * major + minor.

    Found by compiling (tests/microbench/test_triton_compile.py), which tries what is left out too: 256 columns allow 64
    rows (sm_90: 128), a latent of 512 columns 32.
    """
    if head_dim <= 128:
        return (16, 32, 64, 128, 256)
    if head_dim <= 256:
        return (16, 32, 64, 128) if capability // 10 == 9 else (16, 32, 64)
    return (16, 32)


def tiling(*, rows: int, head_dim: int, capability: int, block_m: int | None = None) -> Tiling:
    """Tile for `rows` packed rows (the smallest that holds them), with warps, key block and stages that do not spill.

    >>> tiling(rows=17, head_dim=128, capability=90)
    Tiling(block_m=32, block_n=64, warps=4, stages=3, halves=1, splits=1)
    """
    offered = row_tiles(head_dim, capability)
    block_m = block_m or next((tile for tile in offered if rows <= tile), offered[-1])
    async_math = 90 <= capability < 120     # wgmma, tcgen05: scores and accumulators leave room for wider key blocks
    architecture = max((known for known in (80, 89, 90, 100, 120) if known <= capability), default=80)
    spared, halves = SPARED.get((architecture, _power_of_two(head_dim), block_m)), 1
    if spared is not None:
        block_n, warps, stages, halves = spared
    elif head_dim > 256:
        block_n, warps, stages = 32, 8, 2
    elif head_dim > 128:
        block_n, warps, stages = 16 if block_m == 128 else 32, 8, 2
    elif block_m == 256 and head_dim > 64:
        block_n, warps, stages = (32, 8, 2) if async_math else (16, 8, 3)
    elif block_m >= 128:
        block_n, warps, stages = 64 if async_math else 32, 8, 3
    elif block_m == 64 and head_dim > 64 and not async_math:
        block_n, warps, stages = 32, 4, 3
    else:
        block_n, warps, stages = 64, 4, 3
    return Tiling(block_m=block_m, block_n=block_n, warps=warps, stages=stages, halves=halves)


def choose_splits(*, tasks: int, slots: int, kv_blocks: int) -> int:
    """Splits of the KV walk: one where the grid is 80 % full or the cache short, else the fewest that fill waves well.

    >>> choose_splits(tasks=8, slots=132, kv_blocks=512)
    14
    """
    if tasks >= FULL_GRID * slots or kv_blocks <= FEW_BLOCKS:
        return 1
    most = min(SPLIT_CAP, slots, kv_blocks)
    waves = [tasks * splits / slots for splits in range(1, most + 1)]
    fill = [wave / math.ceil(wave) for wave in waves]
    return next(splits for splits, value in enumerate(fill, start=1) if value >= GOOD_FILL * max(fill))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the kernel needs to know of a cache: strides in elements, and the page size (0 = contiguous)."""

    page_tokens: int
    rope_dim: int = 0
    keys_are_values: bool = False


def bind(
    query: Any, keys: Any, values: Any, lengths: Any, *, table: Any = None, layout: Layout, tiles: Tiling,
    scale: float, value_dim: int, combine_rows: int = 1,
) -> Callable[[], Any]:
    """Allocate scratch once and return a call without arguments that computes attention and returns the output.

    Parameters
    ----------
    query
        [batch, query_len, query_heads, head_dim (+ rope_dim)]
    keys, values
        contiguous: [batch, tokens, kv_heads, width]; paged: [pages, page_tokens, kv_heads, width]. `values` is `keys`
        for a latent cache.
    lengths
        [batch] int32: keys of each sequence, the query tokens included.
    table
        [batch, pages of a sequence] int32, for a paged cache.
    combine_rows
        Rows that one program of the second kernel merges; the interpreter runs faster with more.
    """
    import torch

    from specplan.microbench.triton_kernels import attend, combine  # noqa: PLC0415

    batch, query_len, query_heads, width = query.shape
    kv_heads = keys.shape[2]
    group = query_heads // kv_heads
    head_dim = width - layout.rope_dim
    rows = group * query_len
    row_blocks = math.ceil(rows / tiles.block_m)
    out = torch.empty((batch, query_len, query_heads, value_dim), dtype=query.dtype, device=query.device)
    split = tiles.splits > 1
    places = batch * kv_heads * tiles.splits * rows if split else 1
    partial = torch.empty((places, value_dim), dtype=torch.float32, device=query.device)
    peaks, totals = torch.empty((2, places), dtype=torch.float32, device=query.device)
    table = lengths if table is None else table
    head_block, value_block = _power_of_two(head_dim), _power_of_two(value_dim)
    out_strides = out.stride()[:3]

    def call() -> Any:
        attend[(row_blocks, tiles.splits, batch * kv_heads)](
            query, keys, values, table, lengths, out, partial, peaks, totals,
            scale * math.log2(math.e), query_len, kv_heads, tiles.splits,
            *query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], table.stride(0), *out_strides,
            GROUP=group, HEAD_DIM=head_dim, HEAD_BLOCK=head_block, VALUE_DIM=value_dim, VALUE_BLOCK=value_block,
            ROPE_DIM=layout.rope_dim, KEYS_ARE_VALUES=layout.keys_are_values, PAGE=layout.page_tokens,
            BLOCK_M=tiles.block_m, BLOCK_N=tiles.block_n, HALVES=tiles.halves, SPLIT=split,
            num_warps=tiles.warps, num_stages=tiles.stages, enable_fp_fusion=True,
        )  # fmt: skip
        if split:
            combine[(math.ceil(rows / combine_rows), batch * kv_heads)](
                partial, peaks, totals, out, query_len, kv_heads, tiles.splits, *out_strides,
                GROUP=group, VALUE_DIM=value_dim, VALUE_BLOCK=value_block, ROWS=combine_rows, CHUNK=16,
                num_warps=4, enable_fp_fusion=True,
            )  # fmt: skip
        return out

    return call


def _power_of_two(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())
