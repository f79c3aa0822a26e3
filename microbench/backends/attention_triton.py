"""The project's own Triton kernel: packed rows, split KV, contiguous or paged cache, softmax attention and MLA."""

from __future__ import annotations

import math
from typing import Any

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.cases import Case
from specplan.microbench.environment import capability
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands
from specplan.microbench.triton_attention import Layout, Tiling, bind, choose_splits, row_tiles, tiling

FP8_CAPABILITY = 89      # e4m3 conversions in hardware


def paged(tensor: Any, page_tokens: int, order: Any) -> Any:
    """[batch, tokens, heads, width] cut into pages that lie in memory in a shuffled `order`."""
    import torch

    batch, tokens, heads, width = tensor.shape
    pages = math.ceil(tokens / page_tokens)
    padded = torch.zeros((batch, pages * page_tokens, heads, width), dtype=tensor.dtype, device=tensor.device)
    padded[:, :tokens] = tensor
    cut = padded.view(batch * pages, page_tokens, heads, width)
    shuffled = torch.empty_like(cut)
    shuffled[order] = cut
    return shuffled


def page_table(batch: int, tokens: int, page_tokens: int, device: Any) -> Any:
    """[batch, pages of a sequence] of page numbers in random order."""
    import torch

    pages = math.ceil(tokens / page_tokens)
    return torch.randperm(batch * pages, device=device).to(torch.int32).view(batch, pages)


def split_tiling(case: Case, environment: Environment, *, rows: int, kv_heads: int, head_dim: int) -> Tiling:
    """Tile and KV splits of a case on this GPU."""
    import dataclasses  # noqa: PLC0415

    asked = case.options.get("block_m")
    tile = tiling(rows=rows, head_dim=head_dim, capability=capability(environment) or 90,
                  block_m=None if asked is None else int(asked))
    tasks = case.shape["batch"] * kv_heads * math.ceil(rows / tile.block_m)
    blocks = math.ceil((case.shape["context_tokens"] + case.shape["query_len"]) / tile.block_n)
    splits = choose_splits(tasks=tasks, slots=environment.sms or 1, kv_blocks=blocks)
    return dataclasses.replace(tile, splits=splits)


def _tile(tile: Tiling) -> dict[str, int]:
    return {"block_m": tile.block_m, "block_n": tile.block_n, "splits": tile.splits, "warps": tile.warps,
            "halves": tile.halves}


def _bind_attention(case: Case, environment: Environment, operands: Operands) -> Bound:
    shape = case.shape
    group = shape["query_heads"] // shape["kv_heads"]
    tile = split_tiling(case, environment, rows=group * shape["query_len"], kv_heads=shape["kv_heads"],
                        head_dim=shape["head_dim"])
    keys, values, table = operands["keys"], operands["values"], None
    page_tokens = int(case.options.get("page_tokens", 0))
    if page_tokens:
        table = page_table(shape["batch"], keys.shape[1], page_tokens, keys.device)
        order = table.flatten().long()
        keys, values = paged(keys, page_tokens, order), paged(values, page_tokens, order)
    call = bind(operands["query"], keys, values, operands["lengths"], table=table,
                layout=Layout(page_tokens=page_tokens), tiles=tile, scale=shape["head_dim"] ** -0.5,
                value_dim=shape["head_dim"])
    return Bound(call=call, tile=_tile(tile))


def _bind_mla(case: Case, environment: Environment, operands: Operands) -> Bound:
    shape = case.shape
    value_width = shape["value_width"]
    tile = split_tiling(case, environment, rows=shape["heads"] * shape["query_len"], kv_heads=1, head_dim=value_width)
    layout = Layout(page_tokens=0, rope_dim=shape["latent_width"] - value_width, keys_are_values=True)
    call = bind(operands["query"], operands["latent"], operands["latent"], operands["lengths"], layout=layout,
                tiles=tile, scale=shape["latent_width"] ** -0.5, value_dim=value_width)
    return Bound(call=call, tile=_tile(tile))


def _absent(environment: Environment) -> str | None:
    if environment.triton is None:
        return "triton is not installed: pip install triton"
    found = capability(environment)
    return None if found >= 80 else f"the kernel needs sm_80 or newer, this is sm_{found}"


def _refuses(case: Case, environment: Environment) -> str | None:
    if case.dtypes["kv"] == "fp8" and capability(environment) < FP8_CAPABILITY:
        return f"fp8 KV needs sm_89 or newer, this is sm_{capability(environment)}"
    width = case.shape["head_dim"] if case.op == "attention" else case.shape["value_width"]
    asked = case.options.get("block_m")
    offered = row_tiles(width, capability(environment))
    if asked is not None and int(asked) not in offered:
        return f"a tile of {asked} rows spills registers at head width {width} on sm_{capability(environment)}"
    return None


def _refuses_mla(case: Case, environment: Environment) -> str | None:
    rope = case.shape["latent_width"] - case.shape["value_width"]
    if rope & (rope - 1) or rope < 16:
        return f"rope width {rope} is no power of two from 16"
    if case.shape["value_width"] & (case.shape["value_width"] - 1):
        return f"value width {case.shape['value_width']} is no power of two"
    return _refuses(case, environment)


BACKENDS = (
    Backend(name="specplan-triton", ops=("attention",), devices=("cuda",), bind=_bind_attention, absent=_absent,
            refuses=_refuses),
    Backend(name="specplan-triton-mla", ops=("mla",), devices=("cuda",), bind=_bind_mla, absent=_absent,
            refuses=_refuses_mla),
)
