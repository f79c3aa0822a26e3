"""Which kernel entries price a model on a deployment: for provenance, evidence and warnings beside an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from specplan.planner.kernels.prior import prior_evidence
from specplan.planner.kernels.select import (
    allreduce_kernel,
    attention_kernel,
    gemm_kernel,
    mla_kernel,
    moe_kernel,
    recurrent_kernel,
    sparse_kernel,
)
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Note
from specplan.planner.models.architecture import (
    CompressedAttention,
    LatentAttention,
    Mixer,
    Model,
    MoeFfn,
    RecurrentMixer,
    SoftmaxAttention,
)
from specplan.planner.models.matrices import ffn_matrices, local_heads, mixer_matrices, split
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.ggml import ggml_law
from specplan.planner.step.mixers import takes_cta_per_token


class KernelUsed(NamedTuple):
    """One kernel entry that a pass is priced with. `shapes` are the lowest and highest of what the model asks of it."""

    family: str
    id: str
    version: str
    evidence: Evidence
    notes: tuple[Note, ...]
    shapes: Mapping[str, tuple[float, float]] = {}


def kernels_used(model: Model, deployment: Deployment) -> list[KernelUsed]:
    """Every distinct kernel entry of one pass of `model`, in the order in which layers meet them."""
    found: dict[tuple[str, str, str], KernelUsed] = {}
    for used in _all(model, deployment):
        name = (used.family, used.id, used.version)
        found[name] = used._replace(shapes=_joined(found[name].shapes, used.shapes)) if name in found else used
    return list(found.values())


def _joined(
    one: Mapping[str, tuple[float, float]], other: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    joined = dict(one)
    for axis, (low, high) in other.items():
        lowest, highest = joined.get(axis, (low, high))
        joined[axis] = (min(lowest, low), max(highest, high))
    return joined


def _used(family: str, kernel: Any, **shapes: float) -> KernelUsed:
    return KernelUsed(family, kernel.id, kernel.version, kernel.evidence, kernel.notes,
                      {axis: (float(size), float(size)) for axis, size in shapes.items()})


def _all(model: Model, deployment: Deployment) -> Iterator[KernelUsed]:
    gpu, engine = deployment.gpu, deployment.path.engine
    weights = model.weights
    if deployment.path.kernels == "ggml":
        yield from _ggml_laws(model, deployment)
        return
    for group in model.groups:
        yield from _mixer_kernels(group.layer.mixer, deployment)
        ffn = group.layer.ffn
        if isinstance(ffn, MoeFfn):
            moe = moe_kernel(gpu, engine, weight_dtype=weights.experts, gated=ffn.matrices == 3)
            yield _used("moe", moe, hidden=ffn.latent_hidden or model.hidden, intermediate=ffn.intermediate,
                        experts=ffn.experts, top_k=ffn.top_k, tp=max(1, deployment.tp // deployment.ep),
                        ep=deployment.ep)
    for dtype, n, k in _matrices(model, deployment):
        gemm = gemm_kernel(gpu, engine, weight_dtype=dtype, static_scales=weights.static_scales)
        yield _used(f"gemm {dtype}", gemm, n=n, k=k)
    if deployment.tp > 1:
        yield _used(f"allreduce x{deployment.tp}", allreduce_kernel(gpu, engine, gpus=deployment.tp))


def _matrices(model: Model, deployment: Deployment) -> Iterator[tuple[str, int, int]]:
    """Weight format, N and K of the matrices on one GPU, in the order ffn, attention, head."""
    weights, found = model.weights, set()
    for group in model.groups:
        mixer = mixer_matrices(group.layer.mixer, model.hidden, deployment.attention_tp)
        ffn = ffn_matrices(group.layer.ffn, model.hidden, deployment.tp)
        found |= {(weights.ffn, matrix.n, matrix.k) for matrix in ffn}
        found |= {(weights.attention, matrix.n, matrix.k) for matrix in mixer}
    head = (weights.lm_head, split(model.vocab, deployment.tp), model.hidden)
    order = (weights.ffn, weights.attention, weights.lm_head)
    yield from sorted({*found, head}, key=lambda item: (order.index(item[0]), item))


def _ggml_laws(model: Model, deployment: Deployment) -> Iterator[KernelUsed]:
    """The law that prices all of a pass on llama.cpp and MLX, by weight format."""
    hardware, weights = deployment.gpu.hardware, model.weights
    for dtype in dict.fromkeys((weights.ffn, weights.attention, weights.experts, weights.lm_head)):
        law = ggml_law(hardware, dtype)
        measured = law.source == hardware.name
        text = (f"verify law of ggml kernels with the constants of {hardware.name}" if measured else
                f"verify law of ggml kernels with {law.source} constants; not measured on {hardware.name}")
        evidence = Evidence(level="measured" if measured else "prior", quality="rough", source=text)
        for family in (f"gemm {dtype}", "attention") if dtype == weights.ffn else (f"gemm {dtype}",):
            yield KernelUsed(family, "ggml", "", evidence, ())


def _mixer_kernels(mixer: Mixer | None, deployment: Deployment) -> Iterator[KernelUsed]:
    gpu, engine, kv_dtype = deployment.gpu, deployment.path.engine, deployment.kv_dtype
    if isinstance(mixer, SoftmaxAttention):
        override = deployment.attention_kernel
        kernel = attention_kernel(gpu, engine, head_dim=mixer.head_dim, kv_dtype=kv_dtype, override=override)
        yield _used(f"attention head {mixer.head_dim} {kv_dtype}", kernel)
    elif isinstance(mixer, CompressedAttention):
        yield _used("sparse decode", sparse_kernel(gpu, engine, kind="hca-decode"))
    elif isinstance(mixer, LatentAttention) and mixer.index is not None and takes_cta_per_token(deployment):
        yield _used("sparse one token", sparse_kernel(gpu, engine, kind="dsa-decode"))
        yield _used("sparse", sparse_kernel(gpu, engine))
    elif isinstance(mixer, LatentAttention):
        mla = mla_kernel(gpu, engine, kv_dtype=kv_dtype)
        if mixer.index is not None:
            reason = f"{mla.id} was fitted to caches read in full; here each token reads its own picks"
            notes = (*mla.notes, Note("sparse-decode-prior", reason))
            mla = dataclasses.replace(mla, evidence=prior_evidence(mla.evidence, reason), notes=notes)
        yield _used("mla", mla, heads=local_heads(mixer.query_heads, deployment.attention_tp))
    elif isinstance(mixer, RecurrentMixer):
        heads = local_heads(mixer.value_heads, deployment.attention_tp)
        for verify in (False, True):
            state = recurrent_kernel(gpu, engine, kind=mixer.kind, verify=verify)
            yield _used("state of a verify pass" if verify else "state", state, heads=heads)
