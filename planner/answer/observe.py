"""`--observe FILE`: measurements from CSV, YAML, saved benchmark results or a folder of them, into a configuration."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specplan.planner.config.faults import faults_of, shown
from specplan.planner.config.load import LoadedConfig
from specplan.planner.config.schema import Observation
from specplan.planner.config.sizes import size
from specplan.planner.config.text_file import read_text
from specplan.planner.config.yaml_reader import parse_yaml
from specplan.planner.engines.benchmarks import read_results
from specplan.planner.messages import Fault, InputError

NUMBERS = (
    "batch", "step_s", "tpot_s", "tokens_per_s", "speedup", "draft_s", "verify_s", "acceptance_length",
)
MILLISECONDS = {"step_ms": "step_s", "tpot_ms": "tpot_s", "itl_ms": "tpot_s", "draft_ms": "draft_s",
                "verify_ms": "verify_s"}
OTHER_NAMES = {**MILLISECONDS, "context": "context_tokens", "input_tokens": "context_tokens"}
WHOLE = ("draft_len", "context_tokens", "context", "input_tokens", "output_tokens")


def with_observations(loaded: LoadedConfig, path: str | Path) -> LoadedConfig:
    """The configuration with the observations of a file or folder added to its own."""
    more = read_observations(path)
    config = loaded.config.model_copy(update={"observations": (*loaded.config.observations, *more)})
    return replace(loaded, config=config)


def read_observations(path: str | Path) -> tuple[Observation, ...]:
    """Observations of a file, or of all saved results in a folder; all faults at once."""
    place = Path(path)
    files = sorted([*place.glob("*.json"), *place.glob("*.jsonl")]) if place.is_dir() else [place]
    if not files:
        raise InputError([Fault((), "holds no saved results (*.json, *.jsonl)", file=str(place))])
    found: list[Observation] = []
    faults: list[Fault] = []
    for file in files:
        try:
            rows = list(_rows(file))
        except InputError as error:
            faults += error.faults
            continue
        for line, row in rows:
            try:
                found.append(_observation(row))
            except InputError as error:
                faults += [replace(fault, file=str(file), line=line) for fault in error.faults]
    if faults:
        raise InputError(faults)
    return tuple(found)


def _observation(row: Mapping[str, Any]) -> Observation:
    """A row, checked; faults name its own columns and values."""
    ours = _our_names(row)
    try:
        return Observation.model_validate(ours)
    except ValidationError as error:
        theirs = {OTHER_NAMES[name]: name for name in row if name in OTHER_NAMES}
        faults = []
        for fault in faults_of(error, Observation):
            name = theirs.get(str(fault.path[0])) if fault.path else None
            if name is not None:
                message = fault.message.replace(shown(ours[OTHER_NAMES[name]]), shown(row[name]))
                fault = Fault((name, *fault.path[1:]), message)     # noqa: PLW2901 (the same fault in their words)
            faults.append(fault)
        raise InputError(faults) from None


def _rows(file: Path) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
    """(line, keys of an observation) of one file."""
    text = read_text(file)
    if file.suffix in (".json", ".jsonl"):
        yield from ((None, row) for row in read_results(file, text))
    elif file.suffix == ".csv":
        yield from _csv(text, file)
    else:
        value = parse_yaml(text, file=str(file)).value
        listed = value.get("observations") if isinstance(value, Mapping) else value
        if not isinstance(listed, list):
            raise InputError([Fault((), "needs a list of observations, bare or under `observations`", file=str(file))])
        for item in listed:
            if not isinstance(item, Mapping):
                raise InputError([Fault(("observations",), "an observation is a mapping", file=str(file))])
            yield None, item


def _our_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the names and units of an observation: engines and benchmarks print milliseconds and token counts.

    The mean context of a run is its prompt and half of its answer.
    """
    found = {name: value for name, value in row.items() if name not in OTHER_NAMES and name != "output_tokens"}
    drafts = row.get("mechanism") != "off"
    for name in (name for name in row if name in OTHER_NAMES):
        ours = OTHER_NAMES[name]
        if ours in found:
            raise InputError([Fault((name,), f"{ours} is given by another column as well: keep one of them")])
        if name == "itl_ms" and drafts:
            raise InputError([Fault((name,), (
                "is the time of a step where engines count the arrivals of a stream (several tokens each), and the "
                "time per token elsewhere: give tpot_ms, or step_ms"
            ))])
        found[ours] = _seconds(name, row[name]) if name in MILLISECONDS else row[name]
    if "output_tokens" in row and "input_tokens" in row:
        prompt, answer = (_tokens(name, row[name]) for name in ("input_tokens", "output_tokens"))
        found["context_tokens"] = prompt + answer // 2
    elif "output_tokens" in row:
        raise InputError([Fault(("output_tokens",), "tells the context only beside input_tokens")])
    return found


def _seconds(name: str, written: Any) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise InputError([Fault((name,), f"must be a number, not {shown(written)}")])
    return written / 1e3


def _tokens(name: str, written: Any) -> int:
    try:
        return size(written)
    except ValueError as error:
        raise InputError([Fault((name,), str(error))]) from None


def _csv(text: str, file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    rows = 0
    for row in reader:
        found: dict[str, Any] = {}
        for name, written in row.items():
            if name is None:
                raise InputError([Fault((), "more cells than columns", file=str(file), line=reader.line_num)])
            if written is None or not written.strip():
                continue
            found[name.strip()] = _value(name.strip(), written.strip(), file, reader.line_num)
        if found:
            rows += 1
            yield reader.line_num, found
    if not rows:
        what = "is empty" if not text.strip() else "has a header and no row"
        wanted = "a header such as mechanism,draft_len,batch,context_tokens,tpot_ms and a row per run"
        raise InputError([Fault((), f"{what}; wanted: {wanted}", file=str(file))])


def _value(name: str, written: str, file: Path, line: int) -> Any:
    try:
        if name in NUMBERS or name in MILLISECONDS:
            return float(written)
        if name in WHOLE and written.isdigit():
            return int(written)
    except ValueError:
        raise InputError([Fault((name,), f"must be a number, not '{written}'", file=str(file), line=line)]) from None
    return written
