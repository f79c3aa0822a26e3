"""Which numbers price an operation: the engine's own kernel where it was measured, else a prior that says so.

Every selector returns a frozen kernel with `id`, `version`, `evidence` and `notes`; the notes name each step away
from a measured entry of this GPU, engine and number format.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

from specplan.planner.kernels.attention import AttentionKernel
from specplan.planner.kernels.collective import AllReduceKernel, Band
from specplan.planner.kernels.families import AttentionFamily, attention_families, default_families
from specplan.planner.kernels.gemm import GemmKernel
from specplan.planner.kernels.mla import MlaKernel
from specplan.planner.kernels.moe import MoeKernel
from specplan.planner.kernels.prior import prior_evidence
from specplan.planner.kernels.profile import Entry, GpuProfile
from specplan.planner.kernels.recurrent import RecurrentKernel
from specplan.planner.kernels.sparse import SparseKernel
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import InputError, Note, nearest
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT, MATH_OF_WEIGHT

ENGINES = ("vllm", "sglang", "trtllm")
ATTENTION_MATH_SHARE = 0.55     # of the dense peak, where no prefill rate was measured (kernel_fits.md, section 2)
PRIOR_LAUNCH_S = 5e-6           # GEMM without any fit
PRIOR_STREAM_SHARE = 0.88
PRIOR_MATH_SHARE = {"bf16": 0.85, "fp8": 0.55, "fp4": 0.40, "int8": 0.45}     # typical fits over datasheet, kernels.md 2.1
BYTES_PER_ACTIVATION_OF_MATH = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5625}


# ---- attention -----------------------------------------------------------------------------------------------


def attention_kernel(
    gpu: GpuProfile, engine: str, *, head_dim: int, kv_dtype: str, override: str | None = None
) -> AttentionKernel:
    """Attention kernel of an engine on a GPU, or of the family or id that `override` names."""
    engine, families = _attention_families(gpu, engine, kv_dtype, override)
    storage = _kv_entry_dtype(kv_dtype)
    for family in families:
        exact = [e for e in gpu.entries("attention") if _family_of(e) == family.name
                 and e.engine == engine and e.key["kv_dtype"] == storage]
        if exact:
            return _measured_attention(gpu, exact, family, head_dim, kv_dtype)
    family = families[0]
    relaxed = [e for e in gpu.entries("attention") if _family_of(e) == family.name and e.key["kv_dtype"] == storage] or [
        e for e in gpu.entries("attention") if _family_of(e) == family.name]
    if relaxed:
        return _measured_attention(gpu, relaxed, family, head_dim, kv_dtype, asked=f"{engine}-{family.name}")
    return _derived_attention(gpu, engine, family, head_dim, kv_dtype)


def attention_kernel_ids(gpu: GpuProfile) -> tuple[str, ...]:
    """Ids with entries on this GPU, then families that `override` takes with derived numbers."""
    ids = dict.fromkeys(entry.id for entry in gpu.entries("attention"))
    return (*ids, *(name for name, family in attention_families().items() if gpu.hardware.arch in family.arch))


def _attention_families(
    gpu: GpuProfile, engine: str, kv_dtype: str, override: str | None
) -> tuple[str, list[AttentionFamily]]:
    known = attention_families()
    if override is not None:
        owner, _, rest = override.partition("-")
        name = override if override in known else rest if owner in ENGINES and rest in known else None
        if name is None:
            raise InputError(f"attention_kernel: no kernel '{override}'{nearest(override, attention_kernel_ids(gpu))}")
        return (owner if owner in ENGINES and name == rest else engine), [known[name]]
    arch = gpu.hardware.arch
    for owner, where, names in default_families():
        if where == arch and owner == engine:
            return engine, [known[name] for name in names]
    if engine in ENGINES:
        served = sorted({owner for owner, where, _ in default_families() if where == arch}) or list(ENGINES)
        if arch in {where for _, where, _ in default_families()}:
            raise InputError(f"engine: {engine} does not run on {gpu.name} ({arch}); engines there: {', '.join(served)}")
    return "vllm", [known["vllm-triton" if gpu.hardware.vendor == "amd" else "flashinfer"]]


def _family_of(entry: Entry) -> str:
    """Family of an attention entry: its id without the engine."""
    return entry.id.partition("-")[2]


def _kv_entry_dtype(kv_dtype: str) -> str:
    if kv_dtype not in BYTES_PER_KV:
        raise InputError(f"dtypes.kv: no format '{kv_dtype}'{nearest(kv_dtype, BYTES_PER_KV)}")
    return "bf16" if BYTES_PER_KV[kv_dtype] >= 2 else "fp8"


def _measured_attention(
    gpu: GpuProfile, entries: list[Entry], family: AttentionFamily, head_dim: int, kv_dtype: str, asked: str | None = None
) -> AttentionKernel:
    entry = min(entries, key=lambda e: abs(math.log(head_dim / int(e.key["head_dim"]))))
    measured_dim = int(entry.key["head_dim"])
    notes: list[Note] = []
    evidence = _evidence(gpu, entry)
    p = dict(entry.parameters)
    identity = entry.id
    if measured_dim != head_dim:
        p["block_s"] = p.get("block_s", 0.0) * head_dim / measured_dim
        notes.append(Note("attention-head-dim", f"{entry.id}: measured at head width {measured_dim}, scaled to {head_dim}"))
        evidence = prior_evidence(evidence, f"{evidence.source}; scaled from head width {measured_dim}")
    if asked is not None:
        notes.append(Note("attention-kernel-prior", f"no numbers for {asked} with {kv_dtype} KV on {gpu.name}; "
                                                    f"those of {entry.id} ({entry.key['kv_dtype']} KV) stand in"))
        evidence = prior_evidence(evidence, f"{evidence.source}; {entry.id} stands in for {asked}")
        identity = asked
    hw = gpu.hardware
    return AttentionKernel(
        id=identity, version=entry.version, family=family, form=entry.form, head_dim=head_dim,  # type: ignore[arg-type]
        kv_dtype=kv_dtype, kv_bytes=BYTES_PER_KV[kv_dtype], sms=hw.sms, exp_per_s=hw.exp_per_s, l2_bytes=hw.l2_bytes,
        math_flop_per_s=attention_math_rate(gpu, entry.engine, head_dim, _kv_entry_dtype(kv_dtype)),
        launch_s=p["launch_s"], stream_bytes_per_s=p["stream_bytes_per_s"],
        cta_bytes_per_s=p.get("cta_bytes_per_s", math.inf), ctas_per_sm=int(p.get("ctas_per_sm", 1)),
        tile_rows=int(p.get("tile_rows", family.tiles(head_dim)[-1])), row_tile=int(p.get("row_tile", family.row_tile)),
        block_s=p.get("block_s", 0.0), wave_s=p.get("wave_s", 0.0), row_s=p.get("row_s", 0.0),
        combine_s=p.get("combine_s", 0.0), split_cap=int(p.get("split_cap", 1)),
        kv_block_tokens=int(p.get("kv_block_tokens", 128)), ramp_s=p.get("ramp_s", 0.0),
        ramp_half_bytes=p.get("ramp_half_bytes", 0.0), l2_gain=p.get("l2_gain", 1.0), evidence=evidence,
        notes=(*notes, *_prior_notes(evidence, gpu)),
    )


def _derived_attention(
    gpu: GpuProfile, engine: str, family: AttentionFamily, head_dim: int, kv_dtype: str
) -> AttentionKernel:
    """A family nobody measured on this GPU: datasheet rates times the efficiencies of the family's data."""
    hw = gpu.hardware
    identity = family.name if family.name.startswith((*ENGINES, "nvidia")) else f"{engine}-{family.name}"
    evidence = Evidence(level="prior", quality="rough",
                        source=f"{family.title}: tiles and split rule from its source, {family.kv_efficiency:.0%} of "
                               f"datasheet bandwidth, {ATTENTION_MATH_SHARE:.0%} of dense peak; not measured on {gpu.name}")
    notes = [Note("attention-kernel-prior", f"{identity}: {evidence.source}")]
    if hw.arch not in family.arch:
        notes.append(Note("attention-kernel-arch", f"{family.title} is not known to run on {hw.arch}"))
    split = family.splits_decode
    return AttentionKernel(
        id=identity, version="", family=family, form=family.form, head_dim=head_dim,  # type: ignore[arg-type]
        kv_dtype=kv_dtype, kv_bytes=BYTES_PER_KV[kv_dtype], sms=hw.sms, exp_per_s=hw.exp_per_s, l2_bytes=hw.l2_bytes,
        math_flop_per_s=attention_math_rate(gpu, engine, head_dim, _kv_entry_dtype(kv_dtype)),
        launch_s=family.launch_s, stream_bytes_per_s=family.kv_efficiency * hw.hbm_bytes_per_s,
        cta_bytes_per_s=2.0 * hw.hbm_bytes_per_s / hw.sms, ctas_per_sm=family.ctas_per_sm,
        tile_rows=family.tiles(head_dim)[0 if family.form == "walk_tile" else -1], row_tile=family.row_tile,
        wave_s=family.wave_s, row_s=family.row_s, combine_s=2e-6 if split else 0.0,
        split_cap=family.split_cap if split else 1, kv_block_tokens=family.kv_block_tokens,
        evidence=evidence, notes=tuple(notes),
    )


