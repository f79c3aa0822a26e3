"""Which numbers price what: the engine's own, then a near one with a note, never a silent guess."""

from __future__ import annotations

import math

import pytest

from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.profile import gpu_names, load_gpu
from specplan.planner.kernels.select import (
    allreduce_kernel,
    attention_kernel,
    attention_kernel_ids,
    gemm_kernel,
    mla_kernel,
    moe_kernel,
    recurrent_kernel,
    sparse_kernel,
)
from specplan.planner.messages import InputError
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT


@pytest.mark.parametrize(("gpu", "engine", "kv_dtype", "kernel"), [
    ("h200-sxm", "vllm", "bf16", "vllm-fa3"), ("h100-sxm", "sglang", "fp8", "sglang-fa3"),
    ("h200-sxm", "trtllm", "bf16", "trtllm-xqa"), ("b200-sxm", "vllm", "fp8", "vllm-trtllm-gen"),
    ("b300-sxm", "sglang", "bf16", "sglang-trtllm-gen"), ("b200-sxm", "trtllm", "bf16", "trtllm-trtllm-gen"),
    ("a100-80-sxm", "vllm", "bf16", "vllm-fa2"), ("l40s", "vllm", "bf16", "vllm-fa2"),
    ("l40s", "vllm", "fp8", "vllm-flashinfer"), ("l40s", "sglang", "bf16", "sglang-flashinfer"),
    ("rtx-pro-6000-server", "vllm", "fp8", "vllm-flashinfer"),
])
def test_engine_and_gpu_choose_the_measured_kernel(gpu: str, engine: str, kv_dtype: str, kernel: str) -> None:
    found = attention_kernel(load_gpu(gpu), engine, head_dim=128, kv_dtype=kv_dtype)
    assert found.id == kernel
    assert found.evidence.level == "measured"
    assert found.evidence.error_mean_pct is not None
    assert found.evidence.source.startswith("aiconfigurator-core 0.12.0")
    assert not found.notes


@pytest.mark.parametrize(("engine", "kernel"), [("vllm", "vllm-triton"), ("sglang", "sglang-triton")])
@pytest.mark.parametrize("gpu", ["mi300x", "mi325x", "mi355x"])
def test_amd_runs_triton_by_a_prior(gpu: str, engine: str, kernel: str) -> None:
    found = attention_kernel(load_gpu(gpu), engine, head_dim=128, kv_dtype="bf16")
    assert found.id == kernel
    assert (found.evidence.level, found.evidence.quality) == ("prior", "rough")
    with pytest.raises(InputError, match="trtllm does not run on"):
        attention_kernel(load_gpu(gpu), "trtllm", head_dim=128, kv_dtype="bf16")


def test_another_engine_is_priced_like_the_first_known_one(h200: GpuProfile) -> None:
    assert attention_kernel(h200, "tilert", head_dim=128, kv_dtype="bf16").id == "vllm-fa3"


def test_override_takes_ids_and_designs(h200: GpuProfile) -> None:
    def chosen(name: str) -> str:
        return attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16", override=name).id

    assert chosen("sglang-fa3") == "sglang-fa3"
    assert chosen("fa3") == "vllm-fa3"
    assert chosen("nvidia-128") == "nvidia-128"
    assert chosen("vllm-triton") == "vllm-triton"
    for name in attention_kernel_ids(h200):
        assert chosen(name)
    with pytest.raises(InputError, match="no kernel 'vllm-fa33'; did you mean 'vllm-fa3'"):
        chosen("vllm-fa33")


def test_a_design_on_an_architecture_it_is_not_known_on_warns(b200: GpuProfile) -> None:
    found = attention_kernel(b200, "vllm", head_dim=128, kv_dtype="bf16", override="fa3")
    assert "attention-kernel-arch" in {note.code for note in found.notes}


def test_head_widths_between_the_measured_ones_scale_the_nearest(h200: GpuProfile) -> None:
    near, exact = (attention_kernel(h200, "vllm", head_dim=width, kv_dtype="bf16") for width in (112, 128))
    assert near.block_s == pytest.approx(exact.block_s * 112 / 128)
    assert [note.code for note in near.notes] == ["attention-head-dim"]
    assert near.evidence.level == "prior"
    assert near.evidence.error_mean_pct is None


