"""`specplan op ...`: price one kernel on one GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from specplan.commands.options import (
    Counts,
    Dtype,
    Json,
    Kernel,
    KvDtype,
    OneGpu,
    Warm,
    counts,
    print_rows,
)

op_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Price one kernel; lists such as 1,2,4 multiply out."
)
app = typer.Typer(rich_markup_mode=None)
app.add_typer(op_app, name="op")


def _price(family: str, gpu: str, kernel: str | None, l2_warm: bool, as_json: bool, **inputs: str) -> None:
    """Price the product of all lists of `inputs`, in the order written, the last list changing fastest."""
    from specplan.planner.kernels.op import price_op

    words = {name: (value,) for name, value in inputs.items() if name in {"kind", "dtype", "kv_dtype", "routing"}}
    numbers = counts({name: value for name, value in inputs.items() if name not in words})
    ordered = {name: words.get(name) or numbers[name] for name in inputs}
    print_rows(price_op(family, gpu=gpu, kernel=kernel, inputs=ordered, l2_warm=l2_warm), as_json=as_json)


@op_app.command(epilog="Example: specplan op attention --gpu h200-sxm --kernel vllm-fa3 --batch 64 --context 4096 "
                       "--query-heads 8 --kv-heads 1 --head-dim 128 --query-len 1,2,4 --kv-dtype bf16 --json")
def attention(
    gpu: OneGpu, batch: Counts, context: Counts, query_heads: Counts, kv_heads: Counts, head_dim: Counts = "128",
    query_len: Counts = "1", kv_dtype: KvDtype = "bf16", kernel: Kernel = None, l2_warm: Warm = False,
    as_json: Json = False,
) -> None:
    """Decode attention of one layer; heads are those of one GPU."""
    _price("attention", gpu, kernel, l2_warm, as_json, batch=batch, context=context, query_heads=query_heads,
           kv_heads=kv_heads, head_dim=head_dim, query_len=query_len, kv_dtype=kv_dtype)


@op_app.command(epilog="Example: specplan op gemm --gpu h200-sxm --m 1,64,128 --n 8192 --k 8192 --dtype fp8 --json")
def gemm(
    gpu: OneGpu, m: Counts, n: Counts, k: Counts, dtype: Dtype = "bf16", kernel: Kernel = None, l2_warm: Warm = False,
    as_json: Json = False,
) -> None:
    """Matrix product of m rows with an n x k weight."""
    _price("gemm", gpu, kernel, l2_warm, as_json, m=m, n=n, k=k, dtype=dtype)


@op_app.command(epilog="Example: specplan op allreduce --gpu h200-sxm --gpus 4 --bytes 65536,1mi")
def allreduce(
    gpu: OneGpu, message_bytes: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Bytes of the message.")],
    gpus: Counts, kernel: Kernel = None, as_json: Json = False,
) -> None:
    """All-reduce over the GPUs of a tensor-parallel group."""
    _price("allreduce", gpu, kernel, False, as_json, bytes=message_bytes, gpus=gpus)


@op_app.command(epilog="Example: specplan op moe --gpu b200-sxm --tokens 1,8,64 --hidden 7168 --intermediate 2048 "
                       "--experts 256 --top-k 8 --dtype fp8")
def moe(
    gpu: OneGpu, tokens: Counts, hidden: Counts, intermediate: Counts, experts: Counts, top_k: Counts, tp: Counts = "1",
    ep: Counts = "1", dtype: Dtype = "bf16",
    matrices: Annotated[str, typer.Option(help="Matrices of an expert: 3 with a gate, 2 without.")] = "3",
    routing: Annotated[str, typer.Option(help="How evenly tokens spread over experts.")] = "uniform",
    kernel: Kernel = None, as_json: Json = False,
) -> None:
    """Routed experts of one layer, for the tokens of the whole expert-parallel group."""
    _price("moe", gpu, kernel, False, as_json, tokens=tokens, hidden=hidden, intermediate=intermediate, experts=experts,
           top_k=top_k, tp=tp, ep=ep, dtype=dtype, matrices=matrices, routing=routing)


@op_app.command(epilog="Example: specplan op mla --gpu h200-sxm --batch 8 --context 32k --heads 16 --query-len 1,2,4")
def mla(
    gpu: OneGpu, batch: Counts, context: Counts, heads: Counts, query_len: Counts = "1", kv_dtype: KvDtype = "bf16",
    kernel: Kernel = None, l2_warm: Warm = False, as_json: Json = False,
) -> None:
    """Latent attention of one layer; heads are those of one GPU."""
    _price("mla", gpu, kernel, l2_warm, as_json, batch=batch, context=context, heads=heads, query_len=query_len,
           kv_dtype=kv_dtype)


@op_app.command(epilog="Example: specplan op recurrent --gpu b200-sxm --kind gdn --batch 8 --heads 32 --key-dim 128 "
                       "--value-dim 128 --query-len 1,4")
def recurrent(
    gpu: OneGpu, batch: Counts, heads: Counts, key_dim: Counts, value_dim: Counts, query_len: Counts = "1",
    kind: Annotated[str, typer.Option(help="gdn, kda or mamba2.")] = "gdn", kernel: Kernel = None,
    as_json: Json = False,
) -> None:
    """Linear attention or state-space layer."""
    _price("recurrent", gpu, kernel, False, as_json, kind=kind, batch=batch, heads=heads, key_dim=key_dim,
           value_dim=value_dim, query_len=query_len)


@op_app.command(epilog="Example: specplan op sparse --gpu b200-sxm --batch 8 --context 64k --heads 64 --top-k 2048")
def sparse(
    gpu: OneGpu, batch: Counts, context: Counts, heads: Counts, top_k: Counts, query_len: Counts = "1",
    kernel: Kernel = None, as_json: Json = False,
) -> None:
    """Sparse latent attention that reads top-k cached tokens per query token."""
    _price("sparse", gpu, kernel, False, as_json, batch=batch, context=context, heads=heads, top_k=top_k,
           query_len=query_len)
