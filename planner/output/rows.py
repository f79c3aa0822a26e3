"""Lists of facts as an aligned table of plain text: `profiles list`, `models list`, `op`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Aligned columns in the order of the first row; nested facts become columns of their own.

    >>> print(table_of_rows([{"name": "a", "inputs": {"m": 1}}, {"name": "long", "inputs": {"m": 128}}]))
    name    m
    a       1
    long  128
    """
    flat = [_flat(row) for row in rows]
    if not flat:
        return "nothing to list"
    cells = [list(flat[0]), *([_shown(value) for value in row.values()] for row in flat)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    texts = [isinstance(value, str | None) for value in flat[0].values()]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(line, widths, texts, strict=True)
        ).rstrip()
        for line in cells
    )


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        found.update(_flat(value) if isinstance(value, Mapping) else {key: value})
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and value >= 100_000 else str(value)