def test_formats_of_the_cache_without_numbers_borrow_them(h200: GpuProfile) -> None:
    found = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="nvfp4")
    assert found.kv_bytes == BYTES_PER_KV["nvfp4"]
    assert [note.code for note in found.notes] == ["attention-kv-dtype"]
    with pytest.raises(InputError, match="no format 'fp7'"):
        attention_kernel(h200, "vllm", head_dim=128, kv_dtype="fp7")


def test_math_rate_falls_back_as_documented(h200: GpuProfile) -> None:
    vllm = attention_kernel(h200, "vllm", head_dim=128, kv_dtype="bf16")
    assert attention_kernel(h200, "vllm", head_dim=96, kv_dtype="bf16").math_flop_per_s == vllm.math_flop_per_s
    assert attention_kernel(h200, "trtllm", head_dim=128, kv_dtype="fp8").math_flop_per_s == pytest.approx(728e12)
    h20 = attention_kernel(load_gpu("h20"), "vllm", head_dim=128, kv_dtype="bf16")
    assert h20.math_flop_per_s == pytest.approx(vllm.math_flop_per_s * 148 / 989.4)


def test_quantised_gemm_missing_for_an_engine_takes_another_with_a_note(h200: GpuProfile) -> None:
    found = gemm_kernel(h200, "vllm", weight_dtype="fp8_block")
    assert found.id == "trtllm-deepgemm"    # SGLang's fit is rough, this one is not
    assert [note.code for note in found.notes] == ["kernel-of-other-engine"]
    assert found.evidence.level == "prior"


def test_kernels_that_an_engine_never_takes_unasked(h200: GpuProfile) -> None:
    assert moe_kernel(h200, "sglang", weight_dtype="bf16").id != "sglang-flashinfer-cutlass-moe"
    named = moe_kernel(h200, "sglang", weight_dtype="bf16", override="sglang-flashinfer-cutlass-moe")
    assert named.stream_bytes_per_s < 1e12      # 13 % of bandwidth: the fit only describes it


def test_default_kernel_among_several(b200: GpuProfile) -> None:
    assert moe_kernel(b200, "vllm", weight_dtype="nvfp4").id == "vllm-trtllm-gen-moe"
    assert moe_kernel(b200, "trtllm", weight_dtype="nvfp4").id == "trtllm-cutlass-moe"
    assert moe_kernel(b200, "trtllm", weight_dtype="nvfp4", gated=False).id == "trtllm-cutlass-moe-nongated"
    assert recurrent_kernel(b200, "vllm", kind="kda", verify=False).id == "vllm-fused-kda-decode"


@pytest.mark.parametrize("gpu", gpu_names())
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_everything_has_a_price_everywhere_and_says_where_it_comes_from(gpu: str, engine: str) -> None:
    profile = load_gpu(gpu, allow_preliminary=True)
    kernels: list[object] = []
    if not (engine == "trtllm" and profile.hardware.vendor == "amd"):
        kernels += [attention_kernel(profile, engine, head_dim=width, kv_dtype=kv)
                    for width in (64, 80, 128, 192, 256, 512) for kv in BYTES_PER_KV]
    kernels += [gemm_kernel(profile, engine, weight_dtype=dtype, static_scales=static)
                for dtype in BYTES_PER_WEIGHT for static in (False, True)]
    kernels += [moe_kernel(profile, engine, weight_dtype=dtype, gated=gated)
                for dtype in BYTES_PER_WEIGHT for gated in (False, True)]
    kernels += [mla_kernel(profile, engine, kv_dtype=kv) for kv in BYTES_PER_KV]
    kernels += [recurrent_kernel(profile, engine, kind=kind, verify=verify)
                for kind in ("gdn", "kda", "mamba2") for verify in (False, True)]
    kernels.append(sparse_kernel(profile, engine))
    if profile.hardware.link_bytes_per_s:
        kernels += [allreduce_kernel(profile, engine, gpus=gpus) for gpus in (1, 2, 3, 4, 8, 16)]
    for kernel in kernels:
        evidence = kernel.evidence      # type: ignore[attr-defined]
        assert kernel.id                # type: ignore[attr-defined]
        assert len(evidence.source) > 10
        if evidence.level == "prior":
            assert kernel.notes         # type: ignore[attr-defined]
            assert evidence.error_mean_pct is None
        for name in kernel.__dataclass_fields__:    # type: ignore[attr-defined]
            value = getattr(kernel, name)
            if isinstance(value, float):
                assert value >= 0, (kernel, name)
                assert not math.isnan(value), (kernel, name)
                assert value > 0 or not name.endswith("_per_s"), (kernel, name)
