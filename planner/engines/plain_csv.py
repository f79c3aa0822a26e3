"""Acceptance as a table: `draft_len,acceptance_length[,steps]` or `position,rate`."""

from __future__ import annotations

import csv
import io

from specplan.planner.acceptance.reading import Reading
from specplan.planner.engines.plain import read_plain
from specplan.planner.engines.streams import number, whole
from specplan.planner.messages import InputError


def read_csv(text: str) -> list[Reading] | None:
    """Readings of a CSV with named columns; None if it has none that is known."""
    rows = [{(name or "").strip().lower(): value for name, value in row.items() if isinstance(value, str)}
            for row in csv.DictReader(io.StringIO(text))]
    names = set(rows[0]) if rows else set()
    if {"draft_len", "acceptance_length"} <= names or {"d", "al"} <= names:
        return _lengths(rows)
    if "position" in names and names & {"rate", "per_position", "acceptance_rate"}:
        return _positions(rows, next(iter(names & {"rate", "per_position", "acceptance_rate"})))
    return None


def _lengths(rows: list[dict[str, str]]) -> list[Reading] | None:
    points = [(whole(row.get("draft_len", row.get("d"))), number(row.get("acceptance_length", row.get("al"))),
               number(row.get("steps"))) for row in rows]
    if any(d is None or al is None for d, al, _ in points) or len({d for d, _, _ in points}) < len(points):
        raise InputError("each row needs a draft_len of its own and an acceptance_length")
    steps = {d: n for d, _, n in points if n}
    return read_plain({"acceptance_length": {d: al for d, al, _ in points}}
                      | ({"length_steps": steps} if len(steps) == len(points) else {}))


def _positions(rows: list[dict[str, str]], column: str) -> list[Reading] | None:
    rated = [(whole(row.get("position")), number(row.get(column))) for row in rows]
    known = sorted((place, rate) for place, rate in rated if place is not None and rate is not None)
    places = [place for place, _ in known]
    if len(known) != len(rows) or places not in (list(range(len(places))), list(range(1, len(places) + 1))):
        raise InputError("positions must be 0, 1, 2, ... or 1, 2, 3, ... with a rate each")
    return read_plain({"per_position": [rate for _, rate in known]})
