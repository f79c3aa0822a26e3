"""Run the Triton kernel in Triton's interpreter over a covering set and print the error of each case as JSON.

A script of its own, because the interpreter is chosen when the kernels are decorated: TRITON_INTERPRET=1 python
interpreter_cases.py [full]. Covered: every G in GROUPS and every q in 1..17, each dtype, contiguous and paged caches,
splits 1..8 with empty splits, ragged lengths, tiles 16..256, head widths that are no power of two, MLA.
bf16 is left out: the interpreter's bf16 dot is wrong in every version (kernels.md 4.4).
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict, dataclass

GROUPS = (1, 2, 4, 5, 7, 8, 12, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the kernel on the interpreter."""

    group: int
    query_len: int
    splits: int
    dtype: str
    head_dim: int = 16
    page_tokens: int = 0
    block_m: int = 16
    block_n: int = 16
    context: int = 45
    kv_heads: int = 1
    latent: bool = False
    halves: int = 1


def covering() -> list[Call]:
    """About 80 cases: half of the (G, q) pairs; every split, page layout, tile and dtype several times."""
    calls = []
    splits = itertools.cycle((1, 2, 3, 8, 5, 4, 7, 6))
    dtypes = itertools.cycle(("fp16", "fp32"))
    pages = itertools.cycle((0, 16, 0, 8, 0, 32, 24))
    contexts = itertools.cycle((45, 16, 83, 31, 2, 64, 100))
    for query_len in range(1, 18):
        for group in GROUPS[query_len % 2 :: 2]:
            rows = group * query_len
            tile = next(tile for tile in (16, 32, 64, 128, 256, 512) if rows <= tile)
            if tile > 256:
                continue
            calls.append(Call(group=group, query_len=query_len, splits=next(splits), dtype=next(dtypes),
                              page_tokens=next(pages), block_m=tile, context=next(contexts)))
    calls += [
        # several row tiles, a tile wider than the rows, several KV heads, widths that are no power of two
        Call(group=16, query_len=17, splits=2, dtype="fp32", block_m=128),
        Call(group=16, query_len=17, splits=1, dtype="fp16", block_m=256),
        Call(group=8, query_len=5, splits=3, dtype="fp32", block_m=16, kv_heads=3),
        Call(group=4, query_len=2, splits=2, dtype="fp16", block_m=64, kv_heads=2, head_dim=64, block_n=32),
        Call(group=5, query_len=3, splits=4, dtype="fp32", head_dim=24),
        Call(group=2, query_len=4, splits=1, dtype="fp16", head_dim=40, page_tokens=16),
        Call(group=1, query_len=1, splits=8, dtype="fp32", context=0),              # one key, seven empty splits
        Call(group=7, query_len=9, splits=8, dtype="fp16", context=5, block_m=64),  # more splits than blocks
        # MLA: one latent for all heads, rope columns behind it, values are keys
        Call(group=16, query_len=1, splits=1, dtype="fp32", head_dim=32, latent=True),
        Call(group=16, query_len=3, splits=4, dtype="fp16", head_dim=32, latent=True, block_m=64, page_tokens=16),
        Call(group=5, query_len=8, splits=3, dtype="fp32", head_dim=64, latent=True, block_m=32),
        # two halves by column
        Call(group=8, query_len=5, splits=3, dtype="fp32", head_dim=32, halves=2, block_m=64, page_tokens=16),
        Call(group=16, query_len=17, splits=1, dtype="fp16", head_dim=64, halves=2, block_m=256, context=20),
        Call(group=5, query_len=3, splits=4, dtype="fp16", head_dim=40, halves=2, kv_heads=2),
        Call(group=7, query_len=2, splits=1, dtype="fp32", head_dim=24, halves=2, page_tokens=8),
        Call(group=16, query_len=2, splits=2, dtype="fp32", head_dim=64, latent=True, halves=2, block_m=32),
    ]
    return calls


def full() -> list[Call]:
    """Every G and q with every number of splits, alternating halves, dtype and layout."""
    layouts = itertools.cycle(itertools.product((1, 2), ("fp16", "fp32"), (0, 16, 8)))
    calls = []
    for group, query_len, splits in itertools.product(GROUPS, range(1, 18), range(1, 9)):
        halves, dtype, page_tokens = next(layouts)
        rows = group * query_len
        tile = next(tile for tile in (16, 32, 64, 128, 256) if rows <= tile or tile == 256)
        calls.append(Call(group=group, query_len=query_len, splits=splits, dtype=dtype, page_tokens=page_tokens,
                          block_m=tile, context=37 + splits, halves=halves, head_dim=16 * halves))
    return calls


def error(call: Call) -> float:
    """Disagreement with exact fp32 on two sequences of different length."""
    import torch

    from specplan.microbench.backends.attention_triton import page_table, paged
    from specplan.microbench.operands import torch_dtype
    from specplan.microbench.reference import attention_reference, disagreement
    from specplan.microbench.triton_attention import Layout, Tiling, bind

    torch.manual_seed(0)
    dtype = torch_dtype(call.dtype)
    tokens = call.context + call.query_len
    rope = 16 if call.latent else 0
    width = call.head_dim + rope
    lengths = torch.tensor([tokens, max(call.query_len, tokens // 2)], dtype=torch.int32)
    query = torch.randn(2, call.query_len, call.kv_heads * call.group, width, dtype=dtype)
    keys = torch.randn(2, tokens, call.kv_heads, width, dtype=dtype)
    values = keys[..., : call.head_dim] if call.latent else torch.randn_like(keys)
    scale = width**-0.5
    expected = attention_reference(query, keys, values, lengths, scale)
    table = None
    if call.page_tokens:
        table = page_table(2, tokens, call.page_tokens, "cpu")
        order = table.flatten().long()
        keys = paged(keys, call.page_tokens, order)
        values = keys if call.latent else paged(values, call.page_tokens, order)
    run = bind(query, keys, keys if call.latent else values, lengths, table=table,
               layout=Layout(page_tokens=call.page_tokens, rope_dim=rope, keys_are_values=call.latent),
               tiles=Tiling(block_m=call.block_m, block_n=call.block_n, warps=4, stages=2, halves=call.halves,
                            splits=call.splits),
               scale=scale, value_dim=call.head_dim, combine_rows=32)
    return disagreement(run(), expected)


if __name__ == "__main__":
    chosen = full() if "full" in sys.argv else covering()
    json.dump([{**asdict(call), "error": error(call)} for call in chosen], sys.stdout)
