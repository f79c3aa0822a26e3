"""Where things are: faults with their place in the configuration, references with their folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from specplan.planner.config.load import LoadedConfig
from specplan.planner.config.schema import Reference
from specplan.planner.config.text_file import user_path
from specplan.planner.messages import Fault, InputError, KeyPath
from specplan.planner.models.reader import model_names


class Faults:
    """Faults found so far; `at` turns a room's error into faults at a key path and goes on."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self.loaded = loaded
        self.found: list[Fault] = []

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Collect what the block raises."""
        try:
            yield
        except InputError as error:
            self.found += [self._placed(path, fault) for fault in error.faults]

    def add(self, path: KeyPath, message: str) -> None:
        """One fault of our own."""
        self.found.append(self._placed(path, Fault((), message)))

    def stop(self) -> None:
        """Raise all faults found, if any."""
        if self.found:
            raise InputError(self.found)

    def _placed(self, path: KeyPath, fault: Fault) -> Fault:
        return self.loaded.place(replace(fault, path=(*path, *fault.path)))


def model_reference(reference: Reference, base: Path) -> Reference:
    """A path is relative to the configuration's folder; a preset name or a mapping stays."""
    if isinstance(reference, str) and reference not in model_names() and _looks_like_path(reference):
        return str(user_path(reference, base))
    return reference


def profile_reference(reference: str, base: Path) -> str:
    """The same for a GPU profile."""
    return str(user_path(reference, base)) if _looks_like_path(reference) else reference


def _looks_like_path(text: str) -> bool:
    return "/" in text or text.endswith((".json", ".yaml", ".yml")) or text.startswith(("~", "."))
