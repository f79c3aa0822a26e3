"""Kernels with round numbers, so that expected times can be worked out by hand, and two measured GPUs."""

from __future__ import annotations

import pytest

from specplan.planner.kernels.attention import AttentionKernel
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.families import attention_families
from specplan.planner.kernels.gemm import GemmKernel
from specplan.planner.kernels.mla import MlaKernel
from specplan.planner.kernels.moe import MoeKernel
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.recurrent import RecurrentKernel
from specplan.planner.kernels.timing import Evidence

EVIDENCE = Evidence(level="measured", source="made up for this test")
US = 1e-6


@pytest.fixture(scope="session")
def h200() -> GpuProfile:
    return load_gpu("h200-sxm")


@pytest.fixture(scope="session")
def b200() -> GpuProfile:
    return load_gpu("b200-sxm")


@pytest.fixture
def fa3() -> AttentionKernel:
    """Walks with splits on 100 SMs: 1 TB/s, 10 GB/s a CTA more than enough, 1 us a block."""
    return AttentionKernel(
        id="vllm-fa3", version="1", family=attention_families()["fa3"], form="walk_fa3", head_dim=128, kv_dtype="bf16",
        kv_bytes=2.0, sms=100, launch_s=10 * US, stream_bytes_per_s=1e12, math_flop_per_s=1e15, evidence=EVIDENCE,
        block_s=1 * US, wave_s=2 * US, combine_s=3 * US, split_cap=32, tile_rows=128, row_tile=64,
    )


@pytest.fixture
def gen() -> AttentionKernel:
    return AttentionKernel(
        id="vllm-trtllm-gen", version="1", family=attention_families()["trtllm-gen"], form="walk_gen", head_dim=128,
        kv_dtype="bf16", kv_bytes=2.0, sms=100, launch_s=10 * US, stream_bytes_per_s=1e12, math_flop_per_s=1e15,
        evidence=EVIDENCE, block_s=0.01 * US, row_s=0.05 * US,
    )


@pytest.fixture
def xqa() -> AttentionKernel:
    return AttentionKernel(
        id="trtllm-xqa", version="1", family=attention_families()["xqa"], form="ramp", head_dim=128, kv_dtype="bf16",
        kv_bytes=2.0, sms=100, launch_s=10 * US, stream_bytes_per_s=1e12, math_flop_per_s=1e15, evidence=EVIDENCE,
        ramp_s=20 * US, ramp_half_bytes=1e6,
    )


@pytest.fixture
def linear() -> GemmKernel:
    return GemmKernel(
        id="vllm-cublas", version="1", form="k_chain", weight_dtype="bf16", weight_bytes=2.0, activation_bytes=2.0,
        launch_s=3 * US, stream_bytes_per_s=1e12, mma_flop_per_s=1e14, sms=100, k_chain_s=0.5 * US, overlap=2.0,
        evidence=EVIDENCE,
    )


@pytest.fixture
def experts() -> MoeKernel:
    return MoeKernel(
        id="vllm-triton-moe", version="1", weight_dtype="bf16", launch_s=20 * US, stream_bytes_per_s=1e12,
        mma_flop_per_s=1e14, token_s_per_byte=1e-12, expert_s=0.1 * US, k_chain_s=1 * US, evidence=EVIDENCE,
    )


@pytest.fixture
def latent() -> MlaKernel:
    return MlaKernel(
        id="sglang-mla", version="1", kv_dtype="bf16", kv_bytes=2.0, launch_s=10 * US, stream_bytes_per_s=1e12,
        mma_flop_per_s=1e15, block_s=0.01 * US, row_s=0.05 * US, sms=100, evidence=EVIDENCE, slow_heads=32,
        slow_factor=1.35,
    )


@pytest.fixture
def state() -> RecurrentKernel:
    return RecurrentKernel(
        id="vllm-kda", version="1", kind="kda", verify=True, launch_s=4 * US, stream_bytes_per_s=1e12, token_s=0.5 * US,
        conv_s=3 * US, evidence=EVIDENCE,
    )
