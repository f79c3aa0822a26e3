"""Attention kernels of other libraries, used where they are installed: flash-attn 2, 3, 4 and FlashInfer.

They are called as their own documentation says; none has been run by this project on a GPU yet, so the check against
fp32 (`check_backend`) is what admits them to a sweep.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.backends.attention_torch import heads_first
from specplan.microbench.backends.attention_triton import page_table, paged
from specplan.microbench.cases import Case
from specplan.microbench.environment import capability
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands

FLASHINFER_WORKSPACE_BYTES = 256 * 2**20
FLASHINFER_PAGE = 64


def _missing(module: str, install: str, low: int, high: int) -> Callable[[Environment], str | None]:
    """Absence of a library, or of the GPU generation that it is written for."""

    def absent(environment: Environment) -> str | None:
        found = capability(environment)
        if not low <= found <= high:
            return f"made for sm_{low}" + (f" to sm_{high}" if high != low else "") + f", this is sm_{found}"
        try:
            importlib.import_module(module)
        except ImportError as error:
            return f"{module} is not installed ({error}): {install}"
        return None

    return absent


def _refuses_16bit(case: Case, environment: Environment) -> str | None:
    del environment
    if case.dtypes["query"] not in {"bf16", "fp16"} or case.dtypes["kv"] != case.dtypes["query"]:
        return "called with a 16-bit query and a cache of the same dtype only"
    return "called with a contiguous cache" if case.options.get("page_tokens") else None


# ---- flash-attn ----------------------------------------------------------------------------------------------


def _bind_kvcache(module: str) -> Callable[[Case, Environment, Operands], Bound]:
    """flash_attn_with_kvcache of flash-attn 2 and 3: causal is aligned to the last token."""

    def bind(case: Case, environment: Environment, operands: Operands) -> Bound:
        del environment
        attend = importlib.import_module(module).flash_attn_with_kvcache
        query, keys, values = operands["query"], operands["keys"], operands["values"]
        lengths, scale = operands["lengths"], case.shape["head_dim"] ** -0.5
        return Bound(call=lambda: attend(query, keys, values, cache_seqlens=lengths, softmax_scale=scale, causal=True))

    return bind


def _bind_cute(case: Case, environment: Environment, operands: Operands) -> Bound:
    """flash-attn 4: dense call; 0 asks for its own choice of splits where it takes the argument."""
    del environment
    attend = importlib.import_module("flash_attn.cute").flash_attn_func
    own_splits = {"num_splits": 0} if "num_splits" in inspect.signature(attend).parameters else {}
    query, keys, values = operands["query"], operands["keys"], operands["values"]
    scale = case.shape["head_dim"] ** -0.5

    def call() -> Any:
        found = attend(query, keys, values, softmax_scale=scale, causal=True, **own_splits)
        return found[0] if isinstance(found, tuple) else found

    return Bound(call=call)


# ---- FlashInfer ----------------------------------------------------------------------------------------------


def _pages(case: Case, operands: Operands) -> tuple[Any, Any, Any, int]:
    """Keys and values in shuffled pages, their table, and the page size."""
    page_tokens = int(case.options.get("page_tokens", FLASHINFER_PAGE))
    keys = operands["keys"]
    table = page_table(case.shape["batch"], keys.shape[1], page_tokens, keys.device)
    order = table.flatten().long()
    return paged(keys, page_tokens, order), paged(operands["values"], page_tokens, order), table, page_tokens


def _workspace(device: Any) -> Any:
    import torch

    return torch.zeros(FLASHINFER_WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _bind_flashinfer_fa2(case: Case, environment: Environment, operands: Operands) -> Bound:
    """Prefill wrapper with its FA2 template: packs rows, splits KV; what vLLM runs for verify on sm_80 to sm_90."""
    del environment
    import torch

    flashinfer = importlib.import_module("flashinfer")

    shape, query = case.shape, operands["query"]
    batch, query_len = shape["batch"], shape["query_len"]
    keys, values, table, page_tokens = _pages(case, operands)
    pages = table.shape[1]
    tokens = shape["context_tokens"] + query_len
    steps = torch.arange(batch + 1, dtype=torch.int32, device=query.device)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(_workspace(query.device), "NHD", backend="fa2")
    wrapper.plan(
        steps * query_len, steps * pages, table.flatten(),
        torch.full((batch,), tokens - (pages - 1) * page_tokens, dtype=torch.int32, device=query.device),
        shape["query_heads"], shape["kv_heads"], shape["head_dim"], page_tokens, causal=True,
        sm_scale=shape["head_dim"] ** -0.5, q_data_type=query.dtype, kv_data_type=keys.dtype,
    )  # fmt: skip
    rows = query.reshape(batch * query_len, shape["query_heads"], shape["head_dim"])
    return Bound(call=lambda: wrapper.run(rows, (keys, values)).view(query.shape))


def _bind_flashinfer_decode(case: Case, environment: Environment, operands: Operands) -> Bound:
    """trtllm_batch_decode_with_kv_cache: trtllm-gen on sm_100 and sm_103, XQA on sm_90 and sm_120."""
    del environment
    attend = importlib.import_module("flashinfer.decode").trtllm_batch_decode_with_kv_cache
    shape, query = case.shape, operands["query"]
    query_len = shape["query_len"]
    keys, values, table, page_tokens = _pages(case, operands)
    cache = (heads_first(keys), heads_first(values))
    workspace = _workspace(query.device)
    rows = query.reshape(-1, shape["query_heads"], shape["head_dim"])
    tokens = math.ceil((shape["context_tokens"] + query_len) / page_tokens) * page_tokens
    scale = shape["head_dim"] ** -0.5
    mask = {"mask": _window_bits(query_len, shape["batch"], query.device)} if query_len > 1 else {}
    taken = inspect.signature(attend).parameters
    options = {name: value for name, value in {"q_len_per_req": query_len, **mask}.items() if name in taken}

    def call() -> Any:
        found = attend(
            rows, cache, workspace, table, operands["lengths"], tokens, bmm1_scale=scale, bmm2_scale=1.0, **options)
        return found.view(query.shape)

    return Bound(call=call)


def _window_bits(query_len: int, batch: int, device: Any) -> Any:
    """XQA's mask of the verify window: 16 bits a word, bit j of row i says that token i sees token j."""
    import torch

    words = 2 * math.ceil(query_len / 32)
    seen = [[sum(1 << bit for bit in range(16) if word * 16 + bit <= row) for word in range(words)]
            for row in range(query_len)]
    mask = torch.tensor(seen, dtype=torch.int32).to(torch.uint16)
    return mask.expand(batch, query_len, words).contiguous().to(device)


