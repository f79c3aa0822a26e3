"""E3: latents, states and picks, by hand and against the measured rows of the studies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.mla import MlaKernel, mla_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.recurrent import RecurrentKernel, recurrent_time
from specplan.planner.kernels.select import mla_kernel, recurrent_kernel, sparse_kernel
from specplan.planner.kernels.sparse import sparse_time

MICRO = 1e6


# ---- MLA -------------------------------------------------------------------------------------------------------


def test_mla_by_hand(latent: MlaKernel) -> None:
    # 150 sequences (two waves of 100 SMs) of 2560 tokens (20 blocks), 16 heads padded to 64 rows
    memory = 150 * (2560 * 576 * 2 + 16 * (576 + 512) * 2) / 1e12 * MICRO
    tensor = 2 * 150 * 64 * 2560 * (576 + 512) / 1e15 * MICRO
    expected = 10 + (memory**2.5 + tensor**2.5) ** 0.4 + 2 * (20 * 0.01 + 16 * 0.05)
    found = mla_time(latent, batch=150, context_tokens=2560, query_len=1, heads=16)
    assert float(found.time_s) * MICRO == pytest.approx(expected)


def test_mla_tile_of_64_rows_fills_at_q_4_with_16_heads(latent: MlaKernel) -> None:
    tensor = mla_time(latent, batch=8, context_tokens=4096, query_len=np.arange(1, 9), heads=16).parts["tensor"]
    assert tensor[:4] == pytest.approx(tensor[0])
    assert tensor[4:] == pytest.approx(2 * tensor[0])


def test_mla_with_32_heads_runs_the_slower_blackwell_kernel(latent: MlaKernel) -> None:
    fast = dataclasses.replace(latent, slow_heads=None)
    times = [mla_time(kernel, batch=8, context_tokens=4096, query_len=1, heads=32).time_s for kernel in (latent, fast)]
    assert float(times[0]) == pytest.approx(1.35 * float(times[1]))


@pytest.mark.parametrize(("heads", "measured"), [(16, 151), (64, 165), (128, 256)])
def test_h200_mla_batch_128_context_4096_kernels_md_1_3(h200: GpuProfile, heads: int, measured: float) -> None:
    kernel = mla_kernel(h200, "sglang", kv_dtype="bf16")
    found = mla_time(kernel, batch=128, context_tokens=4096, query_len=1, heads=heads)
    assert float(found.time_s) * MICRO == pytest.approx(measured, rel=0.12)


def test_mla_of_128_heads_is_compute_bound_from_the_first_drafted_token(h200: GpuProfile) -> None:
    kernel = mla_kernel(h200, "sglang", kv_dtype="bf16")
    time = mla_time(kernel, batch=64, context_tokens=8192, query_len=np.array([1, 2, 4, 8]), heads=128)
    assert time.bound()[1:].tolist() == ["tensor"] * 3
    assert float(time.time_s[3] / time.time_s[1]) == pytest.approx(4, rel=0.1)     # linear in q


# ---- states ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query_len", "units"), [(1, 2), (2, 3), (8, 9)])
def test_recurrent_by_hand(state: RecurrentKernel, query_len: int, units: int) -> None:
    moved = 4 * 16 * 12 * 128 * 128 * units
    expected = 4 + 3 + moved / 1e12 * MICRO + 0.5 * (query_len - 1)
    found = recurrent_time(state, batch=16, heads=12, key_dim=128, value_dim=128, query_len=query_len)
    assert float(found.time_s) * MICRO == pytest.approx(expected)


@pytest.mark.parametrize(("batch", "query_len", "measured"), [(1, 1, 4.3), (1, 8, 7.7), (64, 1, 30), (64, 8, 128)])
def test_h200_kda_of_12_heads_kernel_fits_md_0(
    h200: GpuProfile, batch: int, query_len: int, measured: float
) -> None:
    kernel = dataclasses.replace(recurrent_kernel(h200, "vllm", kind="kda", verify=True), conv_s=0.0)
    found = recurrent_time(kernel, batch=batch, heads=12, key_dim=128, value_dim=128, query_len=query_len, l2_warm=True)
    assert float(found.time_s) * MICRO == pytest.approx(measured, rel=0.20)


def test_mamba2_is_priced_as_gated_delta_net_and_says_so(h200: GpuProfile) -> None:
    mamba = recurrent_kernel(h200, "vllm", kind="mamba2", verify=False)
    delta = recurrent_kernel(h200, "vllm", kind="gdn", verify=False)
    assert (mamba.launch_s, mamba.stream_bytes_per_s) == (delta.launch_s, delta.stream_bytes_per_s)
    assert "mamba2-unverified" in {note.code for note in mamba.notes}
    assert (mamba.evidence.level, delta.evidence.level) == ("prior", "measured")


def test_gated_delta_net_verify_is_a_prior_from_decode(h200: GpuProfile) -> None:
    kernel = recurrent_kernel(h200, "vllm", kind="gdn", verify=True)
    assert "recurrent-verify-prior" in {note.code for note in kernel.notes}
    assert kernel.evidence.level == "prior"


# ---- picks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gpu", "times"), [
    ("h200-sxm", {4: 67, 64: 67, 128: 67, 256: 128.5, 512: 247.5}),
    ("h100-sxm", {4: 67, 128: 67, 256: 128.5, 512: 247.5}),
    ("b200-sxm", {4: 42, 64: 42, 128: 84, 256: 158, 512: 270}),
    ("b300-sxm", {4: 41, 64: 41, 128: 74, 256: 133, 512: 229}),
])
def test_dsa_is_flat_to_a_wave_of_tokens_then_linear_kernels_md_1_3(gpu: str, times: dict[int, float]) -> None:
    kernel = sparse_kernel(load_gpu(gpu), "sglang")
    tokens = np.array(list(times))
    found = sparse_time(kernel, batch=tokens / 4, query_len=4, context_tokens=8192, heads=64, top_k=2048).time_s * MICRO
    assert found == pytest.approx(np.array(list(times.values())), rel=0.15)


def test_dsa_pads_short_contexts_to_its_picks(h200: GpuProfile) -> None:
    kernel = sparse_kernel(h200, "sglang")
    for context, measured in ((36, 74), (516, 72), (3076, 67)):     # sglang 0.5.14, one sequence of four tokens
        found = sparse_time(kernel, batch=1, query_len=4, context_tokens=context, heads=64, top_k=2048)
        assert float(found.time_s) * MICRO == pytest.approx(measured, rel=0.15)
        wide = sparse_time(kernel, batch=1, query_len=4, context_tokens=context, heads=128, top_k=2048)
        assert float(wide.parts["memory"]) == pytest.approx(2 * float(found.parts["memory"]))


def test_deepseek_v4_hca_affine_kernels_md_1_3(h200: GpuProfile) -> None:
    # S 4k, B 32: 63 us at q = 4, 75 at q = 8, 103 at q = 16
    kernel = sparse_kernel(h200, "vllm", kind="hca")
    found = sparse_time(kernel, batch=32, query_len=np.array([4, 8, 16]), context_tokens=4096, heads=64, top_k=2048)
    assert found.time_s * MICRO == pytest.approx(np.array([63.0, 75.0, 103.0]), rel=0.20)
