"""Which attention kernel prices an engine's layer on a GPU: the measured one, a near one, or its design's prior."""

from __future__ import annotations

import functools
import math

from specplan.planner.kernels.attention_kernel import AttentionKernel
from specplan.planner.kernels.choice import ANY, ENGINES, evidence_of
from specplan.planner.kernels.entries import Entry, GpuProfile
from specplan.planner.kernels.families import AttentionFamily, attention_families, default_families
from specplan.planner.kernels.prior import prior_evidence
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.dtypes import BYTES_PER_KV

MATH_SHARE = 0.55       # of the dense peak, where no prefill rate was measured (kernel_fits.md, section 2)
CTA_SHARES = 2.0        # a CTA streams at most this many fair shares of bandwidth (measured 1.1 to 2.6, kernels.md 1.5)
COMBINE_S = 2e-6        # typical of the measured split kernels
STAND_IN = "specplan-triton"    # what `specplan sweep` times on every GPU, with more than one query token


def attention_kernel(
    gpu: GpuProfile, engine: str, *, head_dim: int, kv_dtype: str, override: str | None = None
) -> AttentionKernel:
    """Attention kernel of an engine on a GPU, or of the design or id that `override` names."""
    if kv_dtype not in BYTES_PER_KV:
        raise InputError([Fault(("dtypes", "kv"), f"no format '{kv_dtype}'{nearest(kv_dtype, BYTES_PER_KV)}")])
    like = "bf16" if BYTES_PER_KV[kv_dtype] >= 2 else "fp8"
    stored = kv_dtype if any(entry.key["kv_dtype"] == kv_dtype for entry in gpu.entries("attention")) else like
    engine, families = _wanted(gpu, engine, override)
    if override is None and (own := _of_sweep(gpu, engine, families, head_dim, stored)) is not None:
        entry, family, stands_for = own
        return _from_entries(gpu, [entry], family, head_dim, kv_dtype, asked=None, stands_for=stands_for)
    for family in families:
        entries = _of_family(gpu, family, engine=engine, kv_dtype=stored)
        if entries:
            return _from_entries(gpu, entries, family, head_dim, kv_dtype, asked=None)
    family, asked = families[0], _id(engine, families[0])
    for entries in (_of_family(gpu, family, kv_dtype=stored), _of_family(gpu, family, engine=engine),
                    _of_family(gpu, family)):
        if entries:
            return _from_entries(gpu, entries, family, head_dim, kv_dtype, asked=asked)
    return _from_design(gpu, asked, family, head_dim, kv_dtype, stored)


def attention_kernel_ids(gpu: GpuProfile) -> tuple[str, ...]:
    """What `override` takes on this GPU: ids with entries, then designs that are priced by a prior."""
    ids = dict.fromkeys(entry.id for entry in gpu.entries("attention"))
    designs = [name for name, family in attention_families().items() if gpu.hardware.arch in family.arch]
    return (*ids, *designs)


def attention_math_rate(gpu: GpuProfile, engine: str, head_dim: int, kv_dtype: str) -> float:
    """Math rate of attention in prefill: of this engine, else another, else at head 128, else 0.55 of the datasheet."""
    rates = {(e.engine, e.key["head_dim"], e.key["kv_dtype"]): e.parameters["mma_flop_per_s"]
             for e in gpu.entries("attention_math")}
    for width in (head_dim, 128):
        for owner in (engine, *ENGINES):
            if (owner, width, kv_dtype) in rates:
                return rates[owner, width, kv_dtype]
    return MATH_SHARE * gpu.hardware.dense("bf16") * gpu.prior_math_scale


