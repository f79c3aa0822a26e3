"""What fits: weights, caches with look-ahead, saved states, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.architecture import Model
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.memory import memory, usable_bytes

LLAMA_8B_KV = 2 * 8 * 128 * 32 * 2     # bytes per token: K and V, 8 heads of 128, 32 layers, bf16 = 128 KiB


def test_llama_3_1_8b_by_hand(llama_8b: Model, h200: Deployment) -> None:
    found = memory(llama_8b, h200, None, 0.0, 16, 4000)
    assert found.weights_bytes == pytest.approx(16.06e9, rel=0.01)
    assert float(found.cache_bytes) == pytest.approx(16 * 4001 * LLAMA_8B_KV)
    assert found.usable_bytes == pytest.approx(0.9 * 139.80 * 2**30 - 2.1e9, rel=1e-3)
    assert float(found.max_batch) == (found.usable_bytes - found.weights_bytes) // (4001 * LLAMA_8B_KV)
    assert bool(found.fits)


@pytest.mark.parametrize(("gpu", "tokens"), [("h100-sxm", 447_088), ("a100-80-sxm", 28_123 * 16)])
def test_cache_of_llama_3_1_8b_in_vllms_memory_profile(
    llama_8b: Model, h200: Deployment, gpu: str, tokens: int
) -> None:
    """Logged at utilization 0.9: 79.11 GiB leave 54.62 GiB, 447,088 tokens; 79.15 GiB leave 28,123 blocks of 16."""
    found = memory(llama_8b, replace(h200, gpu=load_gpu(gpu)), None, 0.0, 1, 0)
    assert float(found.max_batch) == pytest.approx(tokens, rel=0.02)


def test_cache_of_qwen3_235b_on_four_h100_vllm_21348(h200: Deployment) -> None:
    """vLLM kept 8.11 GiB a GPU for the cache at 0.9, SGLang 16.46 at 0.93: activations differ that much."""
    model = with_dtypes(load_model("qwen3-235b-a22b"), "fp8")
    found = memory(model, replace(h200, gpu=load_gpu("h100-sxm"), tp=4), None, 0.0, 1, 1000)
    assert 8.11 < (found.usable_bytes - found.weights_bytes) / 2**30 < 16.46


def test_a_smaller_card_loses_more_to_what_is_reserved(llama_8b: Model, h200: Deployment) -> None:
    """On the 22.03 GiB of an L4, 0.9 leaves 19.8 GiB: 15 of weights, 2 reserved, not 3 GiB for the cache."""
    found = memory(llama_8b, replace(h200, gpu=load_gpu("l4")), None, 0.0, 1, 0)
    assert (found.usable_bytes - found.weights_bytes) / 2**30 == pytest.approx(0.9 * 22.03 - 14.96 - 1.96, abs=0.05)


def test_llama_cpp_fills_a_card(h200: Deployment) -> None:
    """No share is held back there: 15704 of the 15840 MiB of an RTX 5060 Ti ran."""
    card = replace(h200, gpu=load_gpu("rtx-5060-ti"), path=engine_path("llama.cpp"))
    assert usable_bytes(card) + card.path.constant("memory_reserve_bytes") >= 15704 * 2**20


def test_look_ahead_slots_and_the_drafters_cache_count(llama_8b: Model, h200: Deployment) -> None:
    """EAGLE-3 adds one layer of cache; D = 7 needs seven more slots per sequence than D = 0."""
    eagle = load_drafter("eagle3", llama_8b)
    found = memory(llama_8b, h200, eagle, np.array([0.0, 7.0]), 16, 4000)
    own = LLAMA_8B_KV / 32
    assert found.cache_bytes == pytest.approx([16 * 4001 * (LLAMA_8B_KV + own), 16 * 4008 * (LLAMA_8B_KV + own)])
    assert found.drafter_bytes > 0
    assert found.max_batch[1] < float(memory(llama_8b, h200, None, 0.0, 16, 4000).max_batch)


def test_tp_splits_kv_heads_until_each_gpu_has_one(llama_8b: Model, h200: Deployment) -> None:
    one, eight, sixteen = (float(memory(llama_8b, replace(h200, tp=tp), None, 0.0, 1, 999).cache_bytes)
                           for tp in (1, 8, 16))
    assert eight == pytest.approx(one / 8)
    assert sixteen == eight


def test_a_batch_that_does_not_fit_is_marked(llama_8b: Model, h200: Deployment) -> None:
    found = memory(llama_8b, h200, None, 0.0, np.array([1.0, 4096.0]), 32000)
    assert found.fits.tolist() == [True, False]


def test_a_hybrid_keeps_one_state_per_token_while_verifying(h200: Deployment) -> None:
    model = load_model("qwen3.5-27b")
    ngram = load_drafter("ngram", model)
    off = memory(model, h200, None, 0.0, 1, 1000).cache_bytes
    idle, four = memory(model, h200, ngram, np.array([0.0, 4.0]), 1, 1000).cache_bytes
    assert float(four - idle) > 3.9 * float(idle - off) > 0


def test_data_parallel_attention_keeps_whole_drafter_heads_for_its_own_sequences(h200: Deployment) -> None:
    """Qwen3-235B, EAGLE-3 layer of 4 KV heads of 128: 32 of 256 sequences with all 4 heads on each of 8 GPUs."""
    model = load_model("qwen3-235b-a22b")
    groups = replace(h200, tp=8, ep=8, dp_attention=8)
    off, loaded = (memory(model, groups, drafter, 0, 256, 7999) for drafter in (None, load_drafter("eagle3", model)))
    assert float(loaded.cache_bytes - off.cache_bytes) == pytest.approx(32 * 8000 * 2 * 4 * 128 * 2)
    together = memory(model, replace(h200, tp=8, ep=8), load_drafter("eagle3", model), 0, 256, 7999)
    attention = (64 + 2 * 4) * 128 * 2 * 4096 + 64 * 128 * 4096     # q, k and v read two hidden states; o
    assert float(loaded.drafter_bytes - together.drafter_bytes) == pytest.approx(attention * 2 * 7 / 8, rel=0.02)
