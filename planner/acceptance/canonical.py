"""The canonical JSON of what was read of acceptance: one set of keys, whatever the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specplan.planner.acceptance.curve import interval
from specplan.planner.acceptance.intervals import wilson
from specplan.planner.acceptance.reading import Reading, acceptance_of


def canonical(reading: Reading, level: float = 0.9) -> dict[str, Any]:
    """The JSON of `specplan acceptance read`: null where the source does not tell."""
    result: dict[str, Any] = {
        "acceptance_length": reading.acceptance_length,
        "per_position": _listed(reading.per_position),
        "conditional": _listed(reading.conditional),
        "draft_len": reading.draft_len,
        "steps": reading.steps,
        "drafted": reading.drafted,
        "accepted": reading.accepted,
        "source_format": reading.source_format,
        "definition": reading.definition,
        "interval": _interval(reading, level),
        "checks": [{"identity": c.identity, "holds": c.holds, "detail": c.detail} for c in reading.checks],
        "warnings": [{"code": note.code, "message": note.message} for note in reading.warnings],
        "engine": reading.engine,
        "histogram": _listed(reading.histogram),
        "draft_fraction": reading.draft_fraction,
        "alpha": reading.alpha,
        "curve": {str(d): reading.lengths[d] for d in sorted(reading.lengths)} or None,
        "draft_s": reading.draft_s,
        "step_s": reading.step_s,
        "labels": dict(reading.labels),
        "files": list(reading.files),
    }
    if reading.contexts:
        result["contexts"] = {f"{context:g}": canonical(one, level) for context, one in reading.contexts}
    return result


def _interval(reading: Reading, level: float) -> dict[str, Any] | None:
    if reading.acceptance_length is None or (reading.draft_len is None and reading.alpha is None):
        return None
    if reading.draft_len is None:
        return None
    curve = acceptance_of(reading)
    low, high = interval(curve, np.asarray([float(reading.draft_len)]), level)
    per_position = None
    if reading.per_position is not None and reading.steps:
        per_position = [list(wilson(share * reading.steps, reading.steps, level)) for share in reading.per_position]
    return {"level": level, "acceptance_length": [float(low[0]), float(high[0])], "per_position": per_position,
            "from": "counted steps" if curve.steps else f"no counts: {curve.spread:.0%} of AL - 1 assumed"}


def _listed(values: Sequence[float] | None) -> list[float] | None:
    return None if values is None else list(values)
