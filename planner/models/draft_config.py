"""A drafter's own config.json: flat checkpoints (EAGLE-3, P-EAGLE, DFlash, DSpark), speculators, Gemma assistants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specplan.planner.messages import Fault, InputError, Note
from specplan.planner.models.architecture import Model, SoftmaxAttention
from specplan.planner.models.draft_shapes import BLOCKS, MARKOV_RANK, DraftShape
from specplan.planner.models.drafter import Mechanism
from specplan.planner.models.fields import Fields
from specplan.planner.models.reader import read_model

# Fields that describe the drafting and not the network
DRAFT_FIELDS = frozenset({
    "architectures", "auto_map", "draft_vocab_size", "block_size", "num_target_layers", "dflash_config", "eagle_config",
    "target_hidden_size", "targets", "mechanism", "name", "transformer_layer_config", "speculators_config",
    "speculators_model_type", "speculators_version", "norm_before_residual", "norm_before_fc", "sample_from_anchor",
    "aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids", "embed_requires_grad", "has_no_defaults_at_init",
    "backbone_hidden_size", "use_ordered_embeddings", "num_centroids", "centroid_intermediate_top_k", "mask_token_id",
    "max_anchors", "markov_rank", "enable_confidence_head", "fusion_bias", "layernorms", "parallel_drafting",
    "num_aux_hidden_states", "ptd_token_id", "target_layer_ids",
})
MARKS: tuple[tuple[str, Mechanism], ...] = (    # words in `architectures`, the most specific first
    ("peagle", "p_eagle"), ("p_eagle", "p_eagle"), ("eagle3", "eagle3"), ("eagle", "eagle"), ("dspark", "dspark"),
    ("dflash", "dflash"), ("assistant", "mtp"),
)


def config_mechanism(values: Mapping[str, Any]) -> Mechanism | None:
    """What kind of drafter a configuration says it is; None for a plain model."""
    names = values.get("architectures")
    words = " ".join(str(name) for name in names).lower() if isinstance(names, list) else ""
    words += f" {values.get('speculators_model_type') or ''} {values.get('model_type') or ''}".lower()
    return next((mechanism for mark, mechanism in MARKS if mark in words), None)


def read_draft_config(values: Mapping[str, Any], mechanism: Mechanism, target: Model, *, name: str) -> DraftShape:
    """The draft network and its block from a configuration."""
    inner = values.get("transformer_layer_config")      # speculators keep the network one level down
    shape = {**values, **inner} if isinstance(inner, Mapping) else dict(values)
    for key in DRAFT_FIELDS:
        shape.pop(key, None)
    fields = Fields(values)
    draft_vocab = _size(fields, "draft_vocab_size")
    if draft_vocab is not None:
        shape["vocab_size"] = draft_vocab
    shape.setdefault("vocab_size", target.vocab)
    network = read_model(shape, name=name, source=name)
    if mechanism == "eagle3":       # q, k and v read embedding and hidden state side by side
        network = _with_attention(network, inputs=2)
    elif mechanism == "mtp":        # Gemma assistant
        network = _with_attention(network, shares_kv=True)
    nested = fields.part("dflash_config")
    markov = _size(nested, "markov_rank") if nested is not None else _size(fields, "markov_rank")
    notes: list[Note] = []
    block = _block(fields, mechanism, notes)
    fields.raise_faults()
    if network.hidden != target.hidden and mechanism in ("eagle", "eagle3", "p_eagle", "dflash", "dspark"):
        wanted = _size(fields, "target_hidden_size")
        if wanted != target.hidden:
            raise InputError([Fault(("model",), f"{name} has width {network.hidden}, the target {target.name} has "
                                                f"{target.hidden}: it was made for another target")])
    return DraftShape(
        name=name, network=network, block=block, source=name, notes=tuple(notes),
        markov_rank=(markov or MARKOV_RANK) if mechanism == "dspark" else None,
        max_draft_len=_trained_drafts(values),
    )


def _block(fields: Fields, mechanism: Mechanism, notes: list[Note]) -> int | None:
    """The block as the mechanism's own checkpoints count it: DFlash with the anchor, DSpark without."""
    if mechanism not in BLOCKS:
        return None
    block = _size(fields, "block_size")
    if block is None:
        notes.append(Note("drafter-block-assumed", f"no block_size given: assumed {BLOCKS[mechanism]}"))
        return BLOCKS[mechanism]
    if "speculators_model_type" in fields.values:   # N drafts if they are sampled from the anchor, else N - 1
        drafts = block if fields.values.get("sample_from_anchor") is True else block - 1
        return drafts + 1 if mechanism == "dflash" else drafts
    return block


def _trained_drafts(values: Mapping[str, Any]) -> int | None:
    """Tokens that a speculators checkpoint proposes by default; not a limit for serial drafters."""
    if config_mechanism(values) != "p_eagle":
        return None
    config = values.get("speculators_config")
    methods = config.get("proposal_methods") if isinstance(config, Mapping) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    tokens = first.get("speculative_tokens") if isinstance(first, Mapping) else None
    return tokens if isinstance(tokens, int) and 1 <= tokens <= 64 else None


def _with_attention(network: Model, **changes: Any) -> Model:
    """The network with something changed in every attention layer."""
    groups = tuple(
        replace(group, layer=replace(group.layer, mixer=replace(group.layer.mixer, **changes)))
        if isinstance(group.layer.mixer, SoftmaxAttention) else group
        for group in network.groups
    )
    return replace(network, groups=groups)


def _size(fields: Fields, key: str) -> int | None:
    value = fields.values.get(key)
    return None if value is None else fields.as_size(key, value)
