"""YAML with positions, also where a template engine or a shell still has to fill it in.

Engines read their files with PyYAML, so its YAML 1.1 rules for scalars are the right ones here (specplan's own files
are read by the stricter planner/config).
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from specplan.planner.engines.located import HOLE, MAX_DEPTH, UNKNOWN, MalformedError, Node, Text

_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_CONTROL_LINE = re.compile(r"^[ \t]*(?:-\s*)?(?:\{\{[^{}]*\}\}|\{%[^%]*%\}|\{#[^#]*#\}|[ \t])+[ \t]*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{[^}\n]*\}|\$\([^)\n]*\)|(?<![\\$])\$[A-Za-z_]\w*")
_ENVSUBST = re.compile(r"\$\{[^}\n]*\}|<[A-Z][A-Z0-9_]+>")
_INT = re.compile(r"[-+]?[0-9][0-9_]*\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?\Z")
_BOOLS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
MAX_NODES = 200_000


def parse_yaml(text: str) -> list[Node]:
    """All documents of a YAML text. Templates that YAML cannot read are masked; their values are UNKNOWN."""
    try:
        return _compose(text)
    except yaml.YAMLError as error:
        if "{{" not in text and "{%" not in text:
            raise _malformed(error) from None
    try:
        return _compose(mask_templates(text))
    except yaml.YAMLError as error:
        raise _malformed(error) from None


def mask_templates(text: str) -> str:
    """Replace template parts by as many HOLEs, and lines of nothing else by spaces: offsets stay."""
    blanked = _CONTROL_LINE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return _TEMPLATE.sub(lambda match: re.sub(r"[^\n]", HOLE, match[0]), blanked)


def _malformed(error: yaml.YAMLError) -> MalformedError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return MalformedError(str(getattr(error, "problem", None) or error).split("\n")[0], mark.index if mark else 0)


def _compose(text: str) -> list[Node]:
    shift = 1 if text.startswith("\ufeff") else 0       # libyaml does not count the byte-order mark
    builder = _Builder(text)
    return [builder.build(node, 0) for node in yaml.compose_all(text[shift:], Loader=_Loader) if node is not None]


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.shift = 1 if text.startswith("\ufeff") else 0
        self.count = 0

    def build(self, node: yaml.Node, depth: int) -> Node:
        self.count += 1
        start, end = node.start_mark.index + self.shift, node.end_mark.index + self.shift
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            raise MalformedError("too deep or too many aliases", start)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, start, end)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.build(child, depth + 1) for child in node.value], start, end)
        found: dict[str, Node] = {}
        twice: list[Node] = []
        for key_node, value_node in node.value:
            child = self.build(value_node, depth + 1)
            key = self.build(key_node, depth + 1)
            child.key = key.text or Text.of("", key.start)
            name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"{HOLE}{len(found)}"
            if name in found:
                twice.append(found[name])
            found[name] = child
        return Node(found, start, end, twice=tuple(twice))

    def scalar(self, node: yaml.ScalarNode, start: int, end: int) -> Node:
        text = self.align(node.value, start, end, node.style)
        if HOLE in node.value or (not node.style and _ENVSUBST.fullmatch(node.value)):
            return Node(UNKNOWN, start, end, text=text)
        if "{{" in node.value and _TEMPLATE.fullmatch(node.value.strip()):
            return Node(UNKNOWN, start, end, text=text)
        return Node(_resolve(node), start, end, text=text)

    def align(self, value: str, start: int, end: int, style: str | None) -> Text:
        """Offsets of the characters of a scalar: what lies between them is indentation, quotes and escapes."""
        source = self.text
        if not style and source[start:start + len(value)] == value:
            return Text.of(value, start)
        at = start + 1 if style else start
        if style in {"|", ">"}:
            at = source.find("\n", start) + 1 or start
        offsets: list[int] = []
        for char in value:
            probe = at
            while probe < end and not _same(char, source[probe]) and source[probe] in _BETWEEN:
                if style == '"' and source[probe] == "\\" and source[probe + 1:probe + 2] in _ESCAPES:
                    break
                probe += 1
            here = probe if probe < end else min(at, end - 1)
            escaped = style == '"' and source[here] == "\\"
            width = _ESCAPES.get(source[here + 1:here + 2], 1) if escaped else 1
            offsets.append(here)
            at = here + width
        offsets.append(min(at, end))
        return Text(value, offsets)


_BETWEEN = " \t\r\n\\'\""
_ESCAPES = {**dict.fromkeys('0abtnvfre_NLP"\\/', 2), "x": 4, "u": 6, "U": 10}    # after a backslash, in characters


def _same(char: str, source: str) -> bool:
    return char == source or (char == " " and source == "\n")


def _resolve(node: yaml.ScalarNode) -> Any:
    value, tag = node.value, node.tag
    if tag.endswith(":int") and _INT.match(value):
        return int(value.replace("_", ""))
    if tag.endswith(":float"):
        return float(value.replace("_", "")) if _FLOAT.match(value) else value
    if tag.endswith(":bool"):
        return _BOOLS.get(value.lower(), value)
    return None if tag.endswith(":null") else value


def holes_for_variables(text: Text) -> Text:
    """The text of a string that a shell will expand later: `${K}` and `$K` become one HOLE each."""
    if "$" not in text.value:
        return text
    value: list[str] = []
    offsets: list[int] = []
    at = 0
    for match in _VARIABLE.finditer(text.value):
        value.append(text.value[at:match.start()] + HOLE)
        offsets.extend([*text.offsets[at:match.start()], text.offsets[match.start()]])
        at = match.end()
    value.append(text.value[at:])
    offsets.extend(text.offsets[at:])
    return Text("".join(value), offsets)