def _wanted(gpu: GpuProfile, engine: str, override: str | None) -> tuple[str, list[AttentionFamily]]:
    """The engine whose entries count, and the designs to look for, best first."""
    known, arch = attention_families(), gpu.hardware.arch
    if override is not None:
        owner, _, rest = override.partition("-")
        if override in known:
            return engine, [known[override]]
        if owner in (*ENGINES, ANY) and rest in known:
            return owner, [known[rest]]
        ids = attention_kernel_ids(gpu)
        message = f"no kernel '{override}'{nearest(override, ids)}; known: {', '.join(ids)}"
        raise InputError([Fault(("attention_kernel",), message)])
    defaults = default_families()
    if (engine, arch) in defaults:
        return engine, [known[name] for name in defaults[engine, arch]]
    if (ANY, arch) in defaults:
        return ANY, [known[name] for name in defaults[ANY, arch]]
    served = [owner for owner in ENGINES if (owner, arch) in defaults]
    if engine in ENGINES and served:
        message = f"{engine} does not run on {gpu.name} ({arch}); engines there: {', '.join(served)}"
        raise InputError([Fault(("engine",), message)])
    owner = served[0] if served else "vllm"
    return owner, [known[name] for name in defaults.get((owner, arch), ("vllm-triton",))]


def _of_sweep(
    gpu: GpuProfile, engine: str, families: list[AttentionFamily], head_dim: int, stored: str
) -> tuple[Entry, AttentionFamily, str | None] | None:
    """What a sweep of this GPU measured for this width and format: the engine's design, else the sweep's own kernel.

    The latter only where nobody measured the engine's design on this GPU: it is not what the engine runs. Last comes
    the id of the kernel that it stands for.
    """
    alike = [entry for entry in gpu.entries("attention")
             if (entry.key["head_dim"], entry.key["kv_dtype"]) == (head_dim, stored)]
    found = {entry.kernel: entry for entry in alike if entry.engine == ANY}
    for family in families:
        if family.name in found:
            return found[family.name], family, None
    designs = [family.name for family in families]
    known = any(entry.engine == engine and entry.kernel in designs and entry.evidence.level == "measured"
                for entry in alike)
    if STAND_IN in found and not known:
        return found[STAND_IN], attention_families()[STAND_IN], _id(engine, families[0])
    return None


def _of_family(
    gpu: GpuProfile, family: AttentionFamily, *, engine: str | None = None, kv_dtype: str | None = None
) -> list[Entry]:
    return [entry for entry in gpu.entries("attention")
            if entry.kernel == family.name
            and engine in (None, entry.engine) and kv_dtype in (None, entry.key["kv_dtype"])]


def _id(engine: str, family: AttentionFamily) -> str:
    """`vllm-fa3`; a design that belongs to one engine, or to none, goes by its own name."""
    return family.name if family.name.startswith((*ENGINES[:2], "nvidia")) else f"{engine}-{family.name}"


