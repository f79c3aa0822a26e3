"""`@fact`: a frozen, slotted, keyword-only dataclass that costs little to define.

`dataclass` writes and compiles six methods for every class, which took a fifth of a cold start; facts share theirs.
To `replace`, `fields` and `asdict` a fact is a dataclass like any other.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def fact(cls: type[T]) -> type[T]:
    """Class decorator that stands for `@dataclass(frozen=True, slots=True, kw_only=True)`."""
    for name in _SHARED:
        if name not in cls.__dict__:
            setattr(cls, name, _Shared.__dict__[name])
    made = dataclass(init=False, repr=False, eq=False, match_args=False, slots=True, kw_only=True)(cls)
    _describe(made)
    return made


def _describe(made: Any) -> None:
    """What the shared methods need to know of one class."""
    found = fields(made)
    made._names = frozenset(item.name for item in found)
    made._defaults = {item.name: item.default for item in found if item.default is not MISSING}
    made._factories = {item.name: item.default_factory for item in found if item.default_factory is not MISSING}
    # the class goes with the values: then there is always more than one, and attrgetter returns a tuple
    made._compared = attrgetter("__class__", *(item.name for item in found if item.compare))


class _Shared:
    """Methods of every fact; each does what `dataclass` would have written."""

    _names: frozenset[str]
    _defaults: dict[str, Any]
    _factories: dict[str, Any]
    _compared: attrgetter[Any]

    def __init__(self, /, **given: Any) -> None:
        values = self._defaults | given
        for name, make in self._factories.items():
            if name not in given:
                values[name] = make()
        if values.keys() != self._names:
            missing, unknown = sorted(self._names - values.keys()), sorted(values.keys() - self._names)
            raise TypeError(f"{type(self).__name__}: missing fields {missing}, unknown fields {unknown}")
        put = object.__setattr__
        for name, value in values.items():
            put(self, name, value)

    def __repr__(self) -> str:
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._compared(self) == self._compared(other))

    def __hash__(self) -> int:
        return hash(self._compared(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), {name: getattr(self, name) for name in self._names})


_SHARED = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__reduce__")


def _again(cls: type[T], values: dict[str, Any]) -> T:
    """A fact that was pickled or copied."""
    return cls(**values)
