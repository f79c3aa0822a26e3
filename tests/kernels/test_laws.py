"""Laws that every timing form obeys, whatever its numbers: units, scaling, monotonicity, grid equals scalar."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.arrays import Array
from specplan.planner.kernels.attention import AttentionKernel, attention_time
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.mla import mla_time
from specplan.planner.kernels.moe import moe_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.recurrent import recurrent_time
from specplan.planner.kernels.select import (
    attention_kernel,
    gemm_kernel,
    mla_kernel,
    moe_kernel,
    recurrent_kernel,
    sparse_kernel,
)
from specplan.planner.kernels.sparse import sparse_time

Price = Callable[[Any, Array, Array, Array], Array]     # kernel, query_len (D,1,1), batch (1,B,1), context (1,1,S)


def attention(kernel: Any, q: Array, b: Array, s: Array) -> Array:
    return attention_time(kernel, batch=b, context_tokens=s, query_len=q, query_heads=16, kv_heads=2).time_s


def gemm(kernel: Any, q: Array, b: Array, _: Array) -> Array:
    return gemm_time(kernel, rows=b * q, n=6144, k=4096).time_s


def moe(kernel: Any, q: Array, b: Array, _: Array) -> Array:
    return moe_time(kernel, tokens=b * q, hidden=4096, intermediate=1536, experts=128, top_k=8, skew=0.8,
                    weight_bytes=2.0).time_s


def mla(kernel: Any, q: Array, b: Array, s: Array) -> Array:
    return mla_time(kernel, batch=b, context_tokens=s, query_len=q, heads=16).time_s


def recurrent(kernel: Any, q: Array, b: Array, _: Array) -> Array:
    return recurrent_time(kernel, batch=b, heads=32, key_dim=128, value_dim=128, query_len=q).time_s


def sparse(kernel: Any, q: Array, b: Array, s: Array) -> Array:
    return sparse_time(kernel, batch=b, query_len=q, context_tokens=s, heads=64, top_k=2048).time_s


h100, b200, l40s, a100 = (load_gpu(name) for name in ("h100-sxm", "b200-sxm", "l40s", "a100-80-sxm"))
SMOOTH: dict[str, tuple[Price, Any]] = {
    "gemm k_chain": (gemm, gemm_kernel(h100, "vllm", weight_dtype="bf16")),
    "gemm k_chain padded": (gemm, gemm_kernel(a100, "vllm", weight_dtype="bf16")),
    "xqa": (attention, attention_kernel(h100, "trtllm", head_dim=128, kv_dtype="bf16")),
    "moe": (moe, moe_kernel(h100, "vllm", weight_dtype="bf16")),
    "kda": (recurrent, recurrent_kernel(h100, "vllm", kind="kda", verify=True)),
    "dsa": (sparse, sparse_kernel(h100, "sglang")),
    "hca": (sparse, sparse_kernel(h100, "vllm", kind="hca")),
}
# Waves of tiles, and splits of the KV: one more sequence can mean fewer splits to join.
STEPPED: dict[str, tuple[Price, Any]] = {
    "trtllm-gen": (attention, attention_kernel(b200, "vllm", head_dim=128, kv_dtype="bf16")),
    "trtllm-gen fp8": (attention, attention_kernel(b200, "trtllm", head_dim=64, kv_dtype="fp8")),
    "mla": (mla, mla_kernel(h100, "sglang", kv_dtype="bf16")),
    "gemm tile_wave": (gemm, gemm_kernel(h100, "vllm", weight_dtype="fp8")),
    "fa3": (attention, attention_kernel(h100, "vllm", head_dim=128, kv_dtype="bf16")),
    "fa2": (attention, attention_kernel(a100, "vllm", head_dim=128, kv_dtype="bf16")),
    "flashinfer": (attention, attention_kernel(l40s, "sglang", head_dim=128, kv_dtype="bf16")),
    "vllm-triton": (attention, attention_kernel(b200, "vllm", head_dim=128, kv_dtype="bf16", override="vllm-triton")),
    "nvidia-128": (attention, attention_kernel(b200, "vllm", head_dim=128, kv_dtype="bf16", override="nvidia-128")),
}
ALL = SMOOTH | STEPPED
ATTENTION = [name for name, (price, _) in ALL.items() if price is attention]

sizes = st.integers(1, 64)
batches = st.integers(1, 512)
contexts = st.integers(256, 200_000)


def column(*values: float) -> Array:
    return np.array(values, dtype=float)


@pytest.mark.parametrize("name", SMOOTH)
@given(q=sizes, b=batches, s=contexts, more_q=sizes, more_b=sizes, more_s=st.integers(0, 9000))
@settings(max_examples=60, deadline=None)
def test_more_tokens_sequences_or_context_never_take_less_time(
    name: str, q: int, b: int, s: int, more_q: int, more_b: int, more_s: int
) -> None:
    price, kernel = SMOOTH[name]
    small = price(kernel, column(q), column(b), column(s))
    for dq, db, ds in ((more_q, 0, 0), (0, more_b, 0), (0, 0, more_s)):
        assert price(kernel, column(q + dq), column(b + db), column(s + ds)) >= small * (1 - 1e-12)


@pytest.mark.parametrize("name", ALL)
@given(q=sizes, b=batches, s=contexts, factor=st.floats(0.2, 5))
@settings(max_examples=25, deadline=None)
def test_faster_by_a_factor_in_everything_is_faster_by_that_factor(
    name: str, q: int, b: int, s: int, factor: float
) -> None:
    price, kernel = ALL[name]
    changed = {}
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, float) and field.name.endswith("_per_s"):
            changed[field.name] = value * factor
        elif isinstance(value, float) and (field.name.endswith("_s") or "_s_per_" in field.name):
            changed[field.name] = value / factor
    assert len(changed) >= 2
    grid = column(q), column(b), column(s)
    assert price(dataclasses.replace(kernel, **changed), *grid) == pytest.approx(price(kernel, *grid) / factor)


@pytest.mark.parametrize("name", ALL)
def test_a_grid_is_its_scalars(name: str) -> None:
    price, kernel = ALL[name]
    axes = column(1, 2, 5, 17), column(1, 7, 64, 300), column(256, 3000, 70_000)
    grid = np.broadcast_to(price(kernel, *np.meshgrid(*axes, indexing="ij", sparse=True)), (4, 4, 3))
    for place, cell in np.ndenumerate(grid):
        scalars = (axis[index] for axis, index in zip(axes, place, strict=True))
        assert float(cell) == pytest.approx(float(price(kernel, *scalars)), rel=1e-12)


@pytest.mark.parametrize("name", ATTENTION)
@given(q=sizes, b=batches, s=contexts)
@settings(max_examples=40, deadline=None)
def test_more_bytes_at_the_same_tiles_and_splits_are_never_faster(name: str, q: int, b: int, s: int) -> None:
    kernel: AttentionKernel = ALL[name][1]
    grid = column(q), column(b), column(s)
    wider = dataclasses.replace(kernel, kv_bytes=2 * kernel.kv_bytes)
    assert attention(wider, *grid) >= attention(kernel, *grid) * (1 - 1e-12)
    slower = dataclasses.replace(kernel, math_flop_per_s=kernel.math_flop_per_s / 2)
    assert attention(slower, *grid) >= attention(kernel, *grid) * (1 - 1e-12)


@pytest.mark.parametrize("name", ATTENTION)
def test_parts_name_what_binds_and_none_exceeds_the_whole(name: str) -> None:
    time = attention_time(ALL[name][1], batch=column(1, 64)[:, None], context_tokens=column(1000, 100_000),
                          query_len=1.0, query_heads=16, kv_heads=2)
    for part in time.parts.values():
        assert np.all(part <= time.time_s * (1 + 1e-12))
    assert set(np.unique(time.bound())) <= {"memory", "tensor", "exp", "launch"}
