"""Values that know where they stand in the file they were read from, however deeply they are quoted.

A draft length may sit in JSON, in a quoted shell word, in a script, in a YAML block. Each step of unpacking keeps,
for every character, its offset in the original file; so a finding points at the digit and a fix replaces it there.
Values filled in elsewhere (`${K}`, `{{ .Values.k }}`) become UNKNOWN: they are neither checked nor guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

HOLE = "\ue000"     # stands in a text for what a template or a shell variable will fill in
MAX_DEPTH = 60


class Unknown:
    """The value of a setting that is filled in elsewhere."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Text:
    """A string, and the offset of each of its characters (and of its end) in the file."""

    value: str
    offsets: Sequence[int]

    @classmethod
    def of(cls, value: str, start: int = 0) -> Text:
        """Text that stands in the file as it is, from `start` on."""
        return cls(value, range(start, start + len(value) + 1))

    def __getitem__(self, part: slice) -> Text:
        first, last, _ = part.indices(len(self.value))
        return Text(self.value[first:last], self.offsets[first:max(first, last) + 1])

    def __len__(self) -> int:
        return len(self.value)

    @property
    def start(self) -> int:
        """Offset of the first character."""
        return self.offsets[0]

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.offsets[-1]


@dataclass(slots=True)
class Node:
    """A value of JSON or YAML. `value` is a scalar, UNKNOWN, a list of nodes or a dict of key -> node."""

    value: Any
    start: int
    end: int
    text: Text | None = None            # of a scalar: the characters behind it
    key: Text | None = None             # of a mapping's value: its key
    twice: tuple[Node, ...] = field(default=())     # of a mapping: earlier values of keys that are given again

    def plain(self) -> Any:
        """The value without positions; UNKNOWN stays."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def get(self, *path: str) -> Node | None:
        """The node at a path of keys, or None."""
        node: Node | None = self
        for key in path:
            node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
        return node

    def walk(self) -> Iterator[Node]:
        """The node itself and all below it."""
        yield self
        children = self.value.values() if isinstance(self.value, dict) else self.value
        if isinstance(self.value, (dict, list)):
            for child in children:
                yield from child.walk()


class MalformedError(ValueError):
    """Text that is not what it should be, with the offset in the file."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


_SPACE = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "NaN": float("nan"), "Infinity": float("inf")}


def parse_json(text: Text) -> Node:
    """Read JSON and keep positions; MalformedError says what is wrong where. A HOLE is a value or part of a string."""
    reader = _Json(text)
    node = reader.read(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.fault("something follows the JSON value")
    return node


_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)


def _decoded(raw: Text) -> Text:
    """The text of a JSON string whose escapes are resolved; each character keeps the offset of its escape."""
    chars, offsets = [], []
    for match in _ESCAPE.finditer(raw.value):
        chars.append(json.loads(f'"{match[0]}"', strict=False))
        offsets.append(raw.offsets[match.start()])
    return Text("".join(chars), [*offsets, raw.offsets[len(raw)]])


class _Json:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.at = 0

    def fault(self, message: str) -> MalformedError:
        return MalformedError(message, self.text.offsets[min(self.at, len(self.text))])

    def skip(self) -> str:
        """Move past white space; the character that follows, '' at the end."""
        value = self.text.value
        while self.at < len(value) and value[self.at] in _SPACE:
            self.at += 1
        return value[self.at:self.at + 1]

    def node(self, value: Any, start: int, **more: Any) -> Node:
        return Node(value, self.text.offsets[start], self.text.offsets[self.at], **more)

    def read(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fault("nested too deeply")
        here = self.skip()
        if here == "{":
            return self.mapping(depth)
        if here == "[":
            return self.sequence(depth)
        if here == '"':
            return self.string()
        return self.word()

    def word(self) -> Node:
        start, value = self.at, self.text.value
        while self.at < len(value) and value[self.at] not in ",:]}" + _SPACE:
            self.at += 1
        token = value[start:self.at]
        text = self.text[start:self.at]
        if HOLE in token:
            return self.node(UNKNOWN, start, text=text)
        if token in _WORDS:
            return self.node(_WORDS[token], start, text=text)
        if _NUMBER.fullmatch(token):
            return self.node(json.loads(token), start, text=text)
        self.at = start
        if not token:
            raise self.fault("a value is missing")
        hint = "; JSON strings take double quotes" if token[0] == "'" or token[0].isalpha() else ""
        hint = f"; write {token.lower()}" if token.lower() in _WORDS else hint
        raise self.fault(f"'{token[:30]}' is not a JSON value{hint}")

    def string(self) -> Node:
        start, value = self.at, self.text.value
        self.at += 1
        while self.at < len(value) and value[self.at] != '"':
            self.at += 2 if value[self.at] == "\\" else 1
        if self.at >= len(value):
            self.at = start
            raise self.fault("a string is not closed")
        self.at += 1
        raw, inner = value[start:self.at], self.text[start + 1:self.at - 1]
        if HOLE in raw:
            return self.node(UNKNOWN, start, text=inner)
        try:
            decoded = json.loads(raw, strict=False)
        except json.JSONDecodeError as error:
            self.at = start
            raise self.fault(f"bad string: {error.msg}") from None
        return self.node(decoded, start, text=_decoded(inner) if "\\" in raw else inner)

    def mapping(self, depth: int) -> Node:
        start = self.at
        found: dict[str, Node] = {}
        twice: list[Node] = []
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return self.node({}, start)
        while True:
            if self.skip() != '"':
                raise self.fault("a key in double quotes is missing" + self.trailing_comma("}"))
            key = self.string()
            if self.skip() != ":":
                raise self.fault("':' is missing after a key")
            self.at += 1
            child = self.read(depth + 1)
            child.key = key.text
            name = key.value if isinstance(key.value, str) else f"{HOLE}{len(found)}"
            if name in found:
                twice.append(found[name])
            found[name] = child
            if not self.more("}"):
                return self.node(found, start, twice=tuple(twice))

    def sequence(self, depth: int) -> Node:
        start = self.at
        found: list[Node] = []
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return self.node([], start)
        while True:
            if self.skip() == "]":
                raise self.fault("a value is missing" + self.trailing_comma("]"))
            found.append(self.read(depth + 1))
            if not self.more("]"):
                return self.node(found, start)

    def trailing_comma(self, close: str) -> str:
        return "; remove the comma before it" if self.skip() == close else ""

    def more(self, close: str) -> bool:
        """True after a comma, False after the closing bracket."""
        here = self.skip()
        if here == ",":
            self.at += 1
            return True
        if here == close:
            self.at += 1
            return False
        raise self.fault(f"',' or '{close}' is missing" if here else f"'{close}' is missing at the end")
