"""Numbers of GPUs that nobody measured: scaled by datasheet ratios, and never passed off as measured."""

from __future__ import annotations

import pytest

from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import allreduce_kernel, attention_kernel, gemm_kernel, sparse_kernel


@pytest.mark.parametrize(("gpu", "near", "memory", "math"), [
    ("gh200-144", "h200-sxm", 4900 / 4800, 1.0), ("h20", "h200-sxm", 4000 / 4800, 148 / 989.4),
    ("h100-pcie", "h100-sxm", 2039 / 3350, 756.5 / 989.4), ("rtx-4090", "l40s", 1008 / 864, 165.2 / 362),
    ("mi300x", "h200-sxm", 5300 / 4800, 1307 / 989.4 * 0.62),
])
def test_gemm_scales_by_datasheet_ratios(gpu: str, near: str, memory: float, math: float) -> None:
    here, there = (gemm_kernel(load_gpu(name), "vllm", weight_dtype="bf16") for name in (gpu, near))
    assert here.stream_bytes_per_s == pytest.approx(there.stream_bytes_per_s * memory)
    assert here.mma_flop_per_s == pytest.approx(there.mma_flop_per_s * math)
    assert here.launch_s == there.launch_s
    assert here.sms == load_gpu(gpu).hardware.sms
    assert (here.evidence.level, there.evidence.level) == ("prior", "measured")
    assert here.evidence.error_mean_pct is None
    assert "gpu-prior" in {note.code for note in here.notes}
    assert f"of {near} scaled by datasheet ratios to {gpu}" in here.evidence.source


def test_attention_keeps_latencies_and_cta_rates() -> None:
    here, there = (attention_kernel(load_gpu(name), "vllm", head_dim=128, kv_dtype="bf16")
                   for name in ("h20", "h200-sxm"))
    for number in ("launch_s", "block_s", "wave_s", "combine_s", "cta_bytes_per_s", "split_cap"):
        assert getattr(here, number) == getattr(there, number)
    assert here.stream_bytes_per_s == pytest.approx(there.stream_bytes_per_s * 4000 / 4800)
    assert here.sms == 78


def test_wires_follow_the_link() -> None:
    here, there = (allreduce_kernel(load_gpu(name), "vllm", gpus=4) for name in ("h100-nvl", "h100-sxm"))
    for mine, theirs in zip(here.bands, there.bands, strict=True):
        assert mine.alpha_s == theirs.alpha_s
        assert mine.beta_s_per_byte == pytest.approx(theirs.beta_s_per_byte * 900 / 600)


def test_a_wave_of_picks_follows_sms_and_bandwidth() -> None:
    here, there = (sparse_kernel(load_gpu(name), "sglang") for name in ("h20", "h200-sxm"))
    assert here.width_tokens == pytest.approx(there.width_tokens * 78 / 132)
    assert here.wave_s == pytest.approx(there.wave_s * (78 / 132) / (4000 / 4800))


def test_own_measurements_stay_in_place_of_the_scaled_ones() -> None:
    gb200 = load_gpu("gb200")
    own, there = (gemm_kernel(gpu, "vllm", weight_dtype="bf16") for gpu in (gb200, load_gpu("b200-sxm")))
    assert own.evidence.level == "measured"
    assert own.mma_flop_per_s != pytest.approx(there.mma_flop_per_s * 2500 / 2250, rel=0.01)
    assert allreduce_kernel(gb200, "vllm", gpus=4).evidence.level == "measured"
    assert allreduce_kernel(gb200, "vllm", gpus=8).evidence.level == "prior"     # none of eight was measured


def test_formats_without_tensor_cores_do_not_travel() -> None:
    ada = load_gpu("l4")
    assert not [entry for entry in ada.entries("gemm") if entry.key["weight_dtype"] == "nvfp4"]
    assert [entry for entry in load_gpu("rtx-5090").entries("gemm") if entry.key["weight_dtype"] == "nvfp4"]
