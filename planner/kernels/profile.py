"""A GPU profile: datasheet facts and fitted kernel numbers of one GPU, one YAML file each in gpu_profiles/.

The file and the objects say the same thing: `read_profile` and `dump_profile` are inverse to each other, and the
text of a dump depends on nothing but the profile, so that a regenerated profile can be compared byte by byte.
A GPU without measured kernels names the nearest measured one as `prior_from`; `load_gpu` then scales its entries.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Fault, InputError, KeyPath, nearest

PROFILES = Path(__file__).parents[2] / "gpu_profiles"
SCHEMA = 1
MAX_PROFILE_BYTES = 5_000_000

Key = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Datasheet facts. `dense_flop_per_s` is without 2:4 sparsity and with fp32 accumulation."""

    name: str
    vendor: str
    arch: str
    compute_capability: str
    sms: int
    boost_hz: float | None
    memory_bytes: float
    hbm_bytes_per_s: float
    l2_bytes: float
    dense_flop_per_s: Mapping[str, float]       # by math: bf16, fp8, fp4, int8
    link_type: str
    link_bytes_per_s: float                     # GPU to GPU, both directions together
    tdp_w: float
    exp_per_clock_per_sm: float | None = None   # second roof of attention (kernels.md, section 0)
    memory_type: str = ""
    confidence: str = "medium"
    sources: tuple[str, ...] = ()
    notes: str = ""
    preliminary: bool = False

    @property
    def exp_per_s(self) -> float:
        """exp() results per second of the whole GPU; infinite where nobody stated the rate."""
        if self.exp_per_clock_per_sm is None or self.boost_hz is None:
            return math.inf
        return self.exp_per_clock_per_sm * self.sms * self.boost_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Numbers of one kernel for one case: what it is (`id`, `key`), its equation (`form`) and its parameters (SI)."""

    id: str                                 # <engine>-<kernel>, as people name it
    engine: str
    version: str
    form: str
    key: Mapping[str, Key]                  # head_dim, kv_dtype | weight_dtype | gpus ...
    parameters: Mapping[str, float]
    evidence: Evidence
    bands: tuple[Mapping[str, float], ...] = ()     # all-reduce: upto_bytes, alpha_s, beta_s_per_byte
    measured_as: str = ""                   # the kernel's name in the table it was fitted on
    default: bool = False                   # the engine's own choice where several kernels serve one key


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProfile:
    """One GPU: hardware and, per kernel family, the entries to price with."""

    name: str
    hardware: Hardware
    kernels: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    prior_from: str | None = None           # measured GPU whose entries stand in, scaled
    prior_math_scale: float = 1.0           # extra factor on its share of peak math (documented in hardware.notes)
    sources: Mapping[str, str] = field(default_factory=dict)    # short name -> where it is
    file: Path | None = None

    def entries(self, family: str) -> tuple[Entry, ...]:
        """Entries of one family; empty where nothing is known."""
        return self.kernels.get(family, ())


FAMILIES = ("attention", "attention_math", "gemm", "moe", "allreduce", "mla", "recurrent", "sparse")


# ---- reading -------------------------------------------------------------------------------------------------


def gpu_names() -> tuple[str, ...]:
    """Names of the shipped profiles."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))


def load_gpu(reference: str | Path, *, allow_preliminary: bool = False) -> GpuProfile:
    """Profile by name, or from a YAML file, with the entries of its `prior_from` scaled in where it has none.

    Raises
    ------
    InputError
        For an unknown name (nearest ones shown), an unreadable or faulty file, or preliminary figures that the
        caller did not allow.
    """
    profile = _load(str(reference))
    if profile.hardware.preliminary and not allow_preliminary:
        raise InputError(f"gpu: the figures of '{profile.name}' are preliminary ({profile.hardware.notes}); "
                         "pass --allow-preliminary to use them")
    return profile