def attention_math_rate(gpu: GpuProfile, engine: str, head_dim: int, kv_dtype: str) -> float:
    """Math rate of attention in prefill: this engine, else another, else head 128, else 0.55 of the datasheet."""
    entries = [e for e in gpu.entries("attention_math") if e.key["kv_dtype"] == kv_dtype]
    for dim in (head_dim, 128):
        for same_engine in (True, False):
            for entry in entries:
                if entry.key["head_dim"] == dim and (entry.engine == engine) == same_engine:
                    return entry.parameters["mma_flop_per_s"]
    return ATTENTION_MATH_SHARE * _dense(gpu, "bf16")


# ---- GEMM ----------------------------------------------------------------------------------------------------


def gemm_kernel(
    gpu: GpuProfile, engine: str, *, weight_dtype: str, static_scales: bool = False, override: str | None = None
) -> GemmKernel:
    """Dense matrix kernel for a weight format. Without that tensor-core rate the weights are unpacked to bf16."""
    if weight_dtype not in BYTES_PER_WEIGHT:
        raise InputError(f"dtypes.weights: no format '{weight_dtype}'{nearest(weight_dtype, BYTES_PER_WEIGHT)}")
    math_format = MATH_OF_WEIGHT[weight_dtype]
    native = math_format == "bf16" or gpu.hardware.dense_flop_per_s.get(math_format, 0.0) > 0
    stored_as_bf16 = math_format == "bf16" or not native
    entries = list(gpu.entries("gemm"))
    if override is not None:
        entries = [e for e in entries if override in (e.id, e.id.partition("-")[2])]
        if not entries:
            known = dict.fromkeys(e.id for e in gpu.entries("gemm"))
            raise InputError(f"gemm kernel: no kernel '{override}' on {gpu.name}{nearest(override, known)}")
    lookup = "bf16" if stored_as_bf16 else weight_dtype
    entry, notes = _best(gpu, entries, engine, f"{weight_dtype} GEMM", lambda e: e.key["weight_dtype"] == lookup)
    if stored_as_bf16 and BYTES_PER_WEIGHT[weight_dtype] < 2 and not (native and math_format != "bf16"):
        notes.append(Note("weight-only", f"{weight_dtype} weights on {gpu.name}: read packed, multiplied in bf16 "
                                         + ("(weight-only format)" if math_format == "bf16" else "(no such tensor cores)")))
    if entry is None:
        return _derived_gemm(gpu, engine, weight_dtype, math_format if native else "bf16", notes)
    p = dict(entry.parameters)
    if static_scales and not stored_as_bf16:
        plain, _ = _best(gpu, list(gpu.entries("gemm")), engine, "", lambda e: e.key["weight_dtype"] == "bf16")
        if plain is not None:
            p["launch_s"] = min(p["launch_s"], plain.parameters["launch_s"])
    evidence = _evidence(gpu, entry)
    if notes:
        evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
    return GemmKernel(
        id=entry.id, version=entry.version, form=entry.form, weight_dtype=weight_dtype,  # type: ignore[arg-type]
        weight_bytes=BYTES_PER_WEIGHT[weight_dtype],
        activation_bytes=BYTES_PER_ACTIVATION_OF_MATH["bf16" if stored_as_bf16 else math_format],
        launch_s=p["launch_s"], stream_bytes_per_s=p["stream_bytes_per_s"], mma_flop_per_s=p["mma_flop_per_s"],
        sms=gpu.hardware.sms, k_chain_s=p.get("k_chain_s", 0.0), ragged=p.get("ragged", 0.0),
        row_pad=int(p.get("row_pad", 1)), overlap=p.get("overlap", 2.5), l2_gain=p.get("l2_gain", 1.0),
        l2_bytes=gpu.hardware.l2_bytes, static_scales=static_scales, evidence=evidence,
        notes=(*notes, *_prior_notes(evidence, gpu)),
    )


