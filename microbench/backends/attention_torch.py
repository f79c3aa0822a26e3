"""Attention that ships with torch: flash and cuDNN SDPA, flex_attention, and packed matrix products on a CPU."""

from __future__ import annotations

from typing import Any

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.cases import Case
from specplan.microbench.environment import capability
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands


def heads_first(tensor: Any) -> Any:
    """[batch, tokens, heads, width] -> [batch, heads, tokens, width], in memory too."""
    return tensor.transpose(1, 2).contiguous()


# ---- CPU: packed rows through torch.matmul -------------------------------------------------------------------


def packed_attention(query: Any, keys: Any, values: Any, mask: Any, scale: float) -> Any:
    """Attention of packed rows: [batch, kv_heads, G*q, width] over a cache [batch, kv_heads, tokens, width].

    `mask` [G*q, q] is added to the last q columns: only the verify window is causal.
    """
    import torch

    score = torch.matmul(query, keys.transpose(-1, -2)).mul_(scale)
    if mask is not None:
        score[..., -mask.shape[-1] :] += mask
    return torch.matmul(torch.softmax(score, dim=-1), values)


def verify_mask(query_len: int, group: int, *, like: Any) -> Any:
    """0 where token i of q sees token j <= i of the window, -inf elsewhere; rows token by token, G heads each."""
    import torch

    if query_len == 1:
        return None
    future = torch.ones((query_len, query_len), dtype=torch.bool, device=like.device).triu(1)
    mask = torch.zeros((query_len, query_len), dtype=like.dtype, device=like.device)
    return mask.masked_fill(future, float("-inf")).repeat_interleave(group, 0)


