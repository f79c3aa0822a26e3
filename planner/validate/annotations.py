"""What a collection's own annotation file says beside the measurements: shapes, hardware, paths, lengths, metric.

An annotation is a reviewable statement of whoever collected the data; entries marked `inferred` are scored with and
without. The file is optional, and so is every key of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from specplan.planner.config.yaml_reader import read_yaml
from specplan.planner.fact import fact
from specplan.planner.messages import InputError
from specplan.planner.validate.collection import Case
from specplan.planner.validate.names import aliases, words


@fact
class Annotations:
    """Contents of an annotation file; everything empty where there is none."""

    source: str = ""
    shapes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hardware: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    engine_path: Mapping[str, str] = field(default_factory=dict)
    metric_kind: Mapping[str, str] = field(default_factory=dict)    # file or case -> decode | end_to_end
    lengths: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def hardware_of(self, case: Case, target: str) -> Mapping[str, Any]:
        """GPU, TP and kind stated for this case or its file; an entry may also name the target."""
        found: Mapping[str, Any] = {}
        for key, entry in self.hardware.items():
            file, _, rest = key.partition(" ")
            if case.name == key or (case.file == file and (not rest or words(rest) in words(target))):
                found = {**found, **entry}
        return found

    def path_of(self, case: Case) -> str | None:
        """Engine path stated for this case: keys name files, or tables of a file ('paper tables 3, 12')."""
        best: tuple[int, str] | None = None
        for key, path in self.engine_path.items():
            for rank, matches in _places(key, case):
                if matches and (best is None or rank > best[0]):
                    best = rank, aliases()["annotation_paths"].get(path, path)
        return None if best is None else best[1]

    def metric_of(self, case: Case) -> str | None:
        """Metric kind stated for this case or its file."""
        return self.metric_kind.get(case.name, self.metric_kind.get(case.file))


def read_annotations(file: Path | None, folder: Path) -> Annotations:
    """The file given, else `annotations.yaml` in the folder or `<folder>_annotations.yaml` beside it, else nothing."""
    if file is None:
        beside = (folder / "annotations.yaml", folder.parent / f"{folder.name}_annotations.yaml")
        file = next((path for path in beside if path.is_file()), None)
    if file is None:
        return Annotations()
    content = read_yaml(file).value
    if not isinstance(content, Mapping):
        raise InputError(f"{file}: annotations are a mapping")

    def section(key: str) -> Mapping[str, Any]:
        value = content.get(key, {})
        if not isinstance(value, Mapping):
            raise InputError(f"{file}: {key} is a mapping")
        return value

    return Annotations(
        source=str(file),
        shapes=section("shape_aliases"),
        hardware={key: entry for key, entry in section("hardware").items() if isinstance(entry, Mapping)},
        engine_path={str(key): str(path) for key, path in section("engine_path").items()},
        metric_kind={str(key): str(kind) for key, kind in section("metric_kind").items()
                     if kind in ("decode", "end_to_end")},
        lengths={str(key).lower(): entry for key, entry in section("lengths").items() if isinstance(entry, Mapping)},
    )


def _places(key: str, case: Case) -> Iterator[tuple[int, bool]]:
    """(how specific, whether it fits) for the places that a key names."""
    tables = re.match(r"(\w+) tables? ([\d, ]+)\Z", key.strip())
    if tables:
        table = re.search(r"table (\d+)", case.text("source").lower())
        numbers = re.findall(r"\d+", tables[2])
        yield 2, case.file == tables[1] and table is not None and table[1] in numbers
        return
    for part in key.split(","):
        yield 1, case.file == part.strip()
        yield 3, case.name == part.strip()
