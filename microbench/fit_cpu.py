"""Targets of a sweep on a CPU: the same equations with a CPU's latencies, and only what torch runs there.

A CPU computes while it loads, but in the same pipeline: memory and math add up (overlap 1) or hide each other in part.
Attention is a matrix product per KV head; its walk costs once per row tile and 128 keys, on one core after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from specplan.microbench.fit_rows import Family, Mask, Slice
from specplan.microbench.fit_target import US, Candidate, Free, Target
from specplan.planner.kernels.choice import ANY
from specplan.planner.kernels.entries import Hardware, Key

CPU = "cpu"
ATTENTION = "torch-packed"      # the kernel and its design in gpu_profiles/kernels/attention.yaml
ROW_TILES = (1, 4, 8)


def cpu_target(rows: Slice, hw: Hardware) -> Target:
    """Entry, equations and free numbers of a slice measured on a CPU."""
    return _TARGETS[rows.family](rows, hw)


# A CPU's rates are the best ones seen with the other cost on top: where both add up, each alone is faster than that.
BEYOND_SEEN = 4.0


def _stream(hw: Hardware) -> Free:
    return Free(0.8 * hw.hbm_bytes_per_s, 0.05 * hw.hbm_bytes_per_s, BEYOND_SEEN * hw.hbm_bytes_per_s)


def _math(hw: Hardware) -> Free:
    return Free(hw.dense("bf16"), 0.02 * hw.dense("bf16"), BEYOND_SEEN * hw.dense("bf16"))


def _gemm(rows: Slice, hw: Hardware) -> Target:
    free = {"launch_s": Free(20 * US, 0.1 * US, 1000 * US), "stream_bytes_per_s": _stream(hw),
            "mma_flop_per_s": _math(hw), "k_chain_s": Free(5 * US, 0.0, 500 * US)}
    candidates = tuple(Candidate(form="k_chain", fixed={"overlap": overlap}, free=free) for overlap in (1.0, 1.5, 2.5))
    return Target(id=f"{ANY}-{rows.kernel}", key={"weight_dtype": str(rows.variant["dtype"])}, candidates=candidates,
                  default=rows.kernel == "torch-onednn")


def _attention(rows: Slice, hw: Hardware) -> Target:
    key: dict[str, Key] = {"head_dim": int(rows.variant["head_dim"]), "kv_dtype": str(rows.variant["kv"])}
    if rows.kernel != ATTENTION:
        return Target(id=f"{ANY}-{rows.kernel}", key=key, candidates=(), unfit="no equation for this kernel")
    free = {"launch_s": Free(50 * US, 0.5 * US, 1000 * US), "stream_bytes_per_s": _stream(hw),
            "block_s": Free(2 * US, 0.0, 200 * US), "wave_s": Free(2 * US, 0.0, 500 * US)}
    fixed = {"split_cap": 1.0, "math_flop_per_s": hw.dense("bf16")}     # the walk is the math
    candidates = tuple(Candidate(form="walk_fa3", fixed={**fixed, "tile_rows": tile, "row_tile": tile}, free=free)
                       for tile in ROW_TILES)
    return Target(id=f"{ANY}-{ATTENTION}", key=key, candidates=candidates,
                  keep={"one row: a matrix-vector product, another kernel": _several_rows})


def _several_rows(rows: Slice) -> Mask:
    c = rows.columns
    return np.asarray(c["query_heads"] / c["kv_heads"] * c["query_len"] > 1)


def _mla(rows: Slice, hw: Hardware) -> Target:
    free = {"launch_s": Free(50 * US, 0.5 * US, 1000 * US), "stream_bytes_per_s": _stream(hw),
            "mma_flop_per_s": _math(hw), "block_s": Free(2 * US, 0.0, 200 * US), "row_s": Free(2 * US, 0.0, 200 * US)}
    return Target(id=f"{ANY}-{rows.kernel}", key={"kv_dtype": str(rows.variant["kv"])},
                  candidates=(Candidate(form="mla", free=free),))


def _unfit(rows: Slice, hw: Hardware) -> Target:
    del hw
    return Target(id=f"{ANY}-{rows.kernel}", key={}, candidates=(), unfit="no equation for this kernel on a CPU")


def _allreduce(rows: Slice, hw: Hardware) -> Target:
    del hw
    return Target(id=f"{ANY}-{rows.kernel}", key={"gpus": int(rows.variant["gpus"])},
                  candidates=(Candidate(form="bands"),))


_TARGETS: Mapping[Family, Callable[[Slice, Hardware], Target]] = {
    "attention": _attention, "gemm": _gemm, "mla": _mla, "moe": _unfit, "allreduce": _allreduce,
}
