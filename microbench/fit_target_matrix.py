"""Matrix and expert kernels of the public tables: names, number formats, filters and the numbers that are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from specplan.microbench.fit_rows import Mask, Slice
from specplan.microbench.fit_target import US, Candidate, Free, Target, Within
from specplan.planner.kernels.entries import Hardware, Key
from specplan.planner.models.dtypes import MATH_OF_WEIGHT

GEMM_ROWS = 1024
_GEMM_NAMES = {
    "CutlassFP8ScaledMMLinearKernel": "cutlass", "sglang_sgl_kernel_fp8_scaled_mm": "cutlass",
    "sglang_deepgemm_gemm_nt_f8f8bf16": "deepgemm", "deepgemm": "deepgemm",
    "DeepGemmFp8BlockScaledMMKernel": "deepgemm", "sglang_flashinfer_cutedsl_nvfp4": "flashinfer-cutedsl",
    "FlashInferCuteDslNvFp4LinearKernel": "flashinfer-cutedsl", "sglang_flashinfer_cutlass_nvfp4": "flashinfer-cutlass",
    "FlashInferCutlassNvFp4LinearKernel": "flashinfer-cutlass",
}
_LAUNCH_BOUND = "flat at 55 to 250 us: the table caught launches, not the kernel"


def gemm_target(rows: Slice, hw: Hardware) -> Target:
    """Entry, equations and filters of a slice of dense matrix products."""
    dtype = str(rows.variant["dtype"])
    hopper = hw.arch == "hopper"
    name = _GEMM_NAMES.get(rows.kernel, "cublas")
    if rows.engine == "trtllm" and rows.kernel == "torch_flow":
        name = {"fp8_block": "deepgemm" if hopper else "fp8-block-gemm", "nvfp4": "nvfp4-gemm"}.get(dtype, "cublas")
    key: dict[str, Key] = {"weight_dtype": dtype}
    identity = f"{rows.engine}-{name}"
    if dtype not in MATH_OF_WEIGHT or hw.dense(MATH_OF_WEIGHT[dtype]) <= 0:
        return Target(id=identity, key=key, candidates=(), unfit=f"no equation for {dtype} weights here")
    if rows.engine == "vllm" and dtype == "fp8_block":
        return Target(id=identity, key=key, candidates=(), unfit=_LAUNCH_BOUND)
    keep: dict[str, Callable[[Slice], Mask]] = {
        "shape outside N and K of 1024 to 16384, N*K >= 4e6": _square,
        f"more than {GEMM_ROWS} rows": Within("rows", high=GEMM_ROWS),
    }
    if rows.engine == "vllm" and dtype == "fp8" and hw.arch == "blackwell":
        keep["one row: twice as slow as two in this table"] = Within("rows", low=2)
    return Target(id=identity, key=key, candidates=gemm_candidates(hw, dtype, name), keep=keep)


def _square(rows: Slice) -> Mask:
    n, k = rows.columns["n"], rows.columns["k"]
    return np.asarray((n >= 1024) & (n <= 16384) & (k >= 1024) & (k <= 16384) & (n * k >= 4e6))


def gemm_candidates(hw: Hardware, dtype: str, name: str) -> tuple[Candidate, ...]:
    """Equations to try for a dense kernel: waves of fixed tiles for the hand-written Hopper ones, smooth for all."""
    peak, bandwidth = hw.dense(MATH_OF_WEIGHT[dtype]), hw.hbm_bytes_per_s
    rates = {
        "launch_s": Free(5 * US, 0.1 * US, 60 * US),
        "stream_bytes_per_s": Free(0.9 * bandwidth, 0.2 * bandwidth, bandwidth),
        "mma_flop_per_s": Free(0.6 * peak, 0.05 * peak, peak),
    }
    if hw.arch in ("ada", "blackwell-gb202"):   # large L2 against slow memory: small weights stay in it
        rates["l2_gain"] = Free(2.0, 1.0, 8.0)
    chain = {**rates, "k_chain_s": Free(0.4 * US, 0.0, 5 * US)}
    smooth = tuple(
        Candidate(form="k_chain", fixed={"overlap": overlap, "row_pad": pad}, free=chain)
        for overlap, pad in ((2.5, 1), (1.8, 64), (2.5, 64))
    )
    if hw.arch == "hopper" and name in ("cutlass", "deepgemm"):
        waves = {**rates, "ragged": Free(0.7, 0.0, 3.0)}
        return (Candidate(form="tile_wave", fixed={"overlap": 2.5}, free=waves), *smooth)
    return smooth


# ---- experts -------------------------------------------------------------------------------------------------

MOE_TOKENS = 2048
TABLE_SKEW = "table_skew"       # how uneven the tables' power-law routing is: belongs to the table, not to the kernel
_MOE_DTYPES: Mapping[str, tuple[str, str]] = {      # as the tables say -> stored weights, activations
    "bf16": ("bf16", ""), "fp8": ("fp8", ""), "fp8_block": ("fp8_block", ""), "nvfp4": ("nvfp4", ""),
    "mxfp4_w4a16": ("mxfp4", "bf16"), "w4a8_mxfp4_mxfp8": ("mxfp4", "fp8"), "int4_wo": ("w4a16", "bf16"),
}
_MOE_NAMES = (      # the first part found in the kernel's name tells the library
    ("oaitriton", "oai-triton-moe"), ("marlin", "marlin-moe"), ("flashinfer_cutlass", "flashinfer-cutlass-moe"),
    ("mxfp4_flashinfer_trtllm_moe", "mxfp4-trtllm-gen-moe"), ("flashinfer_trtllm", "trtllm-gen-moe"),
    ("triton", "triton-moe"), ("fused_moe", "triton-moe"), ("min_latency", "min-latency-moe"),
    ("nongated", "cutlass-moe-nongated"), ("torch_flow_cutlass", "cutlass-moe"), ("deepgemm", "deepgemm-moe"),
    ("moe_torch_flow", "mxfp4-moe"),
)
_MOE_DEFAULTS = {   # what the engine takes by itself where several kernels serve one format
    ("vllm", "trtllm-gen-moe"), ("vllm", "oai-triton-moe"), ("sglang", "trtllm-gen-moe"), ("trtllm", "cutlass-moe"),
}
_MOE_UNASKED = {"trtllm-min-latency-moe"}       # never taken by itself
_MOE_UNASKED_ON_HOPPER = {"sglang-flashinfer-cutlass-moe"}      # at 13 % of the bandwidth: the engine takes Triton


def moe_target(rows: Slice, hw: Hardware) -> Target:
    """Entry, equations and filters of a slice of routed experts."""
    name = next((known for part, known in _MOE_NAMES if part in rows.kernel), rows.kernel)
    # vLLM prefers FlashInfer's CUTLASS kernels for block fp8 on Hopper
    default = (rows.engine, name) in _MOE_DEFAULTS or rows.kernel.startswith("vllm_fp8moe_flashinfer_cutlass")
    stored, activations = _MOE_DTYPES.get(str(rows.variant["dtype"]), ("", ""))
    variant = "-modular" if rows.kernel.endswith("modular") else "-situ" if "situ" in rows.kernel else ""
    key: dict[str, Key] = {"weight_dtype": stored, **({"activation_dtype": activations} if activations else {}),
                           "gated": rows.variant["matrices"] == 3}
    identity = f"{rows.engine}-{name}{variant}"
    if not stored:
        return Target(id=identity, key=key, candidates=(), unfit=f"no equation for {rows.variant['dtype']} experts")
    unasked = identity in _MOE_UNASKED or (hw.arch == "hopper" and identity in _MOE_UNASKED_ON_HOPPER)
    if identity == "trtllm-mxfp4-moe" and hw.arch.startswith("blackwell"):
        # TensorRT-LLM quantizes activations of mxfp4 experts from sm100 on (ModelConfig.get_mxfp4_quant_algo)
        unasked = activations == "bf16"
    return Target(
        id=identity, key=key, default=default and not variant, only_by_name=variant == "-situ" or unasked,
        candidates=moe_candidates(hw, stored, activations),
        keep={f"more than {MOE_TOKENS} tokens": Within("tokens", high=MOE_TOKENS)},
    )


def moe_candidates(hw: Hardware, stored: str, activations: str) -> tuple[Candidate, ...]:
    """The expert equation with one more number: per width, per expert hit, or per expert held."""
    number_format = {"fp8": "fp8", "bf16": "bf16"}.get(activations) or MATH_OF_WEIGHT[stored]
    peak = hw.dense(number_format) or hw.dense("bf16")
    bandwidth = hw.hbm_bytes_per_s
    free = {
        "launch_s": Free(20 * US, 0.5 * US, 150 * US),
        "stream_bytes_per_s": Free(0.85 * bandwidth, 0.05 * bandwidth, bandwidth),
        "mma_flop_per_s": Free(0.3 * peak, 0.01 * peak, peak),
        "token_s_per_byte": Free(3e-12, 0.0, 100e-12), "row_s_per_byte": Free(1e-12, 0.0, 100e-12),
        "one_token": Free(0.9, 0.3, 3.0), "fade_tokens": Free(1.0, 0.2, 16.0), TABLE_SKEW: Free(1.5, 0.1, 50.0),
    }
    more = {"k_chain_s": Free(2 * US, 0.0, 20 * US), "expert_s": Free(0.2 * US, 0.0, 5 * US),
            "local_expert_s": Free(0.2 * US, 0.0, 5 * US)}
    return tuple(Candidate(form="moe", free={**free, name: number}) for name, number in more.items())
