"""Where a drafter comes from: another model, the target's own MTP module, or a network trained for the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from specplan.planner.config.text_file import exists
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.architecture import LayerGroup, Model
from specplan.planner.models.counts import active_parameters
from specplan.planner.models.draft_config import config_mechanism, read_draft_config
from specplan.planner.models.draft_shapes import (
    BLOCKS,
    FUSED_HIDDEN_STATES,
    DraftShape,
    customary_shape,
    drafter_data,
    gemma_assistant,
    names_target,
)
from specplan.planner.models.drafter import LOOKUP, Drafter, Mechanism
from specplan.planner.models.json_file import read_json
from specplan.planner.models.reader import load_model

Reference: TypeAlias = str | Path | Mapping[str, Any]
Loaded = TypeVar("Loaded", Model, DraftShape)
EXTERNAL: frozenset[Mechanism] = frozenset({"draft_model", "pard"})


def check_arguments(kind: Mechanism, *, model: object, block: object, draft_fraction: object) -> None:
    """Refuse arguments that the mechanism has no use for, and missing ones that it needs."""
    faults = []
    if model is not None and kind in LOOKUP:
        faults.append(Fault(("model",), f"{kind} looks tokens up and has no model"))
    if model is None and kind in EXTERNAL:
        faults.append(Fault(("model",), f"{kind} needs a model: a preset name or the path of its config.json"))
    if block is not None and kind not in BLOCKS:
        faults.append(Fault(("block",), f"{kind} has no block; dflash and dspark have one"))
    if draft_fraction is not None and kind not in LOOKUP:
        faults.append(Fault(("draft_fraction",), f"{kind} drafts in every step; only ngram and suffix may not"))
    if faults:
        raise InputError(faults)


def external_drafter(kind: Mechanism, target: Model, model: Reference) -> Drafter:
    """A language model of its own that drafts token by token (draft_model) or in one pass (pard)."""
    network = _under_key("model", lambda: load_model(model))
    notes: list[Note] = list(network.notes)
    if network.vocab != target.vocab:
        notes.append(Note("drafter-vocabulary", f"{network.name} has {network.vocab} tokens, {target.name} has "
                                                f"{target.vocab}: engines need the same tokenizer"))
    if active_parameters(network) > active_parameters(target):
        notes.append(Note("drafter-size", f"{network.name} is larger than {target.name}"))
    return Drafter(
        mechanism=kind, name=network.name, network=network, own_embedding=True, own_head=not network.tied_head,
        max_positions=network.max_positions, source=network.source, notes=tuple(notes),
    )


def mtp_drafter(target: Model, model: Reference | None) -> Drafter:
    """The module in the target's checkpoint; for Gemma 4 its assistant, a small model beside it."""
    if model is not None:
        shape = _under_key("model", lambda: _draft_shape("mtp", target, model))
        return _assistant(target, shape)
    if target.mtp is None:
        if target.model_type.startswith("gemma4"):
            return _assistant(target, gemma_assistant(target))
        raise InputError([Fault(("mechanism",), f"{target.name} has no MTP module in its configuration")])
    module = target.mtp
    network = Model(
        name=f"{target.name}-mtp", hidden=target.hidden, vocab=target.vocab, tied_head=target.tied_head,
        groups=(LayerGroup(layer=module.layer, count=module.layers),), weights=module.weights or target.weights,
        kv_dtype=target.kv_dtype, model_type=target.model_type, qkv_bias=target.qkv_bias,
    )
    notes: tuple[Note, ...] = ()
    if module.modules > 1:
        text = f"{module.modules} modules, one per drafted token; beyond D = {module.modules} the last is reused"
        notes = (Note("mtp-modules", text),)
    return Drafter(mechanism="mtp", name=network.name, network=network, own_head=False, depth=module.modules,
                   fused_inputs=module.projection_inputs, max_positions=target.max_positions, source=target.source,
                   notes=notes)


def _assistant(target: Model, shape: DraftShape) -> Drafter:
    """A small model of its own width that starts from the target's last hidden state and reads its cache."""
    if not target.model_type.startswith("gemma4"):
        raise InputError([Fault(("model",), f"an assistant that reads the target's cache is known for Gemma 4, not for "
                                            f"{target.name}")])
    # projections from embedding and hidden state of the target's width, and back to it
    fused = -(-3 * target.hidden // shape.network.hidden)
    return Drafter(mechanism="mtp", name=shape.name, network=shape.network, own_embedding=True, own_head=False,
                   fused_inputs=fused, shares_target_kv=True, source=shape.source, notes=shape.notes)


def trained_drafter(
    kind: Mechanism, target: Model, model: Reference | None, block: int | None
) -> Drafter:
    """EAGLE, EAGLE-3, P-EAGLE, DFlash or DSpark: layers fed with the target's hidden states."""
    shape = _under_key("model", lambda: _draft_shape(kind, target, model))
    trained = shape.block if block is None else block
    limit = shape.max_draft_len
    if trained is not None:
        limit = trained - 1 if kind == "dflash" else trained
    return Drafter(
        mechanism=kind, name=shape.name, network=shape.network, own_head=kind in ("eagle3", "p_eagle"),
        fused_inputs=FUSED_HIDDEN_STATES[kind], block=trained, max_draft_len=limit, markov_rank=shape.markov_rank,
        max_positions=shape.network.max_positions, source=shape.source, notes=(*shape.notes, *shape.network.notes),
    )


def _draft_shape(kind: Mechanism, target: Model, model: Reference | None) -> DraftShape:
    entries = drafter_data()["training_configs"]
    if model is None:
        for entry in entries:
            if entry["mechanism"] == kind and names_target(entry, target):
                shape = read_draft_config(entry, kind, target, name=entry["name"])
                text = f"no {kind} model named for {target.name}; took the shape of the training configuration"
                note = Note("drafter-shape-training", f"{text} {entry['name']}")
                return replace(shape, source=drafter_data()["_source"], notes=(note, *shape.notes))
        return customary_shape(kind, target)
    if isinstance(model, Mapping):
        values, name = model, str(model.get("name") or f"{target.name}-{kind}")
    else:
        named = next((entry for entry in entries if entry["name"] == str(model)), None)
        path = Path(model)
        if named is None and not exists(path) and path.suffix != ".json":
            raise InputError(f"unknown drafter '{model}'{nearest(str(model), [e['name'] for e in entries])}; give one "
                             "of specplan's drafter names or the path of its config.json")
        folder = exists(path) and path.is_dir()
        values = named or read_json(path / "config.json" if folder else path)
        name = str(model) if named else (path if folder else path.resolve().parent).name
    found = config_mechanism(values)
    if found is not None and found != kind:
        raise InputError(f"{name} is a drafter for {found}, not for {kind}")
    return read_draft_config(values, kind, target, name=name)


def _under_key(key: str, load: Callable[[], Loaded]) -> Loaded:
    """Put faults of a file or mapping under the argument that named it."""
    try:
        return load()
    except InputError as error:
        raise InputError([_placed(fault, key) for fault in error.faults]) from None


def _placed(fault: Fault, key: str) -> Fault:
    own = fault.file is not None or fault.path[:1] == (key,)
    return fault if own else replace(fault, path=(key, *fault.path))
