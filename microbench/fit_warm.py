"""How much faster an attention kernel reads a KV cache that its last call left in L2: `l2_gain`, told by warm points.

Cold points set every other number first, and warm ones cannot move them. Plans use a gain of 1 (kernels.md 5); the gain
says by how much a benchmark that loops on one buffer flatters a kernel, and compares a profile with such tables.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from specplan.microbench.fit import ROWS_PER_NUMBER, UNKNOWN, fit_candidate
from specplan.microbench.fit_limits import cached_bytes
from specplan.microbench.fit_rows import Slice
from specplan.microbench.fit_system import Fitted, rounded
from specplan.microbench.fit_target import Candidate
from specplan.microbench.fit_target_attention import walk_numbers
from specplan.planner.kernels.entries import Hardware

GAIN = "l2_gain"


def with_gain(fitted: Fitted, warm: Slice, hardware: Hardware) -> Fitted:
    """The entry with the gain of a warm cache, where enough of these rows fit into L2 and tell it."""
    entry = fitted.entry
    warm = warm.take(np.asarray(cached_bytes(warm.columns, fitted.target) <= hardware.l2_bytes))
    if len(warm) < ROWS_PER_NUMBER:
        return fitted
    fixed = {name: value for name, value in entry.parameters.items() if name != GAIN}
    candidate = Candidate(form=entry.form, fixed=fixed, free=walk_numbers(hardware, GAIN))
    fit = fit_candidate(warm, fitted.target, candidate, hardware, l2_warm=True)
    if not fit.error_pct[GAIN] <= 100 * UNKNOWN:
        return fitted
    errors = {**entry.evidence.parameter_error_pct, GAIN: float(max(1, round(fit.error_pct[GAIN])))}
    parameters = {**entry.parameters, GAIN: rounded(fit.numbers[GAIN])}
    return dataclasses.replace(fitted, entry=dataclasses.replace(
        entry, parameters=parameters, evidence=dataclasses.replace(entry.evidence, parameter_error_pct=errors)))