def _refuses_fa2_template(case: Case, environment: Environment) -> str | None:
    if case.dtypes["query"] not in {"bf16", "fp16"}:
        return "takes 16-bit queries"
    if case.dtypes["kv"] == "fp8" and capability(environment) < 89:
        return f"fp8 KV needs sm_89 or newer, this is sm_{capability(environment)}"
    return None


BACKENDS = (
    Backend(name="flash-attn-2", ops=("attention",), devices=("cuda",), bind=_bind_kvcache("flash_attn"),
            absent=_missing("flash_attn", "pip install flash-attn", 80, 90), refuses=_refuses_16bit,
            packs_group=False),
    Backend(name="flash-attn-3", ops=("attention",), devices=("cuda",), bind=_bind_kvcache("flash_attn_interface"),
            absent=_missing("flash_attn_interface", "build flash-attention/hopper", 90, 90), refuses=_refuses_16bit),
    Backend(name="flash-attn-4", ops=("attention",), devices=("cuda",), bind=_bind_cute,
            absent=_missing("flash_attn.cute", "pip install flash-attn-4", 80, 121), refuses=_refuses_16bit),
    Backend(name="flashinfer-fa2", ops=("attention",), devices=("cuda",), bind=_bind_flashinfer_fa2,
            absent=_missing("flashinfer", "pip install flashinfer-python", 80, 121), refuses=_refuses_fa2_template),
    Backend(name="flashinfer-decode", ops=("attention",), devices=("cuda",), bind=_bind_flashinfer_decode,
            absent=_missing("flashinfer", "pip install flashinfer-python", 90, 121), refuses=_refuses_fa2_template),
)