def _derived_gemm(gpu: GpuProfile, engine: str, weight_dtype: str, math_format: str, notes: list[Note]) -> GemmKernel:
    share = PRIOR_MATH_SHARE[math_format]
    evidence = Evidence(level="prior", quality="rough", source=f"datasheet of {gpu.name}: {PRIOR_STREAM_SHARE:.0%} of "
                        f"bandwidth, {share:.0%} of {math_format} peak (typical fits, kernels.md 2.1)")
    note = Note("gemm-kernel-prior", f"no {weight_dtype} GEMM measured for {gpu.name}: {evidence.source}")
    return GemmKernel(
        id=f"{engine}-datasheet", version="", form="k_chain", weight_dtype=weight_dtype,
        weight_bytes=BYTES_PER_WEIGHT[weight_dtype], activation_bytes=BYTES_PER_ACTIVATION_OF_MATH[math_format],
        launch_s=PRIOR_LAUNCH_S, stream_bytes_per_s=PRIOR_STREAM_SHARE * gpu.hardware.hbm_bytes_per_s,
        mma_flop_per_s=share * _dense(gpu, math_format), sms=gpu.hardware.sms, k_chain_s=0.35e-6,
        evidence=evidence, notes=(*notes, note),
    )


# ---- experts, collectives, MLA, recurrent, sparse ------------------------------------------------------------


