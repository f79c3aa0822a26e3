"""Which cases a sweep may measure: a small core that identifies every fit, tile edges, and a pool to choose from.

The number of cases multiplies quickly (10 q x 5 G x 3 S x 3 B is 450): the core is hand-picked, and the plan takes
from the pool only what the fit is least sure of.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specplan.microbench import cases
from specplan.microbench.cases import Case
from specplan.microbench.environment import capability
from specplan.microbench.grid_shapes import (
    CPU_ATTENTION_CORE,
    CPU_MATRICES,
    CPU_WARM,
    GPU_ATTENTION_CORE,
    GPU_MATRICES,
    HIGH_ROWS,
    LM_HEADS,
    MLA_CORE,
    WARM_PAIRS,
)
from specplan.microbench.measurements import Environment
from specplan.planner.models.architecture import LatentAttention, Model, MoeFfn, SoftmaxAttention
from specplan.planner.models.matrices import ffn_matrices, local_heads, mixer_matrices, split

MAX_QUERY_LEN = 17
ROW_EDGES = (16, 32, 64, 128, 192, 256)
GROUPS = (1, 4, 5, 8, 16)
CPU_GROUPS = (2, 4, 5, 8)       # beyond some 100 rows the scores of a head leave the cache
GEMM_EDGES = (15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cases by urgency: all of `core`, then `edges`, then from `pool` what the fit is least sure of."""

    core: tuple[Case, ...]
    edges: tuple[Case, ...]
    pool: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Number formats that a device is measured in: one for matrices and queries, and those of the cache."""

    weight: tuple[str, ...]
    query: str
    kv: tuple[str, ...]


def formats_of(environment: Environment, model: Model | None = None, kv_dtype: str | None = None) -> Formats:
    """What this device can multiply; of a model, what it stores where that can be measured."""
    if environment.device == "cpu":
        return Formats(weight=("fp32",), query="fp32", kv=("fp32",))
    fp8 = capability(environment) >= 89
    if model is None:
        both = ("bf16", "fp8") if fp8 else ("bf16",)
        return Formats(weight=both, query="bf16", kv=both)
    stored = {model.weights.attention, model.weights.ffn, model.weights.lm_head}
    weight = ("bf16", "fp8") if fp8 and any(name.startswith("fp8") for name in stored) else ("bf16",)
    kv = "fp8" if fp8 and (kv_dtype or model.kv_dtype) == "fp8" else "bf16"
    return Formats(weight=weight, query="bf16", kv=(kv,))


# ---- the general grid ----------------------------------------------------------------------------------------


def general_grid(environment: Environment) -> Grid:
    """Shapes of no model in particular: the kernel numbers of a device."""
    return _cpu_grid(environment) if environment.device == "cpu" else _gpu_grid(environment)


def _gpu_grid(environment: Environment) -> Grid:
    formats = formats_of(environment)
    core: list[Case] = [cases.launch(), *(cases.copy(moved_bytes=size) for size in (2**26, 2**29, 2**31))]
    pool: list[Case] = []
    edges: list[Case] = []
    for dtype in formats.weight:
        core += _gemms(GPU_MATRICES, (1, 16, 64, 256), dtype)
        edges += _gemms(GPU_MATRICES[:2], GEMM_EDGES, dtype)
        pool += _gemms(GPU_MATRICES, (4, 8, 32, 96, 128, 384, 512, 1024), dtype)
        core += [cases.gemm(rows=16, n=n, k=k, dtype=dtype, op="lm_head") for n, k in LM_HEADS]
    for kv in formats.kv:
        core += _attentions(formats.query, kv, dict.fromkeys((*GPU_ATTENTION_CORE, *HIGH_ROWS, *WARM_PAIRS)))
        edges += _attentions(formats.query, kv, _edge_shapes(small=(1, 8192, 8), large=(16, 32_768, 1)))
        pool += _attentions(formats.query, kv, _pool_shapes((1, 4, 16, 64), (1024, 4096, 16_384, 65_536), (1, 2, 8)))
        core += [cases.warm(case) for case in _attentions(formats.query, kv, WARM_PAIRS)]
    core += [_mla(formats.query, "bf16", *shape) for shape in MLA_CORE]
    pool += [_mla(formats.query, "bf16", batch, tokens, query_len, heads) for batch, tokens, query_len, heads
             in itertools.product((2, 16, 64), (4096, 32_768), range(1, 9), (16, 128))]
    core += [_moe(tokens, 4096, 1536, 128, 8, "bf16") for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)]
    core += [_moe(tokens, 2880, 2880, 32, 4, "bf16") for tokens in (1, 4, 8, 16, 64, 256)]
    core += [_moe(tokens, 2048, 768, 128, 8, "bf16") for tokens in (1, 4, 8, 16, 64, 256)]
    core.append(cases.draft_step(batch=8, context_tokens=4096, layers=1, hidden=4096, intermediate=14_336,
                                 query_heads=32, kv_heads=8, head_dim=128, vocab=32_000, dtype="bf16"))
    return Grid(core=tuple(core), edges=_without(edges, core), pool=_without(pool, [*core, *edges]))


def _cpu_grid(environment: Environment) -> Grid:
    """Fewer and smaller shapes: a CPU streams a hundredth of what a GPU does."""
    del environment
    core: list[Case] = [cases.launch(), cases.copy(moved_bytes=2**27)]
    core += _gemms(CPU_MATRICES, (1, 4, 16, 64), "fp32")
    core += [cases.gemm(rows=rows, n=16_384, k=1024, dtype="fp32", op="lm_head") for rows in (1, 16)]
    core += _attentions("fp32", "fp32", CPU_ATTENTION_CORE, head_dim=64)
    core += [cases.warm(case) for case in _attentions("fp32", "fp32", CPU_WARM, head_dim=64)]
    core += [_draft_step(batch) for batch in (1, 2, 4, 8)]
    edges = _gemms(CPU_MATRICES[:4], (2, 3, 6, 8, 12, 32, 104), "fp32")
    pool = [*_gemms(CPU_MATRICES, (2, 3, 5, 6, 8, 10, 12, 24, 32, 48, 96, 128), "fp32"),
            *_attentions("fp32", "fp32", _pool_shapes((1, 2, 4, 8), (256, 1024, 2048), (1, 2, 4), CPU_GROUPS, 13),
                         head_dim=64)]
    return Grid(core=tuple(core), edges=_without(edges, core), pool=_without(pool, [*core, *edges]))


def _draft_step(batch: int) -> Case:
    return cases.draft_step(batch=batch, context_tokens=512, layers=2, hidden=512, intermediate=1536, query_heads=8,
                            kv_heads=2, head_dim=64, vocab=4096, dtype="fp32")


# ---- the grid of a model -------------------------------------------------------------------------------------


def model_grid(
    model: Model, environment: Environment, *, tp: int = 1, kv_dtype: str | None = None,
    batch: Iterable[int] = (1, 8, 32), context_tokens: Iterable[int] = (1024, 8192, 32_768),
) -> Grid:
    """The model's own matrices, head counts and workload, around the general core that identifies the fits."""
    general, formats = general_grid(environment), formats_of(environment, model, kv_dtype)
    matrices = {(matrix.n, matrix.k) for group in model.groups
                for matrix in (*mixer_matrices(group.layer.mixer, model.hidden, tp),
                               *ffn_matrices(group.layer.ffn, model.hidden, tp)) if matrix.role != "router"}
    rows = (1, 2, 4, 8, 16, 32, 64, 128) if environment.device == "cpu" else (1, 8, 16, 32, 64, 128, 256, 512)
    edges: list[Case] = []
    for dtype in formats.weight:
        edges += _gemms(sorted(matrices), rows, dtype)
        head = split(model.vocab, tp)
        edges += [cases.gemm(rows=count, n=head, k=model.hidden, dtype=dtype, op="lm_head") for count in (1, 16, 64)]
    pool: list[Case] = []
    grid = list(itertools.product(batch, context_tokens))
    for kv in formats.kv:
        for mixer in {group.layer.mixer for group in model.groups}:
            pool += _mixer_cases(mixer, formats.query, kv, tp, grid)
    for ffn in {group.layer.ffn for group in model.groups}:
        if isinstance(ffn, MoeFfn):
            edges += [_moe(tokens, ffn.latent_hidden or model.hidden, split(ffn.intermediate, tp), ffn.experts,
                           ffn.top_k, formats.weight[0], ffn.matrices) for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    return dataclasses.replace(general, edges=_without([*edges, *pool], general.core),
                               pool=_without(general.pool, [*edges, *pool]))


def _mixer_cases(mixer: object, query: str, kv: str, tp: int, grid: list[tuple[int, int]]) -> list[Case]:
    if isinstance(mixer, SoftmaxAttention):
        kv_heads = local_heads(mixer.kv_heads, tp)
        group = max(1, local_heads(mixer.query_heads, tp) // kv_heads)
        lengths = sorted({1, 2, 4, 8, MAX_QUERY_LEN, *_edge_lengths(group)})
        shapes = ((count, tokens, kv_heads, group, length)
                  for (count, tokens), length in itertools.product(grid, lengths))
        return _attentions(query, kv, shapes, head_dim=mixer.head_dim)
    if isinstance(mixer, LatentAttention):
        heads = local_heads(mixer.query_heads, tp)
        return [cases.mla(batch=batch, context_tokens=tokens, query_len=length, heads=heads, query=query, kv=kv,
                          latent_width=mixer.kv_lora_rank + mixer.rope_head_dim, value_width=mixer.kv_lora_rank)
                for (batch, tokens), length in itertools.product(grid, (1, 2, 4, 8))]
    return []


# ---- pieces --------------------------------------------------------------------------------------------------


def _gemms(matrices: Iterable[tuple[int, int]], rows: Iterable[int], dtype: str) -> list[Case]:
    return [cases.gemm(rows=count, n=n, k=k, dtype=dtype) for (n, k), count in itertools.product(matrices, rows)]


def _attentions(
    query: str, kv: str, shapes: Iterable[tuple[int, int, int, int, int]], head_dim: int = 128
) -> list[Case]:
    return [cases.attention(batch=batch, context_tokens=tokens, query_len=length, query_heads=kv_heads * group,
                            kv_heads=kv_heads, head_dim=head_dim, query=query, kv=kv)
            for batch, tokens, kv_heads, group, length in shapes]


def _edge_lengths(group: int) -> tuple[int, ...]:
    """Query lengths whose rows G*q lie just below or at an edge, and just above it.

    >>> _edge_lengths(16)
    (1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17)
    """
    pairs = (length for edge in ROW_EDGES for length in (edge // group, edge // group + 1))
    return tuple(sorted({length for length in pairs if 1 <= length <= MAX_QUERY_LEN}))


def _edge_shapes(
    *, small: tuple[int, int, int], large: tuple[int, int, int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Every group at its edges, at one small and one large amount of KV (batch, context, kv_heads)."""
    for batch, tokens, kv_heads in (small, large):
        for group in GROUPS:
            for length in _edge_lengths(group):
                yield batch, tokens, kv_heads, group, length


def _pool_shapes(
    batch: Iterable[int], context: Iterable[int], kv_heads: Iterable[int], groups: Iterable[int] = GROUPS,
    longest: int = MAX_QUERY_LEN,
) -> Iterator[tuple[int, int, int, int, int]]:
    for count, tokens, heads, group in itertools.product(batch, context, kv_heads, groups):
        for length in (1, 2, 3, 5, 9, 13, MAX_QUERY_LEN):
            if length <= longest and count * tokens * heads <= 2**21:     # 1 GB of bf16 KV at head width 128
                yield count, tokens, heads, group, length


def _mla(query: str, kv: str, batch: int, tokens: int, query_len: int, heads: int) -> Case:
    return cases.mla(batch=batch, context_tokens=tokens, query_len=query_len, heads=heads, query=query, kv=kv)


def _moe(tokens: int, hidden: int, intermediate: int, experts: int, top_k: int, dtype: str, matrices: int = 3) -> Case:
    return cases.moe(tokens=tokens, hidden=hidden, intermediate=intermediate, experts=experts, top_k=top_k,
                     matrices=matrices, dtype=dtype)


def _without(wanted: Iterable[Case], done: Iterable[Case]) -> tuple[Case, ...]:
    """`wanted` once each, in order, without the cases of `done`."""
    seen = {case.key("") for case in done}
    found = {case.key(""): case for case in wanted}
    return tuple(case for key, case in found.items() if key not in seen)
