"""One forward pass as a list of priced ops: what every layer of a network costs for B sequences of q tokens.

A decode pass streams all weights once for B*q rows (GEMMs, E1), reads each sequence's cache once for its q tokens
(attention, E2, or a latent, picks, or a state, E3), touches the experts that its tokens select (E4) and exchanges
activations between GPUs twice per layer (E5). Equal layers are priced once and counted.

Ignored: the embedding lookup and the gather of logits across GPUs (under 1 % of a pass), overlap of collectives
with compute, and power throttling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from specplan.planner.arrays import Array, ceil_div
from specplan.planner.fact import fact
from specplan.planner.kernels.collective import allreduce_time, alltoall_time
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.moe import moe_time
from specplan.planner.kernels.select import allreduce_kernel, gemm_kernel, moe_kernel
from specplan.planner.kernels.timing import KernelTime
from specplan.planner.models.architecture import Layer, Model, MoeFfn, RecurrentMixer
from specplan.planner.models.dtypes import BYTES_PER_ACTIVATION, BYTES_PER_WEIGHT
from specplan.planner.models.matrices import Matrix, ffn_matrices, mixer_matrices, split
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.ggml import experts_time, ggml_law, matmul_time
from specplan.planner.step.mixers import mixer_ops
from specplan.planner.step.prefill import prefill_mixer_ops
from specplan.planner.step.tokens import Tokens

Part: TypeAlias = Literal["gemm", "attention", "moe", "collective", "state", "small", "lm_head"]
PARTS: tuple[Part, ...] = ("gemm", "attention", "moe", "collective", "state", "small", "lm_head")


@fact
class Op:
    """`count` equal kernel calls of one pass."""

    name: str
    part: Part
    time: KernelTime
    count: float = 1.0

    @property
    def total_s(self) -> Array:
        """Seconds of all calls."""
        return self.time.time_s * self.count


def forward_pass(
    network: Model, deployment: Deployment, work: Tokens, *, small_kernels_factor: float = 1.0, prefill: bool = False
) -> list[Op]:
    """All ops of one pass of `network` for `work`, on one GPU of the group.

    `prefill`: the pass processes a prompt, with the kernels that engines keep for that, and needs no LM head.
    """
    ops: list[Op] = []
    for group in network.groups:
        layer = layer_ops(network, group.layer, deployment, work, small_kernels_factor, prefill=prefill)
        ops += [replace(op, count=op.count * group.count) for op in layer]
    if not prefill:
        ops += head_ops(network, deployment, work)
    if deployment.pp > 1:
        ops.append(_stage_sends(network, deployment, work))
    return ops


def total_s(ops: list[Op]) -> Array:
    """Seconds of a pass."""
    return np.asarray(sum((op.total_s for op in ops), start=np.zeros(())))


def breakdown_s(ops: list[Op]) -> dict[Part, Array]:
    """Seconds of a pass by part; parts that the network lacks are zero."""
    found: dict[Part, Array] = {part: np.zeros(()) for part in PARTS}
    for op in ops:
        found[op.part] = found[op.part] + op.total_s
    return found


def layer_ops(
    network: Model, layer: Layer, deployment: Deployment, work: Tokens, small_kernels_factor: float = 1.0, *,
    prefill: bool = False,
) -> Iterator[Op]:
    """Ops of one layer: projections, mixer, feed-forward, exchange, small kernels."""
    if layer.mixer is not None:
        tp = deployment.attention_tp
        own = _attention_share(deployment, work)
        for matrix in mixer_matrices(layer.mixer, network.hidden, tp):
            yield matrix_op(network, matrix, deployment, own.rows, prefill=prefill)
        for name, part, time in (prefill_mixer_ops if prefill else mixer_ops)(layer.mixer, deployment, own):
            yield Op(name=name, part=part, time=time)
        yield from _exchange(network, deployment, own.rows, tp, "attention")
    if layer.ffn is not None:
        for matrix in ffn_matrices(layer.ffn, network.hidden, deployment.tp):
            if matrix.role != "router":     # inside the router constant below
                yield matrix_op(network, matrix, deployment, work.rows, prefill=prefill)
        if isinstance(layer.ffn, MoeFfn):
            yield from _expert_ops(network, layer.ffn, deployment, work, prefill=prefill)
        if isinstance(layer.ffn, MoeFfn) and deployment.dp_attention > 1:
            yield from _dispatch(network, deployment, work)
        else:
            yield from _exchange(network, deployment, work.rows, deployment.tp, "ffn")
    halves = (layer.mixer is not None) + (layer.ffn is not None)
    launch = deployment.path.kernel_launch_factor
    if isinstance(layer.mixer, RecurrentMixer):
        yield constant_op("recurrent_small", deployment.path.constant("recurrent_s_per_layer") * launch, "state")
    small = deployment.path.constant("small_kernels_s_per_layer") * small_kernels_factor * launch * halves / 2
    yield constant_op("small_kernels", small)


def matrix_op(network: Model, matrix: Matrix, deployment: Deployment, rows: Array, *, prefill: bool = False) -> Op:
    """One GEMM of a layer."""
    weights = network.weights
    dtype = weights.attention if matrix.role == "attention" else weights.ffn
    return gemm_op(matrix.name, deployment, rows, n=matrix.n, k=matrix.k, dtype=dtype, static=weights.static_scales,
                   prefill=prefill)


def gemm_op(
    name: str, deployment: Deployment, rows: Array, *, n: int, k: int, dtype: str, static: bool = False,
    prefill: bool = False,
) -> Op:
    """A GEMM by the kernel that the engine uses for this weight format; ggml runs a prompt through tensor cores too."""
    if deployment.path.kernels == "ggml" and not prefill:
        hardware = deployment.gpu.hardware
        time = matmul_time(
            ggml_law(hardware, dtype, deployment.path.ggml), hardware, rows=rows,
            read_bytes=n * k * BYTES_PER_WEIGHT[dtype], weights=float(n * k), power_limit_w=deployment.power_limit_w,
        )
        return Op(name=name, part="gemm", time=time)
    kernel = gemm_kernel(deployment.gpu, deployment.path.engine, weight_dtype=dtype, static_scales=static)
    return Op(name=name, part="gemm", time=shrink_launch(gemm_time(kernel, rows=rows, n=n, k=k), deployment))


def head_ops(network: Model, deployment: Deployment, work: Tokens) -> list[Op]:
    """LM head over all rows (a verify pass needs a distribution at each drafted position) and the pick from it.

    The pick reads and writes fp32 logits of this GPU's share of the vocabulary.
    """
    vocab = split(network.vocab, deployment.tp)
    op = gemm_op("lm_head", deployment, work.rows, n=vocab, k=network.hidden, dtype=network.weights.lm_head)
    logits = work.rows * vocab * 4.0 * 2.0 / deployment.gpu.hardware.hbm_bytes_per_s
    pick = Op(name="sample", part="lm_head", time=KernelTime(time_s=logits, parts={"memory": logits}))
    return [replace(op, part="lm_head"), pick]


def constant_op(name: str, seconds: float, part: Part = "small") -> Op:
    """Something that takes a fixed time."""
    time = np.asarray(seconds, dtype=float)
    return Op(name=name, part=part, time=KernelTime(time_s=time, parts={"launch": time}))


def shrink_launch(time: KernelTime, deployment: Deployment) -> KernelTime:
    """Take off the share of launch time that a persistent-kernel engine hides."""
    factor = deployment.path.kernel_launch_factor
    launch = time.parts.get("launch")
    if factor == 1.0 or launch is None:
        return time
    return KernelTime(time_s=time.time_s - (1.0 - factor) * launch, parts={**time.parts, "launch": launch * factor})


def _attention_share(deployment: Deployment, work: Tokens) -> Tokens:
    """Sequences of one data-parallel attention group: the fullest group sets the pace."""
    if deployment.dp_attention == 1:
        return work
    return replace(
        work,
        batch=ceil_div(work.batch, deployment.dp_attention),
        rows=ceil_div(work.rows, deployment.dp_attention),
    )


def _expert_ops(
    network: Model, ffn: MoeFfn, deployment: Deployment, work: Tokens, *, prefill: bool
) -> Iterator[Op]:
    dtype = network.weights.experts
    if deployment.path.kernels == "ggml" and not prefill:
        hardware = deployment.gpu.hardware
        time = experts_time(
            ggml_law(hardware, dtype, deployment.path.ggml), hardware, ffn, tokens=work.batch * work.query_len,
            hidden=network.hidden, weight_bytes=BYTES_PER_WEIGHT[dtype], skew=deployment.moe_skew, gpus=deployment.tp,
            power_limit_w=deployment.power_limit_w,
        )
        yield Op(name="experts", part="moe", time=time)
        return
    kernel = moe_kernel(deployment.gpu, deployment.path.engine, weight_dtype=dtype, gated=ffn.matrices == 3)
    time = moe_time(
        kernel,
        tokens=work.batch * work.query_len,
        hidden=ffn.latent_hidden or network.hidden,
        intermediate=ffn.intermediate,
        experts=ffn.experts,
        top_k=ffn.top_k,
        matrices=ffn.matrices,
        tp=max(1, deployment.tp // deployment.ep),
        ep=deployment.ep,
        skew=deployment.moe_skew,
        weight_bytes=BYTES_PER_WEIGHT[dtype],
    )
    yield Op(name="experts", part="moe", time=shrink_launch(time, deployment))
    router = deployment.path.constant("moe_router_s_per_layer") * deployment.path.kernel_launch_factor
    yield constant_op("router", router, "moe")


def _exchange(network: Model, deployment: Deployment, rows: Array, gpus: int, name: str) -> Iterator[Op]:
    """All-reduce of the hidden states after a row-parallel GEMM."""
    if gpus == 1:
        return
    if deployment.path.kernels == "ggml":
        exchange = ggml_law(deployment.gpu.hardware, network.weights.ffn, deployment.path.ggml).exchange_s
        yield constant_op(f"allreduce_{name}", exchange, "collective")
        return
    kernel = allreduce_kernel(deployment.gpu, deployment.path.engine, gpus=gpus)
    message = rows * network.hidden * BYTES_PER_ACTIVATION[deployment.activation_dtype]
    yield Op(name=f"allreduce_{name}", part="collective", time=allreduce_time(kernel, message_bytes=message))


def _dispatch(network: Model, deployment: Deployment, work: Tokens) -> Iterator[Op]:
    """Under data-parallel attention tokens travel to their experts and back: two all-to-alls."""
    if deployment.tp == 1:
        return
    kernel = allreduce_kernel(deployment.gpu, deployment.path.engine, gpus=deployment.tp)
    message = work.rows * network.hidden * BYTES_PER_ACTIVATION[deployment.activation_dtype]
    yield Op(name="expert_alltoall", part="collective", time=alltoall_time(kernel, message_bytes=message), count=2)


def _stage_sends(network: Model, deployment: Deployment, work: Tokens) -> Op:
    """Hidden states sent from stage to stage of a pipeline; a latency view: one batch in flight."""
    if deployment.path.kernels == "ggml":
        exchange = ggml_law(deployment.gpu.hardware, network.weights.ffn, deployment.path.ggml).exchange_s
        return replace(constant_op("stage_send", exchange, "collective"), count=deployment.pp - 1)
    kernel = allreduce_kernel(deployment.gpu, deployment.path.engine, gpus=2)
    message = work.rows * network.hidden * BYTES_PER_ACTIVATION[deployment.activation_dtype]
    time = allreduce_time(kernel, message_bytes=message)
    return Op(name="stage_send", part="collective", time=time, count=deployment.pp - 1)
