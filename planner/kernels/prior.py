"""Numbers for GPUs that nobody measured: entries of the nearest measured GPU, scaled by datasheet ratios.

The rule (kernel_fits.md, section 7): the same kernel on another GPU keeps launches, latencies and per-CTA rates;
streams follow memory bandwidth, math follows the dense peak of its number format, wires follow the link. Held-out
errors do not travel along: nobody knows them there.
"""

from __future__ import annotations

import dataclasses

from specplan.planner.kernels.entries import Entry, GpuProfile, Hardware
from specplan.planner.kernels.timing import Evidence
from specplan.planner.models.dtypes import MATH_OF_WEIGHT

# The fit pads rows to the tile that A100's library likes, which its memory time hides there. A GPU with less math per
# byte would seem bound by that padding at one row; its library has smaller tiles, down to the tensor cores' own rows.
SMALLEST_TILE_ROWS = 16.0


def with_prior(profile: GpuProfile, source: GpuProfile) -> GpuProfile:
    """The profile with each entry of `source` that it lacks itself, scaled to its hardware."""
    kernels = {}
    for family in {**source.kernels, **profile.kernels}:
        own = profile.entries(family)
        known = {(entry.id, *entry.key.items()) for entry in own}
        missing = [entry for entry in source.entries(family) if (entry.id, *entry.key.items()) not in known]
        kernels[family] = own + tuple(_scaled(entry, family, source, profile) for entry in missing
                                      if _scalable(entry, family, source.hardware, profile.hardware))
    return dataclasses.replace(profile, kernels=kernels, sources={**source.sources, **profile.sources})


def prior_evidence(evidence: Evidence, reason: str) -> Evidence:
    """The same numbers used for something they were not measured on; `reason` says for what."""
    return dataclasses.replace(
        evidence, level="prior", source=f"{evidence.source}; {reason}", error_median_pct=None, error_mean_pct=None,
        error_p90_pct=None, rows=None, held_out_rows=None, parameter_error_pct={},
    )


def math_format(entry: Entry) -> str:
    """The number format that an entry's tensor-core math runs in."""
    weight = entry.key.get("weight_dtype")
    if weight is None or entry.key.get("activation_dtype") == "bf16":
        return "bf16"
    return "fp8" if entry.key.get("activation_dtype") == "fp8" else MATH_OF_WEIGHT[str(weight)]


def _scalable(entry: Entry, family: str, old: Hardware, new: Hardware) -> bool:
    if family == "allreduce":
        return min(old.link_bytes_per_s, new.link_bytes_per_s) > 0
    return min(old.dense(math_format(entry)), new.dense(math_format(entry))) > 0


def _scaled(entry: Entry, family: str, source: GpuProfile, profile: GpuProfile) -> Entry:
    old, new = source.hardware, profile.hardware
    memory = new.hbm_bytes_per_s / old.hbm_bytes_per_s
    sms = new.sms / old.sms
    wire = new.link_bytes_per_s / old.link_bytes_per_s if family == "allreduce" else 1.0
    evidence = dataclasses.replace(
        entry.evidence, source=source.sources.get(entry.evidence.source, entry.evidence.source)
    )
    factors = {
        "stream_bytes_per_s": memory,
        "mma_flop_per_s": new.dense(math_format(entry)) / old.dense(math_format(entry)) * profile.prior_math_scale,
        "token_s_per_byte": 1.0 / memory,
        "row_s_per_byte": 1.0 / memory,
        "seq_s_per_context_token": 1.0 / memory,
        "token_s_per_context_token": 1.0 / memory,
        "width_tokens": sms,
    }
    if family == "sparse":
        factors["wave_s"] = sms / memory    # a wave of all SMs fetches at full bandwidth
    parameters = {name: value * factors.get(name, 1.0) for name, value in entry.parameters.items()}
    if "row_pad" in parameters:
        parameters["row_pad"] = min(parameters["row_pad"], SMALLEST_TILE_ROWS)
    return dataclasses.replace(
        entry,
        parameters=parameters,
        bands=tuple({**band, "beta_s_per_byte": band["beta_s_per_byte"] / wire} for band in entry.bands),
        evidence=prior_evidence(evidence, f"{entry.id} of {old.name} scaled by datasheet ratios to {new.name}"),
    )
