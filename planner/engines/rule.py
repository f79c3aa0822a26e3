"""What a lint rule is: when it speaks, how loud, what it says, what it rests on. Rules are data with one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specplan.planner.engines.launch import Launch, Setting
from specplan.planner.engines.located import Node, Text
from specplan.planner.fact import fact

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` (offsets in the file) by `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that a rule found; `edits` mend it without changing what the author meant."""

    start: int
    end: int
    message: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What else is known about the load of a configuration, and from where."""

    batch: int | None = None            # sequences in flight
    batch_source: str = ""
    temperature: float | None = None
    random_prompts: bool = False        # a benchmark beside it sends random tokens


Check: TypeAlias = Callable[[Launch, Context], Iterator[Hit]]


@fact
class Rule:
    """A rule. `bad` and `good` are (file name, content): examples in the documentation, and its tests."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    fix: str
    source: str             # engine, version and file or thread that say so
    bad: tuple[str, str]
    good: tuple[str, str]
    check: Check | None = None      # None: found elsewhere than in one launch (logs, plans, whole files)


def at(place: Setting | Node | Text, message: str, *edits: Edit) -> Hit:
    """A hit at the value of a setting, at a node, or at a text."""
    where = place.node if isinstance(place, Setting) else place
    return Hit(where.start, where.end, message, edits)


def at_name(setting: Setting, message: str, *edits: Edit) -> Hit:
    """A hit at the name of a setting."""
    return Hit(setting.written.start, setting.written.end, message, edits)


def replace(place: Node | Text, new: str) -> Edit:
    """An edit that puts `new` in place of a node or a text."""
    return Edit(place.start, place.end, new)

