"""What a run of check is asked to do: command line over `[tool.specplan]` of pyproject.toml or specplan.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any

from specplan.planner.check.plan_rules import Baseline, Planner
from specplan.planner.engines.dialects import engine_name
from specplan.planner.engines.rule import Severity
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError, nearest

_KEYS = {"select", "ignore", "exclude", "per-file-ignores", "fail-on", "max-loss", "batch", "engines", "temperature"}


@fact
class Options:
    """Settings of a run; the defaults check everything."""

    select: tuple[str, ...] = ()            # codes, beginnings of codes, or names; empty: all rules
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()           # patterns of paths and names
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fail_on: Severity = "warning"
    max_loss: float | None = None           # fraction
    batch: int | None = None                # sequences in flight that the deployment is meant for
    temperature: float | None = None
    engines: Mapping[str, str] = field(default_factory=dict)   # engine -> release
    planner: Planner | None = None
    baseline: Baseline | None = None

    def wants(self, code: str, name: str) -> bool:
        """True if a rule is selected and not ignored."""
        chosen = not self.select or any(_matches(code, name, wanted) for wanted in self.select)
        return chosen and not any(_matches(code, name, unwanted) for unwanted in self.ignore)


def _matches(code: str, name: str, given: str) -> bool:
    return code.startswith(given.upper()) or name == given.lower()


def check_codes(options: Options) -> None:
    """InputError for codes that no rule has."""
    from specplan.planner.check.catalog import all_rules  # noqa: PLC0415  (only when codes are given)

    given = [*options.select, *options.ignore, *(code for codes in options.per_file_ignores.values() for code in codes)]
    if not given:
        return
    rules = all_rules()
    known = [rule.code for rule in rules] + [rule.name for rule in rules]
    faults = [Fault((), f"'{code}' is not a rule or the beginning of one{nearest(code, known)}") for code in given
              if not any(_matches(rule.code, rule.name, code) for rule in rules)]
    if faults:
        raise InputError(faults)


def read_options(start: str | Path = ".") -> Options:
    """Settings from the nearest specplan.toml or pyproject.toml with a [tool.specplan] table, from `start` upward."""
    here = Path(start).resolve()
    for folder in (here, *here.parents) if here.is_dir() else here.parents:
        own = folder / "specplan.toml"
        if own.is_file():
            return _options(_toml(own), own)
        project = folder / "pyproject.toml"
        if project.is_file():
            table = _toml(project).get("tool", {}).get("specplan")
            if isinstance(table, dict):
                return _options(table, project)
    return Options()


def with_command_line(options: Options, **given: Any) -> Options:
    """Options with what the command line gives (not None) in place of the file's."""
    known = {one.name for one in fields(Options)}
    return replace(options, **{name: value for name, value in given.items() if value is not None and name in known})


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError([Fault((), f"cannot be read: {error}", file=str(path))]) from None


def _options(table: Mapping[str, Any], path: Path) -> Options:
    faults: list[Fault] = []

    def fault(key: str, message: str) -> None:
        inside = ("tool", "specplan") if path.name == "pyproject.toml" else ()
        faults.append(Fault((*inside, key), message, file=str(path)))

    def strings(key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        fault(key, "must be a list of strings")
        return ()

    for key in table:
        if key not in _KEYS:
            fault(key, f"unknown key{nearest(key, _KEYS)}")
    per_file = table.get("per-file-ignores", {})
    engines = table.get("engines", {})
    fail_on = table.get("fail-on", "warning")
    if fail_on not in {"note", "warning", "error"}:
        fault("fail-on", "must be note, warning or error")
        fail_on = "warning"
    batch, temperature = table.get("batch"), table.get("temperature")
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
        fault("batch", "must be a whole number from 1")
        batch = None
    max_loss = None
    try:
        max_loss = fraction(table["max-loss"]) if "max-loss" in table else None
        engines = {engine_name(name): str(release) for name, release in engines.items()}
    except InputError as error:
        fault("max-loss" if "max-loss" in str(error) else "engines", str(error))
    if not isinstance(per_file, dict) or not all(isinstance(codes, list) for codes in per_file.values()):
        fault("per-file-ignores", "must map patterns to lists of codes")
        per_file = {}
    found = Options(select=strings("select"), ignore=strings("ignore"), exclude=strings("exclude"), fail_on=fail_on,
                    per_file_ignores={pattern: tuple(codes) for pattern, codes in per_file.items()}, max_loss=max_loss,
                    batch=batch, temperature=temperature, engines=engines)
    if faults:
        raise InputError(faults)
    return found


def fraction(value: str | float) -> float:
    """0.05 of `5%`, `0.05` or 0.05."""
    text = str(value).strip()
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1:
        raise InputError(f"max-loss '{value}' is not a share like 5% or 0.05")
    return number