@functools.lru_cache(maxsize=64)
def _load(reference: str) -> GpuProfile:
    if reference in gpu_names():
        path = PROFILES / f"{reference}.yaml"
    elif reference.endswith((".yaml", ".yml")) or "/" in reference:
        path = Path(reference)
    else:
        raise InputError(f"gpu: no profile named '{reference}'{nearest(reference, gpu_names())}")
    profile = read_profile(_text(path), file=path)
    if profile.prior_from is None:
        return profile
    if profile.prior_from not in gpu_names():
        raise InputError(f"{path}: prior_from: no profile named '{profile.prior_from}'"
                         f"{nearest(profile.prior_from, gpu_names())}")
    from specplan.planner.kernels.prior import with_prior   # noqa: PLC0415 - only these profiles need it

    return with_prior(profile, _load(profile.prior_from))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_PROFILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_PROFILE_BYTES} bytes, not a GPU profile")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a GPU profile: {error}") from None


def read_profile(text: str, *, file: Path | None = None) -> GpuProfile:
    """Profile from the text of its YAML file; all faults are reported together."""
    name = str(file) if file else None
    try:
        raw = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader without aliases
    except yaml.YAMLError as error:
        raise InputError((Fault((), f"not valid YAML: {error}", name),)) from None
    if not isinstance(raw, dict):
        raise InputError((Fault((), "a GPU profile is a mapping with name, hardware and kernels", name),))
    faults: list[Fault] = []
    reader = _Reader(raw, (), faults, name)
    if reader.take("schema", int) != SCHEMA:
        faults.append(Fault(("schema",), f"this version reads schema {SCHEMA}", name))
    gpu = reader.text("name")
    hardware = _hardware(reader.section("hardware"), gpu)
    kernels_raw = reader.section("kernels", optional=True)
    kernels = {family: tuple(_entry(item) for item in kernels_raw.items(family)) for family in FAMILIES}
    kernels_raw.finish()
    prior_from = reader.take("prior_from", str, default=None)
    scale = reader.number("prior_math_scale", default=1.0)
    sources = reader.take("sources", dict, default={})
    reader.finish()
    if faults:
        raise InputError(faults)
    return GpuProfile(
        name=gpu, hardware=hardware, kernels={key: value for key, value in kernels.items() if value},
        prior_from=prior_from, prior_math_scale=scale,
        sources={str(key): str(value) for key, value in sources.items()}, file=file,
    )


