"""Typed access to the fields of a config.json that collects every fault, with its key path, before refusing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specplan.planner.messages import Fault, InputError, KeyPath, Note
from specplan.planner.models.field_names import FIELD_NAMES, FIRST_WINS

LARGEST_SIZE = 10**9    # no width, count or vocabulary of a model comes near; keeps slips of the pen from overflowing
MOST_LAYERS = 10_000


def model_type(values: Mapping[str, Any]) -> str:
    """The name of the architecture, '' where the configuration has none."""
    name = values.get("model_type")
    return name if isinstance(name, str) else ""


@dataclass(slots=True)
class Fields:
    """The fields of one configuration, read by role (see `field_names`), and the faults and notes found so far."""

    values: Mapping[str, Any]
    path: KeyPath = ()
    faults: list[Fault] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def family(self) -> str:
        """The configuration's model_type, '' where it has none."""
        return model_type(self.values)

    def fault(self, key: str | KeyPath, message: str) -> None:
        """Record one thing wrong at `key`."""
        self.faults.append(Fault((*self.path, *((key,) if isinstance(key, str) else key)), message))

    def note(self, code: str, message: str) -> None:
        """Record an assumption, once."""
        found = Note(code, message)
        if found not in self.notes:
            self.notes.append(found)

    def raise_faults(self) -> None:
        """Refuse the configuration if anything was wrong."""
        if self.faults:
            raise InputError(dict.fromkeys(self.faults))

    def key(self, role: str) -> str:
        """Name under which the configuration gives `role`; the first known name where it gives none."""
        names = FIELD_NAMES[role]
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def raw(self, role: str) -> Any:
        """Value of `role` as written, None where absent or null; names that contradict each other are a fault."""
        found = [(name, self.values[name]) for name in FIELD_NAMES[role] if self.values.get(name) is not None]
        if not found:
            return None
        for name, value in found[1:]:
            if role not in FIRST_WINS and value != found[0][1]:
                self.fault(name, f"{value!r} contradicts {found[0][0]} = {found[0][1]!r}")
        return found[0][1]

    def has(self, role: str) -> bool:
        """Whether `role` is given and not null."""
        return any(self.values.get(name) is not None for name in FIELD_NAMES[role])

    def optional_size(self, role: str, *, low: int = 1, high: int = LARGEST_SIZE) -> int | None:
        """An integer, or None where absent; a fault also counts as absent."""
        value = self.raw(role)
        return None if value is None else self.as_size(self.key(role), value, low=low, high=high)

    def size(self, role: str, *, default: int | None = None, low: int = 1, high: int = LARGEST_SIZE) -> int:
        """An integer; a missing one without a default is a fault, and 1 stands in so that reading goes on."""
        if not self.has(role):
            if default is None:
                self.fault(FIELD_NAMES[role][0], "missing")
                return 1
            return default
        found = self.optional_size(role, low=low, high=high)
        return max(low, 1) if found is None else found

    def as_size(self, key: str | KeyPath, value: Any, *, low: int = 1, high: int = LARGEST_SIZE) -> int | None:
        """Check that `value` is an integer in [low, high]."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fault(key, f"{_show(value)} is not an integer")
        elif value != int(value):
            self.fault(key, f"{value!r} is not an integer")
        elif not low <= value <= high:
            self.fault(key, f"{int(value)} is out of range [{low}, {high}]")
        else:
            return int(value)
        return None

    def flag(self, role: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.raw(role)
        if value is None:
            return default
        return self.as_flag(self.key(role), value)

    def as_flag(self, key: str, value: Any) -> bool:
        """Check that `value` is a truth value; 0 and 1 are read as such."""
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        self.fault(key, f"{_show(value)} is neither true nor false")
        return False

    def text(self, role: str) -> str:
        """A string, '' where absent."""
        value = self.raw(role)
        if value is not None and not isinstance(value, str):
            self.fault(self.key(role), f"{_show(value)} is not a string")
            return ""
        return value or ""

    def per_layer(self, role: str, layers: int) -> list[Any] | None:
        """A list with one entry per layer; extra entries (MTP layers) are cut, too few are a fault."""
        value = self.raw(role)
        if value is None:
            return None
        key = self.key(role)
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.fault(key, f"{_show(value)} is not a list with one entry per layer")
            return None
        if len(value) < layers:
            self.fault(key, f"{len(value)} entries for {layers} layers")
            return None
        return list(value[:layers])

    def layer_ids(self, role: str) -> frozenset[int] | None:
        """Layer numbers, as a list or a comma-separated string."""
        value = self.raw(role)
        if value is None:
            return None
        key = self.key(role)
        if isinstance(value, str):
            value = [int(part) if part.strip().isdecimal() else part for part in value.split(",") if part.strip()]
        if not isinstance(value, Sequence):
            self.fault(key, f"{_show(value)} is not a list of layer numbers")
            return None
        numbers = [self.as_size((key, index), item, low=0, high=MOST_LAYERS) for index, item in enumerate(value)]
        return frozenset(number for number in numbers if number is not None)

    def part(self, key: str) -> Fields | None:
        """A nested mapping as fields of its own, sharing faults and notes; None where absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.fault(key, f"{_show(value)} is not a mapping")
            return None
        return Fields(value, (*self.path, key), self.faults, self.notes)

    def named_size(self, key: str, *, default: int | None = None, low: int = 1) -> int:
        """An integer under a literal key, for the publisher-specific nested mappings."""
        value = self.values.get(key)
        if value is None:
            if default is None:
                self.fault(key, "missing")
            return default or 1
        found = self.as_size(key, value, low=low)
        return max(low, 1) if found is None else found


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
