"""The shape of a drafter when nobody names one: what published drafters of that kind look like, for this target.

A training configuration for the very target comes first (`drafters.json`), else the customary shape; both leave a
note that says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from specplan.planner.fact import fact
from specplan.planner.messages import Note
from specplan.planner.models.architecture import (
    DenseFfn,
    Layer,
    LayerGroup,
    Model,
    MoeFfn,
    SoftmaxAttention,
)
from specplan.planner.models.drafter import Mechanism

DRAFTERS_FILE = Path(__file__).parent / "drafters.json"
DRAFT_VOCAB = 32000         # EAGLE-3 and P-EAGLE score the 32k commonest tokens only
FUSED_HIDDEN_STATES = {"eagle3": 3, "p_eagle": 3, "dflash": 5, "dspark": 5, "eagle": 2}
LAYERS = {"eagle": 1, "eagle3": 1, "p_eagle": 4, "dflash": 5, "dspark": 5}
BLOCKS = {"dflash": 16, "dspark": 7}
MARKOV_RANK = 256
MOE_TARGET_WIDTH = 6        # FFN of a drafter for a MoE target, in hidden sizes (gpt-oss, Qwen3-30B and -235B: 6)
HEAD_DIM = 128


@fact
class DraftShape:
    """A draft network and the numbers that come with it."""

    name: str
    network: Model
    block: int | None = None
    markov_rank: int | None = None
    max_draft_len: int | None = None
    source: str
    notes: tuple[Note, ...] = ()


@cache
def drafter_data() -> Mapping[str, Any]:
    """Contents of drafters.json."""
    data: dict[str, Any] = json.loads(DRAFTERS_FILE.read_text(encoding="utf-8"))
    return data


def names_target(entry: Mapping[str, Any], target: Model) -> bool:
    """Whether an entry of drafters.json was made for this target, instruction-tuned or not."""
    name = target.name.lower().removeprefix("meta-")
    for ending in ("-instruct", "-it", "-base"):
        name = name.removesuffix(ending)
    return name in entry["targets"]


def customary_shape(mechanism: Mechanism, target: Model) -> DraftShape:
    """The usual shape of an EAGLE, EAGLE-3, P-EAGLE, DFlash or DSpark drafter for a target without a named one."""
    layers = LAYERS[mechanism]
    layer = Layer(mixer=draft_attention(target, inputs=2 if mechanism == "eagle3" else 1),
                  ffn=DenseFfn(intermediate=_draft_ffn(target)))
    if target.model_type == "deepseek_v4" and mechanism == "dspark" and target.mtp is not None:
        layer, layers = target.mtp.layer, 3     # three stages inside the checkpoint
    reduced = mechanism in ("eagle3", "p_eagle")
    vocab = min(DRAFT_VOCAB, target.vocab) if reduced else target.vocab
    name = f"{target.name}-{mechanism}"
    network = Model(name=name, hidden=target.hidden, vocab=vocab, tied_head=False,
                    groups=(LayerGroup(layer=layer, count=layers),))
    block = BLOCKS.get(mechanism)
    if target.model_type == "deepseek_v4" and mechanism == "dspark":
        block = 5
    blocks = f", block {block}" if block else ""
    assumed = (f"{mechanism} drafter of {target.name}: no model named; assumed {layers} layer(s) of width "
               f"{target.hidden}, {vocab} draft tokens{blocks}")
    return DraftShape(
        name=name, network=network, block=block, markov_rank=MARKOV_RANK if mechanism == "dspark" else None,
        source="customary shape", notes=(Note("drafter-shape-assumed", assumed),),
    )


def draft_attention(target: Model, *, inputs: int = 1) -> SoftmaxAttention:
    """Plain attention of a drafter: the target's own where it is full GQA, else heads of 128 as published ones use."""
    for group in target.groups:
        mixer = group.layer.mixer
        if isinstance(mixer, SoftmaxAttention) and mixer.window_tokens is None and mixer.head_dim <= 2 * HEAD_DIM:
            return SoftmaxAttention(query_heads=mixer.query_heads, kv_heads=mixer.kv_heads, head_dim=mixer.head_dim,
                                    value_head_dim=mixer.value_head_dim, inputs=inputs)
    heads = max(1, target.hidden // HEAD_DIM)
    kv_heads = next(count for count in (8, 4, 2, 1) if heads % count == 0)
    return SoftmaxAttention(query_heads=heads, kv_heads=kv_heads, head_dim=HEAD_DIM, value_head_dim=HEAD_DIM,
                            inputs=inputs)


def _draft_ffn(target: Model) -> int:
    """The FFN width of a dense target; for MoE targets a multiple of the hidden size."""
    if any(isinstance(group.layer.ffn, MoeFfn) for group in target.groups):
        return MOE_TARGET_WIDTH * target.hidden
    widths = [group.layer.ffn.intermediate for group in target.groups if isinstance(group.layer.ffn, DenseFfn)]
    return max(widths, default=4 * target.hidden)


def gemma_assistant(target: Model) -> DraftShape:
    """Gemma 4's assistant: a small model that reads the target's cache and has no keys and values of its own.

    Four layers of width 1024 with the target's heads and an FFN of 8192 make the 470 M parameters that Google gives for
    the assistant of the 31B.
    """
    mixers = [group.layer.mixer for group in target.groups if isinstance(group.layer.mixer, SoftmaxAttention)]
    mixers.sort(key=lambda mixer: mixer.window_tokens is None)      # sliding layers first, then full ones
    ffn = DenseFfn(intermediate=8192)
    layers = [Layer(mixer=replace(mixer, shares_kv=True), ffn=ffn) for mixer in (mixers[0], mixers[-1])]
    network = Model(
        name=f"{target.name}-assistant", hidden=1024, vocab=target.vocab, tied_head=True,
        groups=(LayerGroup(layer=layers[0], count=3), LayerGroup(layer=layers[1], count=1)),
    )
    note = Note("drafter-shape-assumed", f"assistant of {target.name}: no model named; assumed 4 layers of width 1024; "
                                         "give the config.json of google/gemma-4-*-it-assistant for its real size")
    return DraftShape(name=network.name, network=network, source="customary shape", notes=(note,))
