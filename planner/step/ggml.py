"""A forward pass on llama.cpp and MLX: quantised matrix-vector kernels with a price per row (E6 names them).

Their kernels unpack the weights for every row, so a verify pass of q rows never becomes a cheap GEMM:

    verify(q) = (memory^x + (rows * row)^x)^(1/x),  memory = bytes read / (share * bandwidth)
                                                    row    = 2 * active weights / (4 * fp32 rate * share)

Metal reads a share of the weights again for each row: verify = memory * (1 + reread * (rows - 1)). A power cap slows
the row part as 1/P and leaves memory alone. The cache is read once per sequence, slowly where it is quantised, and
each further row adds a little; where flash attention runs on tensor cores (NVIDIA from Turing on), 16-bit caches stream
and the rows G*q of a sequence share the read. Values by device, architecture and format are data (data/ggml.yaml).

Beyond 8 rows llama.cpp on CUDA leaves these kernels (mul_mat_vec_q) for tiles on the int8 tensor cores (mul_mat_q):

    verify(q) = max(verify(8), (tiled memory^x + (2 * active weights * rows / (tiled share * int8 rate))^x)^(1/x))

Never below what 8 rows take: where the two meet differs by release and device, and 16 rows take as long as 8 there.

Ignored: tiles on other GPUs than NVIDIA's from Turing on, releases whose tiles begin before 8 rows, host offload,
flash-attention off, and layers on the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from specplan.planner.arrays import Array, pnorm
from specplan.planner.config.yaml_reader import load_data
from specplan.planner.fact import fact
from specplan.planner.kernels.moe import distinct_experts
from specplan.planner.kernels.profile import Hardware
from specplan.planner.kernels.timing import KernelTime
from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Mixer,
    MoeFfn,
    RecurrentMixer,
    SoftmaxAttention,
)
from specplan.planner.models.dtypes import BYTES_PER_KV
from specplan.planner.models.matrices import expert_matrices

TABLE = Path(__file__).parent / "data" / "ggml.yaml"
STATE_BYTES = 4.0


@fact
class GgmlLaw:
    """Constants of the law on one device for one weight format."""

    norm: float
    bandwidth_share: float
    row_share: float
    exchange_s: float
    kv_bandwidth_share: float
    kv_least_bytes: float
    kv_row: float
    kv16_bandwidth_share: float
    kv16_row: float
    power_exponent: float
    tiled_from_rows: float
    tiled_bandwidth: float
    tiled_share: float
    reread: float = 0.0             # above 0: Metal's form
    source: str = ""                # device, architecture or general values


@functools.cache
def ggml_table() -> Mapping[str, Any]:
    """Contents of data/ggml.yaml."""
    table: Mapping[str, Any] = load_data(TABLE)
    return table


def ggml_law(hardware: Hardware, weight_dtype: str, table: Mapping[str, Any] | None = None) -> GgmlLaw:
    """Constants for a device: its own, else its architecture's, else the general ones; then the format's factors."""
    data = ggml_table() if table is None else table
    own = data["devices"].get(hardware.name)
    arch = data["architectures"].get(hardware.arch)
    values: dict[str, Any] = {**data["law"], **(arch or {}), **(own or {})}
    formats: Mapping[str, Mapping[str, float]] = data["formats"]
    factors = next((found for prefix, found in formats.items() if weight_dtype.startswith(prefix)), {})
    fields = {key: float(values[key]) for key in GgmlLaw.__dataclass_fields__ if key in values and key != "source"}
    if own is None:     # a measured device was measured with its format
        fields["bandwidth_share"] *= float(factors.get("bandwidth", 1.0))
        fields["row_share"] *= float(factors.get("row", 1.0))
    source = hardware.name if own is not None else hardware.arch if arch is not None else "general"
    return GgmlLaw(**fields, source=source)


def fp32_flop_per_s(hardware: Hardware) -> float:
    """Vector fp32 rate: stated, else 128 lanes per SM at boost (NVIDIA since Pascal), else the bf16 rate / 2."""
    stated = hardware.dense_flop_per_s.get("fp32")
    if stated:
        return stated
    if hardware.vendor == "nvidia" and hardware.boost_hz:
        lanes = 64 if hardware.arch in ("ampere", "volta", "turing") else 128
        return 2.0 * lanes * hardware.sms * hardware.boost_hz
    return hardware.dense_flop_per_s["bf16"] / 2.0


def int8_tensor_flop_per_s(hardware: Hardware) -> float | None:
    """Rate of NVIDIA's int8 tensor cores (as fp8, where only that is known); None without them: before Turing."""
    if hardware.vendor != "nvidia" or hardware.arch in {"pascal", "volta"}:
        return None
    return hardware.dense_flop_per_s.get("int8") or hardware.dense_flop_per_s.get("fp8")


