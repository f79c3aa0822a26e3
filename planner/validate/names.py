"""From the words of a source to specplan's names: targets, GPUs, engines, number formats, mechanisms, data sets.

General rules come first (case, separators, sizes, dates, precision words, 'Instruct', '4x', 'at 400 W cap'); what no
rule can know stands in data/aliases.yaml, and a collection's annotations may add to it. Every answer says how sure
it is: `exact`, `same_shape` or `inferred`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from specplan.planner.config.yaml_reader import load_data
from specplan.planner.fact import fact
from specplan.planner.kernels.profile import gpu_names, load_gpu
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT
from specplan.planner.models.reader import model_names

Kind: TypeAlias = Literal["exact", "same_shape", "inferred"]

TABLE = Path(__file__).parent / "data" / "aliases.yaml"
PRECISION_WORDS = {
    "nvfp4": "nvfp4", "fp4": "nvfp4", "mxfp4": "mxfp4", "mxfp8": "fp8", "fp8": "fp8", "int8": "int8", "w8a8": "int8",
    "int4": "w4a16", "w4a16": "w4a16", "awq": "w4a16", "gptq": "w4a16", "4bit": "w4a16", "bf16": "bf16",
    "fp16": "bf16", "float16": "bf16", "bfloat16": "bf16",
}
EMPTY_WORDS = {
    "instruct", "it", "chat", "base", "hf", "moe", "dense", "thinking", "gguf", "w", "preview", "native", "terminus",
    "meta", "nvidia", "google", "text", "model",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(r"[0-2]\d\d\d\Z")
_COUNT = re.compile(r"(?<![\w.])(\d{1,3})(?:[x×]\s*| [x×] )(?=[a-z])")
_COUNT_AFTER = re.compile(r"(?:(?<=[a-z0-9])\s?[x×]\s?(\d{1,3})\s*$|\b(\d{1,3})[ -]?gpus?\b)")
_SIZE = re.compile(r"\d+(?:\.\d+)?[bm]\Z|\d+x\d+b\Z|a\d+b\Z")
_RELEASE = re.compile(r"v\d+(?:\.\d+)*\Z")
_POWER = re.compile(r"(\d{2,4})\s*w(?:att)?s?\b")
_DOUBT = re.compile(r"assumed|not restated|not re-?stated|inferred|unclear|guess|\bas table\b")
_ROLES = {
    "attention": ("attention",), "attn": ("attention",), "ffn": ("ffn",), "mlp": ("ffn",), "dense": ("ffn",),
    "moe": ("experts",), "expert": ("experts",), "mtp": ("mtp",), "draft": ("draft",), "head": ("lm_head",),
    "kv": ("kv",),
}


@dataclass(frozen=True, slots=True)
class Named:
    """A word of a source resolved to one of specplan's names."""

    name: str
    kind: Kind = "exact"


@fact
class GpuText:
    """What a GPU text says: profile, count and power limit where stated."""

    profile: Named | None
    count: int | None = None
    power_limit_w: float | None = None
    several: tuple[str, ...] = ()       # more than one GPU is named: the row must say which


@functools.cache
def aliases() -> Mapping[str, Any]:
    """The alias table."""
    table: Mapping[str, Any] = load_data(TABLE)
    return table


def words(text: str) -> str:
    """Lower case, parts separated by single blanks: 'EAGLE-3 (16)' -> 'eagle 3 16'."""
    return " ".join(re.findall(r"[a-z0-9.]+", text.lower().replace("_", " ")))


def slug(name: str) -> tuple[str, tuple[str, ...]]:
    """A model name without organisation, notes, dates, 'Instruct' and precision; and the precision words.

    >>> slug("nvidia/Llama-3.1-8B-Instruct-FP8 (static)")
    ('llama-3.1-8b', ('fp8',))
    """
    plain = re.sub(r"\(.*?\)", " ", re.sub(r"^[\w.-]+/(?=[A-Za-z])", "", name.strip()).lower())
    plain = re.sub(r"(?<=\d)_(?=\d)", ".", re.split(r",|;| at | with ", plain)[0]).replace("_", "-")
    kept: list[str] = []
    formats: list[str] = []
    for part in re.findall(r"[a-z0-9.]+", plain.replace("-", " ")):
        if part in PRECISION_WORDS:
            formats.append(part)
        elif _RELEASE.match(part) and kept and _SIZE.match(kept[-1]):
            continue        # 'Mixtral-8x7B-v0.1': a release of a size; 'DeepSeek-V3' is a name
        elif part not in EMPTY_WORDS and not (_DATE.match(part) and kept):
            kept.append(part)
    return "-".join(kept), tuple(formats)


def compact(key: str) -> str:
    """A name without separators, so that 'llama3.1-8b' meets 'llama-3.1-8b'."""
    return key.replace("-", "")


@functools.cache
def _preset_slugs() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name in model_names():
        found.setdefault(slug(name)[0], []).append(name)
    return {key: tuple(sorted(names, key=len)) for key, names in found.items()}


