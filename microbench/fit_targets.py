"""Which entry, equations and filters belong to a slice of the public tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from specplan.microbench.fit_rows import Mask, Slice
from specplan.microbench.fit_target import US, Candidate, Free, Target, Within
from specplan.microbench.fit_target_attention import attention_target
from specplan.microbench.fit_target_matrix import gemm_target, moe_target
from specplan.planner.kernels.entries import Hardware, Key


def target_of(rows: Slice, hardware: Hardware) -> Target:
    """Name, equations and filters for a slice of the public tables."""
    return _TARGETS[rows.family](rows, hardware)


ALLREDUCE_BYTES = 64 * 2**20


def _allreduce(rows: Slice, hw: Hardware) -> Target:
    del hw
    return Target(
        id=f"{rows.engine}-allreduce", key={"gpus": int(rows.variant["gpus"])}, candidates=(Candidate(form="bands"),),
        keep={"message above 64 MiB": Within("message_bytes", high=ALLREDUCE_BYTES),
              "spike above 1.5 times both neighbours": _no_spike},
    )


def _no_spike(rows: Slice) -> Mask:
    order = np.argsort(rows.columns["message_bytes"], kind="stable")
    times = rows.time_s[order]
    spike = np.zeros(len(rows), dtype=bool)
    spike[1:-1] = (times[1:-1] > 1.5 * times[:-2]) & (times[1:-1] > 1.5 * times[2:])
    keep = np.ones(len(rows), dtype=bool)
    keep[order[spike]] = False
    return keep


def _mla(rows: Slice, hw: Hardware) -> Target:
    kv, identity = str(rows.variant["kv"]), f"{rows.engine}-mla"
    key: dict[str, Key] = {"kv_dtype": kv}
    if rows.kernel == "triton" or (rows.version == "1.0.0") or hw.arch in ("ada", "ampere", "blackwell-gb202"):
        return Target(id=identity, key=key, candidates=(), unfit="the path changes with the batch; no equation holds")
    if rows.engine == "sglang" and kv == "fp8" and hw.arch == "hopper":
        return Target(id=identity, key=key, candidates=(), unfit="8 times slower than bf16: a fallback path")
    return Target(id=identity, key=key, candidates=mla_candidates(hw, str(key["kv_dtype"])))


MLA_MATH = 0.75     # of the peak: no row of any table passes 0.65; q = 1 rows alone often cannot tell the rate


def mla_candidates(hw: Hardware, kv_dtype: str) -> tuple[Candidate, ...]:
    """The absorbed MLA equation, math in the cache's format; on Blackwell, 32 heads per GPU run a slower kernel."""
    bandwidth, peak = hw.hbm_bytes_per_s, hw.dense("fp8" if kv_dtype == "fp8" else "bf16") or hw.dense("bf16")
    free = {
        "launch_s": Free(12 * US, 1 * US, 30 * US),
        "stream_bytes_per_s": Free(0.9 * bandwidth, 0.3 * bandwidth, bandwidth),
        "mma_flop_per_s": Free(0.6 * peak, 0.1 * peak, MLA_MATH * peak),
        "block_s": Free(0.015 * US, 0.0, 1 * US), "row_s": Free(0.05 * US, 0.0, 1 * US),
        "combine_s": Free(1 * US, 0.0, 20 * US), "split_s": Free(0.1 * US, 0.0, 2 * US),
        "l2_gain": Free(1.4, 1.0, 10.0),
    }
    fixed: dict[str, float] = {"split_min_blocks": 4}
    if hw.arch.startswith("blackwell"):
        free["slow_factor"] = Free(1.35, 1.0, 3.0)
        fixed["slow_heads"] = 32
    return (Candidate(form="mla", fixed=fixed, free=free),)


def _recurrent(rows: Slice, hw: Hardware) -> Target:
    verify = rows.variant["phase"] == "verify"
    bandwidth = hw.hbm_bytes_per_s
    free = {
        "launch_s": Free(4 * US, 0.1 * US, 30 * US),
        "stream_bytes_per_s": Free(0.8 * bandwidth, 0.2 * bandwidth, 1.1 * bandwidth),
        "l2_gain": Free(1.3, 1.0, 10.0),
    }
    if verify:
        free["token_s"] = Free(0.4 * US, 0.0, 10 * US)
    key: dict[str, Key] = {"kind": str(rows.variant["kind"]), "phase": "verify" if verify else "decode"}
    return Target(id=f"{rows.engine}-{rows.kernel.replace('_', '-')}", key=key,
                  default=rows.kernel == "fused_kda_decode", candidates=(Candidate(form="recurrent", free=free),))


def _sparse(rows: Slice, hw: Hardware) -> Target:
    dsa, decode = rows.variant["module"] == "glm5_dsa_attn", rows.variant["phase"] == "decode"
    verify: dict[str, Callable[[Slice], Mask]] = {
        "more than 64 query tokens: prefill": Within("query_len", high=64),
        "context below 2048 tokens" if dsa else "context below 256 tokens": Within(
            "context_tokens", low=2048 if dsa else 256),
    }
    waves = {"launch_s": Free(4 * US, 0.1 * US, 30 * US), "wave_s": Free(50 * US, 1 * US, 300 * US)}
    if dsa:
        width = hw.sms // 2 if hw.arch.startswith("blackwell") else hw.sms  # pairs of SMs share a token on Blackwell
        return Target(id=f"{rows.engine}-dsa{'-decode' if decode else ''}",
                      key={"kind": "dsa-decode" if decode else "dsa"}, keep=verify,
                      candidates=(Candidate(form="wave", fixed={"width_tokens": width}, free=waves),))
    by_token = {"token_s_per_context_token": Free(6e-13, 0.0, 1e-10)}
    if decode:
        return Target(id=f"{rows.engine}-hca-decode", key={"kind": "hca-decode"}, keep=verify, candidates=(
            Candidate(form="decode", fixed={"width_tokens": hw.sms}, free={**waves, **by_token}),))
    affine = {
        "launch_s": Free(15 * US, 0.1 * US, 60 * US), "seq_s": Free(1 * US, 0.0, 20 * US),
        "token_s": Free(0.06 * US, 0.0, 2 * US), "seq_s_per_context_token": Free(3e-11, 0.0, 1e-9), **by_token,
    }
    return Target(id=f"{rows.engine}-hca", key={"kind": "hca"}, keep=verify,
                  candidates=(Candidate(form="affine", free=affine),))


def _prefill(rows: Slice, hw: Hardware) -> Target:
    del hw
    kernel = "" if rows.kernel not in ("triton", "vllm_triton_attn") else "beside the engine's default kernel"
    key: dict[str, Key] = {"head_dim": int(rows.variant["head_dim"]), "kv_dtype": str(rows.variant["kv"])}
    return Target(id=f"{rows.engine}-prefill", key=key, candidates=(Candidate(form="rate"),), unfit=kernel)


_TARGETS: Mapping[str, Callable[[Slice, Hardware], Target]] = {
    "attention": attention_target, "attention_math": _prefill, "gemm": gemm_target, "moe": moe_target,
    "allreduce": _allreduce, "mla": _mla, "recurrent": _recurrent, "sparse": _sparse,
}
