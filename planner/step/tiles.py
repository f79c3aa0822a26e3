"""The attention tile that a target's verify pass fills on this deployment: rows, packing, knee and edges."""

from __future__ import annotations

import math

from specplan.planner.fact import fact
from specplan.planner.kernels.attention import (
    AttentionKernel,
    attention_notes,
    math_knee_rows,
    tile_edges,
    tile_rows,
)
from specplan.planner.kernels.mla import MlaKernel
from specplan.planner.kernels.select import attention_kernel, mla_kernel
from specplan.planner.messages import Note
from specplan.planner.models.architecture import LatentAttention, Mixer, Model, SoftmaxAttention
from specplan.planner.models.matrices import local_heads
from specplan.planner.step.deployment import Deployment

MLA_TILE_ROWS = 64      # heads per tile of FlashMLA and the FA3/trtllm-gen MLA kernels (kernels.md 1.1)


@fact
class AttentionTiles:
    """How G*(1+D) rows of the model's main attention meet the kernel's tile."""

    kernel_id: str
    group_size: int     # query heads per KV head on one GPU
    tile_rows: int
    packs: bool         # the kernel packs the group's heads into the tile beside the query tokens
    knee_rows: float    # rows at which attention math takes as long as reading the cache


def main_mixer(model: Model) -> Mixer | None:
    """The attention that reads the whole context; a windowed one where no other exists.

    Not one that picks: there each token reads its own part of the cache, so that no tile shares a read.
    """
    mixers = [(group.count, group.layer.mixer) for group in model.groups]
    softmax = [(count, mixer) for count, mixer in mixers
               if isinstance(mixer, SoftmaxAttention | LatentAttention) and mixer.index is None]
    full = [item for item in softmax if getattr(item[1], "window_tokens", None) is None]
    best = max(full or softmax, key=lambda item: item[0], default=None)
    return None if best is None else best[1]


def main_kernel(model: Model, deployment: Deployment) -> AttentionKernel | MlaKernel | None:
    """The kernel of that attention on this deployment."""
    mixer = main_mixer(model)
    if isinstance(mixer, SoftmaxAttention):
        return attention_kernel(
            deployment.gpu,
            deployment.path.engine,
            head_dim=mixer.head_dim,
            kv_dtype=deployment.kv_dtype,
            override=deployment.attention_kernel,
        )
    if isinstance(mixer, LatentAttention):
        return mla_kernel(deployment.gpu, deployment.path.engine, kv_dtype=deployment.kv_dtype)
    return None


def attention_tiles(model: Model, deployment: Deployment) -> AttentionTiles | None:
    """Tile facts of the main attention; None without softmax attention."""
    mixer, kernel = main_mixer(model), main_kernel(model, deployment)
    if mixer is None or kernel is None or not isinstance(mixer, SoftmaxAttention | LatentAttention):
        return None
    tp = deployment.attention_tp
    if deployment.path.kernels == "ggml":   # rows have a price of their own (ggml.py), whatever the GPU's profile holds
        kv_heads = 1 if isinstance(mixer, LatentAttention) else local_heads(mixer.kv_heads, tp)
        group = local_heads(mixer.query_heads, tp) // kv_heads
        return AttentionTiles(kernel_id="ggml", group_size=group, tile_rows=1, packs=False, knee_rows=math.inf)
    if isinstance(mixer, SoftmaxAttention):
        assert isinstance(kernel, AttentionKernel)
        return AttentionTiles(
            kernel_id=kernel.id,
            group_size=local_heads(mixer.query_heads, tp) // local_heads(mixer.kv_heads, tp),
            tile_rows=tile_rows(kernel),
            packs=kernel.family.packing != "none",
            knee_rows=math_knee_rows(kernel),
        )
    latent = mixer.kv_lora_rank + mixer.rope_head_dim
    rates = deployment.gpu.hardware
    # per row and cached token: 2*(latent + kv_lora_rank) FLOP for latent * 2 bytes
    knee = rates.dense("bf16") / rates.hbm_bytes_per_s * latent * 2 / (2 * (latent + mixer.kv_lora_rank))
    return AttentionTiles(
        kernel_id=kernel.id,
        group_size=local_heads(mixer.query_heads, tp),
        tile_rows=MLA_TILE_ROWS,
        packs=True,
        knee_rows=knee,
    )


def edge_query_lens(model: Model, deployment: Deployment, max_query_len: int) -> tuple[int, ...]:
    """Query lengths at which the main attention starts another tile."""
    mixer, kernel = main_mixer(model), main_kernel(model, deployment)
    tp = deployment.attention_tp
    if deployment.path.kernels == "ggml":
        return ()
    if isinstance(mixer, SoftmaxAttention) and isinstance(kernel, AttentionKernel):
        group = local_heads(mixer.query_heads, tp) // local_heads(mixer.kv_heads, tp)
        return tuple(tile_edges(kernel, group_size=group, max_query_len=max_query_len))
    if isinstance(mixer, LatentAttention):
        heads = local_heads(mixer.query_heads, tp)
        tiles = [-(-heads * q // MLA_TILE_ROWS) for q in range(max_query_len + 1)]
        return tuple(q for q in range(2, max_query_len + 1) if tiles[q] > tiles[q - 1])
    return ()


def shape_notes(model: Model, deployment: Deployment, max_query_len: int) -> tuple[Note, ...]:
    """Cliffs, re-reads and extrapolation of the main attention at this group size and query length."""
    mixer, kernel = main_mixer(model), main_kernel(model, deployment)
    if not isinstance(mixer, SoftmaxAttention) or not isinstance(kernel, AttentionKernel):
        return ()
    if deployment.path.kernels == "ggml":
        return ()
    tp = deployment.attention_tp
    group = local_heads(mixer.query_heads, tp) / local_heads(mixer.kv_heads, tp)
    return attention_notes(kernel, group_size=group, max_query_len=max_query_len)