def target_name(text: str, added: Mapping[str, Mapping[str, Any]] | None = None) -> Named | None:
    """Preset of a target text; `added` are shape aliases of a collection's annotations."""
    key, formats = slug(text)
    entry = target_entry(text, added)
    if entry is not None and "use" in entry:
        return Named(str(entry["use"]), _kind(entry))
    presets = _preset_slugs()
    key = next((known for known in presets if compact(known) == compact(key)), key)
    if key in presets:
        same = [name for name in presets[key] if set(slug(name)[1]) == set(formats)]
        return Named((same or list(presets[key]))[0])
    longer = [known for known in presets if known.startswith(f"{key}-")]
    if key and len(longer) == 1:
        return Named(presets[longer[0]][0])
    sibling = _sibling(key, presets)
    return None if sibling is None else Named(presets[sibling][0], "inferred")


def _sibling(key: str, presets: Iterable[str]) -> str | None:
    """A preset of the same family and sizes ('qwen3.8-27b' -> 'qwen3.6-27b'): the one of the nearest version."""
    family, sizes = _family(key), _sizes(key)
    alike = [known for known in presets if sizes and _family(known) == family and _sizes(known) == sizes]
    alike = [known for known in alike if len(known.split("-")) == len(key.split("-"))]
    return max(alike, default=None)


def _family(key: str) -> str:
    return re.match(r"[a-z]*", key)[0]  # type: ignore[index]


def _sizes(key: str) -> tuple[str, ...]:
    return tuple(part for part in key.split("-") if _SIZE.match(part))


def target_entry(text: str, added: Mapping[str, Mapping[str, Any]] | None = None) -> Mapping[str, Any] | None:
    """Entry of a target text in the annotations or in the alias table."""
    key = compact(slug(text)[0])
    for table in (added or {}, aliases()["targets"]):
        for name, entry in table.items():
            if compact(slug(str(name))[0]) == key:
                found: Mapping[str, Any] = entry
                return found
    return None


def gpu_text(text: str) -> GpuText:
    """Profile, count and power limit of a GPU text such as '4x H100', 'RTX 5090 at 400 W cap', 'DGX Spark (GB10)'."""
    lower = text.lower()
    count = sum(int(found) for found in _COUNT.findall(lower)) or None
    power = _POWER.search(lower)
    bare = _POWER.sub(" ", _COUNT.sub(" ", lower))
    if count is None and (after := _COUNT_AFTER.search(bare)):
        count, bare = int(after[1] or after[2]), _COUNT_AFTER.sub(" ", bare)
    found = _longest(apart(bare), _gpu_phrases())
    kinds = {name for name, _ in found}
    if len(kinds) > 1 and "+" in text:      # cards of several kinds in one replica: the slowest sets the pace
        slowest = min(kinds, key=lambda name: load_gpu(name, allow_preliminary=True).hardware.hbm_bytes_per_s)
        kinds, found = {slowest}, [(slowest, "same_shape")]
    if count is not None and "+" in lower:      # '2x A + B' is three cards
        count += sum(1 for part in lower.split("+") if not _COUNT.search(part))
    profile = None
    if len(kinds) == 1:
        name = kinds.pop()
        kind = _kind({"kind": "inferred"} if _DOUBT.search(lower) else {"kind": found[0][1]})
        profile, kinds = Named(name, kind), set()
    return GpuText(
        profile=profile, count=count, power_limit_w=float(power[1]) if power else None, several=tuple(sorted(kinds))
    )


@functools.cache
def _gpu_phrases() -> Mapping[str, tuple[str, str]]:
    """Phrase -> (profile, kind): names of the profiles themselves, then the table."""
    found = {apart(name.replace("-", " ")): (name, "exact") for name in gpu_names()}
    for phrase, entry in aliases()["gpus"].items():
        if entry["use"] in gpu_names():
            found[apart(str(phrase))] = (entry["use"], entry["kind"])
    return found


def apart(text: str) -> str:
    """Words with letters and digits apart: 'RTX4090' and 'RTX 4090' are one."""
    return " ".join(re.findall(r"[a-z]+|\d+(?:\.\d+)?", words(text)))


