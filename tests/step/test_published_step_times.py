"""Step times against figures that others published; each test is named after its source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specplan.planner.kernels.attention import attention_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import attention_kernel
from specplan.planner.models.architecture import Model
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.forward import forward_pass, total_s
from specplan.planner.step.step_time import off_step
from specplan.planner.step.tokens import tokens


@pytest.fixture(scope="module")
def llama_70b_fp8() -> Model:
    """Llama-3.1-70B with static FP8 scales, as in aiconfigurator's nvidia/Llama-3.1-70B-Instruct-FP8."""
    return with_dtypes(load_model("llama-3.1-70b"), "fp8", static_scales=True)


@pytest.fixture(scope="module")
def four_h200() -> Deployment:
    return Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("trtllm"), tp=4, kv_dtype="fp8")


@pytest.mark.parametrize(("batch", "published_ms"), [(1, 8.12), (32, 11.1)])
def test_aiconfigurator_decode_step_of_llama_70b_fp8_tp4_h200(
    llama_70b_fp8: Model, four_h200: Deployment, batch: int, published_ms: float
) -> None:
    """aiconfigurator 0.12.0, TensorRT-LLM tables, 4,000 tokens of context: 8.12 ms at batch 1, 11.1 at 32."""
    gpu_ms = float(off_step(llama_70b_fp8, four_h200, batch, 4000).gpu_s) * 1e3
    assert gpu_ms == pytest.approx(published_ms, rel=0.15)


@pytest.mark.parametrize(("context", "batch", "published"), [(1000, 1, 2.71), (4000, 32, 2.16), (32000, 64, 2.28)])
def test_aiconfigurator_tables_with_kv_read_once(
    llama_70b_fp8: Model, four_h200: Deployment, context: int, batch: int, published: float
) -> None:
    """The same tables with the attention op of q = 1 in the step of D = 3, at AL 2.85: target pass alone."""
    plain, verify = (
        float(total_s(forward_pass(llama_70b_fp8, four_h200, tokens(batch, q, context)))) for q in (1, 4)
    )
    assert 2.85 * plain / verify == pytest.approx(published, rel=0.10)


def test_reading_kv_for_every_drafted_token_would_turn_the_answer_around(
    llama_70b_fp8: Model, four_h200: Deployment
) -> None:
    """Batch x (1 + D) as the best-known planner prices it: at 32k context it says 0.88x, speculation loses."""
    plain = float(total_s(forward_pass(llama_70b_fp8, four_h200, tokens(64, 1, 32000))))
    reread = float(total_s(forward_pass(llama_70b_fp8, four_h200, tokens(64 * 4, 1, 32000))))
    once = float(total_s(forward_pass(llama_70b_fp8, four_h200, tokens(64, 4, 32000))))
    assert 2.85 * plain / reread < 1.0 < 2.85 * plain / once


def test_specdecode_bench_llama_8b_gpu_time() -> None:
    """Llama-3.1-8B, TP1, H200, vLLM, batch 1, 1k: the GPU needs about 5 ms (15 GB of bf16 weights)."""
    deployment = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.10.1"))
    assert float(off_step(load_model("llama-3.1-8b"), deployment, 1, 1000).gpu_s) == pytest.approx(5.0e-3, rel=0.05)


def test_fa3_is_flat_to_32_rows_at_134_mb_of_kv() -> None:
    """kernels.md 1.3 and peers.md 1.3: 47.2 us at one row, 47-48 at 32, batch 64 x 4k, one KV head, H200."""
    kernel = attention_kernel(load_gpu("h200-sxm"), "vllm", head_dim=128, kv_dtype="bf16")
    query_len = np.array([1.0, 4.0])
    time = attention_time(
        kernel, batch=64, context_tokens=4096, query_len=query_len, query_heads=8, kv_heads=1
    ).time_s
    assert time[1] / time[0] == pytest.approx(1.0, abs=0.10)


def test_a_kernel_that_does_not_pack_pays_for_every_drafted_token() -> None:
    """FlashAttention-2 reads the cache once per query head as soon as q > 1 (flash-attention PR 1236)."""
    kernel = attention_kernel(load_gpu("h200-sxm"), "vllm", head_dim=128, kv_dtype="bf16", override="fa2")
    query_len = np.array([1.0, 4.0])
    time = attention_time(
        kernel, batch=64, context_tokens=4096, query_len=query_len, query_heads=8, kv_heads=1
    ).time_s
    assert time[1] / time[0] > 2.0


def test_dflash_paper_qwen3_4b_b200_fixed_time_per_layer() -> None:
    """Qwen3-4B off on one B200 takes about 3.2 ms, of which its 8 GB of weights explain 1.15 ms (DFlash table 3)."""
    deployment = Deployment(gpu=load_gpu("b200-sxm"), path=engine_path("sglang", "0.5.8"))
    step = off_step(load_model("qwen3-4b"), deployment, 1, 600)
    assert float(step.step_s) == pytest.approx(3.16e-3, rel=0.25)


def test_one_gpu_sends_nothing(llama_70b_fp8: Model, four_h200: Deployment) -> None:
    alone = replace(four_h200, tp=1)
    assert float(off_step(llama_70b_fp8, alone, 8, 1000).parts_s["collective"]) == 0.0
    assert float(off_step(llama_70b_fp8, four_h200, 8, 1000).parts_s["collective"]) > 0.0
