"""What `specplan profiles` prints: a GPU's hardware and kernels, with the errors and sources of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specplan.planner.kernels.choice import evidence_of
from specplan.planner.kernels.entries import FAMILIES, Entry, GpuProfile
from specplan.planner.kernels.families import AttentionFamily, attention_families


def gpu_line(gpu: GpuProfile) -> dict[str, Any]:
    """One row of `profiles list`."""
    hardware = gpu.hardware
    measured = sum(entry.evidence.level == "measured" for family in FAMILIES for entry in gpu.entries(family))
    return {
        "name": gpu.name,
        "arch": hardware.arch,
        "memory_gb": hardware.memory_bytes / 1e9,
        "hbm_tb_per_s": hardware.hbm_bytes_per_s / 1e12,
        "bf16_tflop_per_s": hardware.dense("bf16") / 1e12,
        "fp8_tflop_per_s": hardware.dense("fp8") / 1e12 or None,
        "measured_kernels": measured,
        "prior_from": gpu.prior_from or "",
        "confidence": "preliminary" if hardware.preliminary else hardware.confidence,
    }


def gpu_summary(gpu: GpuProfile) -> dict[str, Any]:
    """All facts that `profiles show` prints."""
    hardware = gpu.hardware
    return {
        "name": gpu.name,
        "hardware": {
            "vendor": hardware.vendor,
            "arch": hardware.arch,
            "compute_capability": hardware.compute_capability,
            "sms": hardware.sms,
            "boost_hz": hardware.boost_hz,
            "memory_bytes": hardware.memory_bytes,
            "hbm_bytes_per_s": hardware.hbm_bytes_per_s,
            "l2_bytes": hardware.l2_bytes,
            "dense_flop_per_s": dict(hardware.dense_flop_per_s),
            "exp_per_s": hardware.exp_per_s if hardware.exp_per_clock_per_sm else None,
            "link": f"{hardware.link_type} {hardware.link_bytes_per_s / 1e9:g} GB/s",
            "tdp_w": hardware.tdp_w,
            "confidence": hardware.confidence,
            "preliminary": hardware.preliminary,
            "notes": hardware.notes,
            "sources": [gpu.sources.get(key, key) for key in hardware.sources],
        },
        "prior_from": gpu.prior_from,
        "kernels": {family: [_entry(gpu, entry) for entry in gpu.entries(family)] for family in FAMILIES},
        "attention_designs": {
            name: _design(family) for name, family in attention_families().items() if hardware.arch in family.arch
        },
    }


def _entry(gpu: GpuProfile, entry: Entry) -> dict[str, Any]:
    evidence = evidence_of(gpu, entry)
    facts: dict[str, Any] = {
        "id": entry.id,
        "version": entry.version,
        **entry.key,
        "form": entry.form,
        "parameters": dict(entry.parameters),
        "parameter_error_pct": dict(evidence.parameter_error_pct),
        "bands": [dict(band) for band in entry.bands],
        "level": evidence.level,
        "quality": evidence.quality,
        "error_mean_pct": evidence.error_mean_pct,
        "error_p90_pct": evidence.error_p90_pct,
        "rows": evidence.rows,
        "held_out_rows": evidence.held_out_rows,
        "fitted_range": {axis: list(pair) for axis, pair in evidence.fitted_range.items()},
        "source": evidence.source,
    }
    return {name: value for name, value in facts.items() if value not in (None, {}, [], "")}


def _design(family: AttentionFamily) -> Mapping[str, Any]:
    return {
        "title": family.title,
        "packing": family.packing,
        "kv_reread": family.reread,
        "tiles": {f"head_dim <= {limit}": list(tiles) for limit, tiles in family.tile_list},
        "kv_split": {"rule": family.split.rule, "at q = 1": family.split.decode, "at q > 1": family.split.verify},
        "kv_efficiency": family.kv_efficiency,
        "relative_tile_cost": {str(tile): cost for tile, cost in family.relative_tile_cost.items()},
        "exp": family.exp,
        "cliffs": [cliff.message for cliff in family.cliffs],
        "sources": list(family.sources),
    }