def matmul_time(
    law: GgmlLaw, hardware: Hardware, *, rows: Array, read_bytes: Array | float, weights: float,
    power_limit_w: float | None = None,
) -> KernelTime:
    """A matrix product of `rows` rows: `read_bytes` from memory, `weights` multiplied per row."""
    memory = np.asarray(read_bytes / (law.bandwidth_share * hardware.hbm_bytes_per_s))
    if law.reread:
        total = memory * (1.0 + law.reread * (rows - 1.0))
        return KernelTime(time_s=total, parts={"memory": memory, "tensor": total - memory})
    row = 2.0 * weights / (4.0 * fp32_flop_per_s(hardware) * law.row_share)
    if power_limit_w is not None and hardware.tdp_w:
        row *= max(1.0, hardware.tdp_w / power_limit_w) ** law.power_exponent
    int8 = int8_tensor_flop_per_s(hardware)
    if int8 is None:
        tensor = np.asarray(row * rows)
        return KernelTime(time_s=pnorm(memory, tensor, law.norm), parts={"memory": memory, "tensor": tensor})
    few = row * np.minimum(rows, law.tiled_from_rows)
    many = row * rows * (4.0 * fp32_flop_per_s(hardware) * law.row_share) / (int8 * law.tiled_share)
    tiled = pnorm(memory / law.tiled_bandwidth, many, law.norm)
    total = np.maximum(pnorm(memory, few, law.norm), np.where(rows > law.tiled_from_rows, tiled, 0.0))
    return KernelTime(time_s=total, parts={"memory": memory, "tensor": np.maximum(few, many)})


def experts_time(
    law: GgmlLaw, hardware: Hardware, ffn: MoeFfn, *, tokens: Array, hidden: int, weight_bytes: float, skew: float,
    gpus: int, power_limit_w: float | None = None,
) -> KernelTime:
    """Routed experts of a layer: the distinct ones are read, the chosen ones multiplied (E4)."""
    each = sum(matrix.parameters for matrix in expert_matrices(ffn, hidden)) / ffn.experts / gpus
    hit = distinct_experts(tokens, experts=ffn.experts, top_k=ffn.top_k, skew=skew)
    return matmul_time(law, hardware, rows=tokens, read_bytes=hit * each * weight_bytes, weights=ffn.top_k * each,
                       power_limit_w=power_limit_w)


def cache_time(
    law: GgmlLaw, hardware: Hardware, mixer: Mixer, *, kv_dtype: str, batch: Array, query_len: Array, context: Array,
    gpus: int,
) -> KernelTime:
    """Reading the cache (or states) of one layer: once per sequence, and a little for each further row."""
    bandwidth = hardware.hbm_bytes_per_s * gpus
    if isinstance(mixer, RecurrentMixer):
        state = STATE_BYTES * batch * mixer.value_heads * mixer.key_dim * mixer.value_dim
        memory = state * (1.0 + query_len) / (law.bandwidth_share * bandwidth)
        return KernelTime(time_s=memory, parts={"memory": memory})
    element = max(BYTES_PER_KV[kv_dtype], law.kv_least_bytes)
    share, rows, row = law.kv_bandwidth_share, query_len, law.kv_row
    if isinstance(mixer, SoftmaxAttention) and element >= 2.0 and int8_tensor_flop_per_s(hardware) is not None:
        share, rows, row = law.kv16_bandwidth_share, query_len * mixer.query_heads / mixer.kv_heads, law.kv16_row
    once = batch * _elements(mixer, context) * element / (share * bandwidth)
    total = once * (1.0 + row * (rows - 1.0))
    return KernelTime(time_s=total, parts={"memory": once, "tensor": total - once})


def _elements(mixer: Mixer, context: Array) -> Array:
    """Cached numbers that one sequence reads."""
    if isinstance(mixer, SoftmaxAttention):
        seen = context if mixer.window_tokens is None else np.minimum(context, mixer.window_tokens)
        return seen * mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
    if isinstance(mixer, LatentAttention):
        return context * (mixer.kv_lora_rank + mixer.rope_head_dim)
    assert isinstance(mixer, CompressedAttention)
    kept = context / mixer.compress_ratio if mixer.compress_ratio else np.zeros_like(context)
    return (kept + np.minimum(context, mixer.window_tokens)) * mixer.head_dim
