"""What guidelines G2 and G3 ask a kernel: its tile, its edges, its math knee, its cliffs."""

from __future__ import annotations

import pytest

from specplan.planner.kernels.attention import attention_notes, math_knee_rows, tile_edges, tile_rows
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import attention_kernel


@pytest.mark.parametrize(("group", "draft_len"), [(8, 15), (32, 3), (5, 24), (128, 0), (16, 7), (1, 127)])
def test_nvidia_128_fills_its_tile_at_the_guidelines_draft_length(
    h200: GpuProfile, group: int, draft_len: int
) -> None:
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16", override="nvidia-128")
    assert tile_rows(kernel) == 128
    first_edge = tile_edges(kernel, group_size=group, max_query_len=200)[0]
    assert first_edge - 2 == draft_len


def test_nvidia_128_multiples_of_eight_heads(h200: GpuProfile) -> None:
    kernel = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16", override="nvidia-128")
    edges = tile_edges(kernel, group_size=8, max_query_len=64)
    assert edges == (17, 33, 49)
    assert [edge - 2 for edge in edges] == [15, 31, 47]


@pytest.mark.parametrize(("gpu", "engine", "override", "head_dim", "group", "edges"), [
    ("h200-sxm", "vllm", None, 64, 8, (25,)),               # FA3 takes 192 rows up to head 96: D = 23 for G = 8
    ("h200-sxm", "vllm", None, 128, 8, (17, 33)),
    ("h200-sxm", "trtllm", None, 128, 5, (2, 4, 7, 13, 25, 37)),    # 8, 16, 32 rows, then 12 whole tokens of 64 rows
    ("b200-sxm", "vllm", None, 128, 8, (2, 3, 5, 9, 17, 33)),       # 8, 16, 32, 64, 128, then whole tokens
    ("b200-sxm", "vllm", "fa4", 128, 8, (17, 33)),          # 128, then 256 rows in one CTA
    ("l40s", "sglang", None, 128, 8, (3, 9, 17, 33)),       # FlashInfer: 16, 64, 128
    ("h200-sxm", "vllm", "vllm-triton", 128, 8, (3, 5, 7, 9)),  # two tokens per tile of 16 rows
    ("h200-sxm", "vllm", "fa2", 128, 8, ()),                # 64 query tokens per head
])
def test_edges_of_the_kernels_in_use_kernels_md_1_1(
    gpu: str, engine: str, override: str | None, head_dim: int, group: int, edges: tuple[int, ...]
) -> None:
    kernel = attention_kernel(load_gpu(gpu), engine, head_dim=head_dim, kv_dtype="bf16", override=override)
    found = tile_edges(kernel, group_size=group, max_query_len=40)
    assert found[: len(edges)] == edges
    assert edges or not found


@pytest.mark.parametrize(("gpu", "head_dim", "knee"), [
    ("h200-sxm", 128, 130), ("h100-sxm", 128, 190), ("b200-sxm", 128, 165), ("b200-sxm", 64, 103),
    ("b300-sxm", 128, 200)])
def test_math_knee_kernel_fits_md_0(gpu: str, head_dim: int, knee: float) -> None:
    kernel = attention_kernel(load_gpu(gpu), "vllm", head_dim=head_dim, kv_dtype="bf16")
    assert math_knee_rows(kernel) == pytest.approx(knee, rel=0.03)


def test_fp8_halves_the_knee(h200: GpuProfile) -> None:
    knees = [math_knee_rows(attention_kernel(h200, "vllm", head_dim=128, kv_dtype=kv)) for kv in ("bf16", "fp8")]
    assert knees[1] == pytest.approx(knees[0] / 2, rel=0.1)


def codes(gpu: str, engine: str, group: float, query_len: int, override: str | None = None) -> set[str]:
    kernel = attention_kernel(load_gpu(gpu), engine, head_dim=128, kv_dtype="bf16", override=override)
    return {note.code for note in attention_notes(kernel, group_size=group, max_query_len=query_len)}


def test_cliffs_warn_where_they_lie() -> None:
    assert "kernel-cliff-xqa-group" in codes("h200-sxm", "trtllm", 48, 1)
    assert "kernel-cliff-xqa-group" not in codes("h200-sxm", "trtllm", 32, 1)
    assert "kernel-cliff-trtllm-gen-group" in codes("b200-sxm", "trtllm", 64, 1)
    assert "kernel-cliff-trtllm-gen-group" not in codes("b200-sxm", "vllm", 64, 1)
    assert "kernel-cliff-fa2-single-group" in codes("a100-80-sxm", "vllm", 1, 1)
    assert codes("a100-80-sxm", "vllm", 8, 1) == set()
    assert {"kernel-cliff-fa2-verify", "kv-reread"} <= codes("a100-80-sxm", "vllm", 8, 2)
    assert {"kernel-cliff-triton-verify", "kv-reread"} <= codes("h200-sxm", "vllm", 8, 2, "vllm-triton")


def test_rows_beyond_the_fit_warn() -> None:
    assert codes("h200-sxm", "vllm", 8, 8) == set()         # 64 rows a KV head are the most that were measured
    assert codes("h200-sxm", "vllm", 8, 9) == {"outside-fitted-range"}
