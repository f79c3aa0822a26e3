"""`specplan fit MEASUREMENTS.jsonl`: the project's own measurements as slices, and the profile that they make.

Measurements override the shipped numbers of what they measured: their entries serve every engine (`any`) and take the
place of the base profile's entries with the same key; everything else of the base stays. Attention kernels of another
design stay too: they can still be named. Only timed points count.
A serving step finds no operand in cache, so points with operands left there (`cold: false`) tell nothing but the gain
of a warm cache (`fit_warm.py`), which plans do not use.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from specplan.microbench.fit_cpu import CPU, cpu_target
from specplan.microbench.fit_limits import attention_flop
from specplan.microbench.fit_profile import FitReport, as_profile, write_profile
from specplan.microbench.fit_rows import SPLITS, Family, Slice
from specplan.microbench.fit_system import Fitted, fit_and_score
from specplan.microbench.fit_target import Candidate, Free, Target
from specplan.microbench.fit_target_attention import walk_numbers
from specplan.microbench.fit_target_matrix import gemm_candidates, moe_candidates
from specplan.microbench.fit_targets import mla_candidates, target_of
from specplan.microbench.fit_warm import with_gain
from specplan.microbench.measured_base import base_profile
from specplan.microbench.measurements import Measurement, Measurements, read_measurements
from specplan.planner.config.local_gpu import PROFILE_OF_DEVICE
from specplan.planner.kernels.choice import ANY
from specplan.planner.kernels.entries import FAMILIES, Entry, GpuProfile, Hardware, Key
from specplan.planner.kernels.families import AttentionFamily, attention_families
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select_attention import attention_math_rate
from specplan.planner.messages import Fault, InputError

DESIGNS: Mapping[str, str] = {
    # attention kernel of the sweep -> design in gpu_profiles/kernels/attention.yaml; others go by their own name
    "flash-attn-2": "fa2", "flash-attn-3": "fa3", "flash-attn-4": "fa4", "flashinfer-fa2": "flashinfer",
    "flashinfer-decode": "flashinfer", "sdpa-flash": "sdpa",
}
FREE_BY_FORM: Mapping[str, tuple[str, ...]] = {
    "walk_fa3": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s", "combine_s", "cta_bytes_per_s"),
    "walk_fa2": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s", "combine_s"),
    "walk_tile": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s"),
    "walk_gen": ("launch_s", "stream_bytes_per_s", "block_s", "row_s"),
}
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("rows", "n", "k"),
    "attention": ("batch", "context_tokens", "query_len", "query_heads", "kv_heads"),
    "mla": ("batch", "context_tokens", "query_len", "heads"),
    "moe": ("tokens", "hidden", "intermediate", "experts", "top_k"),
    "allreduce": ("message_bytes",),
}
FAMILY_OF_OP: Mapping[str, Family] = {
    "gemm": "gemm", "lm_head": "gemm", "attention": "attention", "mla": "mla", "moe": "moe", "allreduce": "allreduce",
}
SLOWEST_PER_S = 1e9         # bytes, FLOP
LAUNCH_S = 1e-5             # of a kernel called from Python
TOO_SLOW, NEARLY_ALL = 300.0, 0.9       # times of roofline and launch; share of the points
MATH_BEYOND_PEAK = 1.1      # the datasheet's tolerance, as for rows that are impossible
OWN = "sweep"               # before the name of a source: the base's fits have sources of the same names
RANDOM_ROUTING = 1.0        # the sweep routes at random: neither balanced nor a power law


def fit_measurements(path: Path, *, base: str | None = None, out: Path | None = None) -> FitReport:
    """Profile of the measured GPU: its hardware and numbers from the base profile, measured kernels from the file.

    `base` names the profile to start from; by default the one of the device that the file was measured on, of a CPU
    what its own rates say.

    Raises
    ------
    InputError
        No measurements, measurements of two devices, a device that no profile describes, times in another unit, or
        nothing that can be fitted; the message says what is missing.
    """
    measured = read_measurements(path)
    profile = _base(measured, base, path)
    _check_unit(measured, profile.hardware, path)
    report = fit_measured(measured, profile)
    if not report.fitted:
        faults = [Fault((), f"{item.rows.name}: {item.reason}", str(path)) for item in report.unfitted]
        faults = faults or [Fault((), "no timed point of a kernel that a profile describes", str(path))]
        raise InputError([*faults, *measured.faults])
    if out is not None:
        write_profile(report, out)
    return report


def fit_measured(measured: Measurements, base: GpuProfile, splits: Sequence[str] = SPLITS) -> FitReport:
    """The base profile with the measured kernels in front; what could not be fitted is in the report."""
    hardware, version = base.hardware, measured.environment.torch
    warm = {rows.name: rows for rows in measured_slices(measured.timed, version, cold=False)}
    results = []
    for rows in measured_slices(measured.timed, version):
        found = fit_and_score(rows, hardware, l2_warm=False, splits=splits,
                              targets=lambda rows, _: measured_target(rows, base))
        if isinstance(found, Fitted) and rows.family == "attention" and rows.name in warm:
            found = with_gain(found, warm[rows.name], hardware)
        results.append(found)
    device = measured.environment.device_name
    report = as_profile(base, results, f"measured on {device} by specplan sweep, {measured.environment.started}")
    return dataclasses.replace(report, profile=_over(base, report.profile), faults=measured.faults)


def measured_slices(points: Iterable[Measurement], version: str, *, cold: bool = True) -> list[Slice]:
    """Timed points by kernel and number format; the time of a point is the median of its samples.

    Cold points, or those with operands left in cache. Points that asked for another tile than the kernel's own choice
    are left out.
    """
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    others: dict[tuple[str, ...], int] = defaultdict(int)
    for point in points:
        family = FAMILY_OF_OP.get(point.op)
        if family is None or "block_m" in point.options:
            continue
        key = (family, point.kernel, *(f"{name}={value}" for name, value in _variant(point).items()))
        if point.cold == cold:
            groups[key].append(point)
        elif cold and family != "attention":
            others[key] += 1
    return [_slice(found, version, others[key]) for key, found in sorted(groups.items())]


def _variant(point: Measurement) -> dict[str, str | int]:
    if point.op == "attention":
        return {"head_dim": int(point.shape["head_dim"]), "kv": point.dtypes.get("kv", "bf16")}
    if point.op == "mla":
        return {"kv": point.dtypes.get("kv", "bf16")}
    if point.op == "allreduce":
        return {"gpus": int(point.shape["gpus"])}
    if point.op == "moe":
        return {"dtype": point.dtypes.get("weight", "bf16"), "matrices": int(point.shape["matrices"])}
    return {"dtype": point.dtypes.get("weight", "bf16")}


def _slice(points: Sequence[Measurement], version: str, warm: int) -> Slice:
    family = FAMILY_OF_OP[points[0].op]
    columns = {name: np.array([float(point.shape[name]) for point in points]) for name in COLUMNS[family]}
    if family in ("attention", "mla"):      # `context_tokens` of a measurement are those before the pass
        columns["context_tokens"] = columns["context_tokens"] + columns["query_len"]
    if family == "moe":
        columns |= {name: np.full(len(points), value) for name, value in
                    (("tp", 1.0), ("ep", 1.0), ("routing_skew", RANDOM_ROUTING))}
    return Slice(
        family=family, engine=ANY, version=version, kernel=points[0].kernel, variant=_variant(points[0]),
        columns=columns, time_s=np.array([point.median_s for point in points]),
        rejected={"operands left in cache by the call before": warm} if warm else {},
    )


def measured_target(rows: Slice, base: GpuProfile) -> Target:
    """What a slice of own measurements becomes: an entry for every engine, with the equations of its design."""
    hw = base.hardware
    if hw.arch == CPU:
        return cpu_target(rows, hw)
    key: dict[str, Key]
    if rows.family == "attention":
        key = {"head_dim": int(rows.variant["head_dim"]), "kv_dtype": str(rows.variant["kv"])}
        design = DESIGNS.get(rows.kernel, rows.kernel)
        identity = f"{ANY}-{design}"
        family = attention_families().get(design)
        if family is None or family.form not in FREE_BY_FORM:
            return Target(id=identity, key=key, candidates=(), unfit="no attention design of this name to fit")
        return Target(id=identity, key=key, candidates=(_design(family, rows, base),))
    if rows.family == "gemm":
        dtype = str(rows.variant["dtype"])
        return Target(id=f"{ANY}-{rows.kernel}", key={"weight_dtype": dtype},
                      candidates=_cold(gemm_candidates(hw, dtype, rows.kernel)))
    if rows.family == "moe":
        dtype = str(rows.variant["dtype"])
        key = {"weight_dtype": dtype, "gated": rows.variant["matrices"] == 3}
        return Target(id=f"{ANY}-{rows.kernel}", key=key, candidates=_cold(moe_candidates(hw, dtype, "")))
    if rows.family == "mla":
        return Target(id=f"{ANY}-{rows.kernel}", key={"kv_dtype": str(rows.variant["kv"])},
                      candidates=_cold(mla_candidates(hw, str(rows.variant["kv"]))))
    return target_of(rows, hw)


REPEATED = ("l2_gain", "one_token", "fade_tokens")


def _cold(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Without the numbers of calls that repeat their operands: these measurements do not."""
    return tuple(
        dataclasses.replace(item, free={name: free for name, free in item.free.items() if name not in REPEATED})
        for item in candidates
    )


