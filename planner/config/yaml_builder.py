"""A value from libyaml's events by the YAML 1.2 core schema, with lines, and with limits that no input can pass."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import yaml

from specplan.planner.messages import Fault, KeyPath

MAX_EXPANSION = 20_000      # values that aliases may stand for, all together: stops "billion laughs"
MAX_DEPTH = 100
MAX_DIGITS = 400            # Python refuses to read whole numbers of more than 4300
_NO_KEY, _IN_LIST = object(), object()

_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_RADIX = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
_MAYBE_NUMBER = frozenset("0123456789+-.")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


class _Frame:
    """A list or mapping that is being filled; `key` waits for its value, or says that there is none."""

    __slots__ = ("anchor", "key", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = _IN_LIST if isinstance(value, list) else _NO_KEY


class _StopBuildingError(Exception):
    """A fault after which the rest cannot be read."""


class Builder:
    """Builds a value from parser events with a stack of its own, so that no input can exhaust Python's.

    `track_lines` also fills `lines` and makes every fault say where it is; it takes twice the time.
    """

    def __init__(self, text: str, *, track_lines: bool = False) -> None:
        self.text = text
        self.track_lines = track_lines
        self.faults: list[Fault] = []
        self.lines: dict[KeyPath, int] = {}
        self._stack = [_Frame([], None)]    # the bottom one holds the document
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._expanded = 0

    def build(self) -> Any:
        """Value of the document; None with `faults` when it cannot be read to its end."""
        try:
            self._run()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(str(part) for part in (error.context, error.problem) if part)
            self.faults.append(Fault((), f"is not valid YAML: {what}", line=mark.line + 1 if mark else None))
        except (yaml.YAMLError, UnicodeEncodeError) as error:
            self.faults.append(Fault((), "is not valid YAML: " + str(error).split("\n", maxsplit=1)[0]))
        except _StopBuildingError:
            pass
        document = self._stack[0].value
        if not document and not self.faults:
            self.faults.append(Fault((), "is empty"))
        return None if self.faults else document[0]

    def _run(self) -> None:
        next_event: Callable[[], Any] = _Loader(self.text).get_event
        add, fault = self._add, self._fault
        while (event := next_event()) is not None:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value = _plain(event.value) if event.implicit[0] else event.value
                if event.tag is not None and event.tag not in _TEXT_TAGS:
                    fault(event, f"tag '{event.tag}' is not allowed: plain values only")
                add(event, value)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1)
            elif kind is yaml.MappingStartEvent:
                self._open(event, {})
            elif kind is yaml.SequenceStartEvent:
                self._open(event, [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                frame = self._stack.pop()
                add(event, frame.value)
                if frame.anchor is not None:
                    self._anchors[frame.anchor] = (frame.value, _size(frame.value))
            elif kind is yaml.AliasEvent:
                add(event, self._alias(event))
            elif kind is yaml.DocumentStartEvent and self._stack[0].value:
                fault(event, "holds several documents; one is expected", stop=True)

    def _add(self, event: Any, value: Any) -> None:
        frame = self._stack[-1]
        key, container = frame.key, frame.value
        if key is _NO_KEY:      # in a mapping: this is the key
            if type(value) is not str and type(value) is not int:
                self._fault(event, "a key must be text or a whole number", stop=isinstance(value, list | dict))
            frame.key = value
            if value in container:
                self._fault(event, f"duplicate key; first on line {self.lines.get(self._path())}")
            elif self.track_lines:
                self.lines[self._path()] = event.start_mark.line + 1
        elif key is _IN_LIST:
            if self.track_lines:
                self.lines.setdefault(self._path(), event.start_mark.line + 1)
            container.append(value)
        else:
            container[key] = value
            frame.key = _NO_KEY

    def _open(self, event: Any, value: dict[Any, Any] | list[Any]) -> None:
        if self._stack[-1].key is _NO_KEY:
            self._fault(event, "a key must be text or a whole number", stop=True)
        if event.tag is not None and event.tag != "!":
            self._fault(event, f"tag '{event.tag}' is not allowed: plain values only")
        if len(self._stack) > MAX_DEPTH:
            self._fault(event, f"is nested more than {MAX_DEPTH} deep", stop=True)
        if self.track_lines:
            self.lines.setdefault(self._path(), event.start_mark.line + 1)
        self._stack.append(_Frame(value, event.anchor))

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            self._fault(event, f"alias '*{event.anchor}' has no finished '&{event.anchor}' before it", stop=True)
        value, size = self._anchors[event.anchor]
        self._expanded += size
        if self._expanded > MAX_EXPANSION:
            self._fault(event, f"aliases stand for more than {MAX_EXPANSION} values; write them out", stop=True)
        return value

    def _path(self) -> KeyPath:
        """Where the value that comes next will stand."""
        frames = self._stack[1:]
        keys = [len(frame.value) if frame.key is _IN_LIST else frame.key for frame in frames]
        return tuple(key for key in keys if key is not _NO_KEY)

    def _fault(self, event: Any, message: str, *, stop: bool = False) -> None:
        self.faults.append(Fault(self._path(), message, line=event.start_mark.line + 1))
        if stop:
            raise _StopBuildingError


@functools.lru_cache(maxsize=4096)      # four in five scalars of a GPU profile stand there more than once
def _plain(text: str) -> Any:
    """Value of an unquoted scalar by the YAML 1.2 core schema; a number too long to be meant is infinite."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _MAYBE_NUMBER:
        if _INT.match(text):
            return int(text) if len(text) < MAX_DIGITS else float(text)
        if _FLOAT.match(text):
            return float(text)
        if _RADIX.match(text) and len(text) < MAX_DIGITS:
            return int(text, 0)
    return text


def _size(value: Any) -> int:
    """Count the values inside, shared ones counted each time; stops counting beyond MAX_EXPANSION."""
    total, rest = 0, [value]
    while rest and total <= MAX_EXPANSION:
        item = rest.pop()
        total += 1
        if isinstance(item, dict):
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)
    return total
