"""The weight matrices of one layer, as one GPU of a tensor-parallel group holds them.

This is the one list behind both the parameter count (tp = 1, everything summed) and the pricing of a pass (each
matrix is a GEMM of B*q rows). Column-parallel matrices split their outputs n, row-parallel ones their inputs k;
key and value projections are repeated once a group has more GPUs than KV heads.

Ignored: biases and norms (counted apart as `vector_parameters`), rotary tables, routers' correction biases.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from specplan.planner.fact import fact
from specplan.planner.models.architecture import (
    CompressedAttention,
    DenseFfn,
    Ffn,
    LatentAttention,
    Mixer,
    MoeFfn,
    RecurrentMixer,
    SoftmaxAttention,
    SparseIndex,
)

Role: TypeAlias = Literal["attention", "ffn", "experts", "router"]


@fact
class Matrix:
    """`count` equal matrices of n outputs and k inputs, on one GPU."""

    name: str
    n: int
    k: int
    role: Role
    count: int = 1

    @property
    def parameters(self) -> int:
        """Weights in all `count` matrices."""
        return self.n * self.k * self.count


def local_heads(heads: int, tp: int) -> int:
    """Heads on one GPU; below one head per GPU the heads are repeated."""
    return max(1, -(-heads // tp))


def split(size: int, tp: int) -> int:
    """Share of a split dimension on one GPU, rounded up as padded shards are."""
    return -(-size // tp)


def mixer_matrices(mixer: Mixer | None, hidden: int, tp: int = 1) -> tuple[Matrix, ...]:
    """Projections of attention or of a recurrent layer."""
    if mixer is None:
        return ()
    if isinstance(mixer, SoftmaxAttention):
        return _softmax(mixer, hidden, tp)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, hidden, tp)
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer, hidden, tp)
    return _recurrent(mixer, hidden, tp)


def ffn_matrices(ffn: Ffn | None, hidden: int, tp: int = 1) -> tuple[Matrix, ...]:
    """Feed-forward matrices; for MoE the router, shared and dense parts (experts: `expert_matrices`)."""
    if ffn is None:
        return ()
    if isinstance(ffn, DenseFfn):
        return _mlp("ffn", ffn.intermediate, ffn.matrices, hidden, tp)
    found = [Matrix(name="router", n=ffn.experts, k=hidden, role="router")]
    if ffn.latent_hidden is not None:
        found.append(Matrix(name="latent_down", n=ffn.latent_hidden, k=hidden, role="ffn"))
        found.append(Matrix(name="latent_up", n=hidden, k=ffn.latent_hidden, role="ffn"))
    if ffn.shared_gate:
        found.append(Matrix(name="shared_gate", n=1, k=hidden, role="router"))
    found += _mlp("shared", ffn.shared_intermediate, ffn.matrices, hidden, tp)
    found += _mlp("dense", ffn.dense_intermediate, ffn.matrices, hidden, tp)
    return tuple(found)


def expert_matrices(ffn: Ffn | None, hidden: int) -> tuple[Matrix, ...]:
    """Matrices of all routed experts of a layer, not split (experts move as a whole under EP)."""
    if not isinstance(ffn, MoeFfn):
        return ()
    width = ffn.latent_hidden or hidden
    return (
        Matrix(name="experts_up", n=ffn.intermediate, k=width, role="experts", count=ffn.experts * (ffn.matrices - 1)),
        Matrix(name="experts_down", n=width, k=ffn.intermediate, role="experts", count=ffn.experts),
    )


def _mlp(name: str, intermediate: int, matrices: int, hidden: int, tp: int) -> tuple[Matrix, ...]:
    if intermediate == 0:
        return ()
    inner = split(intermediate, tp)
    return (
        Matrix(name=f"{name}_up", n=inner * (matrices - 1), k=hidden, role="ffn"),
        Matrix(name=f"{name}_down", n=hidden, k=inner, role="ffn"),
    )


def _softmax(mixer: SoftmaxAttention, hidden: int, tp: int) -> tuple[Matrix, ...]:
    queries = local_heads(mixer.query_heads, tp)
    keys = 0 if mixer.shares_kv else local_heads(mixer.kv_heads, tp)
    values = 0 if mixer.keys_are_values else keys
    outputs = queries * mixer.head_dim * (2 if mixer.output_gate else 1)
    outputs += keys * mixer.head_dim + values * mixer.value_head_dim
    return (
        Matrix(name="qkv", n=outputs, k=hidden * mixer.inputs, role="attention"),
        Matrix(name="o", n=hidden, k=queries * mixer.value_head_dim, role="attention"),
        *_index(mixer.index, hidden, hidden),
    )


def _latent(mixer: LatentAttention, hidden: int, tp: int) -> tuple[Matrix, ...]:
    heads = local_heads(mixer.query_heads, tp)
    query_width = heads * (mixer.nope_head_dim + mixer.rope_head_dim)
    latent = mixer.kv_lora_rank + mixer.rope_head_dim
    found = [
        # the down projections are replicated on every GPU: each needs the whole latent
        Matrix(name="qkv_a", n=latent + (mixer.q_lora_rank or 0), k=hidden, role="attention"),
        Matrix(name="q_b", n=query_width, k=mixer.q_lora_rank or hidden, role="attention"),
        # absorbed decode multiplies queries by W_uk and outputs by W_uv, head by head: one GEMM of the same bytes
        # and FLOP each
        Matrix(name="k_absorb", n=mixer.kv_lora_rank, k=heads * mixer.nope_head_dim, role="attention"),
        Matrix(name="v_absorb", n=heads * mixer.value_head_dim, k=mixer.kv_lora_rank, role="attention"),
        Matrix(name="o", n=hidden, k=heads * mixer.value_head_dim, role="attention"),
    ]
    if mixer.output_gate:
        found.append(Matrix(name="gate", n=heads * mixer.value_head_dim, k=hidden, role="attention"))
    return (*found, *_index(mixer.index, hidden, mixer.q_lora_rank or hidden))


def _compressed(mixer: CompressedAttention, hidden: int, tp: int) -> tuple[Matrix, ...]:
    heads = local_heads(mixer.query_heads, tp)
    found = [
        Matrix(name="qkv_a", n=mixer.q_lora_rank + mixer.head_dim, k=hidden, role="attention"),
        Matrix(name="q_b", n=heads * mixer.head_dim, k=mixer.q_lora_rank, role="attention"),
        # grouped output projection: each group of heads has its own low-rank map
        Matrix(
            name="o_a",
            n=mixer.o_lora_rank,
            k=heads * mixer.head_dim,
            role="attention",
        ),
        Matrix(name="o_b", n=hidden, k=split(mixer.o_groups * mixer.o_lora_rank, tp), role="attention"),
    ]
    if mixer.compress_ratio:
        # overlapping windows (CSA) compress two streams of keys and gates, HCA one
        streams = 2 if mixer.index is not None else 1
        found.append(Matrix(name="compressor", n=2 * streams * mixer.head_dim, k=hidden, role="attention"))
    if mixer.index is not None:     # the index has a compressor of its own: two streams of keys and gates
        found.append(Matrix(name="index_compressor", n=4 * mixer.index.head_dim, k=hidden, role="attention"))
        found.append(Matrix(name="index_q", n=mixer.index.heads * mixer.index.head_dim, k=mixer.q_lora_rank,
                            role="attention"))
        found.append(Matrix(name="index_weights", n=mixer.index.heads, k=hidden, role="attention"))
    return tuple(found)


def _index(index: SparseIndex | None, hidden: int, query_input: int) -> tuple[Matrix, ...]:
    if index is None or not index.own_scorer:
        return ()
    return (
        Matrix(name="index_q", n=index.heads * index.head_dim, k=query_input, role="attention"),
        # and, where single tokens are picked, one weight per index head
        Matrix(name="index_k", n=index.head_dim + (index.heads if index.block_tokens == 1 else 0), k=hidden,
               role="attention"),
    )


def _recurrent(mixer: RecurrentMixer, hidden: int, tp: int) -> tuple[Matrix, ...]:
    keys = local_heads(mixer.key_heads, tp) * mixer.key_dim
    heads = local_heads(mixer.value_heads, tp)
    values = heads * mixer.value_dim
    gates: tuple[Matrix, ...] = ()
    if mixer.kind == "mamba2":      # z, x, B, C, dt
        inputs = 2 * values + 2 * keys + heads
    elif mixer.kind == "gdn":       # q, k, v, z, beta, a
        inputs = 2 * keys + 2 * values + 2 * heads
    else:       # kda: q, k, v, beta; decay through a rank of one head, output gate through one too or of full rank
        low_rank = 1 if mixer.full_rank_gate else 2
        inputs = 2 * keys + values + heads + (values if mixer.full_rank_gate else 0) + low_rank * mixer.value_dim
        gates = (Matrix(name="gates_b", n=values, k=mixer.value_dim, role="attention", count=low_rank),)
    return (
        Matrix(name="in_proj", n=inputs, k=hidden, role="attention"),
        *gates,
        Matrix(name="out_proj", n=hidden, k=values, role="attention"),
    )
