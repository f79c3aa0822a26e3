"""Dense and grouped matrix products: torch.mm, oneDNN with packed weights on a CPU, fp8, experts."""

from __future__ import annotations

from typing import Any

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.cases import Case
from specplan.microbench.environment import capability
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands, gated

PACK_ROWS = 16      # rows that oneDNN chooses its weight layout for; the layout serves all row counts


def _bind_mm(case: Case, environment: Environment, operands: Operands) -> Bound:
    del case, environment
    import torch

    rows, weight = operands["input"], operands["weight"].t()
    out = torch.empty((rows.shape[0], weight.shape[1]), dtype=rows.dtype, device=rows.device)
    return Bound(call=lambda: torch.mm(rows, weight, out=out))


def _refuses_fp8(case: Case, environment: Environment) -> str | None:
    del environment
    return "fp8 goes through torch._scaled_mm" if case.dtypes["weight"] == "fp8" else None


def packed_linear(weight: Any) -> Any:
    """oneDNN's own layout of an [N, K] weight: a matrix product then packs nothing at run time."""
    import torch

    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACK_ROWS)


def linear(rows: Any, packed: Any) -> Any:
    """rows @ weight.T with a weight of `packed_linear`."""
    import torch

    return torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")


def _bind_packed(case: Case, environment: Environment, operands: Operands) -> Bound:
    del case, environment
    rows, weight = operands["input"], packed_linear(operands["weight"])
    return Bound(call=lambda: linear(rows, weight))


def onednn_absent(environment: Environment) -> str | None:
    """Why this torch has no oneDNN linear with packed weights, if so."""
    del environment
    import torch

    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return None if there else "this torch is built without oneDNN"


def _fp32_only(case: Case, environment: Environment) -> str | None:
    del environment
    return None if case.dtypes["weight"] == "fp32" else "packed oneDNN weights are used in fp32 only"


def _bind_scaled(case: Case, environment: Environment, operands: Operands) -> Bound:
    """fp8 x fp8 -> bf16 with one scale per tensor (static scales: no quantisation kernel in the call)."""
    del case, environment
    import torch

    rows, weight = operands["input"], operands["weight"].t()      # column-major, as the kernel wants it
    one = torch.ones((), dtype=torch.float32, device=rows.device)
    return Bound(call=lambda: torch._scaled_mm(rows, weight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))


def _scaled_absent(environment: Environment) -> str | None:
    return None if capability(environment) >= 89 else f"no fp8 tensor cores on sm_{capability(environment)}"


def _refuses_scaled(case: Case, environment: Environment) -> str | None:
    del environment
    if case.dtypes["weight"] != "fp8":
        return "fp8 only"
    return None if case.shape["k"] % 16 == 0 and case.shape["n"] % 16 == 0 else "n and k must be multiples of 16"


def _bind_grouped(case: Case, environment: Environment, operands: Operands) -> Bound:
    del environment
    import torch

    rows, ends, matrices = operands["input"], operands["ends"], case.shape["matrices"]
    up, down = operands["up"].transpose(-2, -1), operands["down"].transpose(-2, -1)
    grouped = torch._grouped_mm
    return Bound(call=lambda: grouped(gated(grouped(rows, up, offs=ends), matrices), down, offs=ends))


def _grouped_absent(environment: Environment) -> str | None:
    import torch

    if not hasattr(torch, "_grouped_mm"):
        return f"torch {torch.__version__} has no grouped matrix product (torch >= 2.8)"
    found = capability(environment)
    return None if found >= 80 else f"torch._grouped_mm does not run on sm_{found}"


def _bf16_only(case: Case, environment: Environment) -> str | None:
    del environment
    return None if case.dtypes["weight"] == "bf16" else "torch._grouped_mm takes bf16 only"


def _bind_expert_loop(case: Case, environment: Environment, operands: Operands) -> Bound:
    """One pair of products per expert that has tokens."""
    del environment
    import torch

    ends = operands["ends"].tolist()
    starts = [0, *ends[:-1]]
    spans = [(i, a, b) for i, (a, b) in enumerate(zip(starts, ends, strict=True)) if b > a]
    rows, matrices = operands["input"], case.shape["matrices"]
    up = {i: packed_linear(operands["up"][i]) for i, _, _ in spans}
    down = {i: packed_linear(operands["down"][i]) for i, _, _ in spans}

    def call() -> Any:
        return torch.cat([linear(gated(linear(rows[a:b], up[i]), matrices), down[i]) for i, a, b in spans])

    return Bound(call=call)


BACKENDS = (
    Backend(name="torch-onednn", ops=("gemm", "lm_head"), devices=("cpu",), bind=_bind_packed, absent=onednn_absent,
            refuses=_fp32_only),
    Backend(name="torch-mm", ops=("gemm", "lm_head"), devices=("cuda", "cpu"), bind=_bind_mm, refuses=_refuses_fp8),
    Backend(name="torch-scaled-mm", ops=("gemm", "lm_head"), devices=("cuda",), bind=_bind_scaled,
            absent=_scaled_absent, refuses=_refuses_scaled),
    Backend(name="torch-grouped-mm", ops=("moe",), devices=("cuda",), bind=_bind_grouped, absent=_grouped_absent,
            refuses=_bf16_only),
    Backend(name="torch-expert-loop", ops=("moe",), devices=("cpu",), bind=_bind_expert_loop, absent=onednn_absent,
            refuses=_fp32_only),
)
