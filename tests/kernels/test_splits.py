"""How kernels split the KV over CTAs: each rule by hand, what joining costs, and the orders that must hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.arrays import Array
from specplan.planner.kernels.attention import AttentionKernel, attention_time
from specplan.planner.kernels.attention_kernel import kv_splits
from specplan.planner.kernels.mla import MlaKernel, mla_time
from specplan.planner.kernels.moe import MoeKernel, moe_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import attention_kernel

MICRO = 1e6
KERNELS = [attention_kernel(load_gpu(gpu), engine, head_dim=128, kv_dtype=kv)
           for gpu, engine in (("h200-sxm", "vllm"), ("h200-sxm", "sglang"), ("h200-sxm", "trtllm"), ("l40s", "vllm"),
                               ("b200-sxm", "vllm"), ("l40s", "sglang"), ("a100-80-sxm", "vllm"))
           for kv in ("bf16", "fp8")]


def splits(kernel: AttentionKernel, tasks: int, context: int, query_len: int = 1) -> float:
    return float(kv_splits(kernel, *(np.array(float(number)) for number in (tasks, context, query_len))))


@pytest.fixture
def run_time(fa3: AttentionKernel) -> AttentionKernel:
    """FA3's rule for sequences of unequal length: no CTA above 110 % of an even share of 100 SMs."""
    return dataclasses.replace(fa3, split_margin=1.1)


@pytest.fixture
def filled(gen: AttentionKernel) -> AttentionKernel:
    """trtllm-gen: as many splits as fill 100 SMs, none below 4 blocks."""
    return dataclasses.replace(gen, split_min_blocks=4, split_cap=100, combine_s=3e-6, split_s=0.1e-6)


@pytest.mark.parametrize(("tasks", "context", "expected"), [
    (20, 16384, 5),     # 128 blocks; 1.1 * 128 * 20 / 100 = 28.2: 29 blocks a split
    (1, 16384, 32),     # 1.4 -> 2 blocks a split would be 64 splits: the cap
    (100, 16384, 1),    # 141 blocks: one split
    (3, 200, 2),        # 2 blocks: one each
])
def test_splits_at_run_time_by_hand(run_time: AttentionKernel, tasks: int, context: int, expected: int) -> None:
    assert splits(run_time, tasks, context) == expected


@pytest.mark.parametrize(("tasks", "context", "expected"), [
    (20, 16384, 5), (1, 16384, 32), (30, 16384, 3), (51, 16384, 1), (1, 500, 1), (1, 1024, 2),
])
def test_splits_that_fill_the_slots_by_hand(filled: AttentionKernel, tasks: int, context: int, expected: int) -> None:
    assert splits(filled, tasks, context) == expected


def test_kernels_that_do_not_split_when_verifying_do_not(fa3: AttentionKernel, filled: AttentionKernel) -> None:
    family = dataclasses.replace(filled.family, split=dataclasses.replace(filled.family.split, verify=False))
    whole = dataclasses.replace(filled, family=family)
    assert (splits(whole, 1, 16384, 1), splits(whole, 1, 16384, 2)) == (32, 1)


def test_joining_splits_costs_a_start_and_a_time_for_each(filled: AttentionKernel) -> None:
    fast = dataclasses.replace(filled, stream_bytes_per_s=1e30, math_flop_per_s=1e30)
    seconds = attention_time(fast, batch=20, context_tokens=16384, query_len=1, query_heads=8, kv_heads=1).time_s
    # 5 splits of 26 blocks in one wave, 8 rows; then 3 us and 0.1 us for each split
    assert float(seconds) * MICRO == pytest.approx(10 + 26 * 0.01 + 8 * 0.05 + 3 + 5 * 0.1)