def _longest(text: str, phrases: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Values of the longest phrases in a text, each part of it used once.

    'rtx 5060 ti 16gb' counts as 'rtx 5060 ti': a phrase must end where a word ends.
    """
    found = []
    left = f" {text} "
    for phrase in sorted(phrases, key=len, reverse=True):
        if f" {phrase} " in left:
            left = left.replace(f" {phrase} ", " | ")
            found.append(phrases[phrase])
    return found


@fact
class EngineText:
    """Engine, version and code path of an engine text."""

    engine: str | None
    version: str | None = None
    path: str | None = None


def engine_text(text: str) -> EngineText:
    """Read 'vLLM 0.10.1', 'SGLang FA4, spec v2', 'TensorRT-LLM (PyTorch), early 2025' or 'SGLang (2025-03)'."""
    plain = words(text)
    named = [(plain.find(phrase), -len(phrase), engine) for phrase, engine in aliases()["engines"].items()
             if re.search(rf"\b{re.escape(phrase)}", plain)]
    if not named:
        return EngineText(engine=None)
    engine = min(named)[2]
    paths = aliases()["engine_paths"].get(engine, {})
    path = next((found for phrase, found in paths.items() if phrase in plain), None)
    versions = re.findall(r"(?<![\d.])\d+\.\d+(?:\.\d+)?", plain)
    version = versions[0] if versions else None
    month = _month(text)
    if version is None and month is not None:
        version = "0.0"
        for released, number in aliases()["releases"].get(engine, {}).items():
            if month >= released:
                version = number
    return EngineText(engine=engine, version=version, path=path)


def _month(text: str) -> str | None:
    """'2025-03' of '2025-03', 'Mar 2025' or 'March 2025'; None where no month is named."""
    if found := re.search(r"\b(20\d\d)-(\d\d)\b", text):
        return found[0]
    if (found := re.search(r"\b([a-z]{3})[a-z]*\.? (20\d\d)\b", text.lower())) and found[1] in MONTHS:
        return f"{found[2]}-{MONTHS.index(found[1]) + 1:02d}"
    return None


def mechanism_name(*texts: str) -> str | None:
    """Mechanism named in the first text that names exactly one (None: none does, or several at once)."""
    table = {phrase: (name, "exact") for phrase, name in aliases()["mechanisms"].items()}
    for text in texts:
        found = {name for name, _ in _longest(words(re.sub(r"tree", " ", text.lower())), table)}
        if len(found) == 1:
            return found.pop()
        if found:
            return None
    return None


def dataset_name(text: str) -> str:
    """Name of a data set in `lengths`, or the words themselves."""
    plain = words(re.split(r"[(:,;]", text)[0])
    table: Mapping[str, str] = aliases()["datasets"]
    joined = plain.replace(" ", "")
    return table.get(plain, table.get(joined, plain if plain in aliases()["lengths"] else joined))


@fact
class Formats:
    """Weight formats by role; None: not stated. `file_bytes` is the size of a model file where one is given."""

    attention: str | None = None
    ffn: str | None = None
    experts: str | None = None
    mtp: str | None = None
    gguf: str | None = None
    file_bytes: float | None = None
    doubtful: bool = False      # more than one format without roles


_GGUF = re.compile(r"\b(?:ud-)?(i?q\d(?:_[a-z0-9]+)*)", re.IGNORECASE)


def weight_formats(*texts: str) -> Formats:
    """Formats from texts in order of trust, e.g. the case's weight_dtype and then the target's name."""
    for text in texts:
        found = _formats(text)
        if found is not None:
            return found
    return Formats()


def _formats(text: str) -> Formats | None:
    size = re.search(r"([\d.]+)\s*gb\b", text.lower())
    file_bytes = float(size[1]) * 1e9 if size else None
    if gguf := _GGUF.search(text):
        return Formats(gguf=gguf[1].lower(), file_bytes=file_bytes)
    roles: dict[str, str] = {}
    plain: list[str] = []
    for part in re.split(r"[,;]| and ", re.sub(r"\(.*?\)", " ", text.lower())):
        formats = [PRECISION_WORDS[word] for word in re.findall(r"[a-z0-9]+", part) if word in PRECISION_WORDS]
        if not formats:
            continue
        mine = [role for word, names in _ROLES.items() if re.search(rf"\b{word}", part) for role in names]
        roles.update(dict.fromkeys(mine, formats[0]))
        if not mine:
            plain += formats
    if not roles and not plain:
        return None
    base = plain[0] if plain else None
    assert base is None or base in BYTES_PER_WEIGHT
    experts = roles.get("experts", roles.get("ffn", base))
    return Formats(
        attention=roles.get("attention", base), ffn=roles.get("ffn", roles.get("experts", base)), experts=experts,
        mtp=roles.get("mtp"), file_bytes=file_bytes, doubtful=len(set(plain)) > 1,
    )


def kv_format(text: str) -> str | None:
    """KV cache format of a text such as 'fp8_e4m3' or 'bf16 (fp8 not used)'."""
    first = re.match(r"[a-z0-9_]+", text.lower().strip())
    if first is None:
        return None
    known = {
        "fp8": "fp8", "bf16": "bf16", "fp16": "fp16", "f16": "fp16", "int8": "int8", "nvfp4": "nvfp4",
        "q8_0": "q8_0", "q4_0": "q4_0", "auto": None,
    }
    return next((name for key, name in known.items() if first[0].startswith(key)), None)


def first_number(patterns: Iterable[str], *texts: str) -> int | None:
    """First whole number that one of the patterns captures in one of the texts."""
    for text in texts:
        for pattern in patterns:
            if found := re.search(pattern, text, re.IGNORECASE):
                return int(found[1])
    return None


def _kind(entry: Mapping[str, Any]) -> Kind:
    kind = str(entry.get("kind", "exact"))
    if kind == "same_family_same_shape":
        return "same_shape"
    return kind if kind in ("exact", "same_shape", "inferred") else "inferred"  # type: ignore[return-value]
