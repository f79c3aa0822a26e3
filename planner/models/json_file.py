"""JSON files from outside: read with a clear refusal of everything that is not a mapping of fields."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from specplan.planner.messages import Fault, InputError

LARGEST_FILE_BYTES = 50 * 10**6


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file; Infinity and NaN are kept as floats, and refused where a size is read."""
    try:
        if path.is_dir():
            raise InputError([Fault((), "is a directory", str(path))])
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE_BYTES + 1)    # a device has no size beforehand
        if len(raw) > LARGEST_FILE_BYTES:
            raise InputError([Fault((), f"is larger than {LARGEST_FILE_BYTES // 10**6} MB", str(path))])
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError([Fault((), "is not a text file", str(path))]) from None
    except (OSError, ValueError) as error:      # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or error
        raise InputError([Fault((), f"cannot be read: {why}", str(path))]) from None
    if not text.strip():
        raise InputError([Fault((), "is empty", str(path))])
    try:
        values = json.loads(text, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise InputError([Fault((), f"is not JSON: {error.msg}", str(path), error.lineno)]) from None
    except (RecursionError, ValueError) as error:
        raise InputError([Fault((), f"is not JSON: {error}", str(path))]) from None
    if not isinstance(values, dict):
        raise InputError([Fault((), "holds no mapping of fields", str(path))])
    return values


def _constant(word: str) -> float:
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(word, math.nan)
