"""What `specplan op` prints: single kernel calls, priced over the product of lists of inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from specplan.planner.kernels.attention import attention_time
from specplan.planner.kernels.choice import ENGINES, named
from specplan.planner.kernels.collective import AllReduceKernel, allreduce_time
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.mla import mla_time
from specplan.planner.kernels.moe import ROUTING, moe_time
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.recurrent import recurrent_time
from specplan.planner.kernels.select import (
    allreduce_kernel,
    attention_kernel,
    gemm_kernel,
    mla_kernel,
    moe_kernel,
    recurrent_kernel,
    sparse_kernel,
)
from specplan.planner.kernels.sparse import sparse_time
from specplan.planner.kernels.timing import Bound, KernelTime
from specplan.planner.messages import Fault, InputError, nearest
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT

Value: TypeAlias = int | float | str
Priced: TypeAlias = tuple[str, KernelTime]      # id of the kernel, its time

MAX_ROWS = 100_000
DEFAULT_ENGINE = "vllm"
PARTS: tuple[Bound, ...] = ("memory", "tensor", "exp", "launch", "network")


def price_op(
    family: str, *, gpu: str | Path, kernel: str | None = None, inputs: Mapping[str, Sequence[Value]],
    l2_warm: bool = False, allow_preliminary: bool = False,
) -> list[dict[str, Any]]:
    """Price one kernel for each combination of `inputs`, in the order written, the last list changing fastest.

    Parameters
    ----------
    family
        attention, gemm, allreduce, moe, mla, recurrent or sparse.
    kernel
        Kernel id such as `vllm-fa3`; its engine is taken from it. None: the choice of vLLM.
    inputs
        Lists by name; heads are those of one GPU. `moe` also takes `routing`: a name of `ROUTING`, or a skew.
    l2_warm
        Price operands that a benchmark left in L2, for comparison with its tables.
    """
    pricers: Mapping[str, Callable[..., Priced]] = {
        "attention": _attention, "gemm": _gemm, "allreduce": _allreduce, "moe": _moe, "mla": _mla,
        "recurrent": _recurrent, "sparse": _sparse,
    }
    if family not in pricers:
        raise InputError(f"op: no kernel family '{family}'{nearest(family, pricers)}")
    combinations = math.prod(len(values) for values in inputs.values())
    if combinations > MAX_ROWS:
        raise InputError(f"op: the lists multiply out to {combinations} rows; at most {MAX_ROWS} are priced")
    _check(inputs)
    profile = load_gpu(gpu, allow_preliminary=allow_preliminary)
    engine, override = _engine(kernel)
    rows = []
    for values in itertools.product(*inputs.values()):
        chosen = dict(zip(inputs, values, strict=True))
        name, time = pricers[family](profile, engine, override, l2_warm, **chosen)
        rows.append(_row(chosen, name, time))
    return rows


def _row(inputs: Mapping[str, Value], kernel: str, time: KernelTime) -> dict[str, Any]:
    return {
        "inputs": dict(inputs),
        "kernel": kernel,
        "time_s": float(time.time_s),
        "bound": str(time.bound()),
        "parts": {name: float(time.parts[name]) for name in PARTS if name in time.parts},
    }


def _check(inputs: Mapping[str, Sequence[Value]]) -> None:
    faults = [
        Fault((), f"must be above 0, is {value}", file="--" + name.replace("_", "-"))
        for name, values in inputs.items() for value in values if not isinstance(value, str) and not value > 0
    ]
    if faults:
        raise InputError(faults)


def _engine(kernel: str | None) -> tuple[str, str | None]:
    """Engine of a kernel id; ids without one (nvidia-128, datasheet designs) go with vLLM's numbers."""
    owner = (kernel or "").partition("-")[0]
    return (owner if owner in ENGINES else DEFAULT_ENGINE), kernel


def _attention(
    gpu: GpuProfile, engine: str, kernel: str | None, l2_warm: bool, *, batch: int, context: int, query_heads: int,
    kv_heads: int, head_dim: int = 128, query_len: int = 1, kv_dtype: str = "bf16", value_head_dim: int | None = None,
) -> Priced:
    if query_heads % kv_heads:
        raise InputError(f"--query-heads: {query_heads} heads do not share {kv_heads} KV heads evenly")
    chosen = attention_kernel(gpu, engine, head_dim=head_dim, kv_dtype=kv_dtype, override=kernel)
    time = attention_time(chosen, batch=batch, context_tokens=context, query_len=query_len, query_heads=query_heads,
                          kv_heads=kv_heads, value_head_dim=value_head_dim, l2_warm=l2_warm)
    return chosen.id, time


