"""What the guidelines say about real models: each sentence must be true of the numbers that decide."""

from __future__ import annotations

from pathlib import Path

import pytest

import specplan
from specplan.planner.answer.types import Answer


def answer(tmp_path: Path, target: str, gpu: str, *, engine: str = "vllm", batch: int = 1, extra: str = "") -> Answer:
    text = f"""
target: {target}
gpu: {gpu}
engine: {engine}
workload: {{batch: [{batch}], context_tokens: [2000]}}
drafters:
- {{mechanism: ngram, acceptance: {{per_position: [0.5, 0.3, 0.2, 0.1], source: s}}}}
max_draft_len: 4
{extra}"""
    (tmp_path / "cfg.yaml").write_text(text)
    return specplan.recommend(str(tmp_path / "cfg.yaml"))


def test_g1_stops_before_the_next_tile_kernel_fits_md_3(tmp_path: Path) -> None:
    """Hopper CUTLASS fp8: 64 rows fill the first tile, 65 cost 1.28 times as much (64x8 = 512 rows fill none)."""
    found = answer(tmp_path, "llama-3.1-70b", "h200-sxm", batch=8, extra="parallel: {tp: 4}\ndtypes: {weights: fp8}\n")
    assert found.guidelines[0].id == "G1"
    assert "up to 128 rows" in found.guidelines[0].finding


def test_g1_counts_the_first_tile_as_flat_where_its_math_exceeds_the_reads(tmp_path: Path) -> None:
    """H20: a tile of 64 rows is compute-bound from one row on; no dearer at 16, but then its empty rows cost."""
    found = answer(tmp_path, "llama-3.1-70b", "h20", extra="parallel: {tp: 4}\ndtypes: {weights: fp8}\n")
    assert "up to 16 rows" in found.guidelines[0].finding


@pytest.mark.parametrize(("batch", "applies"), [(1, False), (128, True)])
def test_g1_waits_until_the_experts_are_read_anyway_kernels_md_2_2(tmp_path: Path, batch: int, applies: bool) -> None:
    found = answer(tmp_path, "gpt-oss-120b", "h200-sxm", batch=batch)
    assert found.guidelines[0].applies == applies
    assert "experts" in found.guidelines[0].finding


def test_llama_cpp_names_its_own_law_and_no_kernel_of_another_engine(tmp_path: Path) -> None:
    found = answer(tmp_path, "llama-3.1-8b", "rtx-5090", engine="llama_cpp", extra="dtypes: {weights: q4_k_m}\n")
    assert (found.gpu.kernel_attention, found.gpu.kernel_gemm, found.gpu.evidence) == ("ggml", "ggml", "measured")
    assert not any(guideline.applies for guideline in found.guidelines[:3])
    assert "unpack the weights for every row" in found.guidelines[0].finding
    assert not {"kv-reread", "kernel-of-other-engine", "kernel-cliff-fa2-verify"} & {w.code for w in found.warnings}


def test_g4_does_not_call_the_end_of_what_is_known_a_peak(tmp_path: Path) -> None:
    """A lookup has no draft layers, so AL itself is weighed, and that rises as far as it is known: to D = 4."""
    finding = answer(tmp_path, "llama-3.1-8b", "h200-sxm").guidelines[3].finding
    assert "still rises at D = 4 (2.10x), the last draft length with known acceptance" in finding
    assert "peaks" not in finding
