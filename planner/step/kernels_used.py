"""Which kernel entries price a model on a deployment: for provenance, evidence and warnings beside an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.ggml import ggml_law


class KernelUsed(NamedTuple):
    """One kernel entry that a pass is priced with."""

    family: str
    id: str
    version: str
    evidence: Evidence
    notes: tuple[Note, ...]


def kernels_used(model: Model, deployment: Deployment) -> list[KernelUsed]:
    """Every distinct kernel entry of one pass of `model`, in the order in which layers meet them."""
    found: dict[tuple[str, str, str], KernelUsed] = {}
    for used in _all(model, deployment):
        found.setdefault((used.family, used.id, used.version), used)
    return list(found.values())


def _all(model: Model, deployment: Deployment) -> Iterator[KernelUsed]:
    gpu, engine = deployment.gpu, deployment.path.engine
    weights = model.weights
    if deployment.path.kernels == "ggml":
        yield from _ggml_laws(model, deployment)
        return
    for group in model.groups:
        yield from _mixer_kernels(group.layer.mixer, deployment)
        if isinstance(group.layer.ffn, MoeFfn):
            gated = group.layer.ffn.matrices == 3
            moe = moe_kernel(gpu, engine, weight_dtype=weights.experts, gated=gated)
            yield KernelUsed("moe", moe.id, moe.version, moe.evidence, moe.notes)
    for dtype in dict.fromkeys((weights.ffn, weights.attention, weights.lm_head)):
        gemm = gemm_kernel(gpu, engine, weight_dtype=dtype, static_scales=weights.static_scales)
        yield KernelUsed(f"gemm {dtype}", gemm.id, gemm.version, gemm.evidence, gemm.notes)
    if deployment.tp > 1:
        ring = allreduce_kernel(gpu, engine, gpus=deployment.tp)
        yield KernelUsed(f"allreduce x{deployment.tp}", ring.id, ring.version, ring.evidence, ring.notes)


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
        family = f"attention head {mixer.head_dim} {kv_dtype}"
        yield KernelUsed(family, kernel.id, kernel.version, kernel.evidence, kernel.notes)
    elif isinstance(mixer, CompressedAttention):
        mla = mla_kernel(gpu, engine, kv_dtype=kv_dtype)
        reason = f"{mla.id} was fitted to MLA; here it prices DeepSeek-V4's compressed attention, token by token"
        notes = (*mla.notes, Note("compressed-attention-prior", reason))
        yield KernelUsed("mla", mla.id, mla.version, prior_evidence(mla.evidence, reason), notes)
    elif isinstance(mixer, LatentAttention):
        mla = mla_kernel(gpu, engine, kv_dtype=kv_dtype)
        yield KernelUsed("mla", mla.id, mla.version, mla.evidence, mla.notes)
        if mixer.index is not None:
            sparse = sparse_kernel(gpu, engine)
            yield KernelUsed("sparse", sparse.id, sparse.version, sparse.evidence, sparse.notes)
    elif isinstance(mixer, RecurrentMixer):
        for verify in (False, True):
            state = recurrent_kernel(gpu, engine, kind=mixer.kind, verify=verify)
            yield KernelUsed("state", state.id, state.version, state.evidence, state.notes)
