"""What no device can beat: the least time of each row by the datasheet, and the roofline as a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from specplan.microbench.fit_rows import Family, Mask, Slice
from specplan.microbench.fit_target import Target
from specplan.planner.arrays import Array
from specplan.planner.kernels.entries import Hardware
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT, MATH_OF_WEIGHT

TOLERANCE = 1.1     # of the datasheet: beyond it, the row is wrong rather than the device fast
LATENT_WIDTH, VALUE_WIDTH, STATE_BYTES = 576, 512, 4.0


def impossible(rows: Slice, target: Target, hardware: Hardware) -> Mask:
    """Rows whose time is no positive number, or implies more than 110 % of a datasheet rate.

    Bytes that fit into L2 may have stayed there from the call before (the tables are L2-warm), so only the others
    must have crossed the memory bus.
    """
    moved, flop = _work(rows, target)
    if rows.family == "moe":
        moved = np.zeros_like(moved)    # which experts a GPU of the group was given is not in the tables
    from_memory = np.maximum(moved - hardware.l2_bytes, 0.0)
    least = np.maximum(from_memory / hardware.hbm_bytes_per_s, flop / _peak(target, hardware))
    with np.errstate(invalid="ignore"):
        return ~(np.isfinite(rows.time_s) & (rows.time_s > 0) & (rows.time_s * TOLERANCE >= least))


def roofline_s(rows: Slice, target: Target, hardware: Hardware) -> Array:
    """max(bytes / bandwidth, FLOP / peak) by the datasheet: the baseline that every planner starts from."""
    moved, flop = _work(rows, target)
    if rows.family == "allreduce":
        return moved / max(hardware.link_bytes_per_s / 2, 1.0)
    return np.maximum(moved / hardware.hbm_bytes_per_s, flop / _peak(target, hardware))


def _peak(target: Target, hardware: Hardware) -> float:
    dtype = str(target.key.get("weight_dtype", "bf16"))
    wanted = "bf16" if target.key.get("activation_dtype") == "bf16" else MATH_OF_WEIGHT[dtype]
    if target.key.get("activation_dtype") == "fp8":
        wanted = "fp8"
    return hardware.dense(wanted) or hardware.dense("bf16")


def _work(rows: Slice, target: Target) -> tuple[Array, Array]:
    return _WORK[rows.family](rows.columns, target)


def _attention(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    cached = cached_bytes(c, target)
    queries = c["batch"] * c["query_len"] * c["query_heads"] * 2.0 * float(target.key["head_dim"]) * 2.0
    peak_factor = 0.5 if target.key["kv_dtype"] == "fp8" else 1.0     # fp8 math at twice the bf16 rate may be used
    return cached + queries, attention_flop(c, float(target.key["head_dim"])) * peak_factor


def cached_bytes(c: Mapping[str, Array], target: Target) -> Array:
    """Keys and values of all cached tokens."""
    width = 2 * float(target.key["head_dim"]) * BYTES_PER_KV[str(target.key["kv_dtype"])]
    return c["batch"] * c["context_tokens"] * c["kv_heads"] * width


def attention_flop(c: Mapping[str, Array], head_dim: float) -> Array:
    """Work of q query tokens against all S cached ones: 4 FLOP per score and column, without tile padding."""
    return 4.0 * head_dim * c["batch"] * c["query_len"] * c["query_heads"] * c["context_tokens"]


def _prefill(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    moved, flop = _attention(c, target)
    return moved, flop / 2      # causal


def _gemm(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    weights = c["n"] * c["k"] * BYTES_PER_WEIGHT[str(target.key["weight_dtype"])]
    return weights + 2.0 * c["rows"] * c["n"], 2.0 * c["rows"] * c["n"] * c["k"]


def _moe(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    matrices = 3 if target.key["gated"] else 2
    weights = matrices * c["hidden"] * c["intermediate"] / c["tp"]
    routed = c["tokens"] * c["top_k"] / c["ep"]
    hit = np.minimum(c["experts"] / c["ep"], routed)
    return hit * weights * BYTES_PER_WEIGHT[str(target.key["weight_dtype"])], 2.0 * routed * weights


def _allreduce(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    gpus = float(target.key["gpus"])
    return 2.0 * (gpus - 1) / gpus * c["message_bytes"], np.zeros_like(c["message_bytes"])


def _mla(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    rows = c["batch"] * c["query_len"] * c["heads"]
    cached = c["batch"] * c["context_tokens"] * LATENT_WIDTH * BYTES_PER_KV[str(target.key["kv_dtype"])]
    factor = 0.5 if target.key["kv_dtype"] == "fp8" else 1.0
    return cached, 2.0 * rows * c["context_tokens"] * (LATENT_WIDTH + VALUE_WIDTH) * factor


def _recurrent(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    del target
    state = STATE_BYTES * c["batch"] * c["heads"] * c["key_dim"] * c["value_dim"]
    return 2.0 * state, np.zeros_like(state)


def _sparse(c: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    del target
    return np.zeros_like(c["batch"]), np.zeros_like(c["batch"])


_WORK: Mapping[Family, Callable[[Mapping[str, Array], Target], tuple[Array, Array]]] = {
    "attention": _attention, "attention_math": _prefill, "gemm": _gemm, "moe": _moe, "allreduce": _allreduce,
    "mla": _mla, "recurrent": _recurrent, "sparse": _sparse,
}