def _from_entries(
    gpu: GpuProfile, entries: list[Entry], family: AttentionFamily, head_dim: int, kv_dtype: str, *, asked: str | None,
    stands_for: str | None = None,
) -> AttentionKernel:
    """The entry of the nearest head width, with a note for each thing it was not measured for."""
    entry = min(entries, key=lambda entry: abs(math.log(head_dim / int(entry.key["head_dim"]))))
    measured_dim, stored = int(entry.key["head_dim"]), str(entry.key["kv_dtype"])
    evidence = evidence_of(gpu, entry)
    notes = [Note("gpu-prior", f"{gpu.name} was not measured: {evidence.source}")] if evidence.level == "prior" else []
    if measured_dim != head_dim:
        notes.append(Note("attention-head-dim", f"{entry.id} was measured at head width {measured_dim}: time "
                                                f"per KV block scaled to {head_dim}"))
    if stands_for is not None:
        notes.append(Note("attention-stand-in", f"the sweep of this GPU timed {entry.kernel} with several query "
                                                f"tokens, not {stands_for}, for which it stands in"))
    if asked is not None:
        notes.append(Note("attention-kernel-prior", f"no numbers for {asked} with {kv_dtype} KV on {gpu.name}: "
                                                    f"those of {entry.id} with {stored} KV stand in"))
    elif kv_dtype not in (stored, "fp16"):
        notes.append(Note("attention-kv-dtype", f"{entry.id} was measured with {stored} KV, not {kv_dtype}"))
    evidence = functools.reduce(prior_evidence, (note.message for note in notes if note.code != "gpu-prior"), evidence)
    number = entry.parameters.get
    hardware = gpu.hardware
    return AttentionKernel(
        id=asked or entry.id,
        version=entry.version,
        family=family,
        form=entry.form,    # type: ignore[arg-type]
        head_dim=head_dim,
        kv_dtype=kv_dtype,
        kv_bytes=BYTES_PER_KV[kv_dtype],
        sms=hardware.sms,
        launch_s=number("launch_s", family.launch_s),
        stream_bytes_per_s=entry.parameters["stream_bytes_per_s"],
        math_flop_per_s=number("math_flop_per_s", attention_math_rate(gpu, entry.engine, head_dim, stored)),
        exp_per_s=hardware.exp_per_s,
        cta_bytes_per_s=number("cta_bytes_per_s", math.inf),
        unsplit_cta_bytes_per_s=_fair_cta_rate(gpu),
        ctas_per_sm=int(number("ctas_per_sm", family.ctas_per_sm)),
        tile_rows=int(number("tile_rows", family.tiles(head_dim)[-1])),
        row_tile=int(number("row_tile", family.row_tile)),
        block_s=number("block_s", 0.0) * head_dim / measured_dim,
        wave_s=number("wave_s", 0.0),
        row_s=number("row_s", 0.0),
        combine_s=number("combine_s", 0.0),
        split_s=number("split_s", 0.0),
        split_margin=number("split_margin", 0.0),
        split_min_blocks=int(number("split_min_blocks", 0)),
        split_cap=int(number("split_cap", 1)),
        kv_block_tokens=int(number("kv_block_tokens", family.split.kv_block_tokens)),
        ramp_s=number("ramp_s", 0.0),
        ramp_half_bytes=number("ramp_half_bytes", 0.0),
        l2_bytes=hardware.l2_bytes,
        l2_gain=number("l2_gain", 1.0),
        evidence=evidence,
        notes=tuple(notes),
    )


def _from_design(
    gpu: GpuProfile, identity: str, family: AttentionFamily, head_dim: int, kv_dtype: str, stored: str
) -> AttentionKernel:
    """A design that nobody measured on this GPU: datasheet rates times the shares that its data states."""
    hardware = gpu.hardware
    source = (f"{family.title}: tiles and split rule from its source, {family.kv_efficiency:.0%} of datasheet "
              f"bandwidth; not measured on {gpu.name}")
    notes = [Note("attention-kernel-prior", source)]
    if hardware.arch not in family.arch:
        notes.append(Note("attention-kernel-arch", f"{family.title} is not known to run on {hardware.arch} GPUs"))
    splits = family.split.decode
    return AttentionKernel(
        id=identity,
        version="",
        family=family,
        form=family.form,
        head_dim=head_dim,
        kv_dtype=kv_dtype,
        kv_bytes=BYTES_PER_KV[kv_dtype],
        sms=hardware.sms,
        launch_s=family.launch_s,
        stream_bytes_per_s=family.kv_efficiency * hardware.hbm_bytes_per_s,
        math_flop_per_s=attention_math_rate(gpu, identity.partition("-")[0], head_dim, stored),
        exp_per_s=hardware.exp_per_s,
        cta_bytes_per_s=_fair_cta_rate(gpu),
        ctas_per_sm=family.ctas_per_sm,
        tile_rows=family.tiles(head_dim)[0 if family.form == "walk_tile" else -1],
        row_tile=family.row_tile,
        wave_s=family.wave_s,
        row_s=family.row_s,
        combine_s=COMBINE_S if splits else 0.0,
        split_cap=family.split.cap if splits else 1,
        split_min_blocks=family.split.min_blocks,
        kv_block_tokens=family.split.kv_block_tokens,
        l2_bytes=hardware.l2_bytes,
        evidence=Evidence(level="prior", quality="rough", source=source),
        notes=tuple(notes),
    )


def _fair_cta_rate(gpu: GpuProfile) -> float:
    return CTA_SHARES * gpu.hardware.hbm_bytes_per_s / gpu.hardware.sms
