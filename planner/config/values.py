"""Values of cfg.yaml that may be written in several ways, each as the one type that the model reads.

A ValueError says what is wrong; schema.py adds the key.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from specplan.planner.config.faults import shown
from specplan.planner.config.sizes import size


def name_or_mapping(value: Any) -> str | Mapping[str, Any]:
    """A reference: a name, a path, or the thing itself."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        return value
    raise ValueError(f"must be a name, a path, or a mapping of config.json fields, not {shown(value)}")


def engine(value: Any) -> Any:
    """`vllm:0.24.0` as a mapping; YAML would read an unquoted version as a number."""
    if isinstance(value, str):
        name, _, version = value.strip().partition(":")
        return {"name": name, "version": version or None}
    if isinstance(value, Mapping) and isinstance(value.get("version"), int | float):
        raise ValueError(f"version must be in quotes ('{value['version']}'), or 0.10 would read as 0.1")
    return value


def acceptance(value: Any) -> Any:
    """A mapping; a bare number is one of several things that only its name tells apart."""
    if not _is_number(value):
        return value
    meant = f"{{alpha: {value:g}}}" if 0 <= value <= 1 else f"{{acceptance_length: {value:g}, draft_len: 3}}"
    raise ValueError(f"must be a mapping that says what the number is, such as {meant}, not {shown(value)}")


def lengths(value: Any) -> float | dict[int, float]:
    """AL as one number, or by draft length."""
    if _is_number(value):
        return _finite(value, "AL")
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must be a number, or a mapping of draft lengths to numbers, not {shown(value)}")
    return {_count(key, "a draft length"): _finite(item, f"AL at draft length {key}") for key, item in value.items()}


def histogram(value: Any) -> tuple[int, ...]:
    """Steps that accepted 0, 1, 2, ... draft tokens; a mapping may leave out zeros."""
    if isinstance(value, Mapping) and value:
        counts = {_count(key, "a number of accepted tokens", least=0): item for key, item in value.items()}
        value = [counts.get(accepted, 0) for accepted in range(max(counts) + 1)]
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"must be a list of step counts for 0, 1, 2, ... accepted tokens, not {shown(value)}")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise ValueError(f"step counts must be whole numbers of at least 0, not {shown(item)}")
    return tuple(value)


def draft_lens(value: Any) -> tuple[int, ...]:
    """Draft lengths, ascending and each once."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError("must name at least one draft length")
    return tuple(sorted({_count(item, "a draft length") for item in items}))


def domains(value: Any) -> str | dict[str, float]:
    """One kind of text, or several with their share of the generated tokens."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must be a kind of text such as coding, or a mapping of kinds to shares, not {shown(value)}")
    shares = {str(key): _finite(item, f"share of {key}") for key, item in value.items()}
    for key, share in shares.items():
        if share <= 0:
            raise ValueError(f"share of {key} must be above 0, not {shown(share)}")
    if not sum(shares.values()) <= sys.float_info.max:
        raise ValueError("shares are too large to add up")
    return shares


def filled_by_load(workload: Any) -> Any:
    """A workload with a rate, users or a target may leave out batches (1-256) and contexts (prompt + half the answer).

    With a trace the context stands at a usual length; load answers take their own from the requests.
    """
    if not isinstance(workload, Mapping) or not workload.keys() & {"request_rate", "concurrency", "slo"}:
        return workload
    filled = dict(workload)
    filled.setdefault("batch", "1-256")
    if "context_tokens" not in filled:
        try:
            middle = size(workload["input_tokens"]) + size(workload["output_tokens"]) // 2
        except (KeyError, ValueError):
            middle = 2000       # unknown here: the schema or the trace says more
        filled["context_tokens"] = middle
    return filled


def _count(value: Any, what: str, *, least: int = 1, most: int = 64) -> int:
    if isinstance(value, str) and value.isdecimal():    # a key of a JSON object
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {shown(value)}")
    return value


def _finite(value: Any, what: str) -> float:
    if not _is_number(value) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{what} must be a finite number, not {shown(value)}")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
