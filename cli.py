"""The `specplan` command: parse, call, print. No arithmetic here; rooms are imported when a command needs them."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from specplan import __version__
from specplan.planner.messages import Fault, InputError, SpecplanError

if TYPE_CHECKING:
    from specplan.planner.config.load import LoadedConfig

gc.set_threshold(100_000, 50, 50)   # most commands end within half a second: looking for cycles took a tenth of it


class Commands(TyperGroup):
    """What goes wrong in a command ends as a sentence on stderr and an exit code, never as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; 1, 2 and 3 are specplan's own codes (messages.py), above 128 a signal's as in a shell."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except SpecplanError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:     # the reader (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        return result


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Which speculative-decoding mechanism and draft length to run, for your model, GPU and load.",
)
op_app = typer.Typer(no_args_is_help=True, help="Price one kernel; lists such as 1,2,4 multiply out.")
profiles_app = typer.Typer(no_args_is_help=True, help="GPU profiles that ship with specplan.")
models_app = typer.Typer(no_args_is_help=True, help="Model presets that ship with specplan.")
app.add_typer(op_app, name="op")
app.add_typer(profiles_app, name="profiles")
app.add_typer(models_app, name="models")


def _gpu_names(incomplete: str) -> list[str]:
    from specplan.planner.kernels.profile import gpu_names

    return [name for name in gpu_names() if name.startswith(incomplete)]


def _model_names(incomplete: str) -> list[str]:
    from specplan.planner.models.reader import model_names

    return [name for name in model_names() if name.startswith(incomplete)]


