"""The file of measurements: JSON lines, read back with every fault named (`journal.py` appends to it).

A line is an `environment` (what was measured on; one per run) or a `point`. A point that was measured again, because
the machine had drifted, is appended again: the last line with the same key counts. Raw samples are stored; statistics
are derived when they are read.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from specplan.planner.messages import Fault, InputError, nearest
from specplan.planner.models.dtypes import BYTES_PER_KV, BYTES_PER_WEIGHT

SCHEMA = 1
# 1: first form

Op: TypeAlias = Literal["gemm", "lm_head", "attention", "mla", "moe", "allreduce", "copy", "launch", "draft_step"]

SHAPE_KEYS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("rows", "n", "k"),
    "lm_head": ("rows", "n", "k"),
    "attention": ("batch", "context_tokens", "query_len", "query_heads", "kv_heads", "head_dim"),
    "mla": ("batch", "context_tokens", "query_len", "heads", "latent_width", "value_width"),
    "moe": ("tokens", "hidden", "intermediate", "experts", "top_k", "matrices"),
    "allreduce": ("message_bytes", "gpus"),
    "copy": ("moved_bytes",),       # read once and written once: half of it each way
    "launch": (),
    "draft_step": ("batch", "context_tokens", "layers", "hidden", "intermediate", "query_heads", "kv_heads", "head_dim",
                   "vocab"),
}

LARGEST = 10**15        # of any size: beyond what a device holds or moves
FROM_ZERO = ("context_tokens",)     # every other size of a shape is 1 or more
DTYPES = tuple(dict.fromkeys((*BYTES_PER_WEIGHT, *BYTES_PER_KV)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a run was measured on. `COMPARED` fields must agree before points may share a file."""

    device: Literal["cuda", "cpu"]
    device_name: str                        # as the driver says it
    memory_bytes: int
    cache_bytes: int                        # last level: L2 on a GPU, L3 on a CPU
    torch: str
    sms: int | None = None                  # streaming multiprocessors; None on a CPU
    compute_capability: str | None = None   # "9.0"
    driver: str | None = None
    cuda: str | None = None
    triton: str | None = None
    threads: int | None = None              # torch's compute threads on a CPU
    power_limit_w: float | None = None
    clock_hz: float | None = None           # highest SM clock that the driver allows
    kernels: Mapping[str, str] = field(default_factory=dict)    # library -> version, only of those present
    host_cpu: str = ""
    gpus: int = 1                           # ranks of the run (all-reduce)
    specplan: str = ""
    started: str = ""                       # ISO 8601, UTC
    notes: tuple[str, ...] = ()             # e.g. "GPU of unknown name"
    schema: int = SCHEMA


