"""The JSON of an answer: keys in a fixed order, seconds and bytes, nothing rounded, null where not computable."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from specplan.planner.answer.types import Answer
from specplan.planner.decide.tier import Tier

if TYPE_CHECKING:
    from specplan.planner.answer.explanation import Explanation


def answer_json(answer: Answer) -> dict[str, Any]:
    """The output contract of `recommend --json`; top-level off, recommendation, candidates are the headline cell's."""
    return {
        "specplan": answer.specplan,
        "target": plain(answer.target),
        "gpu": plain(answer.gpu),
        "workload": plain(answer.workload),
        "headline": {"batch": answer.cell.batch, "context_tokens": answer.cell.context_tokens},
        "off": plain(answer.off),
        "recommendation": plain(answer.recommendation),
        "candidates": plain(answer.candidates),
        "cells": plain(answer.cells),
        "guidelines": plain(answer.guidelines),
        "warnings": plain(answer.warnings),
        "provenance": plain(answer.provenance),
        "schedule": _schedule(answer),
        "robustness": plain(answer.robustness),
        "anchoring": plain(answer.anchoring),
        "room": plain(answer.room),
        "load": plain(answer.load),
    }


def _schedule(answer: Answer) -> dict[str, Any] | None:
    if answer.schedule is None:
        return None
    found = {**plain(answer.schedule), "tiers": _tiers(answer.schedule.tiers)}
    if answer.schedule.smoother is not None:
        found["smoother"] = {**found["smoother"], "tiers": _tiers(answer.schedule.smoother.tiers)}
    return found


def _tiers(tiers: Iterable[Tier]) -> list[dict[str, int]]:
    return [{"first_batch": tier.first, "last_batch": tier.last, "draft_len": tier.draft_len} for tier in tiers]


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """The JSON of `explain --json`."""
    found: dict[str, Any] = plain(explanation)
    return found


def plain(value: Any) -> Any:
    """Facts as JSON values: dataclasses become objects, infinities null (JSON has none)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
