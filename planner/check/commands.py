"""Launches in lists of words and in shell text: which engine a command starts, with which arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from specplan.planner.engines.dialects import ENGINES, dialect
from specplan.planner.engines.facts import is_speculative
from specplan.planner.engines.launch import Launch, Setting, scalar, words_to_settings
from specplan.planner.engines.located import HOLE, MalformedError, Node, Text
from specplan.planner.engines.located_yaml import holes_for_variables
from specplan.planner.engines.rule import Context
from specplan.planner.engines.shell import commands

_SGLANG_FLAGS = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative_num_steps")
_BENCH = re.compile(r"bench_serving|benchmark_serving|aiperf|genai-perf|guidellm|bench_one_batch")
_FLAGS = re.compile(r"(?:^|\s)--(?:spec|draft-max|num-speculative)")
_SHELLS = frozenset({"sh", "bash", "zsh", "ash", "dash"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})


@dataclass(slots=True)
class Found:
    """What a file holds: launches, the load a benchmark in it puts on them, and places already taken."""

    launches: list[Launch] = field(default_factory=list)
    batch: int | None = None
    batch_source: str = ""
    temperature: float | None = None
    random_prompts: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    embedded: list[tuple[Text, str | None]] = field(default_factory=list)      # here-documents, and where they go
    unread: list[MalformedError] = field(default_factory=list)                  # those that are no YAML or JSON

    @property
    def context(self) -> Context:
        """The load, as the rules take it."""
        return Context(self.batch, self.batch_source, self.temperature, self.random_prompts)

    def add(self, launch: Launch) -> None:
        """Keep a launch if it speculates."""
        if is_speculative(launch) or launch.malformed or "SGLANG_ENABLE_SPEC_V2" in launch.env:
            launch.version = launch.version or self.versions.get(launch.engine)
            self.launches.append(launch)


def from_shell(text: Text, found: Found, *, image: str | None = None, env: Mapping[str, Setting] | None = None) -> None:
    """Add the launches of a shell text."""
    exported: dict[str, Setting] = dict(env or {})
    for command in commands(text):
        own = {name: _variable(name, key, value) for name, (key, value) in command.assignments.items()}
        for key, value in command.assignments.values():
            assigned(key, value, found)
        if not command.words or command.words[0].value in {"export", "declare", "readonly", "ENV"}:
            exported |= own
        found.embedded.extend((document.text if document.literal else holes_for_variables(document.text),
                               document.target) for document in command.heredocs)
        if command.words:
            from_words(command.words, found, image=image, env=exported | own)
    llama = {name: setting for name, setting in exported.items() if name.startswith("LLAMA_ARG_")}
    if llama and not any(launch.engine == "llama_cpp" for launch in found.launches):
        environment_only(llama, found)


def assigned(key: Text, value: Text, found: Found) -> None:
    """Settings kept in a variable: flags, or vLLM's JSON. What else the command gets is unknown."""
    if _FLAGS.search(value.value):
        from_words([word for command in commands(value) for word in command.words], found)
    elif value.value.lstrip().startswith("{") and "speculative_token" in value.value:
        flag = "--speculative-config"
        from_words([Text(flag, [key.start] * (len(flag) + 1)), value], found)


def environment_only(variables: Mapping[str, Setting], found: Found) -> None:
    """Add a llama.cpp launch that is configured by its environment alone."""
    first = min(variables.values(), key=lambda setting: setting.written.start)
    launch = Launch("llama_cpp", first.written, env=dict(variables), fragment=True, complete=False)
    dialect("llama_cpp").read_words((), launch)
    found.add(launch)


def _variable(name: str, key: Text, value: Text) -> Setting:
    return Setting(name, key, Node(scalar(value), value.start, value.end, text=value))


