"""What proposes tokens: a drafter is a small network with a way to run it, or a host lookup without one."""

from __future__ import annotations

from typing import Literal, TypeAlias

from specplan.planner.fact import fact
from specplan.planner.messages import Note
from specplan.planner.models.architecture import Model

Mechanism: TypeAlias = Literal[
    "draft_model", "eagle", "eagle3", "p_eagle", "pard", "mtp", "dflash", "dspark", "ngram", "suffix"
]
MECHANISMS: tuple[Mechanism, ...] = (
    "draft_model", "eagle", "eagle3", "p_eagle", "pard", "mtp", "dflash", "dspark", "ngram", "suffix",
)
SERIAL: frozenset[Mechanism] = frozenset({"draft_model", "eagle", "eagle3", "mtp"})     # one pass per token
ONE_PASS: frozenset[Mechanism] = frozenset({"p_eagle", "pard", "dflash", "dspark"})     # one pass per step
FUSED_ONCE: frozenset[Mechanism] = frozenset({"eagle3"})    # serial, but hidden states are fused once a step
LOOKUP: frozenset[Mechanism] = frozenset({"ngram", "suffix"})                           # no GPU time


@fact
class Tree:
    """A draft tree in place of a chain: tokens kept per level, and tokens verified in all (the root included)."""

    branches: int
    nodes: int


@fact
class Drafter:
    """One way to propose tokens for one target.

    `network` holds the drafter's own layers and widths (for MTP: the module's layer, for a lookup: None). Its
    `vocab` is the draft vocabulary. `own_embedding` / `own_head` say whether these weights exist beside the
    target's and take memory; the head is read in each pass either way.
    """

    mechanism: Mechanism
    name: str
    network: Model | None
    own_embedding: bool = False
    own_head: bool = True
    fused_inputs: int = 0           # target hidden states (and embedding) concatenated and projected to `hidden`
    block: int | None = None        # DFlash, DSpark: trained block, as the checkpoint counts it
    depth: int | None = None        # MTP: trained modules
    max_draft_len: int | None = None    # trained or configured limit on D; None = any
    fixed_draft_lens: tuple[int, ...] | None = None     # the only D that the engine takes
    markov_rank: int | None = None  # DSpark's serial head
    draft_fraction: float | None = None     # lookups: share of steps that draft
    measured_pass_s: float | None = None    # seconds of one draft pass as measured; replaces the predicted time
    tree: Tree | None = None        # None: a chain
    adaptive: bool = False          # verifies only what a confidence head trusts, where that is faster
    shares_target_kv: bool = False  # Gemma assistant: no cache of its own
    max_positions: int | None = None
    source: str = ""
    notes: tuple[Note, ...] = ()
