"""What the token mixer of a layer reads and writes beside its weights: KV caches, latents, picks, states (E2, E3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.kernels.attention import attention_time
from specplan.planner.kernels.mla import mla_time
from specplan.planner.kernels.recurrent import recurrent_time
from specplan.planner.kernels.select import attention_kernel, mla_kernel, recurrent_kernel, sparse_kernel
from specplan.planner.kernels.sparse import sparse_time
from specplan.planner.kernels.timing import KernelTime
from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Mixer,
    RecurrentMixer,
    SoftmaxAttention,
    SparseIndex,
)
from specplan.planner.models.matrices import local_heads
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.ggml import cache_time, ggml_law
from specplan.planner.step.tokens import Tokens

MixerPart = Literal["attention", "state"]
HCA_RATIO = 128     # cached tokens per summary in the layers on which the decode kernel was timed
INDEX_KEY_BYTES = 1 + 4 / 128   # fp8 index keys with one fp32 scale per 128 (DeepSeek-V3.2)


def mixer_ops(mixer: Mixer, deployment: Deployment, work: Tokens) -> Iterator[tuple[str, MixerPart, KernelTime]]:
    """(name, part, time) of the kernels of one mixer."""
    if deployment.path.kernels == "ggml":
        part: MixerPart = "state" if isinstance(mixer, RecurrentMixer) else "attention"
        hardware = deployment.gpu.hardware
        law = ggml_law(hardware, "", deployment.path.ggml)
        time = cache_time(law, hardware, mixer, kv_dtype=deployment.kv_dtype, batch=work.batch,
                          query_len=work.query_len, context=work.context_tokens, gpus=deployment.attention_tp)
        yield part, part, time
    elif isinstance(mixer, SoftmaxAttention):
        yield from _softmax(mixer, deployment, work)
    elif isinstance(mixer, LatentAttention):
        yield from _latent(mixer, deployment, work)
    elif isinstance(mixer, CompressedAttention):
        yield from _compressed(mixer, deployment, work)
    else:
        yield "state", "state", _recurrent(mixer, deployment, work)


def _softmax(
    mixer: SoftmaxAttention, deployment: Deployment, work: Tokens
) -> Iterator[tuple[str, MixerPart, KernelTime]]:
    kernel = attention_kernel(
        deployment.gpu,
        deployment.path.engine,
        head_dim=mixer.head_dim,
        kv_dtype=deployment.kv_dtype,
        override=deployment.attention_kernel,
    )
    tp = deployment.attention_tp
    batch, query_len, context = work.batch, work.query_len, _visible(work.context_tokens, mixer.window_tokens)
    if mixer.index is not None:
        yield "index", "attention", index_time(mixer.index, deployment, work)
        # each token picks its own blocks: a verify pass reads like B*q sequences of one token
        batch, query_len = batch * query_len, np.ones(())
        context = np.minimum(context, mixer.index.top_k)
    yield (
        "attention",
        "attention",
        attention_time(
            kernel,
            batch=batch,
            context_tokens=context,
            query_len=query_len,
            query_heads=local_heads(mixer.query_heads, tp),
            kv_heads=local_heads(mixer.kv_heads, tp),
            value_head_dim=mixer.value_head_dim,
        ),
    )


def _latent(
    mixer: LatentAttention, deployment: Deployment, work: Tokens
) -> Iterator[tuple[str, MixerPart, KernelTime]]:
    heads = local_heads(mixer.query_heads, deployment.attention_tp)
    if mixer.index is None:
        context = work.context_tokens
        dense = _mla(mixer, deployment, heads, work.batch, context, work.query_len)
        yield "attention", "attention", dense
        return
    yield "index", "attention", index_time(mixer.index, deployment, work)
    yield "attention", "attention", _picked(mixer, mixer.index, deployment, heads, work)


def _mla(
    mixer: LatentAttention, deployment: Deployment, heads: int, batch: Array, context: Array, query_len: Array
) -> KernelTime:
    kernel = mla_kernel(deployment.gpu, deployment.path.engine, kv_dtype=deployment.kv_dtype)
    return mla_time(
        kernel,
        batch=batch,
        context_tokens=context,
        query_len=query_len,
        heads=heads,
        latent_width=mixer.kv_lora_rank + mixer.rope_head_dim,
        value_width=mixer.kv_lora_rank,
    )


def takes_cta_per_token(deployment: Deployment) -> bool:
    """Whether sparse MLA runs one CTA per token: vLLM and SGLang do so with a bf16 cache.

    An fp8 cache, and the caches of other engines, go to decode kernels that take every token as a sequence of its own.
    Plain and verify passes share one kernel either way (vLLM, v1/attention/backends/mla/flashmla_sparse.py; SGLang,
    layers/attention/nsa_backend.py, where verify passes take `nsa_decode_impl`).
    """
    return deployment.kv_dtype != "fp8" and deployment.path.engine in ("vllm", "sglang")


def _picked(
    mixer: LatentAttention, index: SparseIndex, deployment: Deployment, heads: int, work: Tokens
) -> KernelTime:
    """Sparse MLA: each token reads its own picks."""
    if not takes_cta_per_token(deployment):
        tokens = work.batch * work.query_len
        return _mla(mixer, deployment, heads, tokens, np.minimum(work.context_tokens, index.top_k), np.ones(()))
    one, many = (
        sparse_time(
            sparse_kernel(deployment.gpu, deployment.path.engine, kind=kind),
            batch=work.batch,
            query_len=work.query_len,
            context_tokens=work.context_tokens,
            heads=heads,
            top_k=index.top_k,
        )
        for kind in ("dsa-decode", "dsa")
    )
    single = work.query_len <= 1
    parts = {name: np.where(single, one.parts[name], part) for name, part in many.parts.items()}
    return KernelTime(time_s=np.where(single, one.time_s, many.time_s), parts=parts)


def _compressed(
    mixer: CompressedAttention, deployment: Deployment, work: Tokens
) -> Iterator[tuple[str, MixerPart, KernelTime]]:
    """DeepSeek-V4: each token reads the window and either all summaries (HCA) or its top_k of them (CSA).

    Engines list for each token of a pass which slots it reads and hand the decode kernel every token as a sequence of
    its own, those of a verify pass too: vLLM, models/deepseek_v4/nvidia/flashmla.py `_forward_decode`, for up to
    1 + num_speculative_tokens per sequence (v1/attention/backends/mla/sparse_swa.py). So B sequences of q tokens cost
    what B*q of one token do, with no seam at q = 1.

    The decode kernel was timed on contexts of HCA (one summary per 128 tokens) and pays by what is read, so that other
    layers take the context at which HCA reads as many summaries. The `hca` entries are another kernel: their 4 to 64
    query tokens were timed without speculation, where vLLM takes several tokens for a prompt and first unpacks the
    cache into a buffer, hence their 1.1 to 1.4 us per sequence.
    """
    summaries = work.context_tokens / mixer.compress_ratio if mixer.compress_ratio else np.zeros(())
    if mixer.index is not None:
        yield "index", "attention", index_time(mixer.index, deployment, work, keys=summaries)
        summaries = np.minimum(summaries, mixer.index.top_k)
    yield (
        "attention",
        "attention",
        sparse_time(
            sparse_kernel(deployment.gpu, deployment.path.engine, kind="hca-decode"),
            batch=work.batch * work.query_len,
            query_len=np.ones(()),
            context_tokens=HCA_RATIO * summaries,
            heads=local_heads(mixer.query_heads, deployment.attention_tp),
            top_k=summaries + np.minimum(work.context_tokens, mixer.window_tokens),
        ),
    )


def _recurrent(mixer: RecurrentMixer, deployment: Deployment, work: Tokens) -> KernelTime:
    """State traffic: one read and one write to decode, one read and a saved state per token to verify."""
    decode = _state_time(mixer, deployment, work, verify=False)
    single = work.query_len <= 1
    if np.all(single):
        return decode
    verify = _state_time(mixer, deployment, work, verify=True)
    parts = {name: np.where(single, decode.parts.get(name, 0.0), part) for name, part in verify.parts.items()}
    return KernelTime(time_s=np.where(single, decode.time_s, verify.time_s), parts=parts)


def _state_time(mixer: RecurrentMixer, deployment: Deployment, work: Tokens, *, verify: bool) -> KernelTime:
    kernel = recurrent_kernel(deployment.gpu, deployment.path.engine, kind=mixer.kind, verify=verify)
    return recurrent_time(
        kernel,
        batch=work.batch,
        heads=local_heads(mixer.value_heads, deployment.attention_tp),
        key_dim=mixer.key_dim,
        value_dim=mixer.value_dim,
        query_len=work.query_len,
    )


def index_time(index: SparseIndex, deployment: Deployment, work: Tokens, keys: Array | None = None) -> KernelTime:
    """Scoring all cached index keys once per sequence; flat in q up to some hundred tokens (kernels.md 1.3)."""
    if not index.own_scorer:
        zero = np.zeros(())
        return KernelTime(time_s=zero, parts={"memory": zero})
    hardware = deployment.gpu.hardware
    scored = work.context_tokens / index.block_tokens if keys is None else keys
    key_bytes = work.batch * scored * index.head_dim * INDEX_KEY_BYTES
    memory = key_bytes / hardware.hbm_bytes_per_s
    flop = 2.0 * work.batch * work.query_len * scored * index.heads * index.head_dim
    rates = hardware.dense_flop_per_s
    tensor = flop / (rates.get("fp8") or rates["bf16"])
    launch = 2 * deployment.path.kernel_launch_factor * INDEX_LAUNCH_S
    total = launch + np.maximum(memory, tensor)
    return KernelTime(time_s=total, parts={"launch": np.full_like(total, launch), "memory": memory, "tensor": tensor})


INDEX_LAUNCH_S = 5.0e-6     # scorer and top-k are a kernel each; launch as of fp8 kernels in a graph (kernels.md 2.4)


def _visible(context: Array, window: int | None) -> Array:
    return context if window is None else np.minimum(context, window)