def moe_kernel(gpu: GpuProfile, engine: str, *, weight_dtype: str, gated: bool = True,
               override: str | None = None) -> MoeKernel:
    """Routed-expert kernel for a weight format; formats nobody measured borrow the nearest one's rates."""
    if weight_dtype not in BYTES_PER_WEIGHT:
        raise InputError(f"dtypes.weights: no format '{weight_dtype}'{nearest(weight_dtype, BYTES_PER_WEIGHT)}")
    entries = [e for e in gpu.entries("moe") if override is None or override in (e.id, e.id.partition("-")[2])]
    if override is not None and not entries:
        known = dict.fromkeys(e.id for e in gpu.entries("moe"))
        raise InputError(f"moe kernel: no kernel '{override}' on {gpu.name}{nearest(override, known)}")
    alike = {"fp16": "bf16", "fp32": "bf16", "int8": "fp8", "w8a16": "w4a16"}.get(weight_dtype, weight_dtype)
    tried = dict.fromkeys((alike, *_MOE_NEXT.get(alike, ()), "bf16"))
    for dtype in tried:
        for same_gate in (True, False):
            entry, notes = _best(gpu, entries, engine, f"{weight_dtype} experts",
                                 lambda e, d=dtype, g=same_gate: e.key["weight_dtype"] == d and (e.key["gated"] == gated) == g)
            if entry is None:
                continue
            if dtype != weight_dtype and dtype != alike:
                notes.append(Note("moe-kernel-prior", f"no {weight_dtype} expert kernel measured for {engine} on "
                                                      f"{gpu.name}: rates of {entry.id} ({dtype}) stand in"))
            if not same_gate:
                notes.append(Note("moe-gating", f"{entry.id} was measured {'with' if entry.key['gated'] else 'without'} "
                                                "a gate; the other kind is priced by its weights"))
            evidence = _evidence(gpu, entry)
            if notes:
                evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
            p = entry.parameters
            return MoeKernel(
                id=entry.id, version=entry.version, weight_dtype=weight_dtype, launch_s=p["launch_s"],
                stream_bytes_per_s=p["stream_bytes_per_s"], mma_flop_per_s=p["mma_flop_per_s"],
                token_s_per_byte=p["token_s_per_byte"], expert_s=p.get("expert_s", 0.0),
                k_chain_s=p.get("k_chain_s", 0.0), evidence=evidence, notes=(*notes, *_prior_notes(evidence, gpu)),
            )
    return _derived_moe(gpu, engine, weight_dtype)


