"""The YAML file of a GPU profile: `read_profile` and `dump_profile` are inverse to each other.

The text of a dump depends on nothing but the profile, so that a regenerated file can be compared byte by byte.
Units stand in the names of the keys, all SI. Reading notes every fault with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from specplan.planner.config.yaml_reader import Document, parse_yaml
from specplan.planner.kernels.entries import BAND, FAMILIES, KEYS, OPTIONAL_KEYS, REQUIRED, Entry, GpuProfile, Hardware
from specplan.planner.kernels.timing import Evidence, Level, Quality
from specplan.planner.messages import Fault, InputError, KeyPath, nearest

SCHEMA = 1
RATES = frozenset({"stream_bytes_per_s", "mma_flop_per_s", "cta_bytes_per_s", "width_tokens"})
COUNTS = frozenset({"ctas_per_sm", "split_cap", "kv_block_tokens", "tile_rows", "row_tile", "overlap"})
FEWEST = {"head_dim": 1, "gpus": 2}
MOST = 1_000_000
SMALLEST, LARGEST = 1e-30, 1e30     # beyond any time, rate or size in SI units; keeps products finite
_MISSING: Any = object()


def read_profile(text: str, *, file: str | None = None) -> GpuProfile:
    """Profile from the text of its file; all faults are reported together, each with its line."""
    document = parse_yaml(text, file=file)
    faults: list[Fault] = []
    if not isinstance(document.value, dict):
        raise InputError([Fault((), "a GPU profile is a mapping with name, hardware and kernels", file=file)])
    reader = _Reader(document.value, (), faults, document)
    if reader.whole("schema") != SCHEMA:
        reader.fault("schema", f"this version reads schema {SCHEMA}")
    name = reader.text("name")
    hardware = _hardware(reader.section("hardware"), name)
    sources = {key: str(value) for key, value in reader.mapping("sources", {}).items()}
    families = reader.section("kernels", optional=True)
    kernels = {family: tuple(_entry(item, family, sources) for item in families.items(family)) for family in FAMILIES}
    families.finish()
    profile = GpuProfile(
        name=name, hardware=hardware, kernels={key: entries for key, entries in kernels.items() if entries},
        prior_from=reader.text("prior_from", None) or None, prior_math_scale=reader.number("prior_math_scale", 1.0),
        sources=sources,
    )
    reader.finish()
    if faults:
        raise InputError(sorted(faults, key=lambda fault: fault.line or 0))
    return profile


def _hardware(reader: _Reader, name: str) -> Hardware:
    hardware = Hardware(
        name=name, vendor=reader.text("vendor"), arch=reader.text("arch"),
        compute_capability=reader.text("compute_capability"), sms=reader.whole("sms"),
        boost_hz=reader.number("boost_hz", None), memory_type=reader.text("memory_type", ""),
        memory_bytes=reader.number("memory_bytes"), hbm_bytes_per_s=reader.number("hbm_bytes_per_s"),
        l2_bytes=reader.number("l2_bytes", 0.0), dense_flop_per_s=reader.numbers("dense_flop_per_s"),
        link_type=reader.text("link_type"), link_bytes_per_s=reader.number("link_bytes_per_s"),
        tdp_w=reader.number("tdp_w"), exp_per_clock_per_sm=reader.number("exp_per_clock_per_sm", None),
        confidence=reader.text("confidence"), sources=reader.texts("sources"), notes=reader.text("notes", ""),
        preliminary=reader.flag("preliminary"),
    )
    for key in ("sms", "memory_bytes", "hbm_bytes_per_s", "boost_hz", "exp_per_clock_per_sm"):
        if getattr(hardware, key) is not None and not getattr(hardware, key) > 0:
            reader.fault(key, "must be above 0")
    if hardware.dense("bf16") <= 0:
        reader.fault("dense_flop_per_s", "needs a rate for bf16 or fp8")
    reader.finish()
    return hardware


def _entry(reader: _Reader, family: str, sources: Mapping[str, str]) -> Entry:
    entry = Entry(
        id=reader.text("id"), engine=reader.text("engine"), version=reader.text("version"),
        form=reader.one_of("form", tuple(REQUIRED[family]), next(iter(REQUIRED[family]))),
        measured_as=reader.text("measured_as", ""), default=reader.flag("default"),
        only_by_name=reader.flag("only_by_name"), key=reader.labels(KEYS[family]),
        parameters=reader.numbers("parameters"), bands=tuple(band.all_numbers() for band in reader.items("bands")),
        evidence=_evidence(reader.section("evidence"), sources),
    )
    for name in REQUIRED[family].get(entry.form, ()):
        if name not in entry.parameters:
            reader.fault("parameters", f"form {entry.form} needs {name}")
    for name in RATES & entry.parameters.keys():
        if entry.parameters[name] <= 0:
            reader.fault("parameters", f"{name} must be above 0")
    for name in COUNTS & entry.parameters.keys():
        if not 1 <= entry.parameters[name] <= MOST:
            reader.fault("parameters", f"{name} must be from 1 to {MOST}")
    for name in FEWEST.keys() & entry.key.keys():
        if not FEWEST[name] <= int(entry.key[name]) <= MOST:
            reader.fault(name, f"must be from {FEWEST[name]} to {MOST}")
    if family == "allreduce" and not (entry.bands and all(set(band) == set(BAND) for band in entry.bands)):
        reader.fault("bands", f"needs at least one band, each with {', '.join(BAND)}")
    reader.finish()
    return entry


def _evidence(reader: _Reader, sources: Mapping[str, str]) -> Evidence:
    source = reader.text("source")
    if source not in sources:
        reader.fault("source", f"'{source}' is not among the sources of this profile{nearest(source, sources)}")
    evidence = Evidence(
        level=reader.one_of("level", get_args(Level), "measured"), source=source,
        quality=reader.one_of("quality", get_args(Quality), "ok"), rows=reader.whole("rows", None),
        held_out_rows=reader.whole("held_out_rows", None), error_median_pct=reader.number("error_median_pct", None),
        error_mean_pct=reader.number("error_mean_pct", None), error_p90_pct=reader.number("error_p90_pct", None),
        parameter_error_pct=reader.numbers("parameter_error_pct"), fitted_range=reader.ranges("fitted_range"),
    )
    reader.finish()
    return evidence


class _Reader:
    """Takes typed values out of one mapping, notes each fault at its key path, and names keys that are left over."""

    def __init__(self, raw: Mapping[str, Any], path: KeyPath, faults: list[Fault], document: Document) -> None:
        self.raw, self.path, self.faults, self.document = dict(raw), path, faults, document
        self.known: list[str] = []

    def fault(self, key: str, message: str) -> None:
        path = (*self.path, key)
        self.faults.append(Fault(path, message, self.document.file, self.document.line(path)))

    def take(self, key: str, kind: type, wanted: str, default: Any) -> Any:
        self.known.append(key)
        value = self.raw.pop(key, None)
        if value is None:
            if default is _MISSING:
                self.fault(key, f"is missing; {wanted}")
            return kind() if default is _MISSING else default
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        self.fault(key, f"must be {wanted}, is {value!r}")
        return kind() if default is _MISSING else default

    def text(self, key: str, default: str | None = _MISSING) -> str:
        value = self.take(key, object, "text", "" if default is None else default)
        if isinstance(value, dict | list | bool):
            self.fault(key, f"must be text, is {value!r}")
        return "" if type(value) is object else str(value)

    def whole(self, key: str, default: int | None = _MISSING) -> Any:
        return self.take(key, int, "a whole number", default)

    def flag(self, key: str) -> bool:
        return bool(self.take(key, bool, "true or false", False))

    def mapping(self, key: str, default: Any = _MISSING) -> dict[str, Any]:
        return dict(self.take(key, dict, "a mapping", default))

    def number(self, key: str, default: float | None = _MISSING) -> Any:
        self.known.append(key)
        value = self.raw.pop(key, None)
        if value is None and default is not _MISSING:
            return default
        return self.checked(key, value)

    def checked(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            self.fault(key, "is missing; a number >= 0" if value is None else f"must be a number >= 0, is {value!r}")
            return 0.0
        if value and not SMALLEST < value < LARGEST:
            self.fault(key, f"must be between {SMALLEST:g} and {LARGEST:g}, is {value:g}")
        return float(value)

    def one_of(self, key: str, known: tuple[str, ...], default: str) -> Any:
        value = self.text(key, default)
        if value not in known:
            self.fault(key, f"must be one of {', '.join(known)}, is '{value}'")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(str(item) for item in self.take(key, list, "a list of names", ()))

    def numbers(self, key: str) -> dict[str, float]:
        return self.section(key, optional=True).all_numbers()

    def all_numbers(self) -> dict[str, float]:
        return {str(key): self.checked(key, value) for key, value in self.raw.items()}

    def labels(self, keys: tuple[str, ...]) -> dict[str, Any]:
        """Values that tell entries apart: counts, flags or names, by the key's own nature."""
        found = {}
        for key in keys:
            missing = None if key in OPTIONAL_KEYS else _MISSING
            value = self.flag(key) if key == "gated" else (
                self.whole(key, missing) if key in ("head_dim", "gpus") else self.text(key, missing))
            if value or key in ("gated", *FEWEST):
                found[key] = value
        return found

    def ranges(self, key: str) -> dict[str, tuple[float, float]]:
        found = {}
        inner = self.section(key, optional=True)
        for axis, pair in inner.raw.items():
            if isinstance(pair, list) and len(pair) == 2:
                found[str(axis)] = (inner.checked(axis, pair[0]), inner.checked(axis, pair[1]))
            else:
                inner.fault(axis, f"must be [lowest, highest], is {pair!r}")
        return found

    def section(self, key: str, *, optional: bool = False) -> _Reader:
        return _Reader(self.mapping(key, {} if optional else _MISSING), (*self.path, key), self.faults, self.document)

    def items(self, key: str) -> Iterator[_Reader]:
        for index, item in enumerate(self.take(key, list, "a list", [])):
            if isinstance(item, dict):
                yield _Reader(item, (*self.path, key, index), self.faults, self.document)
            else:
                self.fault(key, f"item {index + 1} must be a mapping, is {item!r}")

    def finish(self) -> None:
        for key in self.raw:
            self.fault(str(key), f"unknown key{nearest(str(key), self.known)}")


