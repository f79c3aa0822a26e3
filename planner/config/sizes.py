"""Counts as people write them: `32k`, `1,8,32`, `1-256`.

`k` and `m` are 10^3 and 10^6 (a context of `32k` is 32000 tokens), `ki` and `mi` are 2^10 and 2^20 (`32ki` is 32768).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from specplan.planner.config.faults import shown

LARGEST = 1_000_000_000     # beyond any batch or context; keeps products exact in float64
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "ki": 1024, "mi": 1024**2}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(k|m|ki|mi)?\Z")


def size(written: Any) -> int:
    """Read one positive count.

    >>> size("32k"), size("32ki"), size("1.5k"), size(7)
    (32000, 32768, 1500, 7)
    """
    number: float | None = None
    if isinstance(written, int) and not isinstance(written, bool):
        number = written
    elif isinstance(written, str) and (match := _SIZE.match(written.strip().lower())) is not None:
        number = float(match[1]) * _UNITS[match[2] or ""]
    if number is None or (abs(number) < LARGEST and number != int(number)):
        raise ValueError(f"must be a whole number such as 8, 32k (32000) or 32ki (32768), not {shown(written)}")
    if not 1 <= number <= LARGEST:
        raise ValueError(f"must be between 1 and {LARGEST}, not {shown(written)}")
    return int(number)


def sizes(written: Any) -> tuple[int, ...]:
    """Read one or several counts, in the order written and each once.

    >>> sizes("1,8,32"), sizes("1-256"), sizes([1, "2k"]), sizes("3-20")
    ((1, 8, 32), (1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 2000), (3, 4, 8, 16, 20))
    """
    parts: list[Any] = []
    for item in written if isinstance(written, list | tuple) else [written]:
        parts.extend(item.split(",") if isinstance(item, str) else [item])
    if not parts:
        raise ValueError("must name at least one size")
    found: dict[int, None] = {}
    for part in parts:
        counts = _range(part.split("-")) if isinstance(part, str) and "-" in part.strip()[1:] else [size(part)]
        found.update(dict.fromkeys(counts))
    return tuple(found)


def _range(ends: Sequence[str]) -> list[int]:
    """`a-b`: a, the powers of two between, and b."""
    if len(ends) != 2:
        raise ValueError(f"must be a range such as 1-256, not '{'-'.join(ends)}'")
    low, high = size(ends[0]), size(ends[1])
    if low > high:
        raise ValueError(f"must be a range from low to high, not '{'-'.join(ends)}'")
    return sorted({low, high} | {1 << power for power in range(high.bit_length()) if low < 1 << power < high})
