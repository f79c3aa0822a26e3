"""Rules that compare a configuration with a plan: the model's loss at the configured D, tile edges, drift.

The numbers come from the caller (`Planner`): this room knows no physics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specplan.planner.engines.facts import draft_len, length_setting, mechanism
from specplan.planner.engines.launch import Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at
from specplan.planner.engines.rule_examples import example
from specplan.planner.messages import Fault, InputError

TIE = 0.01      # losses within 1 % are ties


@dataclass(frozen=True, slots=True)
class Planner:
    """What the planner says about other draft lengths, for one model, GPU and load.

    `loss_of(draft_len, mechanism, batch)` is the fraction of the best objective that is lost there (0: the best;
    `draft_len` 0: speculation off); None where the model has no answer. `best_of` names the D (0: off) for a mechanism
    and batch. `tile` is (query heads per KV head on a GPU, rows of the attention tile), where tiles matter.
    """

    loss_of: Callable[[int, str, int], float | None]
    best_of: Callable[[str, int], int | None] | None = None
    batch: int = 1
    max_loss: float | None = None
    tile: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The recommendation of a stored plan (`specplan recommend --json`)."""

    speculate: bool
    mechanism: str | None
    draft_len: int | None
    draft_lens: tuple[int, int] | None
    file: str


def read_baseline(path: str | Path) -> Baseline:
    """Read a stored plan; InputError if it is none."""
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError([Fault((), f"cannot be read as a plan: {error}", file=str(path))]) from None
    found: Any = stored.get("recommendation") if isinstance(stored, dict) else None
    if not isinstance(found, dict) or "speculate" not in found:
        raise InputError([Fault(("recommendation",), "is missing: this is not the output of specplan recommend --json",
                                file=str(path))])
    span = found.get("draft_len_range")
    return Baseline(bool(found["speculate"]), found.get("mechanism"), found.get("draft_len"),
                    tuple(span) if isinstance(span, list) and len(span) == 2 else None, str(path))


def against_planner(launch: Launch, context: Context, planner: Planner) -> Iterator[tuple[Rule, Hit]]:
    """What the planner says about the D of a launch."""
    length, setting, kind = draft_len(launch), length_setting(launch), mechanism(launch)
    if length is None or setting is None or kind is None:
        return
    batch = context.batch or planner.batch
    loss = planner.loss_of(length, kind, batch)
    off = planner.loss_of(0, kind, batch)
    best = planner.best_of(kind, batch) if planner.best_of is not None else None
    limit = TIE if planner.max_loss is None else planner.max_loss
    if loss is not None and off is not None and off <= TIE < loss and loss > limit:
        yield _OFF, at(setting, f"the planner says off at batch {batch}: D = {length} loses {loss:.1%} against plain "
                                "decoding")
    elif loss is not None and loss > limit:
        better = "" if best is None else f", D = {best} is best"
        yield _LOSS, at(setting, f"D = {length} with {kind} loses {loss:.1%} at batch {batch}{better}")
    if planner.tile is not None:
        yield from ((_TILE, hit) for hit in _tile_edge(length, planner.tile, setting))


def _tile_edge(length: int, tile: tuple[int, int], setting: Any) -> Iterator[Hit]:
    group, rows = tile
    used = group * (length + 1)
    over = used % rows
    lower = (used - over) // group - 1
    if used > rows and 0 < over <= group and lower >= 1:
        yield at(setting, f"{group} query heads per KV head x {length + 1} = {used} rows, {over} past a multiple of "
                          f"the tile of {rows}: D = {lower} fills whole tiles")


def against_baseline(launch: Launch, baseline: Baseline) -> Iterator[tuple[Rule, Hit]]:
    """Where a launch differs from a stored plan."""
    length, setting, kind = draft_len(launch), length_setting(launch), mechanism(launch)
    if setting is None or length is None:
        return
    if not baseline.speculate:
        yield _DRIFT, at(setting, f"{baseline.file} recommends no speculation, this drafts {length} tokens")
        return
    if kind is not None and baseline.mechanism not in {None, kind}:
        yield _DRIFT, at(setting, f"{baseline.file} recommends {baseline.mechanism}, this is {kind}")
    low, high = baseline.draft_lens or (baseline.draft_len, baseline.draft_len)
    if low is not None and high is not None and not low <= length <= high:
        span = f"D = {low}" if low == high else f"D from {low} to {high}"
        yield _DRIFT, at(setting, f"{baseline.file} recommends {span}, this drafts {length}")


_BAD = example("serve.sh", "vllm serve meta-llama/Llama-3.3-70B-Instruct --speculative-config '{\"method\": "
                           "\"ngram\", \"num_speculative_tokens\": 16}'\n")
_GOOD = example("serve.sh", "vllm serve meta-llama/Llama-3.3-70B-Instruct --speculative-config '{\"method\": "
                            '"ngram", '
                     "\"num_speculative_tokens\": 3}'\n")
_LOSS = Rule(
    code="SP601", name="loss", severity="warning",
    summary="The configured D loses more than --max-loss (1 % unless given) against the planner's best.",
    why="D beyond the point where a further draft pays costs throughput at every step; below it, gain is left.",
    fix="Take the D that is named, or give the planner a measured anchor if you know better.",
    source="specplan recommend with --model; cases V59, V07, V51", bad=_BAD, good=_GOOD)
_OFF = Rule(
    code="SP602", name="should-be-off", severity="warning",
    summary="The planner recommends plain decoding at this load.",
    why="Verifying drafts costs more than they bring: large batches, low acceptance or spilled weights.",
    fix="Remove the speculative settings for this deployment.",
    source="specplan recommend with --model; cases V09, V10, S34", bad=_BAD, good=_GOOD)
_TILE = Rule(
    code="SP603", name="tile-edge", severity="note",
    summary="D ends just past a multiple of the attention tile.",
    why="A tile that is filled by a few rows costs about as much as a full one (guideline 3).",
    fix="Take the D that fills whole tiles, if the loss says so too.",
    source="NVIDIA, Co-Designing AI Models Using Speculative Decoding (2026-09-02), guideline 3", bad=_BAD, good=_GOOD)
_DRIFT = Rule(
    code="SP604", name="drift", severity="warning",
    summary="The configuration differs from the stored plan given by --baseline.",
    why="A plan that is in the repository should be what is served.",
    fix="Change the configuration, or store a new plan.",
    source="specplan recommend --json", bad=_BAD, good=_GOOD)
RULES = (_LOSS, _OFF, _TILE, _DRIFT)
