"""E2: hand counts of each form, the split rule, measured rows of the studies, packing and re-reading."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.kernels.attention import AttentionKernel, attention_time, math_knee_rows
from specplan.planner.kernels.attention_kernel import kv_splits
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.families import attention_families
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import attention_kernel

MICRO = 1e6


def us(
    kernel: AttentionKernel, batch: float, context: float, rows: int, *, kv_heads: int = 1, query_len: float = 1,
    l2_warm: bool = False,
) -> float:
    """Microseconds with `rows` query heads per KV head."""
    time = attention_time(kernel, batch=batch, context_tokens=context, query_len=query_len, query_heads=rows * kv_heads,
                          kv_heads=kv_heads, l2_warm=l2_warm)
    return float(time.time_s) * MICRO


# ---- hand counts -----------------------------------------------------------------------------------------------


def test_fa3_by_hand(fa3: AttentionKernel) -> None:
    # 20 tasks on 100 SMs: 4 splits fill 80 %, 5 fill all; the rule takes the smallest within 85 %, which is 5.
    # 16384 tokens = 128 blocks, 26 along one split: 26 us + 2 us for up to 64 rows, in one wave.
    kv = 20 * 16384 * (128 + 128) * 2
    queries = 20 * 8 * (128 + 128) * 2
    partials = 5 * 20 * 8 * (128 + 2) * 8
    expected = 10 + (kv + queries + partials) / 1e12 * MICRO + 26 + 2 + 3
    assert us(fa3, 20, 16384, 8) == pytest.approx(expected)


def test_fa3_rows_cost_a_wave_per_64_and_a_second_tile_another_cta(fa3: AttentionKernel) -> None:
    full = dataclasses.replace(fa3, stream_bytes_per_s=1e30, math_flop_per_s=1e30)
    assert us(full, 100, 1280, 64) == pytest.approx(10 + 10 + 2)
    assert us(full, 100, 1280, 65) == pytest.approx(10 + 10 + 4)
    assert us(full, 100, 1280, 129) == pytest.approx(10 + 2 * (10 + 4))   # two CTAs a sequence: two waves


def test_cta_rate_caps_the_stream(fa3: AttentionKernel) -> None:
    capped = dataclasses.replace(fa3, cta_bytes_per_s=5e9)
    plain, slow = us(fa3, 20, 16384, 8), us(capped, 20, 16384, 8)   # 100 CTAs at 5 GB/s: 0.5 TB/s
    moved = 20 * 16384 * 512 + 20 * 8 * 512 + 5 * 20 * 8 * 130 * 8
    assert slow - plain == pytest.approx(moved / 1e12 * MICRO)


def test_trtllm_gen_by_hand(gen: AttentionKernel) -> None:
    # 300 sequences in 3 waves of 100 SMs; 32 blocks of 128 tokens and 8 rows a wave
    moved = 300 * 4096 * 512 + 300 * 8 * 512
    assert us(gen, 300, 4096, 8) == pytest.approx(10 + moved / 1e12 * MICRO + 3 * (32 * 0.01 + 8 * 0.05))


def test_trtllm_gen_rows_are_linear(gen: AttentionKernel) -> None:
    times = np.array([us(gen, 10, 4096, 8, query_len=q) for q in (1, 2, 3)])
    per_token = 8 * 0.05 + 10 * 8 * 512 / 1e12 * MICRO
    assert np.diff(times) == pytest.approx([per_token, per_token])


@pytest.mark.parametrize(("rows", "steps"), [(8, 1.0), (9, 1.25), (16, 1.25), (17, 2.0), (32, 2.0), (64, 2.0)])
def test_xqa_by_hand(xqa: AttentionKernel, rows: int, steps: float) -> None:
    kv = 4 * 2000 * 512
    expected = 10 + (kv + 4 * rows * 512) / 1e12 * MICRO + 20 * steps * kv / (kv + 1e6)
    assert us(xqa, 4, 2000, rows) == pytest.approx(expected)


def test_xqa_beyond_32_rows_takes_whole_token_ctas(xqa: AttentionKernel) -> None:
    free = dataclasses.replace(xqa, stream_bytes_per_s=1e30, math_flop_per_s=1e30, ramp_half_bytes=0.0)
    # 5 heads: 12 tokens fit 64 rows, so 12 tokens are one CTA (2 steps) and 13 are two (4 steps)
    assert us(free, 1, 1000, 5, query_len=12) == pytest.approx(10 + 20 * 2)
    assert us(free, 1, 1000, 5, query_len=13) == pytest.approx(10 + 20 * 4)


def test_flashinfer_by_hand(fa3: AttentionKernel) -> None:
    kernel = dataclasses.replace(fa3, family=attention_families()["flashinfer"], form="walk_tile", tile_rows=16,
                                 kv_block_tokens=64)
    memory = (100 * 2560 * 512 + 100 * 16 * 512) / 1e12 * MICRO
    assert us(kernel, 100, 2560, 16) == pytest.approx(10 + (memory**4 + (20 + 2) ** 4) ** 0.25)
    wide = (100 * 2560 * 512 + 100 * 24 * 512) / 1e12 * MICRO     # a 64-row tile costs four 16-row ones per block
    assert us(kernel, 100, 2560, 24) == pytest.approx(10 + (wide**4 + (80 + 2) ** 4) ** 0.25)


def test_math_binds_beyond_the_knee(gen: AttentionKernel) -> None:
    # 1e14 FLOP/s over 1e12 B/s at 2 bytes: knee at 100 rows; 128 rows of 4096 tokens are bound by math
    kernel = dataclasses.replace(gen, math_flop_per_s=1e14, launch_s=0.0, block_s=0.0, row_s=0.0)
    assert math_knee_rows(kernel) == pytest.approx(100)
    time = attention_time(kernel, batch=8, context_tokens=4096, query_len=16, query_heads=8, kv_heads=1)
    assert float(time.time_s) == pytest.approx(8 * 128 * 4096 * 4 * 128 / 1e14)
    assert time.bound() == "tensor"
    # 65 rows are padded to 128
    padded = attention_time(kernel, batch=8, context_tokens=4096, query_len=13, query_heads=5, kv_heads=1)
    assert float(padded.time_s) == pytest.approx(8 * 128 * 4096 * 4 * 128 / 1e14)


def test_exponentials_are_a_roof_of_their_own(gen: AttentionKernel) -> None:
    kernel = dataclasses.replace(gen, exp_per_s=1e10)
    time = attention_time(kernel, batch=8, context_tokens=4096, query_len=8, query_heads=8, kv_heads=1)
    assert float(time.parts["exp"]) == pytest.approx(8 * 64 * 4096 / 1e10)
    assert float(time.time_s) == pytest.approx(8 * 64 * 4096 / 1e10)
    assert time.bound() == "exp"


def test_value_width_counts_once_in_bytes_and_math(gen: AttentionKernel) -> None:
    kernel = dataclasses.replace(gen, block_s=0.0, row_s=0.0)
    time = attention_time(kernel, batch=8, context_tokens=4096, query_len=1, query_heads=8, kv_heads=1,
                          value_head_dim=64)
    assert float(time.parts["memory"]) == pytest.approx(8 * (4096 * 2 + 8 * 2) * (128 + 64) / 1e12)
    assert float(time.parts["tensor"]) == pytest.approx(2 * 8 * 8 * 4096 * (128 + 64) / 1e15)


def test_l2_gain_applies_only_when_asked_for_and_only_to_what_fits(gen: AttentionKernel) -> None:
    kernel = dataclasses.replace(gen, l2_gain=2.0, l2_bytes=4096 * 512.0)
    assert us(kernel, 1, 4096, 8) == us(gen, 1, 4096, 8)
    saved = (4096 * 512 + 8 * 512) / 1e12 * MICRO / 2
    assert us(kernel, 1, 4096, 8, l2_warm=True) == pytest.approx(us(gen, 1, 4096, 8) - saved)
    assert us(kernel, 2, 4096, 8, l2_warm=True) == us(gen, 2, 4096, 8)


# ---- the split rule --------------------------------------------------------------------------------------------


def split_rule(tasks: int, blocks: int, sms: int, cap: int) -> int:
    """num_splits_heuristic of Dao-AILab/flash-attention hopper/heuristics.h, read as kernel_fits.md restates it."""
    if tasks >= 0.8 * sms or blocks <= 4:
        return 1
    fills = []
    for splits in range(1, min(cap, sms, blocks) + 1):
        waves = tasks * splits / sms
        fills.append(waves / math.ceil(waves))
    return 1 + next(index for index, fill in enumerate(fills) if fill >= 0.85 * max(fills))


@given(tasks=st.integers(1, 400), context=st.integers(1, 200_000), sms=st.sampled_from([78, 108, 132, 148, 284]),
       cap=st.sampled_from([32, 128]))
@settings(max_examples=300, deadline=None)
def test_tabulated_splits_are_the_rule(tasks: int, context: int, sms: int, cap: int) -> None:
    kernel = dataclasses.replace(attention_kernel(load_gpu("h200-sxm"), "vllm", head_dim=128, kv_dtype="bf16"),
                                 sms=sms, split_cap=cap, kv_block_tokens=128, split_margin=0.0)
    found = kv_splits(kernel, np.array(float(tasks)), np.array(float(context)), np.array(1.0))
    assert float(found) == split_rule(tasks, math.ceil(context / 128), sms, cap)


# ---- kernels that do not pack ----------------------------------------------------------------------------------


def test_unpacked_kernel_reads_the_cache_once_per_head_beyond_one_token(fa3: AttentionKernel) -> None:
    kernel = dataclasses.replace(fa3, family=attention_families()["fa2"], form="walk_fa2", tile_rows=64,
                                 block_s=0.0, wave_s=0.0, combine_s=0.0, launch_s=0.0)
    one = attention_time(kernel, batch=40, context_tokens=4096, query_len=1, query_heads=8, kv_heads=1)
    two = attention_time(kernel, batch=40, context_tokens=4096, query_len=2, query_heads=8, kv_heads=1)
    kv = 40 * 4096 * 512
    assert float(one.parts["memory"]) == pytest.approx((kv + 40 * 8 * 512) / 1e12)
    assert float(two.parts["memory"]) == pytest.approx((8 * kv + 40 * 16 * 512) / 1e12)
    # each head pays a tile of 64 rows of math
    assert float(two.parts["tensor"]) == pytest.approx(40 * 8 * 64 * 4096 * 4 * 128 / 1e15)


def test_fa2_against_fa3_verify_flash_attention_pr_1236() -> None:
    # H100 PCIe, 16 query heads on one KV head, S 16k, batch 4, q = 4: 402.9 us with FA2, 26.9 us with FA3
    h100 = load_gpu("h100-pcie")
    fa2 = attention_kernel(h100, "vllm", head_dim=128, kv_dtype="bf16", override="fa2")
    fa3 = attention_kernel(h100, "vllm", head_dim=128, kv_dtype="bf16")
    slow, fast = us(fa2, 4, 16384, 16, query_len=4), us(fa3, 4, 16384, 16, query_len=4)
    assert slow == pytest.approx(402.9, rel=0.25)
    assert fast == pytest.approx(26.9, rel=0.40)
    assert slow > 8 * fast


def test_vllm_triton_takes_a_tile_per_two_tokens_of_eight_heads(h200: GpuProfile) -> None:
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16", override="vllm-triton")
    kernel = dataclasses.replace(kernel, cta_bytes_per_s=math.inf)
    kv = 64 * 8192 * 512
    for query_len, reads in ((2, 1), (3, 2), (4, 2), (5, 3)):
        time = attention_time(kernel, batch=64, context_tokens=8192, query_len=query_len, query_heads=8, kv_heads=1)
        queries = 64 * query_len * 8 * 512
        assert float(time.parts["memory"]) == pytest.approx((reads * kv + queries) / kernel.stream_bytes_per_s)


# ---- measured rows (aiconfigurator tables at q = 1, M = G; L2-warm) --------------------------------------------


@pytest.mark.parametrize(("rows", "measured"), [(1, 47.2), (8, 47.3), (64, 48.0)])
def test_h200_fa3_flat_to_64_rows_kernels_md_1_3(h200: GpuProfile, rows: int, measured: float) -> None:
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 32, 8192, rows, l2_warm=True) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(("rows", "measured"), [(64, 17.5), (96, 22.3), (128, 24.1)])
def test_h200_fa3_rises_inside_one_tile_kernels_md_1_3(h200: GpuProfile, rows: int, measured: float) -> None:
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 8, 8192, rows, l2_warm=True) == pytest.approx(measured, rel=0.20)


@pytest.mark.parametrize(("engine", "rows", "measured"), [
    ("vllm", 8, 47.5), ("vllm", 32, 47.0), ("vllm", 64, 50.0), ("sglang", 8, 43.5), ("sglang", 64, 46.0)])
def test_h200_134_mb_of_kv_peers_md_1_2(h200: GpuProfile, engine: str, rows: int, measured: float) -> None:
    kernel = attention_kernel(h200, engine, head_dim=128, kv_dtype="bf16")
    assert us(kernel, 64, 4096, rows, l2_warm=True) == pytest.approx(measured, rel=0.10)


@pytest.mark.parametrize(("rows", "measured"), [(8, 30.5), (16, 31.0), (32, 31.0), (64, 35.0)])
def test_b200_trtllm_gen_peers_md_1_2(b200: GpuProfile, rows: int, measured: float) -> None:
    kernel = attention_kernel(b200, "vllm", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 64, 4096, rows, l2_warm=True) == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(("rows", "measured"), [(16, 34.5), (24, 96.0)])
def test_l40s_flashinfer_steps_at_16_rows_kernels_md_1_3(rows: int, measured: float) -> None:
    kernel = attention_kernel(load_gpu("l40s"), "vllm", head_dim=128, kv_dtype="fp8")
    assert us(kernel, 32, 8192, rows, l2_warm=True) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(("rows", "measured"), [(8, 63.0), (16, 69.0), (32, 70.0), (64, 72.0)])
def test_a100_fa2_peers_md_1_2(rows: int, measured: float) -> None:
    kernel = attention_kernel(load_gpu("a100-80-sxm"), "vllm", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 8, 16384, rows, l2_warm=True) == pytest.approx(measured, rel=0.12)


def test_a_million_tokens_are_read_as_fast_as_many_sequences(h200: GpuProfile, b200: GpuProfile) -> None:
    # 4.3 GB of bf16 KV. The largest caches of vLLM's tables, 2 to 8 GB in many sequences, are read at these medians
    for gpu, bytes_per_s in ((h200, 4.32e12), (b200, 7.08e12)):
        kernel = attention_kernel(gpu, "vllm", head_dim=128, kv_dtype="bf16")
        kv = 2**20 * 8 * 2 * 128 * 2
        assert us(kernel, 1, 2**20, 8, kv_heads=8) == pytest.approx(kv / bytes_per_s * MICRO, rel=0.06)


def test_cold_cache_is_slower_than_the_l2_warm_tables_kernel_fits_md_0(h200: GpuProfile, b200: GpuProfile) -> None:
    kernel = attention_kernel(b200, "sglang", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 64, 2048, 8, l2_warm=True) == pytest.approx(13.7, rel=0.05)
    assert us(kernel, 64, 2048, 8) == pytest.approx(19.6, rel=0.05)
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16")
    assert us(kernel, 8, 8192, 8) == pytest.approx(22.2, rel=0.05)


def test_32_rows_cost_like_one_at_134_mb_on_fa3_but_not_on_a_kernel_that_does_not_pack(h200: GpuProfile) -> None:
    packs = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16")
    assert us(packs, 32, 8192, 8, query_len=4) == pytest.approx(us(packs, 32, 8192, 8), rel=0.10)
    splits = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16", override="fa2")
    assert us(splits, 32, 8192, 8, query_len=4) > 4 * us(splits, 32, 8192, 8)