@pytest.mark.parametrize(("rows", "steps"), [(1, 1.0), (8, 1.0), (9, 1.25), (16, 1.25), (17, 2.0), (32, 2.0)])
def test_xqa_as_a_walk_by_hand(xqa: AttentionKernel, rows: int, steps: float) -> None:
    walk = dataclasses.replace(
        xqa, form="walk_xqa", tile_rows=64, kv_block_tokens=64, block_s=1e-6, wave_s=2e-6, split_cap=1,
        stream_bytes_per_s=1e30, math_flop_per_s=1e30)
    seconds = attention_time(walk, batch=100, context_tokens=640, query_len=1, query_heads=rows, kv_heads=1).time_s
    assert float(seconds) * MICRO == pytest.approx(10 + 5 * 1 * steps + 2 * steps)      # blocks of 128 tokens walked


@given(tasks=st.integers(1, 2000), context=st.integers(1, 200_000))
@settings(deadline=None)
def test_no_rule_makes_more_splits_than_blocks_or_its_cap(tasks: int, context: int) -> None:
    for kernel in KERNELS:
        made = splits(kernel, tasks, context)
        assert 1 <= made <= min(kernel.split_cap, max(-(-context // kernel.kv_block_tokens), 1))
        assert made == int(made)


@given(tasks=st.integers(1, 2000), context=st.integers(2048, 200_000))
@settings(deadline=None)
def test_twice_the_context_costs_no_less_than_a_split_more_saves(tasks: int, context: int) -> None:
    """One block more may cost less, where it allows a split more; twice as many hardly."""
    for kernel in KERNELS:
        now, later = attention_time(kernel, batch=tasks, context_tokens=np.array([context, 2 * context]), query_len=1,
                                    query_heads=8, kv_heads=1).time_s
        assert later >= 0.97 * now, (kernel.id, kernel.kv_dtype)


def test_latent_splits_fill_the_sms_by_hand(latent: MlaKernel) -> None:
    split = dataclasses.replace(latent, split_min_blocks=4, combine_s=2e-6, split_s=0.1e-6, stream_bytes_per_s=1e30,
                                mma_flop_per_s=1e30)

    def us(batch: int, context: int) -> float:
        return float(mla_time(split, batch=batch, context_tokens=context, query_len=1, heads=128).time_s) * MICRO

    # 128 heads are two CTAs of 64 rows a sequence; 10 sequences: 5 splits of ceil(64 / 5) = 13 blocks on 100 SMs
    assert us(10, 8192) == pytest.approx(10 + 13 * 0.01 + 64 * 0.05 + 2 + 10 * 0.1)
    assert us(100, 8192) == pytest.approx(10 + 2 * (64 * 0.01 + 64 * 0.05))


def test_few_tokens_are_cheap_in_the_tables_alone(experts: MoeKernel) -> None:
    special = dataclasses.replace(experts, one_token=0.8, fade_tokens=2.0)

    def us(kernel: MoeKernel, *, l2_warm: bool) -> Array:
        return moe_time(kernel, tokens=np.array([1, 3, 64]), hidden=1024, intermediate=512, experts=64, top_k=4,
                        skew=1.0, weight_bytes=2.0, l2_warm=l2_warm).time_s * MICRO

    assert us(special, l2_warm=True) / us(experts, l2_warm=True) == pytest.approx([0.8, 1 - 0.2 / np.e, 1.0])
    assert us(special, l2_warm=False) == pytest.approx(us(experts, l2_warm=False))


def test_experts_that_a_gpu_holds_and_rows_that_it_receives_by_hand(experts: MoeKernel) -> None:
    def us(kernel: MoeKernel) -> float:
        return float(moe_time(kernel, tokens=8, hidden=1024, intermediate=512, experts=64, top_k=4, ep=2,
                              skew=1.0, weight_bytes=2.0).time_s) * MICRO

    held = dataclasses.replace(experts, local_expert_s=2e-6)
    assert us(held) - us(experts) == pytest.approx(32 * 2)
    moved = dataclasses.replace(experts, row_s_per_byte=1e-9)
    assert us(moved) - us(experts) == pytest.approx(4 * 16 * 1024 * 1e-3)
