"""The tables of the wheel that are read: their columns as arguments of timing functions, and the rows that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specplan.microbench.fit_rows import Family, Mask

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "fp8_e4m3": "fp8", "w4a16_mxfp4": "mxfp4_w4a16"}
MIN_CONTEXT_TOKENS = 256
PREFILL_TOKENS, PREFILL_FLOP = 4096, 1e12
Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of the wheel: where it lies, what it must have, and how its rows become arguments."""

    family: Family
    folder: str
    file: str
    needs: tuple[str, ...]
    arguments: Callable[[Columns], dict[str, npt.NDArray[Any]]]
    labels: Callable[[Columns], dict[str, npt.NDArray[Any]]]
    keep: Callable[[Columns], dict[str, Mask]] = lambda _: {}
    optional: tuple[str, ...] = ()


def _dtype(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray([DTYPES.get(value, value) for value in values.tolist()])


def _attention(c: Columns) -> dict[str, npt.NDArray[Any]]:
    return {
        "batch": c["batch_size"], "context_tokens": c["step"] + c["isl"], "query_len": c["isl"],
        "query_heads": c["num_heads"], "kv_heads": c["num_key_value_heads"],
    }


def _attention_keep(c: Columns) -> dict[str, Mask]:
    window = c.get("window_size", np.zeros(len(c["step"])))
    return {
        "sliding window": window == 0,
        f"context below {MIN_CONTEXT_TOKENS} tokens": c["step"] + c["isl"] >= MIN_CONTEXT_TOKENS,
        "several beams": c["beam_width"] == 1,
    }


def _prefill_keep(c: Columns) -> dict[str, Mask]:
    flop = 2.0 * c["batch_size"] * c["num_heads"] * np.square(c["isl"].astype(float)) * c["head_dim"]
    return {
        "sliding window": c.get("window_size", np.zeros(len(c["step"]))) == 0,
        f"prompt below {PREFILL_TOKENS} tokens or {PREFILL_FLOP:g} FLOP: not bound by math":
            (c["isl"] >= PREFILL_TOKENS) & (flop > PREFILL_FLOP),
    }


def _moe(c: Columns) -> dict[str, npt.NDArray[Any]]:
    return {
        "tokens": c["num_tokens"], "hidden": c["hidden_size"], "intermediate": c["inter_size"], "top_k": c["topk"],
        "experts": c["num_experts"], "tp": c["moe_tp_size"], "ep": c["moe_ep_size"],
        "routing_skew": np.asarray([float(name.rpartition("_")[2]) if "power" in name else 0.0
                                    for name in c["distribution"].tolist()]),
    }


# Shapes of Nemotron 3 (Nano; Super and Ultra): squared ReLU without a gate matrix (`mlp_hidden_act: relu2` in their
# configurations). Only TensorRT-LLM's table names the kernel after that.
UNGATED = ((1856, 6, 128), (2688, 22, 512), (5120, 22, 512))     # intermediate width, top-k, experts


def _expert_matrices(c: Columns) -> npt.NDArray[Any]:
    ungated = np.zeros(len(c["topk"]), dtype=bool)
    for width, top_k, experts in UNGATED:
        ungated |= (c["inter_size"] == width) & (c["topk"] == top_k) & (c["num_experts"] == experts)
    return np.where(ungated, 2, 3)


def _moe_keep(c: Columns) -> dict[str, Mask]:
    return {
        "more than 8-way tensor or 64-way expert parallel": (c["moe_tp_size"] <= 8) & (c["moe_ep_size"] <= 64),
        "fewer than 96 intermediate columns per GPU": c["inter_size"] / c["moe_tp_size"] >= 96,
    }


def _graph(c: Columns) -> dict[str, Mask]:
    return {"eager launch": np.asarray(["eager" not in name for name in c["kernel_source"].tolist()])}


def _recurrent(c: Columns) -> dict[str, npt.NDArray[Any]]:
    return {
        "batch": c["batch_size"], "heads": c["num_v_heads"], "key_dim": c["head_k_dim"],
        "value_dim": c["head_v_dim"], "query_len": np.where(c["phase"] == "verify", c["seq_len"], 1),
    }


def _recurrent_keep(c: Columns) -> dict[str, Mask]:
    names = c["kernel_source"].tolist()
    return {
        "prefill": c["phase"] != "context",
        "convolution": np.asarray(["conv" not in name for name in names]),
    }


def _sparse(c: Columns) -> dict[str, npt.NDArray[Any]]:
    return {"batch": c["batch_size"], "query_len": c["isl"], "context_tokens": c["step"] + c["isl"],
            "heads": c["num_heads"]}


TABLES: tuple[Table, ...] = (
    Table(family="attention", folder="attention", file="generation_attention_perf.parquet",
          needs=("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "beam_width",
                 "kv_cache_dtype", "step"),
          optional=("window_size",), arguments=_attention, keep=_attention_keep,
          labels=lambda c: {"head_dim": c["head_dim"], "kv": _dtype(c["kv_cache_dtype"])}),
    Table(family="attention_math", folder="attention", file="context_attention_perf.parquet",
          needs=("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype", "step"),
          optional=("window_size",), arguments=_attention, keep=_prefill_keep,
          labels=lambda c: {"head_dim": c["head_dim"], "kv": _dtype(c["kv_cache_dtype"])}),
    Table(family="gemm", folder="gemm", file="gemm_perf.parquet", needs=("gemm_dtype", "m", "n", "k"),
          arguments=lambda c: {"rows": c["m"], "n": c["n"], "k": c["k"]},
          labels=lambda c: {"dtype": _dtype(c["gemm_dtype"])}),
    Table(family="moe", folder="moe", file="moe_perf.parquet",
          needs=("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
                 "moe_ep_size", "distribution"),
          arguments=_moe, keep=_moe_keep,
          labels=lambda c: {"dtype": _dtype(c["moe_dtype"]), "matrices": _expert_matrices(c)}),
    Table(family="allreduce", folder="comm", file="custom_allreduce_perf.parquet",
          needs=("allreduce_dtype", "num_gpus", "message_size"), keep=_graph,
          arguments=lambda c: {"message_bytes": 2 * c["message_size"]},  # the table counts bf16 elements
          labels=lambda c: {"gpus": c["num_gpus"]}),
    Table(family="mla", folder="mla", file="generation_mla_perf.parquet",
          needs=("kv_cache_dtype", "num_heads", "batch_size", "isl", "step"),
          arguments=lambda c: {"batch": c["batch_size"], "context_tokens": c["step"] + c["isl"],
                               "query_len": c["isl"], "heads": c["num_heads"]},
          keep=lambda c: {f"context below {MIN_CONTEXT_TOKENS} tokens": c["step"] + c["isl"] >= MIN_CONTEXT_TOKENS},
          labels=lambda c: {"kv": _dtype(c["kv_cache_dtype"])}),
    *(Table(family="recurrent", folder=folder, file=f"{kind}_perf.parquet",
            needs=("phase", "batch_size", "seq_len", "num_v_heads", "head_k_dim", "head_v_dim"),
            arguments=_recurrent, keep=_recurrent_keep,
            labels=lambda c, kind=kind: {"kind": np.full(len(c["phase"]), kind), "phase": c["phase"]})  # type: ignore[misc]
      for folder, kind in (("linear_attention", "gdn"), ("kda", "kda"))),
    *(Table(family="sparse", folder="sparse_attention", file=f"{module}_module_perf.parquet",
            needs=("batch_size", "isl", "step", "num_heads"), arguments=_sparse,
            labels=lambda c, module=module: {  # type: ignore[misc]
                "module": np.full(len(c["step"]), module), "phase": np.where(c["isl"] == 1, "decode", "verify")})
      for module in ("glm5_dsa_attn", "dsv4_hca_attn")),
)
