"""E1: how long a matrix product of M rows with an N x K weight takes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div, pnorm
from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

SMALL_ROWS = 16     # to here the public tables are flat in M: another kernel of the same libraries
CLUSTER_ROWS = 128  # beyond, tiles come in clusters of two along M (CUTLASS: ClusterShape 2x1x1 of 128-row tiles)
COPIES_IN_L2 = 6    # the tables rotate six weight copies; only smaller weights stay in L2 there


@fact
class GemmKernel:
    """Numbers of one dense matrix kernel on one GPU; `weight_bytes` and `activation_bytes` are per element."""

    id: str
    version: str
    form: Literal["k_chain", "tile_wave"]
    weight_dtype: str
    weight_bytes: float
    activation_bytes: float
    launch_s: float
    stream_bytes_per_s: float
    mma_flop_per_s: float
    sms: int
    evidence: Evidence
    k_chain_s: float = 0.0          # per 1024 of K: the loop that no parallelism hides
    ragged: float = 0.0             # extra cost of the last row of tiles, per empty tile of rows in it
    row_pad: int = 1                # rows are padded to a multiple of this in the math
    overlap: float = 2.5            # p of the norm that joins memory and math
    l2_gain: float = 1.0            # rate of weights still in L2; tables only
    l2_bytes: float = 0.0
    static_scales: bool = False
    notes: tuple[Note, ...] = ()


def gemm_time(kernel: GemmKernel, *, rows: ArrayLike, n: ArrayLike, k: ArrayLike, l2_warm: bool = False) -> KernelTime:
    """Seconds of one M x N x K product; `rows` = M.

    k_chain:   t = launch + k_chain * K/1024 + pnorm(bytes/stream, 2 M N K / mma)
    tile_wave: t = launch + pnorm(bytes/stream, (waves + ragged * empty * sqrt(columns/SMs)) * SMs * 2 bm bn K / mma)

    Bytes are the weights once, the activations in and 2 bytes per result. Notes: kernel_fits.md, section 3.
    """
    m = np.asarray(rows, dtype=float)
    weights = np.asarray(n, dtype=float) * k * kernel.weight_bytes
    warm = l2_warm & (COPIES_IN_L2 * weights <= kernel.l2_bytes)
    stream = kernel.stream_bytes_per_s * np.where(warm, kernel.l2_gain, 1.0)
    memory = (weights + m * k * kernel.activation_bytes + m * n * 2.0) / stream
    if kernel.form == "tile_wave":
        tensor = _tile_waves(kernel, m, n, k)
        fixed: ArrayLike = kernel.launch_s
    else:
        padded = ceil_div(m, kernel.row_pad) * kernel.row_pad
        tensor = 2.0 * padded * n * k / kernel.mma_flop_per_s
        fixed = kernel.launch_s + kernel.k_chain_s * k / 1024
    return KernelTime(
        time_s=fixed + pnorm(memory, tensor, kernel.overlap),
        parts={"memory": memory, "tensor": tensor, "launch": np.asarray(fixed)},
    )


def gemm_tile(rows: ArrayLike) -> tuple[Array, Array]:
    """Tile (bm, bn) of the hand-written Hopper fp8 kernels: 64x64 to M = 64, 64x128 to 128, then 128x128."""
    m = np.asarray(rows, dtype=float)
    return np.where(m <= 128, 64.0, 128.0), np.where(m <= 64, 64.0, 128.0)


def _tile_waves(kernel: GemmKernel, m: Array, n: ArrayLike, k: ArrayLike) -> Array:
    """Seconds of whole waves of tiles, and of empty rows, which slow down the last row of tiles.

    That lengthens the call by a share of a wave between its part of the work (columns/SMs) and a whole wave (where
    everything waits for it): the geometric mean of the two.
    """
    bm, bn = gemm_tile(m)
    cluster = np.where(m > CLUSTER_ROWS, 2.0, 1.0)
    row_tiles, columns = ceil_div(m, bm * cluster) * cluster, ceil_div(n, bn)
    waves = ceil_div(row_tiles * columns, kernel.sms)
    empty = np.where(m <= SMALL_ROWS, 0.0, (row_tiles * bm - m) / bm)
    wave_s = kernel.sms * 2.0 * bm * bn * k / kernel.mma_flop_per_s
    return wave_s * (waves + kernel.ragged * empty * np.sqrt(columns / kernel.sms))