_MOE_NEXT = {"fp8": ("fp8_block",), "fp8_block": ("fp8",), "nvfp4": ("mxfp4", "w4a16"), "mxfp4": ("w4a16", "nvfp4"),
             "w4a16": ("mxfp4",)}


def _derived_moe(gpu: GpuProfile, engine: str, weight_dtype: str) -> MoeKernel:
    math_format = MATH_OF_WEIGHT[weight_dtype]
    evidence = Evidence(level="prior", quality="rough", source=f"datasheet of {gpu.name}: 85% of bandwidth, 30% of peak "
                        "math (typical expert kernels, kernel_fits.md section 4)")
    return MoeKernel(
        id=f"{engine}-datasheet-moe", version="", weight_dtype=weight_dtype, launch_s=25e-6,
        stream_bytes_per_s=0.85 * gpu.hardware.hbm_bytes_per_s, mma_flop_per_s=0.30 * _dense(gpu, math_format),
        token_s_per_byte=10.0 / gpu.hardware.hbm_bytes_per_s, evidence=evidence,
        notes=(Note("moe-kernel-prior", f"no expert kernel measured for {gpu.name}: {evidence.source}"),),
    )


def allreduce_kernel(gpu: GpuProfile, engine: str, *, gpus: int) -> AllReduceKernel:
    """In-graph all-reduce among `gpus` GPUs; sizes between the measured ones take the next larger."""
    nothing = Evidence(level="measured", source="one GPU sends nothing")
    if gpus == 1:
        return AllReduceKernel(id=f"{engine}-allreduce", version="", gpus=1, bands=(), evidence=nothing)
    sizes = sorted({int(e.key["gpus"]) for e in gpu.entries("allreduce")})
    if not sizes:
        raise InputError(f"parallel.tp: {gpu.name} has no link between GPUs that was measured or has a prior")
    size = next((known for known in sizes if known >= gpus), sizes[-1])
    entry, notes = _best(gpu, gpu.entries("allreduce"), engine, f"all-reduce of {gpus}", lambda e: e.key["gpus"] == size)
    if entry is None:
        raise InputError(f"parallel.tp: no all-reduce numbers for {gpu.name}")
    hops = math.log2(gpus) / math.log2(size) if gpus > size else 1.0
    bands = tuple(Band(upto_bytes=b["upto_bytes"], alpha_s=b["alpha_s"] * hops,
                       beta_s_per_byte=b["beta_s_per_byte"] * ((gpus - 1) / gpus) / ((size - 1) / size))
                  for b in entry.bands)
    if size != gpus:
        notes.append(Note("allreduce-size", f"all-reduce among {gpus} GPUs is scaled from {size} (wire share (n-1)/n"
                                            f"{', latency by log2 n' if gpus > size else ''})"))
    evidence = _evidence(gpu, entry)
    if notes:
        evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
    return AllReduceKernel(id=entry.id, version=entry.version, gpus=gpus, bands=bands, evidence=evidence,
                           notes=(*notes, *_prior_notes(evidence, gpu)))


