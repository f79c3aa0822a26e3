"""E1: hand counts of both forms, measured rows, and what a format costs on a GPU without its tensor cores."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.gemm import GemmKernel, gemm_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import gemm_kernel
from specplan.planner.messages import InputError

MICRO = 1e6


def us(kernel: GemmKernel, rows: int, n: int = 8192, k: int = 8192, *, l2_warm: bool = False) -> float:
    return float(gemm_time(kernel, rows=rows, n=n, k=k, l2_warm=l2_warm).time_s) * MICRO


def test_k_chain_by_hand(linear: GemmKernel) -> None:
    # 4096 x 2048 in bf16, 100 rows: 16.8 MB of weights, 0.41 MB in, 0.82 MB out; 1.68 GFLOP
    memory = (4096 * 2048 * 2 + 100 * 2048 * 2 + 100 * 4096 * 2) / 1e12 * MICRO
    tensor = 2 * 100 * 4096 * 2048 / 1e14 * MICRO
    assert us(linear, 100, 4096, 2048) == pytest.approx(3 + 0.5 * 2 + (memory**2 + tensor**2) ** 0.5)


def test_rows_are_padded_where_the_kernel_pads(linear: GemmKernel) -> None:
    padded = dataclasses.replace(linear, row_pad=64, stream_bytes_per_s=1e30)
    assert us(padded, 1, 4096, 2048) == us(padded, 64, 4096, 2048)
    assert us(padded, 64, 4096, 2048) == pytest.approx(4 + 2 * 64 * 4096 * 2048 / 1e14 * MICRO)


@pytest.mark.parametrize(("rows", "bm", "bn", "row_tiles", "empty"), [
    (64, 64, 64, 1, 0.0), (65, 64, 128, 2, 63 / 64), (128, 64, 128, 2, 0.0), (129, 128, 128, 2, 127 / 128),
    (256, 128, 128, 2, 0.0), (257, 128, 128, 4, 255 / 128), (512, 128, 128, 4, 0.0), (513, 128, 128, 6, 255 / 128),
])
def test_tile_wave_by_hand(
    linear: GemmKernel, rows: int, bm: int, bn: int, row_tiles: int, empty: float
) -> None:
    kernel = dataclasses.replace(linear, form="tile_wave", ragged=0.5, stream_bytes_per_s=1e30)
    columns = 8192 // bn
    waves = -(-row_tiles * columns // 100)
    expected = 3 + (waves + 0.5 * empty * math.sqrt(columns / 100)) * 100 * 2 * bm * bn * 8192 / 1e14 * MICRO
    assert us(kernel, rows) == pytest.approx(expected)


def test_one_row_past_a_tile_costs_more_than_filling_it(h200: GpuProfile) -> None:
    kernel = gemm_kernel(h200, "trtllm", weight_dtype="fp8_block")      # measured: 28, 56, 36 us at 8192 x 8192
    full, past, next_full = (us(kernel, rows, 8192, 8192) for rows in (128, 129, 256))
    assert [full, past, next_full] == pytest.approx([28, 56, 36], rel=0.2)
    # kernel_fits.md 0, 1024 x 8192: 14, 37, 17 us. Known to miss: DeepGEMM narrows its tile where there are few columns
    full, past, next_full = (us(kernel, rows, 1024, 8192) for rows in (128, 129, 256))
    assert past == pytest.approx(37, rel=0.1)
    assert past > 1.8 * full
    assert next_full > 1.5 * 17


@pytest.mark.parametrize(("gpu", "engine", "dtype", "rows", "measured"), [
    ("h200-sxm", "vllm", "bf16", 1, 35), ("h200-sxm", "vllm", "bf16", 64, 35), ("h200-sxm", "vllm", "bf16", 256, 48),
    ("h200-sxm", "vllm", "bf16", 512, 90), ("h100-sxm", "vllm", "bf16", 1, 47), ("h200-sxm", "vllm", "fp8", 64, 24.5),
    ("b200-sxm", "vllm", "bf16", 64, 23), ("b200-sxm", "vllm", "nvfp4", 1, 13),
])
def test_8192_square_kernels_md_2_1(gpu: str, engine: str, dtype: str, rows: int, measured: float) -> None:
    kernel = gemm_kernel(load_gpu(gpu), engine, weight_dtype=dtype)
    assert us(kernel, rows) == pytest.approx(measured, rel=0.20)


def test_only_weights_that_fit_six_times_get_the_l2_rate(linear: GemmKernel) -> None:
    kernel = dataclasses.replace(linear, l2_gain=2.0, l2_bytes=6 * 1024 * 1024 * 2.0)
    assert us(kernel, 1, 1024, 1024, l2_warm=True) < us(kernel, 1, 1024, 1024)
    assert us(kernel, 1, 1025, 1024, l2_warm=True) == us(kernel, 1, 1025, 1024)


def test_static_scales_take_the_launch_of_bf16(h200: GpuProfile) -> None:
    dynamic = gemm_kernel(h200, "trtllm", weight_dtype="fp8")
    static = gemm_kernel(h200, "trtllm", weight_dtype="fp8", static_scales=True)
    assert static.launch_s == gemm_kernel(h200, "trtllm", weight_dtype="bf16").launch_s
    assert dynamic.launch_s - static.launch_s == pytest.approx(8.9e-6, rel=0.2)     # the quantisation kernel
    assert static.stream_bytes_per_s == dynamic.stream_bytes_per_s


@pytest.mark.parametrize(("gpu", "dtype", "share"), [
    ("a100-80-sxm", "fp8", 0.5), ("h200-sxm", "nvfp4", 0.28125), ("h200-sxm", "w4a16", 0.2578125),
    ("l40s", "mxfp4", 0.265625),
])
def test_formats_without_tensor_cores_are_read_packed_and_multiplied_in_bf16(
    gpu: str, dtype: str, share: float
) -> None:
    profile = load_gpu(gpu)
    plain, packed = (gemm_kernel(profile, "vllm", weight_dtype=name) for name in ("bf16", dtype))
    assert "weight-only" in {note.code for note in packed.notes}
    assert packed.evidence.level == "prior"
    assert packed.mma_flop_per_s == plain.mma_flop_per_s
    weights = 16384 * 16384 * 2
    one, other = (gemm_time(kernel, rows=1, n=16384, k=16384).parts["memory"] for kernel in (plain, packed))
    saved = (1 - share) * weights / plain.stream_bytes_per_s
    assert float(one - other) == pytest.approx(saved, rel=1e-3)


def test_int8_where_its_rate_was_cut_falls_to_bf16() -> None:
    b300 = gemm_kernel(load_gpu("b300-sxm"), "vllm", weight_dtype="int8")
    assert b300.mma_flop_per_s == gemm_kernel(load_gpu("b300-sxm"), "vllm", weight_dtype="bf16").mma_flop_per_s
    assert gemm_kernel(load_gpu("b200-sxm"), "vllm", weight_dtype="int8").mma_flop_per_s > 1.8e15


def test_rows_axis_broadcasts(linear: GemmKernel) -> None:
    rows = np.arange(1, 9).reshape(4, 2, 1)
    times = gemm_time(linear, rows=rows, n=1024, k=1024).time_s
    assert times.shape == (4, 2, 1)
    assert float(times[1, 1, 0]) == us(linear, 4, 1024, 1024) / MICRO


def test_unknown_format_and_kernel_are_named(h200: GpuProfile) -> None:
    with pytest.raises(InputError, match="no format 'fp9'; did you mean"):
        gemm_kernel(h200, "vllm", weight_dtype="fp9")
    with pytest.raises(InputError, match="no 'vllm-cutlas' on h200-sxm; did you mean 'vllm-cutlass'"):
        gemm_kernel(h200, "vllm", weight_dtype="fp8", override="vllm-cutlas")
    with pytest.raises(InputError, match="'vllm-cutlass' has no numbers for bf16"):
        gemm_kernel(h200, "vllm", weight_dtype="bf16", override="vllm-cutlass")
