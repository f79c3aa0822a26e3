"""The engines whose configurations specplan writes, and the two ways through a dialect: emit and parse."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from specplan.planner.engines.launch import Launch, at_least, is_version
from specplan.planner.engines.located import MalformedError, Node, Text, parse_json
from specplan.planner.engines.located_yaml import parse_yaml
from specplan.planner.engines.plan import DraftPlan, check_plan
from specplan.planner.engines.shell import Command, commands
from specplan.planner.engines.snippet import remarks
from specplan.planner.messages import InputError, Note, nearest

ENGINES = ("vllm", "sglang", "tensorrt_llm", "llama_cpp", "lmdeploy", "onnxruntime_genai", "aiconfigurator")
_SPELLINGS = {"trtllm": "tensorrt_llm", "tensorrt": "tensorrt_llm", "llama": "llama_cpp", "llamacpp": "llama_cpp",
              "genai": "onnxruntime_genai", "onnx": "onnxruntime_genai", "ort": "onnxruntime_genai",
              "onnxruntime": "onnxruntime_genai", "ort_genai": "onnxruntime_genai", "aic": "aiconfigurator"}


class Dialect(Protocol):
    """What every planner/engines/<engine>/configuration.py offers."""

    ENGINE: str
    NEWEST: str
    OLDEST: str | None      # first release with the settings that are written; None: not known
    IMAGE: str
    MARKERS: tuple[str, ...]

    def invocation(self, words: Sequence[str]) -> int | None:
        """Index of the first argument after the server's command, None where it is not started."""

    def read_words(self, words: Sequence[Text], launch: Launch) -> None:
        """Read command-line arguments."""

    def read_mapping(self, node: Node, launch: Launch, around: Node | None = None) -> None:
        """Read a mapping of YAML or JSON; `around` holds the keys beside it."""

    def plan_of(self, launch: Launch) -> DraftPlan:
        """The plan that a configuration carries out."""
        ...

    def expressible(self, plan: DraftPlan, version: str) -> tuple[DraftPlan, tuple[Note, ...]]:
        """The part of a plan that the dialect carries, and what is lost, in words."""
        ...

    def write(self, plan: DraftPlan, version: str) -> str:
        """The text that says `expressible(plan)`."""
        ...


@dataclass(frozen=True, slots=True)
class Emitted:
    """A snippet to paste, and what of the plan it could not say."""

    text: str
    notes: tuple[Note, ...]
    plan: DraftPlan         # what the snippet does say: reading it back gives this


def canonical_name(name: str) -> str:
    """One spelling of an engine's name, whether or not specplan writes for it."""
    plain = name.lower().replace("-", "_").replace(".", "_")
    return _SPELLINGS.get(plain, plain)


def check_version(engine: str, version: str) -> None:
    """Raise InputError for what names no release: branches, tags such as latest, words."""
    if is_version(version):
        return
    known = canonical_name(engine) in ENGINES
    such = f" such as {dialect(canonical_name(engine)).NEWEST}" if known else ""
    raise InputError(f"'{version[:40]}' is not a version of {engine}: give a release{such}, or none for the newest "
                     "known")


def newer_note(engine: str, version: str) -> Note | None:
    """For a release newer than those that the dialect was read from; None for the others and other engines."""
    if canonical_name(engine) not in ENGINES:
        return None
    newest = dialect(canonical_name(engine)).NEWEST
    if at_least(newest, version):
        return None
    return Note("engine-version-newer", f"{engine} {version[:20]} is not known: the newest version known is {newest}, "
                                        "whose settings and costs are taken")


def engine_name(name: str) -> str:
    """The canonical name of an engine; InputError with the nearest one for a misspelt name."""
    wanted = canonical_name(name)
    if wanted == "ollama":
        raise InputError("Ollama has no flags for drafting: specplan writes llama_cpp, for the server inside it")
    if wanted not in ENGINES:
        raise InputError(f"'{name}' is not an engine that specplan writes for{nearest(wanted, ENGINES)}; it knows "
                         f"{', '.join(ENGINES)}")
    return wanted


def dialect(engine: str) -> Dialect:
    """The module that reads and writes the configuration of an engine."""
    return cast("Dialect", importlib.import_module(f"specplan.planner.engines.{engine}.configuration"))


def write_configuration(
    plan: DraftPlan, engine: str, version: str | None = None, *, first: Sequence[Note] = ()
) -> Emitted:
    """The plan in the dialect of `engine`; remarks in front say `first`, then what the dialect cannot express."""
    module = dialect(engine_name(engine))
    if version is not None:
        check_version(engine, version)
    release = version or module.NEWEST
    check_plan(plan)
    newer = None if version is None else newer_note(module.ENGINE, version)
    before = (*first, *([] if newer is None else [newer]))
    if plan.draft_len == 0:
        text = remarks([f"{module.ENGINE} {release}, written by specplan", *before,
                        "plain decoding is the recommendation: start the server without any speculative setting"])
        return Emitted(text, before, plan)
    if module.OLDEST is not None and not at_least(release, module.OLDEST):
        raise InputError(f"{module.ENGINE} {release}: the settings that specplan writes are there since "
                         f"{module.OLDEST}; name that release or a later one, or none for the newest known")
    said, lost = module.expressible(plan, release)
    notes = (*before, *lost)
    text = module.write(said, release)
    if not text.lstrip().startswith("{"):       # JSON takes no comments: its notes go beside it
        text = remarks([f"{module.ENGINE} {release}, written by specplan", *notes]) + text
    return Emitted(text, notes, said)


def emit(plan: DraftPlan, engine: str, version: str | None = None) -> str:
    """The text of `write_configuration`."""
    return write_configuration(plan, engine, version).text


def parse(text: str, engine: str, version: str | None = None) -> DraftPlan:
    """The plan that a snippet of `engine` carries out; the inverse of `emit`."""
    module = dialect(engine_name(engine))
    launch = Launch(module.ENGINE, Text.of(text), version=version or module.NEWEST)
    try:
        if module.ENGINE in {"tensorrt_llm", "onnxruntime_genai"}:
            _read_document(text, module, launch)
        else:
            for found in commands(Text.of(text)):
                _read_command(found, module, launch)
    except MalformedError as error:
        raise InputError(f"line {text.count(chr(10), 0, error.offset) + 1}: {error}") from None
    if launch.malformed:
        name, fault = launch.malformed[0]
        raise InputError(f"line {text.count(chr(10), 0, fault.offset) + 1}: {name}: {fault}")
    return module.plan_of(launch)


def _read_document(text: str, module: Dialect, launch: Launch) -> None:
    for node in parse_yaml(text):
        section = node.get("speculative_config") if module.ENGINE == "tensorrt_llm" else node
        if section is not None and isinstance(section.value, dict):
            module.read_mapping(section, launch, node)


def _read_command(found: Command, module: Dialect, launch: Launch) -> None:
    for document in found.heredocs:
        module.read_mapping(parse_json(document.text), launch)
    words = [word.value for word in found.words]
    start = module.invocation(words)
    if start is not None or (words and words[0].startswith("-")):
        module.read_words(found.words[start or 0:], launch)
