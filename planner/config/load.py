"""From a file, a mapping and command line options to a `Config` that knows where each key stands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specplan.planner.config.faults import faults_of, shown
from specplan.planner.config.schema import Config
from specplan.planner.config.yaml_reader import Document, read_yaml
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, KeyPath, Note

ASSUMED_BATCH, ASSUMED_CONTEXT, ASSUMED_ENGINE = "1-256", "2k,8k,32k", "vllm"   # for a bare config.json
_MODEL_KEYS = frozenset({"architectures", "model_type", "num_hidden_layers", "text_config", "hidden_size", "n_layers"})


@fact
class Overrides:
    """Options of the command line that stand above the file; each as written, None when not given."""

    gpu: str | None = None
    tp: int | None = None
    batch: str | None = None
    context: str | None = None
    objective: str | None = None
    engine: str | None = None
    max_draft_len: int | None = None


_KEY_OF_OPTION: dict[str, KeyPath] = {
    "gpu": ("gpu",), "tp": ("parallel", "tp"), "batch": ("workload", "batch"), "engine": ("engine",),
    "context": ("workload", "context_tokens"), "objective": ("objective",), "max_draft_len": ("max_draft_len",),
}


@dataclass(frozen=True)
class LoadedConfig:
    """A checked configuration, with what is needed to say where a later fault lies."""

    config: Config
    document: Document
    base: Path = Path()     # paths in the configuration are relative to this folder
    options: Mapping[KeyPath, str] = field(default_factory=dict)    # keys that an option of the command line set
    notes: tuple[Note, ...] = ()

    def place(self, fault: Fault) -> Fault:
        """Add file and line, or the option, to a fault that a later room found."""
        return _placed(fault, self.document, self.options)


def load_config(source: object, overrides: Overrides | None = None) -> LoadedConfig:
    """Read whatever a caller has: a path, a mapping, or a configuration that is already loaded."""
    if isinstance(source, LoadedConfig):
        return source
    if isinstance(source, Mapping):
        return config_from_mapping(source, overrides)
    if isinstance(source, str | os.PathLike):
        return read_config(source if isinstance(source, str) else Path(source), overrides)
    accepted = "the path of a cfg.yaml or config.json, or a mapping of the same keys"
    raise InputError(f"a configuration must be {accepted}, not {shown(source)}")


def read_config(path: str | Path, overrides: Overrides | None = None) -> LoadedConfig:
    """Read cfg.yaml, or a bare config.json of a model: then the GPU comes from the options and no drafter is named."""
    document = read_yaml(path)
    value = document.value
    if isinstance(value, Mapping) and "target" not in value and (_is_json(path) or _MODEL_KEYS & value.keys()):
        return _bare_model(path, document, overrides or Overrides())
    return _validated(document, overrides, base=Path(path).parent)


def config_from_mapping(
    mapping: Mapping[str, Any], overrides: Overrides | None = None, *, base: Path | None = None
) -> LoadedConfig:
    """Check a configuration that comes from Python; `base` is the folder that its paths start from."""
    return _validated(Document(dict(mapping)), overrides, base=base or Path())


def _is_json(path: str | Path) -> bool:
    return str(path).endswith(".json")


def _bare_model(path: str | Path, document: Document, overrides: Overrides) -> LoadedConfig:
    if overrides.gpu is None:
        message = "is a model's config.json, not a cfg.yaml: give --gpu, or write a cfg.yaml with `specplan init`"
        raise InputError([Fault((), message, file=document.file)])
    assumed = {"batch": ASSUMED_BATCH, "context": ASSUMED_CONTEXT, "engine": ASSUMED_ENGINE}
    assumed = {option: value for option, value in assumed.items() if getattr(overrides, option) is None}
    notes = [Note("assumed", f"{option} {value}: assumed; set it with --{option}") for option, value in assumed.items()]
    overrides = Overrides(**(asdict(overrides) | assumed))
    target = str(path) if "/" in str(path) else f"./{path}"     # a path, even where a preset has the same name
    loaded = _validated(Document({"target": target}, document.file), overrides, base=Path())
    return replace(loaded, notes=tuple(notes))


def _validated(document: Document, overrides: Overrides | None, *, base: Path) -> LoadedConfig:
    value, options = _overridden(document.value, overrides or Overrides())
    if not isinstance(value, Mapping):
        message = f"must be a mapping of keys such as target, gpu and workload, not {shown(value)}"
        raise InputError([Fault((), message, file=document.file, line=document.line(()))])
    try:
        return LoadedConfig(Config.model_validate(value), document, base, options)
    except ValidationError as error:
        raise InputError(_in_order(_placed(fault, document, options) for fault in faults_of(error, Config))) from None


def _overridden(value: Any, overrides: Overrides) -> tuple[Any, dict[KeyPath, str]]:
    """The document's value with options put in, and which option set which key."""
    options: dict[KeyPath, str] = {}
    for option in fields(overrides):
        given = getattr(overrides, option.name)
        if given is None or not isinstance(value, Mapping):
            continue
        *parents, last = _KEY_OF_OPTION[option.name]
        value = dict(value)
        inner = value
        for parent in parents:
            if not isinstance(inner.setdefault(parent, {}), Mapping):
                break       # the schema says what is wrong there
            inner[parent] = dict(inner[parent])
            inner = inner[parent]
        else:
            inner[last] = given
            options[_KEY_OF_OPTION[option.name]] = "--" + option.name.replace("_", "-")
    return value, options


def _placed(fault: Fault, document: Document, options: Mapping[KeyPath, str]) -> Fault:
    if fault.file is not None:
        return fault
    for key, option in options.items():
        if fault.path[: len(key)] == key:
            return replace(fault, path=fault.path[len(key) :], file=option)
    return replace(fault, file=document.file, line=document.line(fault.path))


def _in_order(faults: Iterable[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: fault.line or 0)
