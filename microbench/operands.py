"""Random operands of a case, and what the exact result would be: shared by all backends of an op.

Data is random normal: zeros draw less power, so that a GPU runs a matrix product 13 % faster on them (kernels.md 5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from specplan.microbench.cases import Case, attention, gemm, mla, moe
from specplan.microbench.reference import attention_reference

Operands: TypeAlias = dict[str, Any]      # role -> tensor

TORCH_DTYPE = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What an op needs besides a kernel: operands, the exact fp32 result, and a small case to check it on."""

    operands: Callable[[Case, Any], Operands]
    reference: Callable[[Case, Operands], Any] | None = None
    small: Callable[[Case], Case] | None = None
    tolerance_dtype: str = "query"          # the role whose dtype sets the tolerance


def torch_dtype(name: str) -> Any:
    """torch's dtype of a specplan name."""
    import torch

    return getattr(torch, TORCH_DTYPE[name])


def random(shape: tuple[int, ...], dtype: str, device: Any, scale: float = 1.0) -> Any:
    """Normal numbers; fp8 is rounded from fp16, since torch draws none."""
    import torch

    drawn = torch_dtype("fp16" if dtype == "fp8" else dtype)
    tensor = torch.randn(shape, dtype=drawn, device=device)
    if scale != 1.0:
        tensor *= scale
    return tensor.to(torch_dtype(dtype))


def _gemm_operands(case: Case, device: Any) -> Operands:
    rows, n, k = case.shape["rows"], case.shape["n"], case.shape["k"]
    weight = random((n, k), case.dtypes["weight"], device, scale=k**-0.5)
    return {"input": random((rows, k), case.dtypes["weight"], device), "weight": weight}


def _gemm_reference(case: Case, operands: Operands) -> Any:
    del case
    return operands["input"].float() @ operands["weight"].float().t()


def _small_gemm(case: Case) -> Case:
    return gemm(rows=case.shape["rows"], n=min(case.shape["n"], 512), k=min(case.shape["k"], 512),
                dtype=case.dtypes["weight"], op=case.op)


def _attention_operands(case: Case, device: Any) -> Operands:
    import torch

    shape = case.shape
    tokens = shape["context_tokens"] + shape["query_len"]
    cache = (shape["batch"], tokens, shape["kv_heads"], shape["head_dim"])
    query = (shape["batch"], shape["query_len"], shape["query_heads"], shape["head_dim"])
    return {
        "query": random(query, case.dtypes["query"], device),
        "keys": random(cache, case.dtypes["kv"], device),
        "values": random(cache, case.dtypes["kv"], device),
        "lengths": torch.full((shape["batch"],), tokens, dtype=torch.int32, device=device),
    }


def _attention_reference(case: Case, operands: Operands) -> Any:
    return attention_reference(**operands, scale=case.shape["head_dim"] ** -0.5)


def _small_attention(case: Case) -> Case:
    heads = min(case.shape["kv_heads"], 2)
    group = case.shape["query_heads"] // case.shape["kv_heads"]
    small = attention(batch=2, context_tokens=min(case.shape["context_tokens"], 1111), query_heads=heads * group,
                      kv_heads=heads, query_len=case.shape["query_len"], head_dim=case.shape["head_dim"],
                      query=case.dtypes["query"], kv=case.dtypes["kv"])
    return dataclasses.replace(small, options=case.options)


def _mla_operands(case: Case, device: Any) -> Operands:
    import torch

    shape = case.shape
    tokens = shape["context_tokens"] + shape["query_len"]
    return {
        "query": random((shape["batch"], shape["query_len"], shape["heads"], shape["latent_width"]),
                        case.dtypes["query"], device),
        "latent": random((shape["batch"], tokens, 1, shape["latent_width"]), case.dtypes["kv"], device),
        "lengths": torch.full((shape["batch"],), tokens, dtype=torch.int32, device=device),
    }