# ---- writing -------------------------------------------------------------------------------------------------


def dump_profile(profile: GpuProfile) -> str:
    """The profile as YAML text; equal profiles give equal text, and reading the text gives the profile back."""
    hw = profile.hardware
    facts: dict[str, Any] = {
        "vendor": hw.vendor, "arch": hw.arch, "compute_capability": hw.compute_capability, "sms": hw.sms,
        "boost_hz": hw.boost_hz, "memory_type": hw.memory_type, "memory_bytes": hw.memory_bytes,
        "hbm_bytes_per_s": hw.hbm_bytes_per_s, "l2_bytes": hw.l2_bytes, "dense_flop_per_s": hw.dense_flop_per_s,
        "exp_per_clock_per_sm": hw.exp_per_clock_per_sm, "link_type": hw.link_type,
        "link_bytes_per_s": hw.link_bytes_per_s, "tdp_w": hw.tdp_w, "confidence": hw.confidence,
        "sources": hw.sources, "notes": hw.notes, "preliminary": hw.preliminary or None,
    }
    lines = [f"schema: {SCHEMA}", f"name: {_flow(profile.name)}", "hardware:"]
    lines += [f"  {key}: {_flow(value)}" for key, value in facts.items() if value not in (None, "")]
    lines.append("sources:")
    lines += [f"  {_flow(key)}: {_flow(value)}" for key, value in profile.sources.items()]
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
    head = {
        "id": entry.id, "engine": entry.engine, "version": entry.version, "measured_as": entry.measured_as or None,
        "default": entry.default or None, "only_by_name": entry.only_by_name or None, **entry.key, "form": entry.form,
    }
    facts = {
        "level": None if evidence.level == "measured" else evidence.level, "quality": evidence.quality,
        "rows": evidence.rows, "held_out_rows": evidence.held_out_rows, "error_median_pct": evidence.error_median_pct,
        "error_mean_pct": evidence.error_mean_pct, "error_p90_pct": evidence.error_p90_pct,
        "parameter_error_pct": evidence.parameter_error_pct or None, "fitted_range": evidence.fitted_range or None,
        "source": evidence.source,
    }
    lines = [f"    - {_flow(head)[:-1]},"]
    if entry.parameters:
        lines.append(f"       parameters: {_flow(entry.parameters)},")
    if entry.bands:
        lines.append(f"       bands: {_flow(entry.bands)},")
    return [*lines, f"       evidence: {_flow(facts)}}}"]


_PLAIN_WORD = r"(?i)(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-z][a-z0-9_-]*"


def _flow(value: Any) -> str:
    """A value in YAML flow style, the same value to readers of YAML 1.1 and 1.2."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items() if item is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    text = str(value)
    if isinstance(value, int) or re.fullmatch(_PLAIN_WORD, text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _number(value: float) -> str:
    """The shortest text that reads back as `value`; exponents as YAML 1.1 wants them (1.5e+12)."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    text = repr(value) if 1e-3 <= abs(value) < 1e6 else next(
        short for short in (f"{value:.{digits}e}" for digits in range(1, 18)) if float(short) == value
    )
    mantissa, _, exponent = text.partition("e")
    return mantissa if not exponent else f"{mantissa}e{exponent[0]}{int(exponent[1:])}"
