"""KV cache, recurrent state and weights per GPU: one hand count for each kind of layer."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.models.counts import (
    group_size,
    kv_bytes,
    kv_bytes_per_token,
    parameters,
    state_bytes_per_sequence,
    weight_bytes,
    with_dtypes,
)
from specplan.planner.models.reader import load_model

KEY_WITH_SCALE = 128 + 4    # fp8 index key of 128 numbers and one fp32 scale


def kv(name: str, dtype: str = "bf16") -> float:
    return kv_bytes_per_token(load_model(name), dtype)


def test_grouped_queries_llama_3_1_70b() -> None:
    assert kv("llama-3.1-70b") == 80 * 8 * (128 + 128) * 2 == 327_680
    assert kv("llama-3.1-70b", "fp8") == 163_840


def test_latent_deepseek_v3() -> None:
    assert kv("deepseek-v3") == 61 * (512 + 64) * 2 == 70_272


def test_latent_with_index_deepseek_v32() -> None:
    assert kv("deepseek-v3.2") == 61 * ((512 + 64) * 2 + KEY_WITH_SCALE)
    # FlashMLA's sparse fp8 layout: 512 fp8 + 4 fp32 scales + 64 bf16 = 656 bytes
    assert kv("deepseek-v3.2", "fp8") == 61 * (656 + KEY_WITH_SCALE)


def test_shared_index_glm_5_2() -> None:
    """21 of 78 layers have an index of their own, the others reuse its picks."""
    assert kv("glm-5.2") == 78 * 576 * 2 + 21 * KEY_WITH_SCALE


def test_window_gpt_oss_120b() -> None:
    """18 full layers grow; 18 sliding ones stop at 128 tokens."""
    token = 8 * (64 + 64) * 2
    assert kv("gpt-oss-120b") == 18 * token
    model = load_model("gpt-oss-120b")
    expected = [36 * 100 * token, 36 * 128 * token, 18 * (128 + 10_000) * token]
    assert kv_bytes(model, "bf16", np.array([100, 128, 10_000])) == pytest.approx(expected)


def test_other_heads_in_window_layers_mimo_v2_flash() -> None:
    """9 full layers of 4 heads, 39 sliding ones of 8; keys are 192 wide, values 128."""
    assert kv("mimo-v2-flash") == 9 * 4 * (192 + 128) * 2
    window = 39 * 8 * (192 + 128) * 2 * 128
    whole = kv_bytes(load_model("mimo-v2-flash"), "bf16", 1000.0)
    assert float(whole) == 9 * 4 * 320 * 2 * 1000 + window


def test_chunks_llama_4_scout() -> None:
    """12 of 48 layers see everything; chunked ones hold at most one chunk of 8192."""
    token = 8 * 256 * 2
    assert kv("llama-4-scout") == 12 * token
    assert float(kv_bytes(load_model("llama-4-scout"), "bf16", 20_000.0)) == token * (12 * 20_000 + 36 * 8192)


def test_one_projection_two_cached_tensors_gemma_4_31b() -> None:
    """Full layers of Gemma 4 make keys and values by one matrix; only keys are rotated, so both are cached."""
    assert kv("gemma-4-31b-nvfp4") == 10 * 4 * (512 + 512) * 2


def test_compressed_deepseek_v4_flash() -> None:
    """2 window layers, 21 CSA (a summary and an index key per 4 tokens), 20 HCA (a summary per 128)."""
    assert kv("deepseek-v4-flash") == 21 * (512 * 2 + KEY_WITH_SCALE) / 4 + 20 * 512 * 2 / 128
    context = 10_000
    window = 43 * 128 * 512 * 2
    csa, hca = (context // 4) * (1024 + KEY_WITH_SCALE), (context // 128) * 1024
    assert float(kv_bytes(load_model("deepseek-v4-flash"), "bf16", context)) == window + 21 * csa + 20 * hca
    entry = 448 + 2 * 64 + 8       # fp8, rotary part in 16 bit, scales
    assert kv("deepseek-v4-flash", "fp8") == 21 * (entry + KEY_WITH_SCALE) / 4 + 20 * entry / 128


def test_block_sparse_minimax_m3() -> None:
    """57 sparse layers keep an index key beside 4 KV heads; 3 full ones do not."""
    assert kv("minimax-m3") == 60 * 4 * 256 * 2 + 57 * KEY_WITH_SCALE


def test_gated_delta_net_qwen3_next() -> None:
    """36 layers with 32 states of 128 x 128 in fp32 and 3 convolved columns of q, k (16 heads each) and v (32)."""
    assert kv("qwen3-next-80b-a3b") == 12 * 2 * 512 * 2
    state = 32 * 128 * 128 * 4 + (16 + 16 + 32) * 128 * 3 * 2
    assert state_bytes_per_sequence(load_model("qwen3-next-80b-a3b")) == 36 * state


def test_kimi_delta_attention_kimi_linear() -> None:
    assert kv("kimi-linear-48b-a3b") == 7 * 576 * 2
    state = 32 * 128 * 128 * 4 + 3 * 32 * 128 * 3 * 2
    assert state_bytes_per_sequence(load_model("kimi-linear-48b-a3b")) == 20 * state


def test_mamba_2_nemotron_3_nano() -> None:
    """64 heads of 64 x 128 in fp32; 3 columns of x (64*64), B and C (8 groups of 128 each)."""
    assert kv("nemotron-3-nano-30b-a3b") == 6 * 2 * 256 * 2
    state = 64 * 64 * 128 * 4 + (64 * 64 + 2 * 8 * 128) * 3 * 2
    assert state_bytes_per_sequence(load_model("nemotron-3-nano-30b-a3b")) == 23 * state


def test_layers_without_attention_nemotron_super_49b() -> None:
    assert kv("llama-3.3-nemotron-super-49b") == 49 * 8 * 256 * 2


def test_tensor_parallelism_repeats_kv_heads_and_latents() -> None:
    llama, deepseek = load_model("llama-3.1-70b"), load_model("deepseek-v3")
    one = float(kv_bytes(llama, "bf16", 1000.0))
    assert float(kv_bytes(llama, "bf16", 1000.0, tp=4)) == one / 4
    assert float(kv_bytes(llama, "bf16", 1000.0, tp=16)) == one / 8     # 8 KV heads: each is kept twice
    assert float(kv_bytes(deepseek, "bf16", 1000.0, tp=8)) == float(kv_bytes(deepseek, "bf16", 1000.0))
    assert float(kv_bytes(llama, "bf16", 1000.0, pp=4)) == one / 4
    assert (group_size(llama), group_size(llama, tp=8), group_size(llama, tp=16)) == (8, 8, 4)


def test_weights_of_one_gpu() -> None:
    model = load_model("llama-3.1-70b")
    assert weight_bytes(model) == 2 * parameters(model)
    assert weight_bytes(model, tp=8) == pytest.approx(2 * parameters(model) / 8, rel=2e-4)   # norms are on each
    kv_matrices = 80 * 2 * 8192 * 8 * 128 * 2
    assert weight_bytes(model, tp=16) == pytest.approx((2 * parameters(model) + kv_matrices) / 16, rel=1e-3)
    table = 128256 * 8192 * 2
    assert weight_bytes(model, pp=4) == pytest.approx((2 * parameters(model) - 2 * table) / 4 + table, rel=1e-5)


def test_experts_are_shared_out_by_ep_and_the_rest_of_tp() -> None:
    model = load_model("qwen3-235b-a22b")
    whole, split = weight_bytes(model, tp=8), weight_bytes(model, tp=8, ep=8)
    assert split == pytest.approx(whole, rel=1e-9)      # a whole eighth of the experts, or an eighth of each
    assert weight_bytes(model, tp=8, ep=2) == pytest.approx(whole, rel=1e-9)
    experts = 94 * 128 * 3 * 4096 * 1536 * 2
    assert weight_bytes(model, ep=8) == pytest.approx(2 * parameters(model) - experts * 7 / 8, rel=1e-9)
    attention = 94 * (64 * 128 * 2 + 2 * 4 * 128) * 4096 * 2
    replicated = weight_bytes(model, tp=8, ep=8, attention_tp=1)
    assert replicated - split == pytest.approx(attention - 94 * (8 * 128 * 2 + 2 * 128) * 4096 * 2, rel=1e-6)


def test_checkpoint_sizes_of_quantised_models() -> None:
    """gpt-oss-120b: 60.8 GiB checkpoint (model card). Kimi-K2.5 INT4: 595 GB; Kimi-K3 MXFP4: 1.56 TB (both hf)."""
    assert weight_bytes(load_model("gpt-oss-120b")) == pytest.approx(60.8 * 2**30, rel=0.01)
    assert weight_bytes(load_model("kimi-k2.5")) == pytest.approx(595e9, rel=0.01)
    assert weight_bytes(load_model("kimi-k3")) == pytest.approx(1.56e12, rel=0.01)


def test_with_dtypes_leaves_head_and_embedding() -> None:
    model = with_dtypes(load_model("llama-3.1-70b"), "fp8", kv="fp8", static_scales=True)
    assert (model.weights.attention, model.weights.lm_head, model.kv_dtype) == ("fp8", "bf16", "fp8")
    assert model.weights.static_scales
    tables = 2 * 128256 * 8192
    layers = parameters(model) - tables
    assert weight_bytes(model) == pytest.approx(layers + 2 * tables, rel=1e-4)
