"""Prompts run through prefill kernels: mixers near their FLOP, not at the price of a decode kernel with many rows."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import mla_kernel
from specplan.planner.kernels.select_attention import attention_math_rate
from specplan.planner.models.architecture import Model
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.forward import breakdown_s, forward_pass
from specplan.planner.step.step_time import prefill_s
from specplan.planner.step.tokens import tokens


def part_s(model: Model, deployment: Deployment, prompt: int, part: str) -> float:
    ops = forward_pass(model, deployment, tokens(1, prompt, prompt / 2), prefill=True)
    return float(np.max(breakdown_s(ops)[part]))    # type: ignore[index]


@pytest.mark.parametrize(("gpu", "engine"), [
    ("h200-sxm", "vllm"), ("h200-sxm", "trtllm"), ("b200-sxm", "vllm"), ("b200-sxm", "sglang"), ("a100-80-sxm", "vllm"),
    ("l40s", "vllm"), ("mi300x", "vllm"),
])
def test_attention_of_a_prompt_runs_at_the_rate_measured_in_prefill_by_hand(gpu: str, engine: str) -> None:
    """Llama-3.1-70B, TP4: 80 layers * 4 * 16 heads * 128 FLOP per pair of tokens, 8000 * 4000 pairs."""
    profile = load_gpu(gpu)
    deployment = Deployment(gpu=profile, path=engine_path(engine), tp=4)
    flop = 80 * 4 * 16 * 128 * 8000 * 4000
    rate = attention_math_rate(profile, engine, 128, "bf16")
    attention = part_s(load_model("llama-3.1-70b"), deployment, 8000, "attention")
    assert attention == pytest.approx(flop / rate + 80 * 15e-6, rel=0.10)


def test_latent_attention_of_a_prompt_is_not_absorbed_by_hand() -> None:
    """DeepSeek-V3, TP8: keys of 192 and values of 128 per head; absorbed they would be 576 and 512."""
    deployment = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("sglang"), tp=8, ep=8)
    attention = part_s(load_model("deepseek-v3"), deployment, 8000, "attention")
    flop = 61 * 2 * 16 * (192 + 128) * 8000 * 4000
    assert flop / 989e12 < attention < 2.0 * flop / 989e12 + 61 * 15e-6


def test_a_recurrent_layer_stores_one_state_per_prompt_not_one_per_token() -> None:
    """Qwen3.5-27B: at 48 layers, 48 heads of 128 x 128, a state per token would move 150 MB * tokens."""
    deployment = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm"))
    assert part_s(load_model("qwen3.5-27b"), deployment, 4000, "state") < 0.01


def test_windows_bound_what_a_prompt_token_sees() -> None:
    """Gemma-3 sees 1024 tokens in five of six layers: eight times the prompt is far from 64 times the work."""
    one = Deployment(gpu=load_gpu("b200-sxm"), path=engine_path("sglang"))
    gemma = load_model("gemma-3-27b")
    assert part_s(gemma, one, 32_000, "attention") < 25 * part_s(gemma, one, 4_000, "attention")


def test_sparse_attention_of_a_prompt_by_hand() -> None:
    """DeepSeek-V3.2, TP8: 64 rows of 16 heads, 576 + 512 wide over 2048 picks; all of the index on every GPU."""
    gpu = load_gpu("b200-sxm")
    deployment = Deployment(gpu=gpu, path=engine_path("sglang"), tp=8, ep=8)
    model = load_model("deepseek-v3.2")
    ops = {op.name: op for op in forward_pass(model, deployment, tokens(1, 8000, 4000), prefill=True)}
    scores = 2 * 8000 * 4000 * 64 * 128
    assert float(ops["index"].time.parts["tensor"]) == pytest.approx(scores / gpu.hardware.dense("fp8"))
    rate = mla_kernel(gpu, "sglang", kv_dtype="bf16").mma_flop_per_s
    assert float(ops["attention"].time.parts["tensor"]) == pytest.approx(2 * 8000 * 64 * 1088 * 2048 / rate)


def test_llama_cpp_runs_a_prompt_as_a_gemm_not_row_by_row() -> None:
    """4,000 rows at the verify law's price per row would take 2 s; the tensor cores of an RTX 5090 need 0.3 s."""
    deployment = Deployment(gpu=load_gpu("rtx-5090"), path=engine_path("llama_cpp"))
    flop = 2 * 7.5e9 * 4000
    assert flop / 209.5e12 < prefill_s(load_model("llama-3.1-8b"), deployment, 4000) < 2.0 * flop / 209.5e12
