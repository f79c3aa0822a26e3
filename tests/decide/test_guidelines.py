"""NVIDIA's five guidelines, with the numbers of the issue that asked for them and of the blog."""

from __future__ import annotations

import pytest

from specplan.planner.decide.guidelines import (
    Guideline,
    attention_tile,
    draft_overhead,
    gemm_ridge,
    mechanism,
    tile_multiples,
)


@pytest.mark.parametrize(("group_size", "draft_len"), [(8, 15), (32, 3), (5, 24), (128, 0), (256, 0)])
def test_g2_is_128_over_g_minus_1(group_size: int, draft_len: int) -> None:
    found = attention_tile(
        group_size=group_size, tile_rows=128, kernel="nvidia-128", share=0.8, packs=True, knee=206
    )
    assert found.draft_len == draft_len
    assert found.applies


def test_g2_says_when_the_tile_is_not_full() -> None:
    found = attention_tile(group_size=5, tile_rows=128, kernel="nvidia-128", share=0.8, packs=True, knee=206)
    assert "125 of 128 rows" in found.finding


def test_g2_does_not_apply_when_attention_is_small_or_the_kernel_does_not_pack() -> None:
    assert not attention_tile(group_size=8, tile_rows=128, kernel="k", share=0.2, packs=True, knee=206).applies
    unpacked = attention_tile(group_size=8, tile_rows=128, kernel="k", share=0.9, packs=False, knee=206)
    assert (unpacked.applies, unpacked.draft_len) == (False, 0)


def test_g3_lists_multiples_of_the_tile_for_g_8() -> None:
    found = tile_multiples(group_size=8, tile_rows=128, kernel="nvidia-128", packs=True, limit=63, share=0.8)
    assert found.draft_lens == (31, 47, 63)
    assert all(8 * (1 + d) % 128 == 0 for d in found.draft_lens)


def test_g1_fills_the_ridge_from_the_batch() -> None:
    """D = 7 needs an eighth of the batch of D = 0 to reach the same rows (blog)."""
    assert gemm_ridge(ridge_rows=256, batch=32, max_batch=500, draft_len_limit=16).draft_len == 7
    assert gemm_ridge(ridge_rows=256, batch=256, max_batch=500, draft_len_limit=16).draft_len == 0
    past = gemm_ridge(ridge_rows=256, batch=300, max_batch=500, draft_len_limit=16)
    assert (past.applies, past.draft_len) == (False, 0)
    assert not gemm_ridge(ridge_rows=256, batch=32, max_batch=8, draft_len_limit=16).applies


def test_g1_says_that_experts_are_not_free_kernels_md_2_2() -> None:
    """Verification at batch 1 costs a MoE nearly linearly until its experts saturate."""
    few = gemm_ridge(ridge_rows=256, batch=1, max_batch=500, draft_len_limit=16, expert_growth=1.9)
    assert not few.applies
    assert "D = 1 reads 1.90 times" in few.finding
    assert gemm_ridge(ridge_rows=256, batch=64, max_batch=500, draft_len_limit=16, expert_growth=1.05).applies


def test_g4_weighs_al_against_rho_d() -> None:
    """alpha 0.5 and rho 0.1: AL/(1 + 0.1 D) = 1, 1.364, 1.458, 1.442, 1.384: the peak is at D = 2."""
    lengths = [1.0, 1.5, 1.75, 1.875, 1.9375]

    def weighed(lengths: list[float] | None, *, serial: bool = True, known: int = 4) -> Guideline:
        return draft_overhead(depth_ratio=0.1, share_per_token=0.2, draft_lens=[0, 1, 2, 3, 4][:len(lengths or [1.0])],
                              lengths=lengths, batch=1, serial=serial, known_draft_len=known)

    found = weighed(lengths)
    assert found.draft_len == 2
    assert found.applies
    assert "peaks at D = 2 (1.46x)" in found.finding
    one_pass = weighed(lengths, serial=False)
    assert one_pass.draft_len == 4
    assert "still rises at D = 4 (1.76x), the last draft length with known acceptance" in one_pass.finding
    assert "still rises at D = 4 (1.76x), the last draft length weighed" in weighed(
        lengths, serial=False, known=8).finding
    assert "peaks at D = 0" in weighed([1.0, 1.05], known=1).finding
    assert "peaks at D = 0" in weighed([1.0], known=1).finding
    assert not weighed(None).applies


def test_g5_ranks_mechanisms_only_when_there_are_several() -> None:
    found = mechanism(chosen="eagle3", ranking=[("eagle3", 2.1, True), ("ngram", 1.2, True)], training="x")
    assert found.applies
    assert "eagle3 2.10x, ngram 1.20x" in found.finding
    assert not mechanism(chosen=None, ranking=[], training="").applies
    too_large = mechanism(chosen=None, ranking=[("mtp", 1.3, False), ("ngram", 0.9, True)], training="")
    assert too_large.finding == (
        "none that fits in memory beats off at each one's best D: mtp 1.30x (does not fit), ngram 0.90x"
    )