ModelFile = Annotated[str, typer.Option("--model", "-m", metavar="FILE", help="cfg.yaml, or a model's config.json.")]
Gpu = Annotated[str | None, typer.Option(help="GPU profile: name or path.", autocompletion=_gpu_names)]
Tp = Annotated[int | None, typer.Option(help="Tensor parallelism.")]
Engine = Annotated[str | None, typer.Option(help="Serving engine, as vllm or vllm:0.24.0.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print notes and sources in full.")]
Preliminary = Annotated[bool, typer.Option(help="Accept GPU profiles with pre-release figures.")]
Counts = Annotated[str, typer.Option(metavar="LIST", help="A count, or a list such as 1,2,4.")]
OneGpu = Annotated[str, typer.Option("--gpu", help="GPU profile: name or path.", autocompletion=_gpu_names)]
Kernel = Annotated[str | None, typer.Option(help="Kernel id (`specplan profiles show`); vLLM's choice if left out.")]
Warm = Annotated[bool, typer.Option("--l2-warm", help="Operands still in L2, as in benchmark tables.")]
KvDtype = Annotated[str, typer.Option(help="Format of the KV cache.")]
Dtype = Annotated[str, typer.Option(help="Format of the weights.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specplan {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    del version


def _load(model: str, **options: Any) -> LoadedConfig:
    from specplan.planner.config.load import Overrides, read_config

    return read_config(model, Overrides(**options))


def _counts(options: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Lists of counts from options, by the rules of cfg.yaml; all faults at once."""
    from specplan.planner.config.sizes import sizes

    found, faults = {}, []
    for name, written in options.items():
        try:
            found[name] = sizes(written)
        except ValueError as error:
            faults.append(Fault((), str(error), file="--" + name.replace("_", "-")))
    if faults:
        raise InputError(faults)
    return found


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, allow_nan=False))


def _print_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        _print_json(rows)
    else:
        from specplan.planner.output.rows import table_of_rows

        typer.echo(table_of_rows(rows))


def _print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    import yaml

    if as_json:
        _print_json(facts)
    else:
        plain = json.loads(json.dumps(facts))
        typer.echo(yaml.safe_dump(plain, sort_keys=False, width=120, allow_unicode=True).rstrip())


@app.command(epilog="Example: specplan recommend --model cfg.yaml --batch 1-256 --context 2k,32k --json")
def recommend(
    model: ModelFile, gpu: Gpu = None, tp: Tp = None,
    batch: Annotated[str | None, typer.Option(metavar="LIST", help="Batches: 8, 1,8,32, or 1-256.")] = None,
    context: Annotated[str | None, typer.Option(metavar="LIST", help="Context lengths: 2000, 2k,32k.")] = None,
    objective: Annotated[str | None, typer.Option(help="latency or throughput.")] = None,
    engine: Engine = None,
    max_draft_len: Annotated[int | None, typer.Option(help="Longest draft to consider.")] = None,
    allow_preliminary: Preliminary = False, as_json: Json = False, verbose: Verbose = False,
) -> None:
    """Say which mechanism and draft length to run, and what it gains over plain decoding."""
    from specplan.planner.answer import recommend as answer_question
    from specplan.planner.output import answer_json, print_answer

    loaded = _load(model, gpu=gpu, tp=tp, batch=batch, context=context, objective=objective, engine=engine,
                   max_draft_len=max_draft_len)
    answer = answer_question(loaded, allow_preliminary=allow_preliminary)
    if as_json:
        _print_json(answer_json(answer))
    else:
        print_answer(answer, verbose=verbose)
    if not any(cell.off.fits_memory for cell in answer.cells):
        raise typer.Exit(1)     # nothing feasible


@app.command(epilog="Example: specplan explain -m cfg.yaml --mechanism eagle3 --draft-len 3 --batch 8 --context 4k")
def explain(
    model: ModelFile,
    mechanism: Annotated[str, typer.Option(help="Mechanism or name of one drafter of the configuration.")],
    draft_len: Annotated[int, typer.Option(help="Draft length; 0: the drafter is loaded and does not draft.")],
    batch: Annotated[str, typer.Option(help="One batch.")],
    context: Annotated[str, typer.Option(help="One context length, such as 4096 or 32k.")],
    gpu: Gpu = None, tp: Tp = None, engine: Engine = None,
    allow_preliminary: Preliminary = False, as_json: Json = False,
) -> None:
    """Show where the time of one step goes, op by op, and what binds at each draft length."""
    from specplan.planner.answer import explain as explain_step
    from specplan.planner.output import explanation_json, print_explanation

    cell = _counts({"batch": batch, "context": context})
    loaded = _load(model, gpu=gpu, tp=tp, batch=batch, context=context, engine=engine)
    found = explain_step(loaded, mechanism=mechanism, draft_len=draft_len, batch=cell["batch"][0],
                         context_tokens=cell["context"][0], allow_preliminary=allow_preliminary)
    if as_json:
        _print_json(explanation_json(found))
    else:
        print_explanation(found)


@app.command(epilog="Example: specplan init my.yaml && specplan recommend --model my.yaml")
def init(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("cfg.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented cfg.yaml for this machine's GPU."""
    from specplan.planner.config.local_gpu import local_gpu
    from specplan.planner.config.template import template

    text = template(local_gpu(), file=str(file))
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError([Fault((), "exists; --force replaces it", file=str(file))]) from None
    except OSError as error:
        raise InputError([Fault((), f"cannot be written: {error.strerror}", file=str(file))]) from None
    typer.echo(f"Wrote {file}; next: specplan recommend --model {file}", err=True)


@app.command(epilog="Example: specplan schema > cfg.schema.json")
def schema() -> None:
    """Print the JSON Schema of cfg.yaml, for editors."""
    from specplan.planner.config.editor_schema import json_schema

    _print_json(json_schema())


@profiles_app.command("list", epilog="Example: specplan profiles list --json")
def profiles_list(as_json: Json = False) -> None:
    """List GPU profiles and whether their kernels were measured."""
    from specplan.planner.kernels.profile import gpu_names, load_gpu
    from specplan.planner.kernels.summary import gpu_line

    rows = [gpu_line(load_gpu(name, allow_preliminary=True)) for name in gpu_names()]
    _print_rows(rows, as_json=as_json)


@profiles_app.command("show", epilog="Example: specplan profiles show h200-sxm")
def profiles_show(
    name: Annotated[str, typer.Argument(help="Name or path.", autocompletion=_gpu_names)], as_json: Json = False
) -> None:
    """Show a GPU's hardware and kernels, with errors and sources."""
    from specplan.planner.kernels.profile import load_gpu
    from specplan.planner.kernels.summary import gpu_summary

    _print_facts(gpu_summary(load_gpu(name, allow_preliminary=True)), as_json=as_json)


@models_app.command("list", epilog="Example: specplan models list --json")
def models_list(as_json: Json = False) -> None:
    """List model presets with their size."""
    from specplan.planner.models.reader import load_model, model_names
    from specplan.planner.models.summary import model_line

    _print_rows([model_line(load_model(name)) for name in model_names()], as_json=as_json)


@models_app.command("show", epilog="Example: specplan models show llama-3.3-70b --json")
def models_show(
    name: Annotated[str, typer.Argument(help="Preset or config.json.", autocompletion=_model_names)],
    as_json: Json = False,
) -> None:
    """Show what a model is made of: parameters, KV bytes per token, layers by kind."""
    from specplan.planner.models.reader import load_model
    from specplan.planner.models.summary import model_summary

    _print_facts(model_summary(load_model(name)), as_json=as_json)


def _price(family: str, gpu: str, kernel: str | None, l2_warm: bool, as_json: bool, **inputs: str) -> None:
    """Price the product of all lists of `inputs`, in the order written, the last list changing fastest."""
    from specplan.planner.kernels.op import price_op

    words = {name: (value,) for name, value in inputs.items() if name in {"kind", "dtype", "kv_dtype", "routing"}}
    counts = _counts({name: value for name, value in inputs.items() if name not in words})
    ordered = {name: words.get(name) or counts[name] for name in inputs}
    _print_rows(price_op(family, gpu=gpu, kernel=kernel, inputs=ordered, l2_warm=l2_warm), as_json=as_json)


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
    routing: Annotated[str, typer.Option(help="How evenly tokens spread over experts.")] = "uniform",
    kernel: Kernel = None, as_json: Json = False,
) -> None:
    """Routed experts of one layer, for the tokens of the whole expert-parallel group."""
    _price("moe", gpu, kernel, False, as_json, tokens=tokens, hidden=hidden, intermediate=intermediate, experts=experts,
           top_k=top_k, tp=tp, ep=ep, dtype=dtype, routing=routing)


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


if __name__ == "__main__":
    app()
