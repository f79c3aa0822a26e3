"""A trace of requests: a CSV file with one request a line. Every bad line is a fault; none is dropped."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.config.text_file import read_text
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, nearest

COLUMNS = ("input_tokens", "output_tokens")
MOST_FAULTS = 20        # shown; the rest are counted
MOST_BYTES = 64_000_000


@fact
class Trace:
    """Prompt and generated tokens of each request."""

    input_tokens: Array
    output_tokens: Array


def read_trace(path: Path) -> Trace:
    """Read columns input_tokens and output_tokens; other columns are left alone."""
    text = read_text(path, max_bytes=MOST_BYTES)
    lines = csv.reader(text.splitlines(), strict=True)
    faults: list[Fault] = []
    rows: list[tuple[float, float]] = []
    try:
        header = [name.strip() for name in next(lines, [])]
        places = _places(header, str(path))
        for row in lines:
            if not any(cell.strip() for cell in row):
                continue
            values = [_count(row, place, COLUMNS[index]) for index, place in enumerate(places)]
            wrong = [value for value in values if isinstance(value, str)]
            faults += [Fault((), message, file=str(path), line=lines.line_num) for message in wrong]
            if not wrong:
                rows.append((float(values[0]), float(values[1])))
    except csv.Error as error:
        faults.append(Fault((), f"not CSV: {error}", file=str(path), line=lines.line_num))
    if len(faults) > MOST_FAULTS:
        more = Fault((), f"and {len(faults) - MOST_FAULTS} more faults", file=str(path))
        faults = [*faults[:MOST_FAULTS], more]
    if faults:
        raise InputError(faults)
    if not rows:
        raise InputError([Fault((), "holds no requests", file=str(path))])
    inputs, outputs = np.array(rows).T
    return Trace(input_tokens=inputs, output_tokens=outputs)


def _places(header: list[str], path: str) -> list[int]:
    missing = [name for name in COLUMNS if name not in header]
    if not header or missing:
        hint = nearest(missing[0], header) if missing and header else ""
        found = ", ".join(header) or "nothing"
        message = f"the first line must name the columns {' and '.join(COLUMNS)}; it holds {found}{hint}"
        raise InputError([Fault((), message, file=path, line=1)])
    return [header.index(name) for name in COLUMNS]


def _count(row: list[str], place: int, name: str) -> int | str:
    """A count of tokens, or what is wrong with it."""
    if place >= len(row):
        return f"{name} is missing: the line has {len(row)} values"
    written = row[place].strip()
    if not written.isdecimal() or not 1 <= int(written[:12]) <= 1_000_000_000:
        return f"{name} must be a whole number from 1 to 1000000000, not {written[:40]!r}"
    return int(written)
