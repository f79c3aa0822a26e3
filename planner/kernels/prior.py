"""Numbers for GPUs that nobody measured: entries of the nearest measured GPU, scaled by datasheet ratios.

Rule (kernel_fits.md, section 7): the same kernel on another GPU keeps its launch, latencies and per-CTA rates;
streams follow memory bandwidth, math follows the dense peak of its number format, links follow link bandwidth.
The scaled entries keep the error that was measured on their own GPU out of sight: level is `prior`.
"""

from __future__ import annotations

import dataclasses
import math

from specplan.planner.kernels.profile import Entry, GpuProfile, Hardware
from specplan.planner.kernels.timing import Evidence
from specplan.planner.models.dtypes import MATH_OF_WEIGHT


def with_prior(profile: GpuProfile, source: GpuProfile) -> GpuProfile:
    """The profile with each entry of `source` that it lacks itself, scaled to its hardware."""
    kernels = {}
    for family in {**profile.kernels, **source.kernels}:
        own = profile.entries(family)
        known = {(entry.engine, tuple(entry.key.items())) for entry in own}
        scaled = (_scaled(entry, family, source.hardware, profile)
                  for entry in source.entries(family) if (entry.engine, tuple(entry.key.items())) not in known)
        kernels[family] = own + tuple(entry for entry in scaled if entry is not None)
    return dataclasses.replace(profile, kernels=kernels)


def _scaled(entry: Entry, family: str, old: Hardware, profile: GpuProfile) -> Entry | None:
    new = profile.hardware
    memory = new.hbm_bytes_per_s / old.hbm_bytes_per_s
    rate = math_rate(new, entry), math_rate(old, entry)
    if rate[0] is None or rate[1] is None:
        return None     # no such tensor cores here: selection falls to weight-only
    compute = rate[0] / rate[1] * profile.prior_math_scale
    wire = new.link_bytes_per_s / old.link_bytes_per_s if new.link_bytes_per_s and old.link_bytes_per_s else 1.0
    factor = {
        "stream_bytes_per_s": memory,
        "mma_flop_per_s": compute,
        "token_s_per_byte": 1.0 / memory,
        "wave_s": (new.sms / old.sms) / memory if family == "sparse" else 1.0,
        "width_tokens": new.sms / old.sms,
        "seq_s_per_context_token": 1.0 / memory,
        "token_s_per_context_token": 1.0 / memory,
    }
    parameters = {name: value * factor.get(name, 1.0) for name, value in entry.parameters.items()}
    bands = tuple({**band, "beta_s_per_byte": band["beta_s_per_byte"] / wire} for band in entry.bands)
    return dataclasses.replace(entry, parameters=parameters, bands=bands,
                               evidence=prior_evidence(entry.evidence, f"{entry.id} measured on {old.name}, scaled by "
                                                                       f"datasheet ratios to {new.name}"))


def math_rate(hardware: Hardware, entry: Entry) -> float | None:
    """Dense peak of the number format that this entry computes in; None where the GPU has no such tensor cores."""
    dense = hardware.dense_flop_per_s
    weight = entry.key.get("weight_dtype")
    if weight is None:
        return dense.get("bf16") or max(dense.values(), default=math.nan) / 2
    math_format = MATH_OF_WEIGHT[str(weight)]
    if entry.key.get("activation_dtype") == "bf16":
        math_format = "bf16"
    return dense.get(math_format)


def prior_evidence(evidence: Evidence, source: str) -> Evidence:
    """Evidence of something carried over: the errors of its origin no longer hold."""
    return dataclasses.replace(evidence, level="prior", source=source, error_median_pct=None, error_mean_pct=None,
                               error_p90_pct=None, rows=None, held_out_rows=None, parameter_error_pct={})
