"""One configuration of one engine, as found in a file: its settings by canonical name, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specplan.planner.engines.located import HOLE, UNKNOWN, MalformedError, Node, Text, parse_json

_PLACEHOLDER = re.compile(r"\{\w+\}|<[\w -]+>|@\w+@|%\w+%")      # {name}, <name>: a launcher fills it in
SPEC = "speculative_config."        # prefix of the keys of vLLM's and TensorRT-LLM's speculative_config


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: the name as it is written, and its value."""

    name: str
    written: Text
    node: Node

    @property
    def value(self) -> Any:
        """The value without positions."""
        return self.node.plain()


@dataclass(slots=True)
class Launch:
    """A configuration of `engine`. The last of settings that are given twice wins, as in the engines."""

    engine: str
    place: Text                         # where it starts: the command word, the key
    version: str | None = None
    settings: dict[str, Setting] = field(default_factory=dict)
    twice: list[tuple[Setting, Setting]] = field(default_factory=list)     # (earlier, later) of one name
    malformed: list[tuple[str, MalformedError]] = field(default_factory=list)   # settings whose value is not readable
    unknown_names: list[Setting] = field(default_factory=list)
    env: dict[str, Setting] = field(default_factory=dict)
    fragment: bool = False              # a bare settings file: the command around it is not known
    complete: bool = True               # False: arguments are filled in elsewhere ("${ARGS[@]}")

    def put(self, setting: Setting) -> None:
        """Add a setting; a second one of the same name replaces it and is remembered."""
        earlier = self.settings.get(setting.name)
        if earlier is not None:
            self.twice.append((earlier, setting))
        self.settings[setting.name] = setting

    def has(self, *names: str) -> bool:
        """True if any of the settings is given (with a known value or not)."""
        return any(name in self.settings for name in names)

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or `default` where it is not given or not known."""
        setting = self.settings.get(name)
        value = default if setting is None else setting.value
        return default if value is UNKNOWN else value

    def number(self, name: str) -> int | None:
        """The value if it is a whole number (a numeral in quotes counts), else None."""
        return whole(self.get(name))

    def text(self, name: str) -> str | None:
        """The value if it is a string."""
        value = self.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool:
        """True if a switch is on."""
        value = self.get(name)
        return value is True or (isinstance(value, str) and value.lower() in {"true", "1", "yes", "on", ""})

    def environment(self, name: str) -> str | None:
        """The value of an environment variable that stands beside the command."""
        setting = self.env.get(name)
        return str(setting.value) if setting is not None and setting.value is not UNKNOWN else None

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of settings whose value is filled in elsewhere."""
        return tuple(name for name, setting in self.settings.items()
                     if any(node.value is UNKNOWN for node in setting.node.walk()))


def whole(value: Any) -> int | None:
    """An integer, or a numeral; None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else None


def words_to_settings(words: Iterable[Text], aliases: Mapping[str, str], switches: frozenset[str] = frozenset(),
                      many: frozenset[str] = frozenset()) -> Iterator[Setting]:
    """Pair flags with their values: `--a b`, `--a=b`, `--a` (a switch), `--a b c` for names in `many`.

    Names are looked up with dashes for underscores, as vLLM, SGLang and LMDeploy do; a name that is not in `aliases`
    is its own canonical name.
    """
    flag: Text | None = None
    name = ""
    values: list[Text] = []

    def flush() -> Iterator[Setting]:
        if flag is not None:
            yield Setting(name, flag, _node(flag, values, name in many))

    for word in words:
        value = word.value
        if re.match(r"--?[A-Za-z]", value):
            yield from flush()
            equals = value.find("=") if value.startswith("--") else -1
            flag = word[0:equals] if equals > 0 else word
            name = canonical(flag.value, aliases)
            values = [word[equals + 1:len(word)]] if equals > 0 else []
            if equals > 0 or name in switches:
                yield from flush()
                flag = None
        elif flag is not None and (not values or name in many):
            values.append(word)
            if name not in many:
                yield from flush()
                flag = None
    yield from flush()


def canonical(flag: str, aliases: Mapping[str, str]) -> str:
    """The canonical name of a flag as written; a dotted tail (`--speculative-config.method`) is kept."""
    head, dot, tail = flag.partition(".")
    if head.startswith("--"):
        head = "--" + head[2:].replace("_", "-")
    return aliases.get(head, head) + dot + tail


def _node(flag: Text, values: list[Text], many: bool) -> Node:
    if not values:
        return Node(True, flag.start, flag.end, text=flag)
    nodes = [Node(scalar(text), text.start, text.end, text=text) for text in values]
    return Node(nodes, nodes[0].start, nodes[-1].end) if many else nodes[0]


def scalar(text: Text) -> Any:
    """The value of a shell word: a number where it is one, UNKNOWN where something is still filled in."""
    value = text.value
    if HOLE in value:
        return UNKNOWN
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    if re.fullmatch(r"-?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?", value):
        return float(value)
    return value


def is_version(text: str) -> bool:
    """True for what can name a release: 0.24.0, v0.24.0.post1, 1.4.0rc4, 0.19.0+cu130, a build b10472.

    >>> is_version("0.24.0rc1"), is_version("b10472"), is_version("main"), is_version("banana")
    (True, True, False, False)
    """
    return re.fullmatch(r"[vb]?[0-9]+(\.[0-9]+)*([-+._]?[a-z]+[-._]?[0-9]*|[-+._][0-9]+)*", text, re.I) is not None


def at_least(version: str | None, wanted: str) -> bool:
    """True if a release is `wanted` or newer; a version that is not known counts as the newest."""
    if version is None:
        return True
    parts, needed = ([int(part[:9]) for part in re.findall(r"\d+", text)[:3]] for text in (version, wanted))
    return parts >= needed if parts else True


def expand(launch: Launch, name: str, prefix: str) -> None:
    """Spread a JSON object that is one setting (or a YAML mapping in its place) into a setting per key.

    JSON of which parts are filled in elsewhere is read as far as it stands, if what is missing are values.
    """
    setting = launch.settings.get(name)
    if setting is None:
        return
    node = setting.node
    written = node.text.value.strip() if node.text is not None else ""
    templated = HOLE in written
    if (templated and not written.startswith("{")) or _PLACEHOLDER.fullmatch(written):
        launch.settings[name] = Setting(name, setting.written, Node(UNKNOWN, node.start, node.end, text=node.text))
        return
    if (isinstance(node.value, str) or templated) and node.text is not None:
        try:
            node = parse_json(node.text)
        except MalformedError as error:
            if not templated:
                launch.malformed.append((name, error))
            return
    if not isinstance(node.value, dict):
        if node.value is not None and node.value is not UNKNOWN:
            launch.malformed.append((name, MalformedError("must be a JSON object", node.start)))
        return
    put_mapping(launch, node, prefix)


def put_mapping(launch: Launch, node: Node, prefix: str) -> None:
    """Add a setting for each key of a mapping, those that stand in it twice included."""
    for child in node.twice:
        if child.key is not None:
            launch.put(Setting(prefix + child.key.value, child.key, child))
    for key, child in node.value.items():
        if child.key is not None:
            launch.put(Setting(prefix + key, child.key, child))


def first_positional(words: Sequence[Text], name: str) -> Iterator[Setting]:
    """The argument before all flags, as in `vllm serve MODEL --flag`."""
    if words and not words[0].value.startswith("-"):
        word = words[0]
        yield Setting(name, word, Node(scalar(word), word.start, word.end, text=word))