class _Loader(yaml.CSafeLoader):
    """PyYAML's C loader without aliases (no bombs) and with YAML 1.2 floats (1e-6, 4.8e12)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not used in GPU profiles")
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver(  # type: ignore[no-untyped-call]
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)$"), list("-+.0123456789")
)


class _Reader:
    """Takes typed values out of one mapping, notes each fault with its key path, and names keys left over."""

    def __init__(self, raw: Mapping[str, Any], path: KeyPath, faults: list[Fault], file: str | None) -> None:
        self.raw, self.path, self.faults, self.file = dict(raw), path, faults, file
        self.known: list[str] = []

    def fault(self, key: str, message: str) -> None:
        self.faults.append(Fault((*self.path, key), message, self.file))

    def take(self, key: str, kind: type, *, default: Any = ...) -> Any:
        self.known.append(key)
        value = self.raw.pop(key, None)
        if value is None:
            if default is ...:
                self.fault(key, "missing")
                return kind()
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fault(key, f"should be {kind.__name__}, is {value!r}")
            return kind()
        return value

    def text(self, key: str, default: Any = ...) -> str:
        self.known.append(key)
        value = self.raw.pop(key, None)
        if value is None and default is ...:
            self.fault(key, "missing")
        return str(value) if value is not None else ("" if default is ... else default)

    def number(self, key: str, default: Any = ...) -> Any:
        self.known.append(key)
        value = self.raw.pop(key, None)
        if value is None:
            if default is ...:
                self.fault(key, "missing")
                return 0.0
            return default
        return self.checked(key, value)

    def checked(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            self.fault(key, f"should be a finite number >= 0, is {value!r}")
            return 0.0
        return float(value)

    def numbers(self, key: str) -> dict[str, float]:
        """A mapping of names to numbers; null values are left out."""
        raw = self.take(key, dict, default={})
        return {str(name): self.checked(f"{key}.{name}", value) for name, value in raw.items() if value is not None}

    def section(self, key: str, *, optional: bool = False) -> _Reader:
        raw = self.take(key, dict, default={} if optional else ...)
        return _Reader(raw, (*self.path, key), self.faults, self.file)

    def items(self, key: str) -> Iterable[_Reader]:
        for index, item in enumerate(self.take(key, list, default=[])):
            if isinstance(item, dict):
                yield _Reader(item, (*self.path, key, index), self.faults, self.file)
            else:
                self.fault(key, f"item {index} should be a mapping")

    def finish(self) -> None:
        for key in self.raw:
            self.fault(str(key), f"unknown key{nearest(str(key), self.known)}")


def _hardware(reader: _Reader, name: str) -> Hardware:
    hardware = Hardware(
        name=name,
        vendor=reader.text("vendor"),
        arch=reader.text("arch"),
        compute_capability=reader.text("compute_capability"),
        sms=reader.take("sms", int),
        boost_hz=reader.number("boost_hz", default=None),
        memory_type=reader.text("memory_type", default=""),
        memory_bytes=reader.number("memory_bytes"),
        hbm_bytes_per_s=reader.number("hbm_bytes_per_s"),
        l2_bytes=reader.number("l2_bytes", default=0.0),
        dense_flop_per_s=reader.numbers("dense_flop_per_s"),
        link_type=reader.text("link_type"),
        link_bytes_per_s=reader.number("link_bytes_per_s"),
        tdp_w=reader.number("tdp_w"),
        exp_per_clock_per_sm=reader.number("exp_per_clock_per_sm", default=None),
        confidence=reader.text("confidence"),
        sources=tuple(str(item) for item in reader.take("sources", list, default=[])),
        notes=reader.text("notes", default=""),
        preliminary=reader.take("preliminary", bool, default=False),
    )
    for key in ("sms", "memory_bytes", "hbm_bytes_per_s"):
        if not getattr(hardware, key) > 0:
            reader.fault(key, "should be above 0")
    reader.finish()
    return hardware


_KEYS = ("head_dim", "kv_dtype", "weight_dtype", "activation_dtype", "gated", "gpus", "kind", "phase")


def _entry(reader: _Reader) -> Entry:
    entry = Entry(
        id=reader.text("id"),
        engine=reader.text("engine"),
        version=reader.text("version"),
        measured_as=reader.text("measured_as", default=""),
        default=reader.take("default", bool, default=False),
        key={key: reader.raw.pop(key) for key in _KEYS if key in reader.raw},
        form=reader.text("form"),
        parameters=reader.numbers("parameters"),
        bands=tuple({str(k): band.checked(str(k), v) for k, v in band.raw.items()} for band in reader.items("bands")),
        evidence=_evidence(reader.section("evidence")),
    )
    reader.finish()
    return entry


def _evidence(reader: _Reader) -> Evidence:
    rows, held_out = reader.number("rows", default=None), reader.number("held_out_rows", default=None)
    evidence = Evidence(
        level=reader.text("level", default="measured"),  # type: ignore[arg-type]
        source=reader.text("source"),
        quality=reader.text("quality", default="ok"),  # type: ignore[arg-type]
        rows=None if rows is None else int(rows),
        held_out_rows=None if held_out is None else int(held_out),
        error_median_pct=reader.number("error_median_pct", default=None),
        error_mean_pct=reader.number("error_mean_pct", default=None),
        error_p90_pct=reader.number("error_p90_pct", default=None),
        parameter_error_pct=reader.numbers("parameter_error_pct"),
        fitted_range={
            str(axis): (float(pair[0]), float(pair[1]))
            for axis, pair in reader.take("fitted_range", dict, default={}).items()
        },
    )
    for name, known in (("level", ("measured", "prior")), ("quality", ("ok", "rough"))):
        if getattr(evidence, name) not in known:
            reader.fault(name, f"should be one of {', '.join(known)}")
    reader.finish()
    return evidence


# ---- writing -------------------------------------------------------------------------------------------------


def dump_profile(profile: GpuProfile) -> str:
    """The profile as YAML text; equal profiles give equal text, and reading the text gives the profile back."""
    hw = profile.hardware
    facts: dict[str, Any] = {
        "vendor": hw.vendor, "arch": hw.arch, "compute_capability": hw.compute_capability, "sms": hw.sms,
        "boost_hz": hw.boost_hz, "memory_type": hw.memory_type, "memory_bytes": hw.memory_bytes,
        "hbm_bytes_per_s": hw.hbm_bytes_per_s, "l2_bytes": hw.l2_bytes, "dense_flop_per_s": hw.dense_flop_per_s,
        "link_type": hw.link_type, "link_bytes_per_s": hw.link_bytes_per_s, "tdp_w": hw.tdp_w,
        "exp_per_clock_per_sm": hw.exp_per_clock_per_sm, "confidence": hw.confidence, "sources": list(hw.sources),
        "notes": hw.notes, "preliminary": hw.preliminary or None,
    }
    lines = [f"schema: {SCHEMA}", f"name: {profile.name}", "hardware:"]
    lines += [f"  {key}: {_flow(value)}" for key, value in facts.items() if value not in (None, "")]
    if profile.sources:
        lines.append("sources:")
        lines += [f"  {key}: {_flow(value)}" for key, value in profile.sources.items()]
    if profile.prior_from:
        lines.append(f"prior_from: {profile.prior_from}")
    if profile.prior_math_scale != 1.0:
        lines.append(f"prior_math_scale: {_flow(profile.prior_math_scale)}")
    if profile.kernels:
        lines.append("kernels:")
    for family in FAMILIES:
        if profile.entries(family):
            lines.append(f"  {family}:")
            lines += [line for entry in profile.entries(family) for line in _entry_lines(entry)]
    return "\n".join(lines) + "\n"


def _entry_lines(entry: Entry) -> list[str]:
    evidence = entry.evidence
    head = {"id": entry.id, "engine": entry.engine, "version": entry.version, "measured_as": entry.measured_as or None,
            "default": entry.default or None, **entry.key, "form": entry.form}
    facts = {
        "level": None if evidence.level == "measured" else evidence.level, "quality": evidence.quality,
        "rows": evidence.rows, "held_out_rows": evidence.held_out_rows,
        "error_median_pct": evidence.error_median_pct, "error_mean_pct": evidence.error_mean_pct,
        "error_p90_pct": evidence.error_p90_pct, "parameter_error_pct": evidence.parameter_error_pct or None,
        "fitted_range": {k: list(v) for k, v in evidence.fitted_range.items()} or None, "source": evidence.source,
    }
    lines = [f"    - {_flow(head)[:-1]},"]
    if entry.parameters:
        lines.append(f"       parameters: {_flow(entry.parameters)},")
    if entry.bands:
        lines.append(f"       bands: {_flow(list(entry.bands))},")
    return [*lines, f"       evidence: {_flow(facts)}}}"]


def _flow(value: Any) -> str:
    """A value in YAML flow style that any YAML 1.1 or 1.2 reader takes for the same value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return str(value)
    return value if re.fullmatch(r"[a-z][\w-]*", value) and value not in _WORDS else _quoted(str(value))


_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _float(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e6:
        return repr(value)
    mantissa, exponent = f"{value:.15e}".split("e")
    short = next(s for s in (f"{value:.{d}e}" for d in range(17)) if float(s) == value)
    mantissa, exponent = short.split("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent[0]}{int(exponent[1:])}"