def from_words(words: Sequence[Text], found: Found, *, image: str | None = None,
               env: Mapping[str, Setting] | None = None) -> None:
    """Add the launch that a list of words starts, if any."""
    values = [word.value for word in words]
    script = _script(words, values)
    if script is not None:
        from_shell(script, found, image=image, env=env)
        return
    if _BENCH.search(" ".join(values[:4])) or ("bench" in values[:3] and "serve" in values[:4]):
        _benchmark(words, found)
        return
    for engine in ENGINES:
        start = dialect(engine).invocation(values)
        if start is not None:
            _launch(engine, words, start, found, env, version=_version(engine, " ".join(values[:start])))
            return
    if values[0].rsplit("/", 1)[-1] in _CONTAINERS:
        for engine in ENGINES:
            for at, value in enumerate(values):
                if re.search(dialect(engine).IMAGE, value) and at + 1 < len(values):
                    variables = dict(env or {}) | _container_variables(words[:at])
                    _launch(engine, words, at + 1, found, variables, version=_version(engine, value))
                    return
        return
    own = _engine_of(values, image)
    if own is not None:
        from_image = image is not None and re.search(dialect(own).IMAGE, image) is not None
        _launch(own, words, 0, found, env, version=_version(own, image or ""), fragment=not from_image)


def _launch(engine: str, words: Sequence[Text], start: int, found: Found, env: Mapping[str, Setting] | None, *,
            version: str | None, fragment: bool = False) -> None:
    arguments = words[start:]
    launch = Launch(engine, words[0], version=version, env=dict(env or {}), fragment=fragment)
    launch.complete = not fragment and not any(
        word.value == HOLE and (at == 0 or not arguments[at - 1].value.startswith("-")) and at > 0
        for at, word in enumerate(arguments))
    dialect(engine).read_words(arguments, launch)
    found.add(launch)


def _script(words: Sequence[Text], values: Sequence[str]) -> Text | None:
    """The script of `sh -c SCRIPT`, wherever it stands (`docker run image bash -c ...`)."""
    for at, value in enumerate(values[:-1]):
        if value.rsplit("/", 1)[-1] in _SHELLS:
            for later in range(at + 1, len(values) - 1):
                if re.fullmatch(r"-[a-z]*c", values[later]):
                    return words[later + 1]
                if not values[later].startswith("-"):
                    break
    return None


def _version(engine: str, image: str) -> str | None:
    match = re.search(dialect(engine).IMAGE, image)
    return match.groupdict().get("version") if match else None


def _container_variables(words: Sequence[Text]) -> dict[str, Setting]:
    variables = {}
    for flag, word in pairwise(words):
        if flag.value in {"-e", "--env"} and "=" in word.value:
            at = word.value.index("=")
            name = word.value[:at]
            variables[name] = _variable(name, word[0:at], word[at + 1:len(word)])
    return variables


def _engine_of(values: Sequence[str], image: str | None) -> str | None:
    """The engine whose arguments these are: by its image, else by flags that only it has."""
    if image is not None:
        for engine in ENGINES:
            if re.search(dialect(engine).IMAGE, image):
                return engine
    heads = {value.split("=", 1)[0].split(".", 1)[0] for value in values if value.startswith("-")}
    if heads & {"--speculative-config", "--speculative_config", "--spec-method", "--spec-tokens", "--spec-model",
                "--speculative-model", "--num-speculative-tokens"}:
        return "vllm"
    if heads & {"--speculative-algorithm", "--speculative_algorithm", *_SGLANG_FLAGS}:
        at = next((at for at, value in enumerate(values[:-1]) if value.startswith("--speculative-algorithm")), None)
        lower = at is not None and values[at + 1].islower() and not heads & set(_SGLANG_FLAGS)
        return "lmdeploy" if lower else "sglang"
    if any(head.startswith(("--spec-draft", "--spec-type", "--spec-ngram")) for head in heads) or heads & {
            "--draft-max", "--model-draft"}:
        return "llama_cpp"
    return None


def _benchmark(words: Sequence[Text], found: Found) -> None:
    """Load that a benchmark in the same file puts on the server."""
    for setting in words_to_settings(words, {"--concurrency": "--max-concurrency"}):
        value = setting.value
        if setting.name == "--max-concurrency" and isinstance(value, int) and value > (found.batch or 0):
            found.batch, found.batch_source = value, f"{setting.written.value} {value}"
        if setting.name == "--temperature" and isinstance(value, int | float) and not isinstance(value, bool):
            found.temperature = float(value)
        if setting.name == "--dataset-name" and str(value).startswith("random"):
            found.random_prompts = True