def mla_kernel(gpu: GpuProfile, engine: str, *, kv_dtype: str) -> MlaKernel:
    """Absorbed MLA decode kernel."""
    storage = _kv_entry_dtype(kv_dtype)
    entries = gpu.entries("mla")
    entry, notes = _best(gpu, entries, engine, f"MLA with {storage} KV", lambda e: e.key["kv_dtype"] == storage)
    if entry is None:
        entry, notes = _best(gpu, entries, engine, "MLA", lambda _: True)
    if entry is None:
        hw = gpu.hardware
        evidence = Evidence(level="prior", quality="rough", source=f"datasheet of {gpu.name}: 90% of bandwidth, 75% of "
                            "bf16 peak (typical MLA fits on Hopper)")
        return MlaKernel(id=f"{engine}-mla", version="", kv_dtype=kv_dtype, kv_bytes=BYTES_PER_KV[kv_dtype],
                         launch_s=14e-6, stream_bytes_per_s=0.9 * hw.hbm_bytes_per_s,
                         mma_flop_per_s=0.75 * _dense(gpu, "bf16"), block_s=0.015e-6, row_s=0.06e-6, sms=hw.sms,
                         evidence=evidence, notes=(Note("mla-kernel-prior", evidence.source),))
    p = entry.parameters
    evidence = _evidence(gpu, entry)
    if notes:
        evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
    return MlaKernel(
        id=entry.id, version=entry.version, kv_dtype=kv_dtype, kv_bytes=BYTES_PER_KV[kv_dtype], launch_s=p["launch_s"],
        stream_bytes_per_s=p["stream_bytes_per_s"], mma_flop_per_s=p["mma_flop_per_s"], block_s=p["block_s"],
        row_s=p["row_s"], sms=gpu.hardware.sms, slow_heads=int(p["slow_heads"]) if "slow_heads" in p else None,
        slow_factor=p.get("slow_factor", 1.0), l2_bytes=gpu.hardware.l2_bytes, l2_gain=p.get("l2_gain", 1.0),
        evidence=evidence, notes=(*notes, *_prior_notes(evidence, gpu)),
    )


def recurrent_kernel(
    gpu: GpuProfile, engine: str, *, kind: Literal["gdn", "kda", "mamba2"], verify: bool
) -> RecurrentKernel:
    """State-update kernel. Mamba-2 is priced by the GatedDeltaNet equation: no public table holds its kernel."""
    notes: list[Note] = []
    looked = "gdn" if kind == "mamba2" else kind
    if kind == "mamba2":
        notes.append(Note("mamba2-unverified", "Mamba-2 state updates are priced as GatedDeltaNet's: same traffic, never measured"))
    entries = gpu.entries("recurrent")
    phase = "verify" if verify else "decode"
    entry, found = _best(gpu, entries, engine, f"{looked} {phase}", lambda e: e.key["kind"] == looked and e.key["phase"] == phase)
    if entry is None and verify:
        entry, found = _best(gpu, entries, engine, f"{looked} decode", lambda e: e.key["kind"] == looked and e.key["phase"] == "decode")
        if entry is not None:
            found.append(Note("recurrent-verify-prior", f"{entry.id} was measured at q = 1; verify stores one state per "
                                                        "token, as KDA's measured verify kernels do"))
    if entry is None:
        entry, found = _best(gpu, entries, engine, f"{looked} {phase}", lambda e: e.key["phase"] == "decode")
    notes += found
    if entry is None:
        evidence = Evidence(level="prior", quality="rough", source=f"datasheet of {gpu.name}: 80% of bandwidth (typical state kernels)")
        return RecurrentKernel(id=f"{engine}-{kind}", version="", kind=kind, verify=verify, launch_s=4e-6,
                               stream_bytes_per_s=0.8 * gpu.hardware.hbm_bytes_per_s, evidence=evidence,
                               notes=(*notes, Note("recurrent-kernel-prior", evidence.source)))
    evidence = _evidence(gpu, entry)
    if notes:
        evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
    p = entry.parameters
    return RecurrentKernel(
        id=entry.id, version=entry.version, kind=kind, verify=verify, launch_s=p["launch_s"],
        stream_bytes_per_s=p["stream_bytes_per_s"], token_s=p.get("token_s", 0.0), l2_gain=p.get("l2_gain", 1.0),
        l2_bytes=gpu.hardware.l2_bytes, evidence=evidence, notes=(*notes, *_prior_notes(evidence, gpu)),
    )


