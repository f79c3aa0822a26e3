"""E4: distinct experts, the grouped product by hand, and the measured Qwen3-235B-like layer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.moe import ROUTING, MoeKernel, distinct_experts, moe_time
from specplan.planner.kernels.select import moe_kernel

MICRO = 1e6


@pytest.mark.parametrize("skew", [0.4, 0.8, 2.0, math.inf, -1.0, -3.0])
def test_one_token_hits_exactly_top_k(skew: float) -> None:
    assert float(distinct_experts(1, experts=128, top_k=8, skew=skew)) == 8


@given(tokens=st.integers(1, 5000), experts=st.integers(2, 512), top_k=st.integers(1, 64),
       skew=st.one_of(st.floats(0.05, 50), st.just(math.inf), st.floats(-20, -1)))
@settings(deadline=None)
def test_distinct_experts_are_bounded_and_never_fall(tokens: int, experts: int, top_k: int, skew: float) -> None:
    top_k = min(top_k, experts)
    now, later = distinct_experts(np.array([tokens, tokens + 1]), experts=experts, top_k=top_k, skew=skew)
    assert top_k * (1 - 1e-9) <= now <= min(experts, tokens * top_k) * (1 + 1e-9)
    assert later >= now * (1 - 1e-12)


def test_uniform_routing_is_the_limit_of_no_skew_and_close_to_the_exact_count() -> None:
    tokens = np.arange(1, 200)
    uniform = distinct_experts(tokens, experts=128, top_k=8, skew=math.inf)
    assert distinct_experts(tokens, experts=128, top_k=8, skew=1e7) == pytest.approx(uniform, rel=1e-4)
    exact = 128 * (1 - (1 - 8 / 128) ** tokens)
    assert uniform == pytest.approx(exact, rel=0.03)


def test_gamma_form_by_hand() -> None:
    # 33 tokens of 8 of 128: u = 32 * 8 / 128 = 2; a = 2: 8 + 120 * (1 - (1 + 1)^-2) = 98
    assert float(distinct_experts(33, experts=128, top_k=8, skew=2.0)) == pytest.approx(98)
    # perfectly even: 8 + 120 * u
    assert float(distinct_experts(9, experts=128, top_k=8, skew=-1.0)) == pytest.approx(8 + 120 * 0.5)
    assert float(distinct_experts(17, experts=128, top_k=8, skew=-1.0)) == pytest.approx(128)


def test_expert_block_by_hand(experts: MoeKernel) -> None:
    # 17 tokens spread evenly over all 64 experts of top-4 (u = 1): 68 rows, each expert's ceil(68/64) padded to 16
    time = moe_time(experts, tokens=17, hidden=1024, intermediate=500, experts=64, top_k=4, skew=-1.0, weight_bytes=2.0)
    weights = 3 * 1024 * 512                                # 500 padded to 512
    activations = 4 * 17 * 1024
    memory = (64 * weights * 2 + activations) / 1e12 * MICRO
    tensor = 2 * (64 * 16) * weights / 1e14 * MICRO
    fixed = 20 + activations / 1e12 * MICRO + 0.1 * 64 + 1.0 * (1024 + 512) / 1024
    assert float(time.time_s) * MICRO == pytest.approx(fixed + (memory**2.5 + tensor**2.5) ** 0.4)


def test_parallel_groups_divide_width_and_experts(experts: MoeKernel) -> None:
    shape = {"tokens": 64, "hidden": 1024, "experts": 64, "top_k": 4, "skew": math.inf, "weight_bytes": 1.0}
    whole = moe_time(experts, intermediate=1024, **shape).parts["memory"]       # type: ignore[arg-type]
    by_width = moe_time(experts, intermediate=1024, tp=4, **shape).parts["memory"]  # type: ignore[arg-type]
    by_expert = moe_time(experts, intermediate=1024, ep=4, **shape).parts["memory"]  # type: ignore[arg-type]
    activations = 4 * 64 * 1024 / 1e12
    assert float(by_width - activations) == pytest.approx(float(whole - activations) / 4)
    assert float(by_expert - activations) == pytest.approx(float(whole - activations) / 4)


MEASURED = {    # us; Qwen3-235B-like layer on H200 in bf16, kernels.md 2.2
    "balanced": {1: 94, 2: 164, 4: 300, 8: 575, 16: 1097, 32: 1105, 128: 1170, 1024: 1377},
    "power_law_1.01": {1: 94, 2: 164, 4: 300, 8: 444, 16: 587, 32: 950, 128: 1120, 1024: 1500},
}


@pytest.mark.parametrize("routing", MEASURED)
def test_qwen3_235b_like_layer_on_h200_kernels_md_2_2(h200: GpuProfile, routing: str) -> None:
    kernel = moe_kernel(h200, "vllm", weight_dtype="bf16")
    tokens = np.array(list(MEASURED[routing]))
    times = moe_time(kernel, tokens=tokens, hidden=4096, intermediate=1536, experts=128, top_k=8,
                     skew=ROUTING[routing], weight_bytes=2.0, l2_warm=True).time_s * MICRO
    measured = np.array(list(MEASURED[routing].values()))
    assert times == pytest.approx(measured, rel=0.20)


def test_verification_costs_nearly_linearly_until_experts_saturate(h200: GpuProfile) -> None:
    kernel = moe_kernel(h200, "vllm", weight_dtype="bf16")
    time = moe_time(kernel, tokens=np.array([1, 4, 32, 512]), hidden=4096, intermediate=1536, experts=128, top_k=8,
                    skew=math.inf, weight_bytes=2.0).time_s
    assert time[1] > 2.4 * time[0]
    assert time[3] < 1.4 * time[2]