COMPARED = ("device", "device_name", "memory_bytes", "sms", "driver", "cuda", "torch", "triton", "threads",
            "power_limit_w", "gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One timed (or skipped) call of one kernel at one shape.

    `samples_s` are seconds per call, each the mean of `calls_per_sample` back-to-back calls. `shape` has at least the
    `SHAPE_KEYS` of its op; heads are those of one GPU and `context_tokens` are the tokens cached before the pass, so
    that attention walks context_tokens + query_len keys. `flop` and `bytes` are what the case declares: each operand
    once, no tile padding. `cold` says that no operand was left in the last-level cache by the call before.
    """

    op: Op
    kernel: str                                             # e.g. torch-mm, specplan-triton, flash-attn-3
    shape: Mapping[str, int]
    dtypes: Mapping[str, str]                               # role (weight, kv, query, ...) -> bf16, fp8, ...
    flop: float
    bytes: float
    environment: str                                        # id of the environment line before it
    options: Mapping[str, int | str] = field(default_factory=dict)   # asked of the kernel: page_tokens, block_m
    tile: Mapping[str, int] = field(default_factory=dict)   # what the kernel chose where it says: block_m, splits, ...
    cold: bool = True
    samples_s: tuple[float, ...] = ()
    calls_per_sample: int = 1
    stop: Literal["standard_error", "time", "samples"] | None = None   # the rule that ended it
    skipped: str | None = None                              # why there are no samples
    reference: bool = False                                 # a repeat of the reference point
    drift: float | None = None                              # reference point around it / the first one
    at_s: float = 0.0                                       # seconds after the run began
    state: Mapping[str, float | str] = field(default_factory=dict)   # clock_hz, power_w, throttle, ... where readable

    @property
    def key(self) -> str:
        """What makes it one point: everything but the timing."""
        return point_key(self.op, self.kernel, self.shape, self.dtypes, self.options, cold=self.cold)

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return float(statistics.median(self.samples_s))

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """First and third quartile of the samples, in seconds."""
        if len(self.samples_s) < 2:
            return self.samples_s[0], self.samples_s[0]
        low, _, high = statistics.quantiles(self.samples_s, n=4, method="inclusive")
        return low, high

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, relative to it; infinite for one sample."""
        if len(self.samples_s) < 2:
            return float("inf")
        return float(statistics.stdev(self.samples_s) / len(self.samples_s) ** 0.5 / statistics.fmean(self.samples_s))

    @property
    def flop_per_s(self) -> float:
        """Declared work over the median."""
        return self.flop / self.median_s

    @property
    def bytes_per_s(self) -> float:
        """Declared traffic over the median."""
        return self.bytes / self.median_s


def point_key(
    op: str, kernel: str, shape: Mapping[str, int], dtypes: Mapping[str, str],
    options: Mapping[str, int | str], *, cold: bool,
) -> str:
    """Name one point of a sweep; equal names mean the same work.

    >>> point_key("gemm", "torch-mm", {"rows": 8, "n": 64, "k": 32}, {"weight": "bf16"}, {}, cold=True)
    'gemm torch-mm k=32 n=64 rows=8 weight=bf16 cold'
    """
    parts = [f"{name}={value}" for given in (shape, dtypes, options) for name, value in sorted(given.items())]
    return " ".join([op, kernel, *parts, "cold" if cold else "warm"])


def environment_id(environment: Environment) -> str:
    """Short name of an environment, from the fields that must agree."""
    import hashlib  # noqa: PLC0415

    said = json.dumps([getattr(environment, name) for name in COMPARED])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def differences(a: Environment, b: Environment) -> tuple[str, ...]:
    """Say what keeps two environments from sharing a file, e.g. "torch: 2.12.0 there, 2.13.0 here"."""
    return tuple(
        f"{name}: {getattr(a, name)} there, {getattr(b, name)} here"
        for name in COMPARED
        if getattr(a, name) != getattr(b, name)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """A file read back. `faults` are the lines that could not be used; all others are here."""

    environment: Environment
    points: tuple[Measurement, ...]         # the last of each key, references apart
    references: tuple[Measurement, ...]     # every repeat of the reference point, in order
    faults: tuple[Fault, ...] = ()

    @property
    def timed(self) -> tuple[Measurement, ...]:
        """Points that have samples."""
        return tuple(point for point in self.points if point.samples_s)

    @property
    def skipped(self) -> tuple[Measurement, ...]:
        """Points that were left out, each with its reason."""
        return tuple(point for point in self.points if point.skipped)


_STRICT = ConfigDict(extra="forbid")


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    # slotted dataclasses take their pydantic configuration by attribute, not by argument
    kind.__pydantic_config__ = _STRICT
    return TypeAdapter(kind)


_ENVIRONMENT: TypeAdapter[Environment] = _adapter(Environment)
_MEASUREMENT: TypeAdapter[Measurement] = _adapter(Measurement)


def read_measurements(path: Path) -> Measurements:
    """Read a file of measurements.

    Raises
    ------
    InputError
        No such file, no environment line, a newer schema, or environments that differ.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError([Fault((), f"cannot be read: {error.strerror}", file=str(path))]) from None
    environments: dict[str, Environment] = {}
    lines: list[tuple[int, Measurement]] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = _parse(line)
            if isinstance(record, Environment):
                environments[environment_id(record)] = record
            else:
                lines.append((number, record))
        except ValueError as error:
            faults.append(Fault((), f"{error}; this line is left out", file=str(path), line=number))
    first = _same_environment(environments, path, faults)
    known = [record for number, record in lines if _has_environment(record, number, environments, path, faults)]
    latest = {record.key: record for record in known if not record.reference}
    references = tuple(record for record in known if record.reference)
    return Measurements(
        environment=first, points=tuple(latest.values()), references=references, faults=tuple(faults)
    )


def _parse(line: str) -> Environment | Measurement:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ValueError("not JSON that a measurement can be (nested too deeply)") from None
    if not isinstance(found, dict) or found.get("record") not in {"environment", "point"}:
        raise ValueError("no measurement: `record` is neither 'environment' nor 'point'")
    kind = found.pop("record")
    if kind == "environment" and isinstance(found.get("schema"), int) and found["schema"] > SCHEMA:
        raise InputError(f"measurements of schema {found['schema']}; this specplan reads up to {SCHEMA}: update it")
    try:
        if kind == "environment":
            return _ENVIRONMENT.validate_python(found)
        point = _MEASUREMENT.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg'].lower()}") from None
    _check_point(point)
    return point


def _check_point(point: Measurement) -> None:
    missing = [key for key in SHAPE_KEYS[point.op] if key not in point.shape]
    if missing:
        raise ValueError(f"shape: {point.op} lacks {', '.join(missing)}")
    if wrong := [name for name in SHAPE_KEYS[point.op]
                 if not (0 if name in FROM_ZERO else 1) <= point.shape[name] <= LARGEST]:
        found = point.shape[wrong[0]]
        raise ValueError(f"shape: {wrong[0]} is {found if found <= LARGEST else 'above 1e15'}, which no {point.op} has")
    if not (0 <= point.flop < float("inf") and 0 <= point.bytes < float("inf")):
        raise ValueError("flop, bytes: work that is not a number of at least 0")
    if wrong := [kind for kind in point.dtypes.values() if kind not in DTYPES]:
        hint = nearest(wrong[0], DTYPES) or f"; there are {', '.join(DTYPES)}"
        raise ValueError(f"dtypes: unknown dtype '{wrong[0]}'{hint}")
    if any(not 0 < sample < float("inf") for sample in point.samples_s):
        raise ValueError("samples_s: a time that is not a positive number of seconds")
    if bool(point.samples_s) == bool(point.skipped):
        raise ValueError("either samples_s or skipped must be given, and not both")


def _same_environment(environments: Mapping[str, Environment], path: Path, faults: Sequence[Fault]) -> Environment:
    if not environments:
        why = [Fault((), "no environment line: these are no measurements of specplan", file=str(path))]
        raise InputError([*why, *faults])
    first, *others = environments.values()
    for other in others:
        said = "; ".join(differences(first, other))
        raise InputError([Fault((), f"measurements of two environments in one file ({said})", file=str(path))])
    return first


def _has_environment(
    record: Measurement, number: int, environments: Mapping[str, Environment], path: Path, faults: list[Fault]
) -> bool:
    if record.environment in environments:
        return True
    faults.append(
        Fault((), f"environment {record.environment} is not in this file; this line is left out", str(path), number)
    )
    return False


def by_op(points: Iterable[Measurement], op: Op) -> tuple[Measurement, ...]:
    """Select the timed points of one op."""
    return tuple(point for point in points if point.op == op and point.samples_s)


assert set(SHAPE_KEYS) == set(get_args(Op))