def _mla_reference(case: Case, operands: Operands) -> Any:
    latent = operands["latent"]
    return attention_reference(operands["query"], latent, latent[..., : case.shape["value_width"]],
                               operands["lengths"], case.shape["latent_width"] ** -0.5)


def _small_mla(case: Case) -> Case:
    return mla(batch=2, context_tokens=min(case.shape["context_tokens"], 555), query_len=case.shape["query_len"],
               heads=case.shape["heads"], latent_width=case.shape["latent_width"],
               value_width=case.shape["value_width"], query=case.dtypes["query"], kv=case.dtypes["kv"])


def _moe_operands(case: Case, device: Any) -> Operands:
    """Tokens already routed and sorted by expert, as the grouped product gets them; routing is uniform random."""
    import torch

    shape, dtype = case.shape, case.dtypes["weight"]
    picks = torch.rand((shape["tokens"], shape["experts"]), device=device).topk(shape["top_k"], dim=1).indices
    counts = torch.bincount(picks.flatten(), minlength=shape["experts"])
    wide = shape["intermediate"] * (shape["matrices"] - 1)      # gate and up side by side
    return {
        "input": random((shape["tokens"] * shape["top_k"], shape["hidden"]), dtype, device),
        "up": random((shape["experts"], wide, shape["hidden"]), dtype, device, scale=shape["hidden"] ** -0.5),
        "down": random((shape["experts"], shape["hidden"], shape["intermediate"]), dtype, device,
                       scale=shape["intermediate"] ** -0.5),
        "ends": counts.cumsum(0).to(torch.int32),
    }


def _moe_reference(case: Case, operands: Operands) -> Any:
    import torch

    start, parts = 0, []
    for expert, end in enumerate(operands["ends"].tolist()):
        rows = operands["input"][start:end].float()
        wide = rows @ operands["up"][expert].float().t()
        parts.append(gated(wide, case.shape["matrices"]) @ operands["down"][expert].float().t())
        start = end
    return torch.cat(parts)


def gated(wide: Any, matrices: int) -> Any:
    """SwiGLU of [rows, 2 * intermediate] where there is a gate, relu squared of [rows, intermediate] where not."""
    from torch.nn.functional import relu, silu

    if matrices == 2:
        return relu(wide).square()
    gate, up = wide.chunk(2, dim=-1)
    return silu(gate) * up


def _small_moe(case: Case) -> Case:
    experts = min(case.shape["experts"], 16)
    return moe(tokens=case.shape["tokens"], hidden=min(case.shape["hidden"], 256),
               intermediate=min(case.shape["intermediate"], 256), experts=experts,
               top_k=min(case.shape["top_k"], experts), matrices=case.shape["matrices"], dtype=case.dtypes["weight"])


def _copy_operands(case: Case, device: Any) -> Operands:
    import torch

    source = torch.randn(case.shape["moved_bytes"] // 8, dtype=torch.float32, device=device)
    return {"source": source, "target": torch.empty_like(source)}


def _no_operands(case: Case, device: Any) -> Operands:
    del case, device
    return {}


def _launch_operands(case: Case, device: Any) -> Operands:
    del case
    import torch

    return {"one": torch.zeros(1, device=device)}


_MATRIX = Operation(operands=_gemm_operands, reference=_gemm_reference, small=_small_gemm, tolerance_dtype="weight")

OPERATIONS: dict[str, Operation] = {
    "gemm": _MATRIX,
    "lm_head": _MATRIX,
    "attention": Operation(operands=_attention_operands, reference=_attention_reference, small=_small_attention),
    "mla": Operation(operands=_mla_operands, reference=_mla_reference, small=_small_mla),
    "moe": Operation(operands=_moe_operands, reference=_moe_reference, small=_small_moe, tolerance_dtype="weight"),
    "copy": Operation(operands=_copy_operands),
    "launch": Operation(operands=_launch_operands),
    "draft_step": Operation(operands=_no_operands),
}