def sparse_kernel(gpu: GpuProfile, engine: str, *, kind: Literal["dsa", "hca"] = "dsa") -> SparseKernel:
    """Sparse attention kernel: DSA (each token its own top-k) or DeepSeek-V4's compressed HCA."""
    entry, notes = _best(gpu, gpu.entries("sparse"), engine, f"{kind} attention", lambda e: e.key["kind"] == kind)
    if entry is None:
        raise InputError(f"gpu: no sparse-attention numbers for {gpu.name} and no measured GPU near it")
    evidence = _evidence(gpu, entry)
    if notes:
        evidence = prior_evidence(evidence, f"{evidence.source}; {notes[0].message}")
    p = entry.parameters
    return SparseKernel(
        id=entry.id, version=entry.version, form=entry.form,  # type: ignore[arg-type]
        launch_s=p["launch_s"], width_tokens=p.get("width_tokens", 1.0), wave_s=p.get("wave_s", 0.0),
        seq_s=p.get("seq_s", 0.0), token_s=p.get("token_s", 0.0),
        seq_s_per_context_token=p.get("seq_s_per_context_token", 0.0),
        token_s_per_context_token=p.get("token_s_per_context_token", 0.0),
        evidence=evidence, notes=(*notes, *_prior_notes(evidence, gpu)),
    )


# ---- shared --------------------------------------------------------------------------------------------------


def _best(
    gpu: GpuProfile, entries: Iterable[Entry], engine: str, what: str, fits: Callable[[Entry], Any]
) -> tuple[Entry | None, list[Note]]:
    """The entry of this engine, else of another one with a note; measured before carried over, default first."""
    found = [entry for entry in entries if fits(entry)]
    if not found:
        return None, []
    order = {name: rank for rank, name in enumerate((engine, "any", *ENGINES))}

    def rank(entry: Entry) -> tuple[bool, int, bool, bool]:
        measured = entry.evidence.level == "measured"
        return (entry.engine not in (engine, "any") or (entry.engine == "any" and entry.evidence.quality != "ok"),
                (0 if measured else 1) + (10 if entry.engine not in (engine, "any") else 0) + order.get(entry.engine, 9) // 2,
                not entry.default, entry.evidence.quality != "ok")

    entry = min(found, key=rank)
    if entry.engine in (engine, "any"):
        return entry, []
    return entry, [Note("kernel-of-other-engine", f"no {what} measured for {engine} on {gpu.name}: {entry.id} stands in")]


def _evidence(gpu: GpuProfile, entry: Entry) -> Evidence:
    source = gpu.sources.get(entry.evidence.source, entry.evidence.source)
    if entry.version and entry.evidence.level == "measured":
        source = f"{source}; {entry.measured_as or entry.id} in {entry.engine} {entry.version}"
    return dataclasses.replace(entry.evidence, source=source)


def _prior_notes(evidence: Evidence, gpu: GpuProfile) -> tuple[Note, ...]:
    if evidence.level == "prior" and gpu.prior_from is not None and "scaled by datasheet" in evidence.source:
        return (Note("gpu-prior", f"{gpu.name} was not measured: {evidence.source}"),)
    return ()


def _dense(gpu: GpuProfile, math_format: str) -> float:
    dense = gpu.hardware.dense_flop_per_s
    return dense.get(math_format) or dense.get("bf16") or min(dense.values())
