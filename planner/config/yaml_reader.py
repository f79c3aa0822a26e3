"""The one door for YAML and JSON files: strict, fast, never constructs Python objects, knows the line of each key.

PyYAML's own loader follows YAML 1.1 (`no` is false, `4.8e12` a string) and lets the last duplicate key win, so
values are built here from libyaml's events by the rules of the YAML 1.2 core schema. Lines are looked up only when
something is wrong: a file without faults is read once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specplan.planner.config.text_file import MAX_BYTES, read_text
from specplan.planner.config.yaml_builder import Builder
from specplan.planner.messages import Fault, InputError, KeyPath

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # its import takes 10 ms


@dataclass(frozen=True)
class Document:
    """A file that was read: its value, and where each key path stands in it."""

    value: Any
    file: str | None = None
    text: str = field(default="", repr=False)

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """Line (from 1) of each key path; empty for text that libyaml cannot follow (some JSON)."""
        builder = Builder(self.text, track_lines=True)
        builder.build()
        return builder.lines

    def line(self, path: KeyPath) -> int | None:
        """Line of `path`, or of the nearest part of the document that contains it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def read_yaml(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Document:
    """Read a YAML or JSON file that a user named; InputError says what is wrong with it and where."""
    return parse_yaml(read_text(path, max_bytes=max_bytes), file=str(path), as_json=str(path).endswith(".json"))


def load_data(path: Path | Traversable) -> Any:
    """Value of a YAML or JSON file that ships with specplan."""
    return parse_yaml(path.read_text(encoding="utf-8"), file=path.name, as_json=path.name.endswith(".json")).value


def parse_yaml(text: str, *, file: str | None = None, as_json: bool = False) -> Document:
    """Build the value of one YAML document; JSON text is read by JSON's rules (NaN and Infinity are numbers there)."""
    if not text.strip():
        raise InputError([Fault((), "is empty", file=file)])
    if as_json:
        return Document(_parse_json(text, file), file, text)
    return Document(_parse(text, file), file, text)


def _parse(text: str, file: str | None) -> Any:
    builder = Builder(text)
    value = builder.build()
    if builder.faults:
        builder = Builder(text, track_lines=True)      # once more, for the places
        builder.build()
        raise InputError(replace(fault, file=file) for fault in builder.faults)
    return value


def _parse_json(text: str, file: str | None) -> Any:
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.extend(key for key, count in counts.items() if count > 1)
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError([Fault((), f"is not valid JSON: {error.msg}", file=file, line=error.lineno)]) from None
    except (ValueError, RecursionError) as error:
        raise InputError([Fault((), f"is not usable JSON: {error}", file=file)]) from None
    if twice:
        builder = Builder(text, track_lines=True)      # JSON is YAML, but for some escapes: then no lines
        builder.build()
        placed = [fault for fault in builder.faults if fault.message.startswith("duplicate")]
        faults = placed or [Fault((), f"duplicate key '{key}'") for key in twice]
        raise InputError(replace(fault, file=file) for fault in faults)
    return value
