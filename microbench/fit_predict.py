"""The planner's own timing functions, called on rows of measurements with numbers still to be found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from specplan.microbench.fit_rows import Family, Slice
from specplan.microbench.fit_target import Candidate, Target
from specplan.microbench.fit_target_matrix import TABLE_SKEW
from specplan.planner.arrays import Array
from specplan.planner.kernels import select
from specplan.planner.kernels.attention import attention_time
from specplan.planner.kernels.collective import allreduce_time
from specplan.planner.kernels.entries import Entry, GpuProfile, Hardware
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.mla import mla_time
from specplan.planner.kernels.moe import moe_time
from specplan.planner.kernels.recurrent import recurrent_time
from specplan.planner.kernels.sparse import sparse_time
from specplan.planner.kernels.timing import Evidence
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT

Model: TypeAlias = Callable[[Mapping[str, float], Slice], Array]     # numbers, rows -> seconds

BALANCED_SKEW = -1.0
SPARSE_TOP_K = 2048


def entry_of(target: Target, candidate: Candidate, rows: Slice, numbers: Mapping[str, float],
             evidence: Evidence | None = None) -> Entry:
    """The profile entry with these numbers."""
    return Entry(
        id=target.id, engine=rows.engine, version=rows.version, form=candidate.form, key=target.key,
        parameters={**numbers, **candidate.fixed}, measured_as=rows.kernel, default=target.default,
        only_by_name=target.only_by_name, evidence=evidence or Evidence(level="measured", source="unfitted"),
    )


def model_of(target: Target, candidate: Candidate, rows: Slice, hardware: Hardware, *, l2_warm: bool) -> Model:
    """Seconds of each row by the timing function of this family.

    The kernel is built once by the planner's selector from a profile with this entry alone, so that a fitted entry
    prices exactly as it was fitted; only its free numbers are replaced afterwards.
    """
    priors = {name: free.prior for name, free in candidate.free.items() if name != TABLE_SKEW}
    entry = entry_of(target, candidate, rows, priors)
    kernel = kernel_of(rows.family, entry, hardware)
    timing = TIMES[rows.family]

    def model(numbers: Mapping[str, float], rows: Slice) -> Array:
        replaced = dataclasses.replace(kernel, **{key: numbers[key] for key in numbers if key != TABLE_SKEW})
        return timing(replaced, rows, l2_warm, numbers.get(TABLE_SKEW, 1.0))

    return model


def kernel_of(family: Family, entry: Entry, hardware: Hardware) -> Any:
    """The kernel that the planner makes of one entry."""
    alone = GpuProfile(name=hardware.name, hardware=hardware, kernels={family: (entry,)})
    engine, key = entry.engine, entry.key
    if family == "attention":
        return select.attention_kernel(alone, engine, head_dim=int(key["head_dim"]), kv_dtype=str(key["kv_dtype"]),
                                       override=entry.id)
    if family == "gemm":
        return select.gemm_kernel(alone, engine, weight_dtype=str(key["weight_dtype"]), override=entry.id)
    if family == "moe":
        return select.moe_kernel(alone, engine, weight_dtype=str(key["weight_dtype"]), gated=bool(key["gated"]),
                                 override=entry.id)
    if family == "allreduce":
        return select.allreduce_kernel(alone, engine, gpus=int(key["gpus"]))
    if family == "mla":
        return select.mla_kernel(alone, engine, kv_dtype=str(key["kv_dtype"]))
    if family == "recurrent":
        made = select.recurrent_kernel(alone, engine, kind=key["kind"], verify=key["phase"] == "verify")  # type: ignore[arg-type]
        return dataclasses.replace(made, conv_s=0.0)    # the tables time the state kernel without its convolution
    return select.sparse_kernel(alone, engine, kind=key["kind"])  # type: ignore[arg-type]


def _attention(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del skew
    c = rows.columns
    return attention_time(
        kernel, batch=c["batch"], context_tokens=c["context_tokens"], query_len=c["query_len"],
        query_heads=c["query_heads"], kv_heads=c["kv_heads"], l2_warm=l2_warm,
    ).time_s


def _gemm(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del skew
    return gemm_time(kernel, l2_warm=l2_warm, **{name: rows.columns[name] for name in ("rows", "n", "k")}).time_s


def _moe(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    names = ("tokens", "hidden", "intermediate", "experts", "top_k", "tp", "ep")
    seconds = np.empty(len(rows))
    balanced = rows.columns["routing_skew"] == 0
    for mask, spread in ((balanced, BALANCED_SKEW), (~balanced, skew)):
        if np.any(mask):
            seconds[mask] = moe_time(
                kernel, matrices=int(rows.variant["matrices"]), skew=spread, l2_warm=l2_warm,
                weight_bytes=BYTES_PER_WEIGHT[kernel.weight_dtype],
                **{name: rows.columns[name][mask] for name in names},
            ).time_s
    return seconds


def _allreduce(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del l2_warm, skew
    return allreduce_time(kernel, message_bytes=rows.columns["message_bytes"]).time_s


def _mla(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del skew
    c = rows.columns
    return mla_time(kernel, batch=c["batch"], context_tokens=c["context_tokens"], query_len=c["query_len"],
                    heads=c["heads"], l2_warm=l2_warm).time_s


def _recurrent(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del skew
    names = ("batch", "heads", "key_dim", "value_dim", "query_len")
    return recurrent_time(kernel, l2_warm=l2_warm, **{name: rows.columns[name] for name in names}).time_s


def _sparse(kernel: Any, rows: Slice, l2_warm: bool, skew: float) -> Array:
    del l2_warm, skew
    names = ("batch", "query_len", "context_tokens", "heads")
    return sparse_time(kernel, top_k=SPARSE_TOP_K, **{name: rows.columns[name] for name in names}).time_s


TIMES: Mapping[Family, Callable[[Any, Slice, bool, float], Array]] = {
    "attention": _attention, "gemm": _gemm, "moe": _moe, "allreduce": _allreduce, "mla": _mla,
    "recurrent": _recurrent, "sparse": _sparse,
}