def _gemm(
    gpu: GpuProfile, engine: str, kernel: str | None, l2_warm: bool, *, m: int, n: int, k: int, dtype: str = "bf16"
) -> Priced:
    chosen = gemm_kernel(gpu, engine, weight_dtype=dtype, override=kernel)
    return chosen.id, gemm_time(chosen, rows=m, n=n, k=k, l2_warm=l2_warm)


def _allreduce(
    gpu: GpuProfile, engine: str, kernel: str | None, _: bool, *, gpus: int, bytes: float,  # noqa: A002
) -> Priced:
    if kernel is not None:
        named(gpu, "allreduce", kernel)
    chosen: AllReduceKernel = allreduce_kernel(gpu, engine, gpus=gpus)
    return chosen.id, allreduce_time(chosen, message_bytes=bytes)


def _moe(
    gpu: GpuProfile, engine: str, kernel: str | None, l2_warm: bool, *, tokens: int, hidden: int, intermediate: int,
    experts: int, top_k: int, matrices: int = 3, tp: int = 1, ep: int = 1, dtype: str = "bf16",
    routing: str | float = "uniform",
) -> Priced:
    if top_k > experts:
        raise InputError(f"--top-k: {top_k} of {experts} experts")
    if matrices not in (2, 3):
        raise InputError(f"--matrices: must be 3 (with a gate) or 2, is {matrices}")
    if experts % ep:
        raise InputError(f"--ep: {experts} experts do not divide over {ep} GPUs")
    if isinstance(routing, str) and routing not in ROUTING:
        raise InputError(f"--routing: no routing '{routing}'{nearest(routing, ROUTING)}; known: {', '.join(ROUTING)}")
    chosen = moe_kernel(gpu, engine, weight_dtype=dtype, gated=matrices == 3, override=kernel)
    time = moe_time(chosen, tokens=tokens, hidden=hidden, intermediate=intermediate, experts=experts, top_k=top_k,
                    matrices=matrices, tp=tp, ep=ep, weight_bytes=BYTES_PER_WEIGHT[dtype], l2_warm=l2_warm,
                    skew=ROUTING[routing] if isinstance(routing, str) else routing)
    return chosen.id, time


def _mla(
    gpu: GpuProfile, engine: str, kernel: str | None, l2_warm: bool, *, batch: int, context: int, heads: int,
    query_len: int = 1, kv_dtype: str = "bf16",
) -> Priced:
    chosen = mla_kernel(gpu, engine, kv_dtype=kv_dtype, override=kernel)
    time = mla_time(chosen, batch=batch, context_tokens=context, query_len=query_len, heads=heads, l2_warm=l2_warm)
    return chosen.id, time


def _recurrent(
    gpu: GpuProfile, engine: str, kernel: str | None, l2_warm: bool, *, kind: str, batch: int, heads: int, key_dim: int,
    value_dim: int, query_len: int = 1,
) -> Priced:
    if kind not in ("gdn", "kda", "mamba2"):
        raise InputError(f"--kind: must be gdn, kda or mamba2, is '{kind}'")
    chosen = recurrent_kernel(gpu, engine, kind=kind, verify=query_len > 1, override=kernel)  # type: ignore[arg-type]
    time = recurrent_time(chosen, batch=batch, heads=heads, key_dim=key_dim, value_dim=value_dim, query_len=query_len,
                          l2_warm=l2_warm)
    return chosen.id, time


def _sparse(
    gpu: GpuProfile, engine: str, kernel: str | None, _: bool, *, batch: int, context: int, heads: int, top_k: int,
    query_len: int = 1,
) -> Priced:
    named = kernel or ""
    by_length = "dsa" if query_len > 1 else "dsa-decode"
    kind = next((kind for kind in ("hca-decode", "hca", "dsa-decode", "dsa") if named.endswith(kind)), by_length)
    chosen = sparse_kernel(gpu, engine, kind=kind, override=kernel)  # type: ignore[arg-type]
    time = sparse_time(chosen, batch=batch, query_len=query_len, context_tokens=context, heads=heads, top_k=top_k)
    return chosen.id, time
