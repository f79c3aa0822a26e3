"""Which numbers price an operation: the engine's own kernel where it was measured, else a prior that says so.

Every selector returns a frozen kernel with `id`, `version`, `evidence` and `notes`; the notes name each step away
from a measured entry of this GPU, engine and number format.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from specplan.planner.kernels.choice import Choice, choose, math_format_of, of_datasheet, with_notes
from specplan.planner.kernels.collective import AllReduceKernel, Band
from specplan.planner.kernels.entries import Entry, GpuProfile, Key
from specplan.planner.kernels.gemm import GemmKernel
from specplan.planner.kernels.mla import MlaKernel
from specplan.planner.kernels.moe import MoeKernel
from specplan.planner.kernels.recurrent import RecurrentKernel
from specplan.planner.kernels.select_attention import attention_kernel, attention_kernel_ids
from specplan.planner.kernels.sparse import SparseKernel
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT, KERNEL_FORMAT

__all__ = [
    "allreduce_kernel", "attention_kernel", "attention_kernel_ids", "gemm_kernel", "mla_kernel", "moe_kernel",
    "recurrent_kernel", "sparse_kernel",
]

# Shares of the datasheet where no entry exists: typical of the fits on measured GPUs (kernels.md 2.1, kernel_fits.md).
GEMM_STREAM_SHARE, GEMM_LAUNCH_S, GEMM_K_CHAIN_S = 0.88, 5e-6, 0.35e-6
GEMM_MATH_SHARE = {"bf16": 0.85, "fp8": 0.55, "int8": 0.45, "fp4": 0.40}
MOE_STREAM_SHARE, MOE_MATH_SHARE, MOE_LAUNCH_S, MOE_TOKEN_SHARE = 0.85, 0.30, 25e-6, 0.1
MLA_STREAM_SHARE, MLA_MATH_SHARE, MLA_LAUNCH_S, MLA_BLOCK_S, MLA_ROW_S = 0.9, 0.75, 14e-6, 0.015e-6, 0.06e-6
STATE_STREAM_SHARE, STATE_LAUNCH_S = 0.8, 4e-6
SPARSE_STREAM_SHARE, SPARSE_LAUNCH_S, SPARSE_TOKEN_BYTES = 0.8, 4e-6, 2048 * 576 * 2  # top-k 2048, latent 576

ACTIVATION_BYTES = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5 + 1.0 / 16}     # by the math they feed


def gemm_kernel(
    gpu: GpuProfile, engine: str, *, weight_dtype: str, static_scales: bool = False, override: str | None = None
) -> GemmKernel:
    """Dense matrix kernel for a weight format; without tensor cores for it, weights are unpacked to bf16.

    `static_scales`: activation scales are in the checkpoint, so no kernel quantises activations at run time and the
    launch is that of the engine's bf16 kernel.
    """
    number_format = math_format_of(gpu, weight_dtype)
    measured = any(entry.key["weight_dtype"] == weight_dtype for entry in gpu.entries("gemm"))
    looked_for = "bf16" if number_format == "bf16" and not measured else weight_dtype
    choice = choose(gpu, "gemm", engine, f"{looked_for} GEMM", lambda entry: entry.key["weight_dtype"] == looked_for,
                    override=override)
    if choice is None and override is not None:
        raise InputError(f"gemm kernel: '{override}' has no numbers for {looked_for} on {gpu.name}")
    if choice is None:
        choice = of_datasheet(gpu, f"{engine}-{looked_for.replace('_', '-')}-gemm", "k_chain", {
            "launch_s": GEMM_LAUNCH_S, "k_chain_s": GEMM_K_CHAIN_S,
            "stream_bytes_per_s": GEMM_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s,
            "mma_flop_per_s": GEMM_MATH_SHARE[number_format] * gpu.hardware.dense(number_format)})
    if number_format == "bf16" and BYTES_PER_WEIGHT[weight_dtype] < 2:
        choice = with_notes(choice, Note("weight-only", f"{weight_dtype} weights on {gpu.name} are read packed and "
                                                        f"multiplied in bf16, at the rates of {choice.entry.id}"))
    launch_s = choice.number("launch_s")
    if static_scales and number_format != "bf16":
        plain = choose(gpu, "gemm", engine, "bf16 GEMM", lambda entry: entry.key["weight_dtype"] == "bf16")
        launch_s = launch_s if plain is None else min(launch_s, plain.number("launch_s"))
    return GemmKernel(
        id=choice.entry.id, version=choice.entry.version, form=choice.entry.form,  # type: ignore[arg-type]
        weight_dtype=weight_dtype, weight_bytes=BYTES_PER_WEIGHT[weight_dtype],
        activation_bytes=ACTIVATION_BYTES[number_format], launch_s=launch_s,
        stream_bytes_per_s=choice.number("stream_bytes_per_s"), mma_flop_per_s=choice.number("mma_flop_per_s"),
        sms=gpu.hardware.sms, k_chain_s=choice.number("k_chain_s"), ragged=choice.number("ragged"),
        row_pad=int(choice.number("row_pad", 1)), overlap=choice.number("overlap", 2.5),
        l2_gain=choice.number("l2_gain", 1.0), l2_bytes=gpu.hardware.l2_bytes, static_scales=static_scales,
        evidence=choice.evidence, notes=choice.notes,
    )


def moe_kernel(
    gpu: GpuProfile, engine: str, *, weight_dtype: str, gated: bool = True, override: str | None = None
) -> MoeKernel:
    """Routed-expert kernel for a weight format; a format nobody measured borrows the rates of the nearest one."""
    math_format = math_format_of(gpu, weight_dtype)     # refuses unknown formats
    wanted = KERNEL_FORMAT.get(weight_dtype, _LIKE.get(weight_dtype, weight_dtype))
    choice = None
    for own_engine in (True, False):
        for borrowed in (wanted, *_NEXT_MOE_FORMAT.get(wanted, ())):
            choice = choice or _moe_choice(gpu, engine, borrowed, gated, override, own_engine, wanted)
    choice = choice or _moe_choice(gpu, engine, "bf16", gated, override, False, wanted)
    if choice is None:
        choice = of_datasheet(gpu, f"{engine}-moe", "moe", {
            "launch_s": MOE_LAUNCH_S, "stream_bytes_per_s": MOE_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s,
            "mma_flop_per_s": MOE_MATH_SHARE * gpu.hardware.dense(math_format),
            "token_s_per_byte": 1.0 / (MOE_TOKEN_SHARE * gpu.hardware.hbm_bytes_per_s)})
    return MoeKernel(
        id=choice.entry.id, version=choice.entry.version, weight_dtype=weight_dtype, launch_s=choice.number("launch_s"),
        stream_bytes_per_s=choice.number("stream_bytes_per_s"), mma_flop_per_s=choice.number("mma_flop_per_s"),
        token_s_per_byte=choice.number("token_s_per_byte"), row_s_per_byte=choice.number("row_s_per_byte"),
        expert_s=choice.number("expert_s"), local_expert_s=choice.number("local_expert_s"),
        k_chain_s=choice.number("k_chain_s"), one_token=choice.number("one_token", 1.0),
        fade_tokens=choice.number("fade_tokens", 1.0), evidence=choice.evidence, notes=choice.notes,
    )


_LIKE = {"fp16": "bf16", "fp32": "bf16", "int8": "fp8", "w8a16": "w4a16"}
_NEXT_MOE_FORMAT = {
    "fp8": ("fp8_block",), "fp8_block": ("fp8",), "nvfp4": ("mxfp4", "w4a16"), "mxfp4": ("w4a16", "nvfp4"),
    "w4a16": ("mxfp4",),
}


def _moe_choice(
    gpu: GpuProfile, engine: str, dtype: str, gated: bool, override: str | None, own_engine: bool, wanted: str
) -> Choice | None:
    for gate in (gated, not gated):
        wants: dict[str, Key] = {"weight_dtype": dtype, "gated": gate}
        choice = choose(gpu, "moe", engine, f"{dtype} expert kernel", functools.partial(_has, wants), override=override,
                        own_engine=own_engine)
        if choice is not None:
            notes = []
            if dtype != wanted:
                notes.append(Note("moe-kernel-prior", f"no {wanted} expert kernel measured for {engine} on {gpu.name}: "
                                                      f"rates of {choice.entry.id} with {dtype} weights stand in"))
            if gate != gated:
                notes.append(Note("moe-gating", f"{choice.entry.id} was measured {'without' if gated else 'with'} a "
                                                "gate matrix; the other kind is priced by its weights"))
            return with_notes(choice, *notes)
    return None


def _has(wants: Mapping[str, Key], entry: Entry) -> bool:
    return all(entry.key[name] == value for name, value in wants.items())


def allreduce_kernel(gpu: GpuProfile, engine: str, *, gpus: int) -> AllReduceKernel:
    """In-graph all-reduce among `gpus` GPUs; sizes between the measured ones take the next larger."""
    if gpus == 1:
        return AllReduceKernel(id=f"{engine}-allreduce", version="", gpus=1, bands=(),
                               evidence=Evidence(level="measured", source="one GPU sends nothing"))
    sizes = sorted({int(entry.key["gpus"]) for entry in gpu.entries("allreduce")})
    if not sizes or gpu.hardware.link_bytes_per_s <= 0:
        message = f"{gpu.name} has no link to another GPU, so {gpus} GPUs cannot share a model"
        raise InputError([Fault(("parallel",), message)])
    size = next((known for known in sizes if known >= gpus), sizes[-1])
    choice = choose(gpu, "allreduce", engine, f"all-reduce of {gpus}", lambda entry: entry.key["gpus"] == size)
    assert choice is not None
    wire = ((gpus - 1) / gpus) / ((size - 1) / size)
    hops = max(math.log2(gpus) / math.log2(size), 1.0)
    if size != gpus:
        choice = with_notes(choice, Note("allreduce-size", f"all-reduce among {gpus} GPUs is scaled from {size}: wire "
                                                           "by (n-1)/n, latency by log2 n beyond the measured size"))
    bands = tuple(Band(upto_bytes=band["upto_bytes"], alpha_s=band["alpha_s"] * hops,
                       beta_s_per_byte=band["beta_s_per_byte"] * wire) for band in choice.entry.bands)
    return AllReduceKernel(id=choice.entry.id, version=choice.entry.version, gpus=gpus, bands=bands,
                           evidence=choice.evidence, notes=choice.notes)


def mla_kernel(gpu: GpuProfile, engine: str, *, kv_dtype: str, override: str | None = None) -> MlaKernel:
    """Absorbed MLA decode kernel."""
    if kv_dtype not in BYTES_PER_KV:
        raise InputError([Fault(("dtypes", "kv"), f"no format '{kv_dtype}'{nearest(kv_dtype, BYTES_PER_KV)}")])
    stored = "bf16" if BYTES_PER_KV[kv_dtype] >= 2 else "fp8"
    choice = choose(gpu, "mla", engine, f"MLA with {stored} KV", lambda entry: entry.key["kv_dtype"] == stored,
                    override=override)
    if choice is None:
        choice = choose(gpu, "mla", engine, "MLA", lambda _: True)
    if choice is None:
        parameters = {
            "launch_s": MLA_LAUNCH_S, "stream_bytes_per_s": MLA_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s,
            "mma_flop_per_s": MLA_MATH_SHARE * gpu.hardware.dense("bf16"), "block_s": MLA_BLOCK_S, "row_s": MLA_ROW_S,
        }
        choice = of_datasheet(gpu, f"{engine}-mla", "mla", parameters)
    elif choice.entry.key["kv_dtype"] != stored:
        choice = with_notes(choice, Note("mla-kv-dtype", f"{choice.entry.id} was measured with "
                                                         f"{choice.entry.key['kv_dtype']} KV, not {kv_dtype}"))
    slow_heads = choice.number("slow_heads")
    return MlaKernel(
        id=choice.entry.id, version=choice.entry.version, kv_dtype=kv_dtype, kv_bytes=BYTES_PER_KV[kv_dtype],
        launch_s=choice.number("launch_s"), stream_bytes_per_s=choice.number("stream_bytes_per_s"),
        mma_flop_per_s=choice.number("mma_flop_per_s"), block_s=choice.number("block_s"), row_s=choice.number("row_s"),
        sms=gpu.hardware.sms, slow_heads=int(slow_heads) if slow_heads else None,
        combine_s=choice.number("combine_s"), split_s=choice.number("split_s"),
        split_min_blocks=int(choice.number("split_min_blocks")),
        slow_factor=choice.number("slow_factor", 1.0), l2_bytes=gpu.hardware.l2_bytes,
        l2_gain=choice.number("l2_gain", 1.0), evidence=choice.evidence, notes=choice.notes,
    )


def recurrent_kernel(
    gpu: GpuProfile, engine: str, *, kind: Literal["gdn", "kda", "mamba2"], verify: bool, override: str | None = None
) -> RecurrentKernel:
    """State-update kernel. Mamba-2 is priced as GatedDeltaNet: no public table holds its kernel."""
    looked_for, phase = "gdn" if kind == "mamba2" else kind, "verify" if verify else "decode"
    notes: list[Note] = []
    if kind == "mamba2":
        notes.append(Note("mamba2-unverified", "Mamba-2 layers are priced by the GatedDeltaNet equation: same state "
                                               "traffic, never measured"))
    choice = choose(gpu, "recurrent", engine, f"{looked_for} {phase}", override=override,
                    fits=lambda entry: entry.key["kind"] == looked_for and entry.key["phase"] == phase)
    if choice is None:
        choice = choose(gpu, "recurrent", engine, f"{looked_for} decode", override=override,
                        fits=lambda entry: entry.key["kind"] == looked_for and entry.key["phase"] == "decode")
        if choice is not None:
            notes.append(Note("recurrent-verify-prior", f"{choice.entry.id} was measured at q = 1: a verify pass is "
                                                        "priced to store one state per token, as KDA kernels do"))
    if choice is None:
        choice = of_datasheet(gpu, f"{engine}-{kind}", "recurrent", {
            "launch_s": STATE_LAUNCH_S, "stream_bytes_per_s": STATE_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s})
    choice = with_notes(choice, *notes)
    return RecurrentKernel(
        id=choice.entry.id, version=choice.entry.version, kind=kind, verify=verify, launch_s=choice.number("launch_s"),
        stream_bytes_per_s=choice.number("stream_bytes_per_s"), token_s=choice.number("token_s"),
        l2_gain=choice.number("l2_gain", 1.0), l2_bytes=gpu.hardware.l2_bytes, evidence=choice.evidence,
        notes=choice.notes,
    )


SparseKind: TypeAlias = Literal["dsa", "dsa-decode", "hca", "hca-decode"]


def sparse_kernel(
    gpu: GpuProfile, engine: str, *, kind: SparseKind = "dsa", override: str | None = None
) -> SparseKernel:
    """Sparse attention kernel: DSA (each token its own top-k) or DeepSeek-V4's over compressed tokens (HCA).

    A single DSA token takes `dsa-decode` where it was measured: the same kernel, a sixth to a third faster.
    `hca` was timed on 4 to 64 tokens of a prompt; a verify pass runs `hca-decode` instead (step/mixers.py).
    """
    choice = choose(gpu, "sparse", engine, f"{kind} attention", lambda entry: entry.key["kind"] == kind,
                    override=override)
    if choice is None and kind == "dsa-decode":
        return sparse_kernel(gpu, engine, override=override)
    if choice is None:
        rate = SPARSE_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s
        choice = of_datasheet(gpu, f"{engine}-dsa", "wave", {
            "launch_s": SPARSE_LAUNCH_S, "width_tokens": gpu.hardware.sms,
            "wave_s": gpu.hardware.sms * SPARSE_TOKEN_BYTES / rate})
    return SparseKernel(
        id=choice.entry.id, version=choice.entry.version, form=choice.entry.form,  # type: ignore[arg-type]
        launch_s=choice.number("launch_s"), width_tokens=choice.number("width_tokens", 1.0),
        wave_s=choice.number("wave_s"), seq_s=choice.number("seq_s"), token_s=choice.number("token_s"),
        seq_s_per_context_token=choice.number("seq_s_per_context_token"),
        token_s_per_context_token=choice.number("token_s_per_context_token"),
        evidence=choice.evidence, notes=choice.notes,
    )