def _design(family: AttentionFamily, rows: Slice, base: GpuProfile) -> Candidate:
    """The equation of an attention design with its tiles and split rule."""
    hw, head_dim = base.hardware, int(rows.variant["head_dim"])
    tiles = family.tiles(head_dim)
    fixed = {"tile_rows": tiles[0] if family.form == "walk_tile" else tiles[-1], "row_tile": family.row_tile,
             "split_cap": family.split.cap, "kv_block_tokens": family.split.kv_block_tokens,
             "ctas_per_sm": family.ctas_per_sm}
    free = {**walk_numbers(hw, *FREE_BY_FORM[family.form]), "math_flop_per_s": _math_rate(rows, base)}
    return Candidate(form=family.form, fixed=fixed, free=free)


def _math_rate(rows: Slice, base: GpuProfile) -> Free:
    """Rate of the math of many rows: only what lies beyond the knee tells it.

    The prior is the prefill rate (queries are 16 bit, and so is the math, whatever the cache is stored in), or the
    best rate seen where that is faster: no row may contradict what stays at its prior. That rate is also a start.
    """
    hw, head_dim = base.hardware, int(rows.variant["head_dim"])
    peak = hw.dense("bf16")
    seen = float(np.max(attention_flop(rows.columns, head_dim) / rows.time_s))
    high = MATH_BEYOND_PEAK * peak
    prior = min(max(attention_math_rate(base, ANY, head_dim, "bf16"), seen), high)
    return Free(prior, 0.02 * peak, high, also=(min(seen, high),))


