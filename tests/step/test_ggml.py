"""The llama.cpp and MLX law against published figures, hand counts and its own limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specplan.planner.answer import recommend
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.forward import forward_pass, total_s
from specplan.planner.step.ggml import fp32_flop_per_s, ggml_law, matmul_time
from specplan.planner.step.step_time import off_step, speculative_step
from specplan.planner.step.tokens import tokens


def deployed(gpu: str, **more: object) -> Deployment:
    return Deployment(gpu=load_gpu(gpu), path=engine_path("llama.cpp"), **more)  # type: ignore[arg-type]


def pass_s(gpu: str, weights: str, rows: int) -> float:
    model = with_dtypes(load_model("qwen3.6-27b-nvfp4"), weights)
    return float(total_s(forward_pass(model, deployed(gpu), tokens(rows, 1.0, 100.0))))


def test_eight_rows_on_an_rtx_3090_take_as_long_as_batched_bench_says() -> None:
    """sudoingX/qwen38-mtp PR 40, llama-batched-bench, 27B Q3_K_XL: 3.34 times the rate at batch 8: t(8)/t(1) = 2.4."""
    assert pass_s("rtx-3090", "q3_k_m", 8) / pass_s("rtx-3090", "q3_k_m", 1) == pytest.approx(8 / 3.34, rel=0.2)


def test_eight_rows_on_an_m4_are_hardly_amortised() -> None:
    """The same source, Metal on an M4: 1.22 times the rate at batch 8, t(8)/t(1) = 6.56."""
    assert pass_s("m4", "q3_k_m", 8) / pass_s("m4", "q3_k_m", 1) == pytest.approx(8 / 1.22, rel=0.1)


@pytest.mark.parametrize(
    ("gpu", "weights", "measured_ms"),
    [("rtx-5090", "q4_k_xl", 13.4), ("v100-sxm2-32", "q4_k_m", 29.8), ("radeon-8060s", "q4_k_xl", 87.0),
     ("m3-ultra", "q6_k", 43.9), ("rtx-pro-6000-maxq", "q8_0", 21.9), ("radeon-ai-pro-r9700", "q4_k_xl", 37.0)],
)
def test_plain_decoding_of_qwen_27b_takes_as_long_as_measured(gpu: str, weights: str, measured_ms: float) -> None:
    """Community sweeps of Qwen3.8-27B, batch 1; the last two devices are not in the table of fitted ones."""
    assert pass_s(gpu, weights, 1) * 1e3 == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize(("gpu", "weights", "rows", "tokens_per_s"), [
    ("rtx-4090", "q4_k_m", 16, 1944), ("rtx-4090", "q4_k_m", 32, 3357), ("rtx-4090", "q4_k_m", 64, 5359),
    ("rtx-4090", "q4_k_m", 128, 6901), ("rtx-3090", "q6_k", 16, 1011), ("rtx-3090", "q6_k", 32, 1715),
    ("rtx-3090", "q6_k", 63, 2456), ("rtx-3090", "q6_k", 128, 3075), ("rtx-3090", "q8_0", 16, 826),
    ("rtx-3090", "q8_0", 64, 2243),
])
def test_many_rows_run_on_tiles_of_the_tensor_cores_llama_cpp_7860_8062_7676(
    gpu: str, weights: str, rows: int, tokens_per_s: float
) -> None:
    """Llama-3-8B, llama-bench by microbatch size: up to four times what a price per row allows.

    The RTX 3090 of the law ran at a 250 W cap, so its bandwidth is the lower one.
    """
    model = with_dtypes(load_model("llama-3.1-8b"), weights)
    seconds = float(total_s(forward_pass(model, deployed(gpu), tokens(rows, 1.0, 64.0))))
    assert rows / seconds == pytest.approx(tokens_per_s, rel=0.2)


@pytest.mark.parametrize(("gpu", "query_len", "tokens_per_s"), [
    ("rtx-4090", 1, 102.76), ("rtx-3090", 2, 170.31), ("rtx-3090", 4, 303.46), ("rtx-3090", 8, 439.54),
    ("rtx-3090", 16, 874.15), ("rtx-3090", 32, 1194.99),
])
def test_a_long_16_bit_cache_is_read_once_for_all_rows_llama_cpp_17505(
    gpu: str, query_len: int, tokens_per_s: float
) -> None:
    """Llama-3-8B Q4_0 behind 32768 cached tokens, llama-bench by microbatch size: 4.3 GB of cache."""
    model = with_dtypes(load_model("llama-3.1-8b"), "q4_0")
    ops = forward_pass(model, deployed(gpu), tokens(1.0, query_len, 33_024.0))
    assert query_len / float(total_s(ops)) == pytest.approx(tokens_per_s, rel=0.25)


@pytest.mark.parametrize("gpu", ["rtx-4090", "a10g", "p40", "v100-sxm2-32", "rx-7900-xtx", "m3-ultra"])
def test_more_rows_never_take_less_and_a_price_per_row_ends_where_tiles_begin(gpu: str) -> None:
    hardware = load_gpu(gpu).hardware
    rows = np.arange(1.0, 65.0)
    seconds = matmul_time(ggml_law(hardware, "q4_k_m"), hardware, rows=rows, read_bytes=0.5e9, weights=1e9).time_s
    assert np.all(np.diff(seconds) >= 0)
    tiles = gpu in {"rtx-4090", "a10g"}
    assert bool(seconds[15] < 1.1 * seconds[7]) is tiles
    assert bool(seconds[63] < 3 * seconds[7]) is tiles


def test_one_matrix_by_hand() -> None:
    """1e9 weights of 0.5 bytes on an RTX 5090: 0.5e9 / (0.745 * 1792e9) and 2e9 / (4 * 104.8e12 * 0.076) per row."""
    hardware = load_gpu("rtx-5090").hardware
    law = ggml_law(hardware, "q4_k_m")
    time = matmul_time(law, hardware, rows=np.array([1.0, 4.0]), read_bytes=0.5e9, weights=1e9)
    memory, row = 0.5e9 / (0.745 * 1.792e12), 2e9 / (4 * fp32_flop_per_s(hardware) * 0.076)
    assert fp32_flop_per_s(hardware) == pytest.approx(104.8e12, rel=0.01)
    assert time.time_s.tolist() == pytest.approx([(memory**1.4 + (r * row) ** 1.4) ** (1 / 1.4) for r in (1, 4)])


def test_a_power_cap_slows_rows_and_not_memory() -> None:
    hardware = load_gpu("rtx-5090").hardware
    law = ggml_law(hardware, "q4_k_m")
    free = matmul_time(law, hardware, rows=np.array(4.0), read_bytes=1e9, weights=2e9)
    capped = matmul_time(law, hardware, rows=np.array(4.0), read_bytes=1e9, weights=2e9, power_limit_w=400)
    above = matmul_time(law, hardware, rows=np.array(4.0), read_bytes=1e9, weights=2e9, power_limit_w=900)
    assert capped.parts["memory"] == free.parts["memory"]
    assert float(capped.parts["tensor"]) == pytest.approx(float(free.parts["tensor"]) * (575 / 400) ** 1.3)
    assert above.time_s == free.time_s


def test_unknown_devices_take_the_general_law_and_say_so() -> None:
    assert ggml_law(load_gpu("rtx-a6000").hardware, "q4_k_m").source == "general"
    assert ggml_law(load_gpu("m4-max").hardware, "q4_k_m").source == "apple-m4"
    assert ggml_law(load_gpu("rtx-a6000").hardware, "iq3_xxs").row_share < (
        ggml_law(load_gpu("rtx-a6000").hardware, "q4_k_m").row_share
    )


@pytest.mark.parametrize(
    "gpu",
    ["rtx-3080-10gb", "rtx-3090", "rtx-4090", "rtx-5060-ti", "rtx-5090", "rtx-a6000", "rtx-pro-6000-maxq",
     "v100-sxm2-32", "p40", "rtx-2080-ti", "a10g", "l4", "dgx-spark-gb10", "m3-ultra", "m4-max", "mi300x", "gaudi3",
     "arc-pro-b60", "arc-pro-b70", "radeon-ai-pro-r9700", "rx-7900-xtx", "rx-9060-xt", "radeon-8060s"],
)
def test_owners_of_these_gpus_get_an_answer(gpu: str) -> None:
    """Llama-3.1-8B as Q4_K_M with a 1B drafter, one sequence; steps never fall with D."""
    answer = recommend({
        "target": "llama-3.1-8b", "gpu": gpu, "engine": "llama.cpp", "dtypes": {"weights": "q4_k_m", "kv": "q8_0"},
        "workload": {"batch": 1, "context_tokens": 2000},
        "drafters": [{"mechanism": "draft_model", "model": "llama-3.2-1b", "weights": "q4_k_m",
                      "acceptance": {"alpha": 0.75}}],
    })
    steps = [item.step_s for item in answer.candidates]
    assert steps == sorted(steps)
    assert answer.off.fits_memory
    assert answer.recommendation.speculate is not None


def test_layers_split_over_cards_run_one_after_the_other() -> None:
    """2x RTX 5060 Ti, Q4_K_XL: by layer 45.3 ms, by tensor 27 ms (same source)."""
    model = with_dtypes(load_model("qwen3.6-27b-nvfp4"), "q4_k_xl")
    by_layer = off_step(model, deployed("rtx-5060-ti", pp=2), 1.0, 100.0).step_s
    by_tensor = off_step(model, deployed("rtx-5060-ti", tp=2), 1.0, 100.0).step_s
    assert float(by_layer) == pytest.approx(45.3e-3, rel=0.1)
    assert float(by_tensor) == pytest.approx(27.0e-3, rel=0.1)


def test_experts_are_read_as_they_are_hit() -> None:
    model = with_dtypes(load_model("qwen3-30b-a3b"), "q4_k_m")
    drafter = load_drafter("eagle3", model)
    deployment = deployed("rtx-4090")
    off = float(off_step(model, deployment, 1.0, 500.0).step_s)
    steps = speculative_step(model, deployment, drafter, np.array([1.0, 3.0, 7.0]), 1.0, 500.0).verify_s
    assert np.all(np.diff(steps) > 0)
    assert off < steps[0] < 8 * off
    dense = replace(deployment, moe_skew=-1.0)
    assert float(speculative_step(model, dense, drafter, 7.0, 1.0, 500.0).verify_s) > steps[2]