def pack_rows(query: Any, kv_heads: int) -> Any:
    """[batch, q, query_heads, width] -> [batch, kv_heads, q*G, width]; row = token * G + head of the group."""
    batch, query_len, query_heads, width = query.shape
    split = query.view(batch, query_len, kv_heads, query_heads // kv_heads, width)
    return split.permute(0, 2, 1, 3, 4).reshape(batch, kv_heads, -1, width)


def unpack_rows(rows: Any, query_len: int) -> Any:
    """Inverse of `pack_rows`."""
    batch, kv_heads, _, width = rows.shape
    split = rows.view(batch, kv_heads, query_len, -1, width)
    return split.permute(0, 2, 1, 3, 4).reshape(batch, query_len, -1, width)


def _bind_packed(case: Case, environment: Environment, operands: Operands) -> Bound:
    del environment
    kv_heads, query_len = case.shape["kv_heads"], case.shape["query_len"]
    query = operands["query"]
    mask = verify_mask(query_len, case.shape["query_heads"] // kv_heads, like=query)
    keys, values = heads_first(operands["keys"]), heads_first(operands["values"])
    scale = case.shape["head_dim"] ** -0.5
    return Bound(call=lambda: unpack_rows(
        packed_attention(pack_rows(query, kv_heads), keys, values, mask, scale), query_len))


def _bind_packed_mla(case: Case, environment: Environment, operands: Operands) -> Bound:
    del environment
    query, query_len, value_width = operands["query"], case.shape["query_len"], case.shape["value_width"]
    mask = verify_mask(query_len, case.shape["heads"], like=query)
    latent = heads_first(operands["latent"])
    values = latent[..., :value_width]
    scale = case.shape["latent_width"] ** -0.5
    return Bound(call=lambda: unpack_rows(
        packed_attention(pack_rows(query, 1), latent, values, mask, scale), query_len))


# ---- scaled_dot_product_attention ----------------------------------------------------------------------------


def _bind_sdpa(backend: str) -> Any:
    def bind(case: Case, environment: Environment, operands: Operands) -> Bound:
        del case
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        query = heads_first(operands["query"])
        if environment.device == "cpu":
            keys, values = heads_first(operands["keys"]), heads_first(operands["values"])
        else:
            keys, values = operands["keys"].transpose(1, 2), operands["values"].transpose(1, 2)
        query_len, tokens = query.shape[2], keys.shape[2]
        mask = None     # is_causal is aligned to the top left; one query token sees everything
        if query_len > 1 and (environment.device == "cpu" or backend == "CUDNN_ATTENTION"):
            mask = torch.ones((query_len, tokens), dtype=torch.bool, device=query.device).tril(tokens - query_len)
        elif query_len > 1:
            from torch.nn.attention.bias import causal_lower_right

            mask = causal_lower_right(query_len, tokens)
        attend = torch.nn.functional.scaled_dot_product_attention
        chosen = getattr(SDPBackend, backend)

        def call() -> Any:
            with sdpa_kernel(chosen):
                return attend(query, keys, values, attn_mask=mask, enable_gqa=True).transpose(1, 2)

        return Bound(call=call)

    return bind


def _refuses_sdpa(case: Case, environment: Environment) -> str | None:
    if case.dtypes["kv"] != case.dtypes["query"]:
        return "SDPA takes one dtype for query, keys and values"
    if case.options.get("page_tokens"):
        return "SDPA takes a contiguous cache"
    if environment.device == "cuda" and case.dtypes["query"] == "fp32":
        return "flash and cuDNN take 16-bit dtypes"
    return None


def _cudnn_absent(environment: Environment) -> str | None:
    import torch

    if not torch.backends.cudnn.is_available():
        return "this torch has no cuDNN"
    return None if capability(environment) >= 80 else "cuDNN attention needs sm_80 or newer"


# ---- flex_attention ------------------------------------------------------------------------------------------

FLEX_ROWS = 128     # rows beyond which its decode kernel finds no configuration (torch 2.13, kernels.md 1.1)


def _bind_flex(case: Case, environment: Environment, operands: Operands) -> Bound:
    del environment
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query = heads_first(operands["query"])
    keys, values = operands["keys"].transpose(1, 2), operands["values"].transpose(1, 2)
    query_len, tokens = query.shape[2], keys.shape[2]
    offset = tokens - query_len

    def visible(_batch: Any, _head: Any, row: Any, column: Any) -> Any:
        return column <= row + offset

    mask = create_block_mask(visible, None, None, query_len, tokens, device=query.device)
    attend = torch.compile(flex_attention, dynamic=False)
    rows = case.shape["query_heads"] // case.shape["kv_heads"] * query_len
    block_m = max(16, 1 << (rows - 1).bit_length())
    return Bound(call=lambda: attend(query, keys, values, block_mask=mask, enable_gqa=True).transpose(1, 2),
                 tile={"block_m": min(block_m, FLEX_ROWS)})


def _refuses_flex(case: Case, environment: Environment) -> str | None:
    group = case.shape["query_heads"] // case.shape["kv_heads"]
    if group & (group - 1):
        return f"flex_attention packs groups of a power of two, not {group}"
    if group * case.shape["query_len"] > FLEX_ROWS:
        return f"its decode kernel holds {FLEX_ROWS} rows, not {group * case.shape['query_len']}"
    return _refuses_sdpa(case, environment)


def _flex_absent(environment: Environment) -> str | None:
    if environment.triton is None:
        return "flex_attention compiles to triton, which is not installed: pip install triton"
    return None if capability(environment) >= 80 else "flex_attention needs sm_80 or newer"


def _cpu_dtype(case: Case, environment: Environment) -> str | None:
    del environment
    if case.options.get("page_tokens"):
        return "takes a contiguous cache"
    if case.dtypes["query"] == "fp32" and case.dtypes["kv"] == "fp32":
        return None
    return f"CPU attention is measured in fp32; this CPU has no matrix unit for {case.dtypes['kv']}"


BACKENDS = (
    Backend(name="torch-packed", ops=("attention",), devices=("cpu",), bind=_bind_packed, refuses=_cpu_dtype),
    Backend(name="torch-packed-mla", ops=("mla",), devices=("cpu",), bind=_bind_packed_mla, refuses=_cpu_dtype),
    Backend(name="sdpa-cpu", ops=("attention",), devices=("cpu",), bind=_bind_sdpa("FLASH_ATTENTION"),
            refuses=_cpu_dtype, packs_group=False),
    Backend(name="flex", ops=("attention",), devices=("cuda",), bind=_bind_flex, absent=_flex_absent,
            refuses=_refuses_flex),
    Backend(name="sdpa-flash", ops=("attention",), devices=("cuda",), bind=_bind_sdpa("FLASH_ATTENTION"),
            refuses=_refuses_sdpa, packs_group=False),
    Backend(name="sdpa-cudnn", ops=("attention",), devices=("cuda",), bind=_bind_sdpa("CUDNN_ATTENTION"),
            absent=_cudnn_absent, refuses=_refuses_sdpa, packs_group=False),
)
