"""What specplan says when something is wrong or assumed: faults (errors of input), notes (warnings), exit codes.

SpecplanError (1: nothing feasible, findings)
├── InputError     (2: bad input; carries every fault found, not only the first)
└── MissingError   (3: a needed device or optional package is absent; says how to get it)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A warning or an assumption that travels with an answer; `code` is stable, `message` is for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input, at a key path; `file` and `line` are filled in by who knows them."""

    path: KeyPath
    message: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(".")
        return ": ".join(part for part in (place, key, self.message) if part)


class SpecplanError(Exception):
    """Anything specplan can say in a sentence; never shown as a traceback."""

    exit_code = 1


class InputError(SpecplanError):
    """Input that cannot be used. `faults` lists all that was found."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault] | str) -> None:
        self.faults: tuple[Fault, ...] = (Fault((), faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class MissingError(SpecplanError):
    """A device or an optional package that the command needs is absent."""

    exit_code = 3


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """'; did you mean ...?' for a misspelt name, or an empty string.

    >>> nearest("contxt_tokens", ["batch", "context_tokens"])
    "; did you mean 'context_tokens'?"
    """
    import difflib  # noqa: PLC0415 - only where a name is unknown

    close = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=cutoff)
    return "; did you mean " + " or ".join(f"'{item}'" for item in close) + "?" if close else ""
