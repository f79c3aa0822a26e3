"""Collections of published measurements: one YAML file per source, cases with rows, free text as sources wrote it.

A file looks like tests/data/published/*.yaml: `source`, then `cases`, each with what was run (target, drafter, gpu,
engine, ...) and `rows` with what was measured. Nothing here stops at a fault: what cannot be used becomes a
`Refusal` with its reason, and reading goes on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specplan.planner.config.yaml_reader import read_yaml
from specplan.planner.fact import fact
from specplan.planner.messages import InputError

_RANGE = re.compile(r"\s*([0-9.]+)\s*(?:-|to|\.\.)\s*([0-9.]+)\s*\Z")


@fact
class Refusal:
    """Something that is not scored, and why. `row` counts from 0 within its case."""

    file: str
    case: str = ""
    row: int | None = None
    reason: str


@fact
class Case:
    """One set-up of one source with its rows, as written."""

    file: str                       # stem of the file: the source's short name
    name: str
    fields: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]

    def text(self, key: str, row: Mapping[str, Any] | None = None) -> str:
        """Words under `key` of the row or else of the case; empty where absent."""
        value = None if row is None else row.get(key)
        if value is None:
            value = self.fields.get(key)
        return "" if value is None else str(value)

    def number(self, key: str, row: Mapping[str, Any] | None = None) -> float | None:
        """Number under `key` of the row or else of the case."""
        value = None if row is None else number(row.get(key))
        return number(self.fields.get(key)) if value is None else value

    @property
    def quality(self) -> str:
        """Grade that the collector gave: A, B or C; '?' where none is given."""
        grade = self.text("quality").strip().upper()[:1]
        return grade if grade in {"A", "B", "C"} else "?"


def number(value: object) -> float | None:
    """A finite number from a number, its text, or the middle of a range such as '1.1-1.26'; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        if both := _RANGE.match(value):
            try:
                return (float(both[1]) + float(both[2])) / 2
            except ValueError:
                return None
        try:
            found = float(value)
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    return None


def read_collection(folder: str | Path) -> tuple[tuple[Case, ...], tuple[Refusal, ...]]:
    """All cases of all YAML files of a folder (or of one file), and what could not be read.

    Raises
    ------
    InputError
        Only where there is nothing to read at all: no such folder, or no YAML file in it.
    """
    place = Path(folder)
    if not place.exists():
        raise InputError(f"{place}: no such folder")
    files = [place] if place.is_file() else sorted([*place.glob("*.yaml"), *place.glob("*.yml")])
    files = [file for file in files if not file.stem.endswith("annotations")]
    if not files:
        raise InputError(f"{place}: no YAML file in it")
    cases: list[Case] = []
    refused: list[Refusal] = []
    seen: set[str] = set()
    for file in files:
        try:
            content = read_yaml(file).value
        except InputError as error:
            refused.append(Refusal(file=file.stem, reason=f"cannot be read: {error}"))
            continue
        listed = content.get("cases") if isinstance(content, Mapping) else None
        if not isinstance(listed, list):
            refused.append(Refusal(file=file.stem, reason="no list of cases"))
            continue
        for index, fields in enumerate(listed):
            case = _case(file.stem, index, fields, refused)
            if case is not None and case.name in seen:
                refused.append(Refusal(file=case.file, case=case.name, reason="a case of this id was read before"))
            elif case is not None:
                seen.add(case.name)
                cases.append(case)
    return tuple(cases), tuple(refused)


def _case(file: str, index: int, fields: Any, refused: list[Refusal]) -> Case | None:
    name = f"{file}#{index}"
    if not isinstance(fields, Mapping):
        refused.append(Refusal(file=file, case=name, reason="not a mapping"))
        return None
    name = str(fields.get("id") or name)
    listed = fields.get("rows")
    if not isinstance(listed, list):
        refused.append(Refusal(file=file, case=name, reason="no list of rows"))
        return None
    rows: list[Mapping[str, Any]] = []
    for row, values in enumerate(listed):
        if not isinstance(values, Mapping):
            refused.append(Refusal(file=file, case=name, row=row, reason="not a mapping"))
            rows.append({})
        elif values in rows:
            refused.append(Refusal(file=file, case=name, row=row, reason="the same row stands in the case before"))
            rows.append({})
        else:
            rows.append(values)
    return Case(file=file, name=name, fields=fields, rows=tuple(rows))
