"""What the token mixers of a prompt cost (E9): prefill kernels tile the prompt over all SMs, unlike decode kernels.

    softmax:   launch + max(cache and rows moved / stream, 2 * heads * (key + value width) * tokens * context / math)
    latent:    the same with keys and values written out (engines absorb the projections in decode alone)
    picks:     each token reads its own, as in a verify pass: latent-wide math over at most top_k of them
    recurrent: a chunked scan: tokens in and out and the state once; its other costs are a constant per layer

The math rate is the one measured in prefill (`attention_math_rate`). The mean context of causal prompts is an input.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.kernels.mla import HEAD_TILE
from specplan.planner.kernels.select import attention_kernel, mla_kernel, recurrent_kernel
from specplan.planner.kernels.timing import KernelTime
from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Mixer,
    RecurrentMixer,
    SoftmaxAttention,
)
from specplan.planner.models.matrices import local_heads
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.mixers import MixerPart, index_time
from specplan.planner.step.tokens import Tokens

ROW_BYTES = 2.0     # queries, keys, values and outputs are 16 bit


def prefill_mixer_ops(
    mixer: Mixer, deployment: Deployment, work: Tokens
) -> Iterator[tuple[str, MixerPart, KernelTime]]:
    """(name, part, time) of the kernels of one mixer over a prompt of `query_len` tokens."""
    tp = deployment.attention_tp
    if isinstance(mixer, RecurrentMixer):
        yield "state", "state", _scan(mixer, deployment, work)
        return
    if mixer.index is not None:
        keys = _summaries(mixer, work) if isinstance(mixer, CompressedAttention) else None
        yield "index", "attention", index_time(mixer.index, deployment, work, keys=keys)
    heads = local_heads(mixer.query_heads, tp)
    padded: int = heads     # kernels over picks and summaries take 64 heads of one token at a time
    seen = _seen(mixer, work)
    if isinstance(mixer, SoftmaxAttention):
        kernel = attention_kernel(deployment.gpu, deployment.path.engine, head_dim=mixer.head_dim,
                                  kv_dtype=deployment.kv_dtype, override=deployment.attention_kernel)
        widths, cached = mixer.head_dim + mixer.value_head_dim, local_heads(mixer.kv_heads, tp)
        launch, stream, math = kernel.launch_s, kernel.stream_bytes_per_s, kernel.math_flop_per_s
        cache_bytes = cached * widths * kernel.kv_bytes
    else:
        latent = mla_kernel(deployment.gpu, deployment.path.engine, kv_dtype=deployment.kv_dtype)
        launch, stream, math = latent.launch_s, latent.stream_bytes_per_s, latent.mma_flop_per_s
        if isinstance(mixer, CompressedAttention):
            widths, cache_bytes = 2 * mixer.head_dim, mixer.head_dim * latent.kv_bytes
            padded = -(-heads // HEAD_TILE) * HEAD_TILE
        elif mixer.index is not None:
            widths = 2 * mixer.kv_lora_rank + mixer.rope_head_dim
            cache_bytes = (mixer.kv_lora_rank + mixer.rope_head_dim) * latent.kv_bytes
            padded = -(-heads // HEAD_TILE) * HEAD_TILE
        else:
            widths = mixer.nope_head_dim + mixer.rope_head_dim + mixer.value_head_dim
            cache_bytes = heads * widths * ROW_BYTES
    rows = work.batch * work.query_len
    memory = (work.batch * work.context_tokens * cache_bytes + rows * heads * widths * ROW_BYTES) / stream
    tensor = 2.0 * rows * padded * widths * seen / math
    yield "attention", "attention", _time(launch, memory, tensor)


def _seen(mixer: SoftmaxAttention | LatentAttention | CompressedAttention, work: Tokens) -> Array:
    """Cached tokens (or summaries) that one token of the prompt looks at, on average."""
    context = work.context_tokens
    if isinstance(mixer, CompressedAttention):
        kept = _summaries(mixer, work)
        if mixer.index is not None:
            kept = np.minimum(kept, mixer.index.top_k)
        return kept + np.minimum(context, mixer.window_tokens)
    if isinstance(mixer, SoftmaxAttention) and mixer.window_tokens is not None:
        context = np.minimum(context, mixer.window_tokens)
    return context if mixer.index is None else np.minimum(context, mixer.index.top_k)


def _summaries(mixer: CompressedAttention, work: Tokens) -> Array:
    return work.context_tokens / mixer.compress_ratio if mixer.compress_ratio else np.zeros(())


def _scan(mixer: RecurrentMixer, deployment: Deployment, work: Tokens) -> KernelTime:
    kernel = recurrent_kernel(deployment.gpu, deployment.path.engine, kind=mixer.kind, verify=False)
    heads = local_heads(mixer.value_heads, deployment.attention_tp)
    keys = local_heads(mixer.key_heads, deployment.attention_tp) * mixer.key_dim
    state = heads * mixer.key_dim * mixer.value_dim
    rows = work.batch * work.query_len
    moved = 2.0 * work.batch * state * 4.0 + rows * (2 * keys + 2 * heads * mixer.value_dim) * ROW_BYTES
    tensor = 4.0 * rows * state / deployment.gpu.hardware.dense("bf16")     # update of the state and its read-out
    return _time(kernel.launch_s + kernel.conv_s, moved / kernel.stream_bytes_per_s, tensor)


def _time(launch_s: float, memory: Array, tensor: Array) -> KernelTime:
    total = launch_s + np.maximum(memory, tensor)
    return KernelTime(time_s=total, parts={"launch": np.asarray(launch_s), "memory": memory, "tensor": tensor})
