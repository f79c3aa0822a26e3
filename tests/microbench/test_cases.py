"""Declared work, by hand: what a case says it moves and computes."""

from __future__ import annotations

import pytest

from specplan.microbench import cases


def test_gemm_by_hand() -> None:
    case = cases.gemm(rows=3, n=10, k=20, dtype="bf16")
    assert case.flop == 2 * 3 * 10 * 20
    assert case.bytes == 2 * (10 * 20 + 3 * 20 + 3 * 10)


def test_fp8_gemm_reads_one_byte_and_writes_two() -> None:
    assert cases.gemm(rows=3, n=10, k=20, dtype="fp8").bytes == 10 * 20 + 3 * 20 + 2 * 3 * 10


def test_verify_attention_reads_the_cache_once_and_masks_the_future() -> None:
    case = cases.attention(batch=2, context_tokens=100, query_len=3, query_heads=8, kv_heads=2, head_dim=64,
                           query="bf16", kv="fp8")
    keys = 2 * 2 * 103 * 2 * 64             # K and V, one byte each
    queries = 2 * 2 * 3 * 8 * 64 * 2        # Q and O, two bytes each
    assert case.bytes == keys + queries
    assert case.flop == 4 * 2 * 8 * 64 * (101 + 102 + 103)


def test_mla_reads_one_latent_for_all_heads() -> None:
    case = cases.mla(batch=1, context_tokens=9, query_len=1, heads=4, query="bf16", kv="bf16")
    assert case.bytes == 10 * 576 * 2 + 4 * (576 + 512) * 2
    assert case.flop == 2 * 4 * (576 + 512) * 10


def test_moe_reads_the_distinct_experts() -> None:
    one = cases.moe(tokens=1, hidden=10, intermediate=20, experts=8, top_k=2, matrices=3, dtype="bf16")
    assert one.bytes == pytest.approx(2 * 3 * 200 * 2 + 4 * 10)
    many = cases.moe(tokens=10_000, hidden=10, intermediate=20, experts=8, top_k=2, matrices=3, dtype="bf16")
    assert many.bytes == pytest.approx(8 * 3 * 200 * 2 + 4 * 10 * 10_000)


def test_allreduce_counts_what_a_ring_sends() -> None:
    assert cases.allreduce(message_bytes=1000, gpus=4, dtype="bf16").bytes == 2 * 1000 * 3 / 4


def test_draft_step_is_its_layers_and_its_head() -> None:
    case = cases.draft_step(batch=1, context_tokens=0, layers=2, hidden=8, intermediate=16, query_heads=2, kv_heads=1,
                            head_dim=4, vocab=100, dtype="fp32")
    weights = 2 * (8 * (2 + 1 + 1) * 4 + 8 * 2 * 4 + 3 * 8 * 16) + 8 * 100
    walk = 2 * (2 * 1 * 4 * 4 + 2 * 2 * 4 * 4)
    assert case.bytes == 4 * weights + walk
    assert case.flop == 2 * weights + 2 * 4 * 2 * 4


def test_keys_tell_points_apart() -> None:
    case = cases.attention(batch=2, context_tokens=100, query_len=3, query_heads=8, kv_heads=2, head_dim=64,
                           query="bf16", kv="fp8")
    paged = cases.attention(batch=2, context_tokens=100, query_len=3, query_heads=8, kv_heads=2, head_dim=64,
                            query="bf16", kv="fp8", page_tokens=16)
    assert len({case.key("a"), case.key("b"), paged.key("a"), cases.warm(case).key("a")}) == 4