def _over(base: GpuProfile, measured: GpuProfile) -> GpuProfile:
    """The base with each measured entry in the place of the base's entries of the same key."""
    kernels = {}
    for family in FAMILIES:
        own = tuple(_sourced(entry) for entry in measured.entries(family))
        replaced = {_name_of(entry) for entry in own}
        kept = [entry for entry in base.entries(family) if _name_of(entry) not in replaced]
        if own or kept:
            kernels[family] = (*own, *kept)
    named = {entry.evidence.source for entries in kernels.values() for entry in entries}
    told = {f"{OWN}-{name}" if name not in base.hardware.sources else name: text
            for name, text in measured.sources.items()}
    sources = {name: text for name, text in {**base.sources, **told}.items()
               if name in named or name in base.hardware.sources}
    return dataclasses.replace(measured, kernels=kernels, sources=sources, file=None)


def _sourced(entry: Entry) -> Entry:
    """The entry under a source of its own: the base's fits are named alike."""
    return dataclasses.replace(entry, evidence=dataclasses.replace(
        entry.evidence, source=f"{OWN}-{entry.evidence.source}"))


def _name_of(entry: Entry) -> tuple[object, ...]:
    """What an own entry replaces: the same key, of attention in the same design."""
    return (entry.kernel if "head_dim" in entry.key else "", *sorted(entry.key.items()))


def _base(measured: Measurements, base: str | None, path: Path) -> GpuProfile:
    if base is not None:
        return load_gpu(base)
    device = measured.environment.device_name
    if measured.environment.device == CPU:
        return base_profile(measured)
    if device not in PROFILE_OF_DEVICE:
        raise InputError([Fault((), f"measured on '{device}', which no shipped profile describes: name the profile to "
                                    "start from with --base (its hardware facts are kept)", str(path))])
    return load_gpu(PROFILE_OF_DEVICE[device])


def _check_unit(measured: Measurements, hardware: Hardware, path: Path) -> None:
    """Refuse times that no kernel takes: nearly all of them far above roofline and launch.

    roofline = max(bytes / bandwidth, flop / best rate). The base of a CPU has its rates from the same times: no device
    that runs this is taken to be slower than 1 GB/s and 1 GFLOP/s.
    """
    bandwidth = max(hardware.hbm_bytes_per_s, SLOWEST_PER_S)
    rate = max(SLOWEST_PER_S, *hardware.dense_flop_per_s.values())
    slow = [point.median_s / (LAUNCH_S + max(point.bytes / bandwidth, point.flop / rate)) for point in measured.timed]
    if not slow or float(np.quantile(slow, 1 - NEARLY_ALL)) < TOO_SLOW:
        return
    middle = float(np.median(slow))
    unit = "milliseconds" if middle < 4e3 else "microseconds" if middle < 1e8 else "in another unit"
    raise InputError([Fault((), f"samples_s: nearly all points are over {TOO_SLOW:g} times slower than {hardware.name} "
                                f"can be (typically {middle:.2g} times): seconds are wanted, these may be {unit}",
                            str(path))])
