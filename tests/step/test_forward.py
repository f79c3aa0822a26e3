"""One layer worked out by hand, and what must hold for every model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import gemm_kernel
from specplan.planner.models.architecture import CompressedAttention, Model
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.forward import PARTS, breakdown_s, forward_pass, layer_ops, total_s
from specplan.planner.step.kernels_used import kernels_used
from specplan.planner.step.step_time import prefill_s
from specplan.planner.step.tokens import tokens


def test_one_layer_of_llama_3_1_8b_by_hand(llama_8b: Model, h200: Deployment) -> None:
    """qkv 6144 x 4096, o 4096 x 4096, up+gate 28672 x 4096, down 4096 x 14336: 436 MB of bf16 per layer.

    At one row each GEMM reads its weights: 436.2 MB at 4.46 TB/s is 97.8 us, plus 4 launches and the K loops.
    """
    shapes = {"qkv": (6144, 4096), "o": (4096, 4096), "ffn_up": (28672, 4096), "ffn_down": (4096, 14336)}
    ops = {op.name: op for op in forward_pass(llama_8b, h200, tokens(1, 1, 1000))}
    kernel = gemm_kernel(h200.gpu, "vllm", weight_dtype="bf16")
    for name, (n, k) in shapes.items():
        assert float(ops[name].time.time_s) == pytest.approx(float(gemm_time(kernel, rows=1, n=n, k=k).time_s))
        assert ops[name].count == 32
        memory = float(ops[name].time.parts["memory"])
        assert memory == pytest.approx(2.0 * n * k / kernel.stream_bytes_per_s, rel=0.01)
    weights = sum(2.0 * n * k for n, k in shapes.values())
    assert weights == pytest.approx(436.2e6, rel=0.001)
    layer = sum(float(ops[name].time.time_s) for name in shapes)
    by_hand = weights / kernel.stream_bytes_per_s + 4 * kernel.launch_s
    by_hand += kernel.k_chain_s * (4096 + 4096 + 4096 + 14336) / 1024
    assert layer == pytest.approx(by_hand, rel=0.02)


def test_head_is_read_once_per_pass_for_all_rows(llama_8b: Model, h200: Deployment) -> None:
    """128256 x 4096 bf16 = 1.05 GB, 236 us at 4.46 TB/s."""
    head = next(op for op in forward_pass(llama_8b, h200, tokens(1, 4, 1000)) if op.name == "lm_head")
    assert float(head.time.parts["memory"]) == pytest.approx(1.0507e9 / 4.464e12, rel=0.01)
    assert head.part == "lm_head"


def test_parts_add_up_to_the_pass(llama_8b: Model, h200: Deployment) -> None:
    ops = forward_pass(llama_8b, replace(h200, tp=2), tokens(8, 4, 2000))
    parts = breakdown_s(ops)
    assert set(parts) == set(PARTS)
    assert sum(float(part) for part in parts.values()) == pytest.approx(float(total_s(ops)))


@pytest.mark.parametrize("name", [
    "llama-3.1-8b", "qwen3-235b-a22b", "deepseek-v3", "deepseek-v3.2", "deepseek-v4-pro", "gpt-oss-120b", "gemma-3-27b",
    "qwen3.5-397b-a17b", "nemotron-3-super-120b-a12b-nvfp4", "kimi-k3", "minimax-m3", "llama-4-scout",
    "llama-3.3-nemotron-super-49b", "step-3.5-flash", "mimo-v2-flash", "inkling",
])
def test_every_architecture_has_a_positive_pass_on_the_whole_grid(name: str, h200: Deployment) -> None:
    deployment = replace(h200, tp=8)
    work = tokens(np.array([1.0, 64.0])[:, None], np.array([1.0, 2.0, 8.0])[:, None, None], np.array([100.0, 32000.0]))
    for op in forward_pass(load_model(name), deployment, work):
        assert np.all(np.isfinite(op.total_s)), op.name
        assert np.all(op.total_s >= 0), op.name
        assert set(op.time.parts) <= {"memory", "tensor", "exp", "launch", "network"}


def test_experts_touched_grow_the_verify_pass_of_a_moe(h200: Deployment) -> None:
    """Qwen3-30B-A3B at batch 1: four tokens touch up to four times the experts of one."""
    model = load_model("qwen3-30b-a3b")
    one, four = (breakdown_s(forward_pass(model, h200, tokens(1, q, 1000)))["moe"] for q in (1, 4))
    assert 1.5 < float(four / one) < 4.0


def test_a_window_stops_the_growth_of_attention(h200: Deployment) -> None:
    model = load_model("gemma-3-27b")
    short, long = (breakdown_s(forward_pass(model, h200, tokens(8, 1, s)))["attention"] for s in (1024, 65536))
    full = load_model("llama-3.1-8b")
    short_full, long_full = (breakdown_s(forward_pass(full, h200, tokens(8, 1, s)))["attention"] for s in (1024, 65536))
    assert float(long / short) < float(long_full / short_full)


# Decode calls (one query token) of DeepSeek-V4-Flash's attention over the summaries of 128 tokens, 4096 cached tokens,
# 64 heads, fp8 cache, us: aiconfigurator data/<gpu>/sparse_attention/vllm/0.24.0/dsv4_hca_attn_module_perf.parquet
MEASURED_HCA_DECODE_US = {
    "h200-sxm": {1: 13.4, 8: 13.7, 32: 18.1, 128: 18.5},
    "b200-sxm": {1: 14.8, 8: 17.0, 32: 19.0, 128: 16.9},
}


def _compressed_s(gpu: str, ratio: int, batch: object, query_len: object) -> np.ndarray:
    """Seconds of the attention kernel of one DeepSeek-V4-Flash layer with this compression ratio."""
    flash = load_model("deepseek-v4-flash")
    layer = next(group.layer for group in flash.groups
                 if isinstance(group.layer.mixer, CompressedAttention) and group.layer.mixer.compress_ratio == ratio)
    where = Deployment(gpu=load_gpu(gpu), path=engine_path("vllm", "0.24.0"), kv_dtype="fp8")
    work = tokens(np.asarray(batch), np.asarray(query_len), 4096)
    return next(op.time.time_s for op in layer_ops(flash, layer, where, work) if op.name == "attention")


@pytest.mark.parametrize("gpu", list(MEASURED_HCA_DECODE_US))
def test_compressed_attention_is_near_measured_decode_calls(gpu: str) -> None:
    measured = MEASURED_HCA_DECODE_US[gpu]
    found = _compressed_s(gpu, 128, list(measured), 1) * 1e6
    assert found == pytest.approx(np.array(list(measured.values())), rel=0.35)


@pytest.mark.parametrize("ratio", [0, 4, 128])
def test_compressed_attention_verifies_each_token_as_a_sequence_of_its_own(ratio: int) -> None:
    verify = _compressed_s("h200-sxm", ratio, [16, 32, 8], [8, 4, 16])
    assert verify == pytest.approx(_compressed_s("h200-sxm", ratio, [128, 128, 128], 1))


def test_compressed_attention_takes_the_decode_kernel_that_was_measured() -> None:
    flash = load_model("deepseek-v4-flash")
    where = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"), tp=4)
    used = {item.id: item for item in kernels_used(flash, where)}
    assert used["vllm-hca-decode"].evidence.level == "measured"
    assert not [item for item in used.values() if item.family == "mla"]
    elsewhere = kernels_used(flash, replace(where, gpu=load_gpu("h20")))
    assert next(item for item in elsewhere if item.id == "vllm-hca-decode").evidence.level == "prior"


def test_data_parallel_attention_splits_sequences_not_heads(h200: Deployment) -> None:
    """Eight groups of one GPU: each reads an eighth of the sequences, and no all-reduce follows attention."""
    model = load_model("deepseek-v3")
    ops = forward_pass(model, replace(h200, tp=8, ep=8, dp_attention=8), tokens(64, 1, 4000))
    names = {op.name for op in ops}
    assert "allreduce_attention" not in names
    assert "expert_alltoall" in names


def test_pipeline_stages_send_hidden_states(llama_8b: Model, h200: Deployment) -> None:
    ops = forward_pass(llama_8b, replace(h200, pp=4), tokens(1, 1, 100))
    assert next(op.count for op in ops if op.name == "stage_send") == 3


def test_prefill_grows_with_the_prompt_and_never_falls_below_its_fixed_part(llama_8b: Model, h200: Deployment) -> None:
    short, long = prefill_s(llama_8b, h200, 100), prefill_s(llama_8b, h200, 8000)
    assert 32 * 0.25e-3 < short < long
    flop = 2 * 7.5e9 * 8000     # 7.5 B weights outside embedding and head
    assert long - 32 * 0.25e-3 > flop / 989.4e12
