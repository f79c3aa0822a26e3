"""From a preset, a file or the fields of a config.json (or params.json) to a `Model`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from specplan.planner.config.text_file import exists
from specplan.planner.messages import Fault, InputError, nearest
from specplan.planner.models.architecture import Layer, LayerGroup, Model
from specplan.planner.models.attention import read_mixers
from specplan.planner.models.feed_forward import read_ffns
from specplan.planner.models.field_names import (
    CLASS_DEFAULTS,
    GEMMA3_DEFAULTS,
    KNOWN_FAMILIES,
    TIED_BY_DEFAULT,
)
from specplan.planner.models.fields import MOST_LAYERS, Fields, model_type
from specplan.planner.models.json_file import read_json
from specplan.planner.models.known_fields import check_kind, check_unknown_sizes
from specplan.planner.models.layer_kinds import hybrid_blocks
from specplan.planner.models.mtp import read_mtp
from specplan.planner.models.puzzle import read_block_configs
from specplan.planner.models.quantization import read_storage

PRESETS = Path(__file__).parent / "presets"
CONFIG_NAMES = ("config.json", "params.json")
TEXT_PARTS = ("text_config", "llm_config", "language_config")


def read_model(
    values: Mapping[str, Any], *, name: str, source: str = "", quant_fields: Mapping[str, Any] | None = None
) -> Model:
    """Read one configuration; every fault is reported at once, as an InputError with key paths.

    `quant_fields` are the contents of the hf_quant_config.json beside the file.
    """
    fields = Fields(_flatten(values if quant_fields is None else {**values, "_hf_quant_config": quant_fields}))
    family = fields.family
    check_kind(fields)
    fields.raise_faults()
    check_unknown_sizes(fields)
    layers = _layer_count(fields)
    if fields.values.get("block_configs") is not None:
        found = read_block_configs(fields, layers)
    else:
        mixers, ffns = read_mixers(fields, layers), read_ffns(fields, layers)
        found = [Layer(mixer=mixer, ffn=ffn) for mixer, ffn in zip(mixers, ffns, strict=True)]
    if family and family not in KNOWN_FAMILIES:
        fields.note("architecture-unknown", f"model_type {family!r} is not known: read by its standard fields")
    storage = read_storage(fields, layers)
    mtp = read_mtp(fields, found)
    model = Model(
        name=name, hidden=fields.size("hidden"), vocab=fields.size("vocab"),
        tied_head=fields.flag("tied", default=family.startswith(TIED_BY_DEFAULT)),
        groups=tuple(LayerGroup(layer=layer, count=count) for layer, count in Counter(found).items()),
        weights=storage.weights, kv_dtype=storage.kv_dtype, quantization=storage.word,
        mtp=mtp if mtp is None or storage.mtp == storage.weights else replace(mtp, weights=storage.mtp),
        max_positions=fields.optional_size("positions"), model_type=family, qkv_bias=fields.flag("bias"), source=source,
    )
    fields.raise_faults()
    return replace(model, notes=tuple(fields.notes))


@cache
def model_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.json")))


def load_model(reference: str | Path | Mapping[str, Any]) -> Model:
    """A preset name, the path of a config.json / params.json or of a folder with one, or the fields themselves."""
    if isinstance(reference, Mapping):
        name = reference.get("name")
        return read_model(reference, name=name if isinstance(name, str) else "target", source="inline")
    text = str(reference)
    if text in model_names():
        values = read_json(PRESETS / f"{text}.json")
        model = read_model(values, name=text, source=str(values.get("_source", "")))
        published = values.get("_hf_id")
        return replace(model, name=text, weights_name=published if isinstance(published, str) else None)
    path = Path(text)
    if not exists(path) and path.suffix != ".json" and len(path.parts) == 1:
        raise InputError([Fault((), f"unknown model '{text}'{nearest(text, model_names())}; "
                                    "give a preset (specplan models list) or the path of a config.json")])
    if exists(path) and path.is_dir():
        path = _config_in(path)
    values = read_json(path)
    beside = path.parent / "hf_quant_config.json"
    quant = read_json(beside) if beside.is_file() else None
    try:
        return read_model(values, name=_name(path, values), source=str(path), quant_fields=quant)
    except InputError as error:
        raise InputError(replace(fault, file=fault.file or str(path)) for fault in error.faults) from None


def _flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """One level of fields: the language part over the outer ones, class defaults below both."""
    inner: dict[str, Any] = {}
    for key in (*TEXT_PARTS, "moe"):    # `moe`: Mistral's params.json
        part = values.get(key)
        if isinstance(part, Mapping):
            inner.update({name: value for name, value in part.items() if value is not None or name not in values})
    flat = {**values, **inner}
    family = model_type(flat)
    defaults = dict(CLASS_DEFAULTS.get(family, {}))
    if family in ("gemma3", "gemma3_text") and flat.get("num_attention_heads") is None:
        defaults.update(GEMMA3_DEFAULTS)
    return {**flat, **{key: value for key, value in defaults.items() if flat.get(key) is None}}


def _layer_count(fields: Fields) -> int:
    if fields.has("layers"):
        return fields.size("layers", high=MOST_LAYERS)
    blocks = hybrid_blocks(fields)
    return len(blocks) if blocks else fields.size("layers")


def _config_in(folder: Path) -> Path:
    for name in CONFIG_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise InputError([Fault((), f"has neither {' nor '.join(CONFIG_NAMES)}", str(folder))])


def _name(path: Path, values: Mapping[str, Any]) -> str:
    given = values.get("_hf_id") or values.get("_name_or_path")
    if isinstance(given, str) and given:
        return given.rsplit("/", 1)[-1]
    return path.resolve().parent.name if path.name in CONFIG_NAMES else path.stem
