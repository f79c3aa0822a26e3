"""Rules that compare a configuration with a plan: the model's loss at the configured D, tile edges, drift.

The numbers come from the caller (`Planner`): this room knows no physics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specplan.planner.decide.tier import Tier
from specplan.planner.engines.facts import draft_len, length_setting, mechanism, names, schedule
from specplan.planner.engines.launch import Launch, Setting
from specplan.planner.engines.rule import Context, Hit, Rule, at
from specplan.planner.engines.rule_examples import example
from specplan.planner.fact import fact
from specplan.planner.messages import Fault, InputError

TIE = 0.01              # losses within 1 % are ties
SCHEDULE_TIE = 0.03     # the planner's own schedules give up 2 % on average to be short, for several contexts at once
MANY = 10**9


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


@fact
class Baseline:
    """The recommendation of a stored plan (`specplan recommend --json`)."""

    speculate: bool
    mechanism: str | None
    draft_len: int | None
    draft_lens: tuple[int, int] | None      # lengths that are as good, at the headline's batch
    tiers: tuple[Tier, ...]
    file: str


def read_baseline(path: str | Path) -> Baseline:
    """Read a stored plan; InputError if it is none, or one that decided nothing for want of acceptance."""
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError([Fault((), f"cannot be read as a plan: {error}", file=str(path))]) from None
    found: Any = stored.get("recommendation") if isinstance(stored, dict) else None
    if not isinstance(found, dict) or "speculate" not in found:
        raise InputError([Fault(("recommendation",), "is missing: this is not the output of specplan recommend --json",
                                file=str(path))])
    if found["speculate"] is None:
        raise InputError([Fault(("recommendation", "speculate"), "is null: without acceptance the plan decided "
                                "nothing that a configuration could be held against", file=str(path))])
    if isinstance(stored.get("load"), dict):
        return _under_load(stored["load"], str(path))
    span, planned = found.get("draft_len_range"), stored.get("schedule") or {}
    try:
        tiers = tuple(Tier(tier["first_batch"], tier["last_batch"], tier["draft_len"])
                      for tier in planned.get("tiers", ()))
    except (KeyError, TypeError):
        raise InputError([Fault(("schedule", "tiers"), "are not as specplan recommend writes them", file=str(path))]
                         ) from None
    return Baseline(speculate=bool(found["speculate"]), mechanism=planned.get("mechanism", found.get("mechanism")),
                    draft_len=found.get("draft_len"), tiers=tiers, file=str(path),
                    draft_lens=(span[0], span[1]) if isinstance(span, list) and len(span) == 2 else None)


def _under_load(load: dict[str, Any], file: str) -> Baseline:
    """What a plan chose for its load, as `recommend --emit` writes it: one D, whatever the batch."""
    slo = load.get("slo") or {}
    row = slo.get("choice") or slo.get("nearest") or next(iter(load.get("rows") or ()), None)
    if not isinstance(row, dict) or "draft_len" not in row:
        raise InputError([Fault(("load",), "is not as specplan recommend writes it", file=file)])
    length = row["draft_len"]
    return Baseline(speculate=bool(length), mechanism=row.get("mechanism"), draft_len=length, draft_lens=None, tiers=(),
                    file=file)


def against_planner(launch: Launch, context: Context, planner: Planner) -> Iterator[tuple[Rule, Hit]]:
    """What the planner says about the D of a launch, or about its schedule as a whole."""
    length, setting, kind = draft_len(launch), length_setting(launch), mechanism(launch)
    if length is None or setting is None or kind is None:
        return
    admitted = launch.number(names(launch).admitted)
    batch = min(context.batch or planner.batch, admitted or MANY)
    tiers = [tier for tier in schedule(launch) if tier.first <= batch]
    if tiers:
        yield from _schedule_loss(tiers, kind, batch, planner, setting)
    else:
        yield from _loss(length, kind, batch, planner, setting)
    if planner.tile is not None:
        yield from ((_TILE, hit) for hit in _tile_edge(length, planner.tile, setting))


def _loss(length: int, kind: str, batch: int, planner: Planner, setting: Setting) -> Iterator[tuple[Rule, Hit]]:
    loss = planner.loss_of(length, kind, batch)
    if loss is None or loss <= (TIE if planner.max_loss is None else planner.max_loss):
        return
    off = planner.loss_of(0, kind, batch)
    if off is not None and off <= TIE:
        yield _OFF, at(setting, f"the planner says off at batch {batch}: D = {length} loses {loss:.1%} against plain "
                                "decoding")
    else:
        yield _LOSS, at(setting, f"D = {length} with {kind} loses {loss:.1%} at batch {batch}"
                        + _best(planner, kind, batch))


def _schedule_loss(tiers: Sequence[Tier], kind: str, batch: int, planner: Planner, setting: Setting
                   ) -> Iterator[tuple[Rule, Hit]]:
    """The mean over batches counts: a schedule that is short loses a little at the ends of its tiers."""
    batches = sorted({round(batch ** (step / 15)) for step in range(16)})
    losses = [(loss, one, tier.draft_len) for one in batches for tier in tiers if tier.first <= one <= tier.last
              and (loss := planner.loss_of(tier.draft_len, kind, one)) is not None]
    if not losses:
        return
    mean = sum(loss for loss, _, _ in losses) / len(losses)
    if mean > (SCHEDULE_TIE if planner.max_loss is None else planner.max_loss):
        loss, where, length = max(losses)
        yield _LOSS, at(setting, f"the schedule loses {mean:.1%} on average up to batch {batch}, most at batch "
                        f"{where}: {loss:.1%} with D = {length}" + _best(planner, kind, where))


def _best(planner: Planner, kind: str, batch: int) -> str:
    best = None if planner.best_of is None else planner.best_of(kind, batch)
    return "" if best is None else f", D = {best} is best" if best else ", off is best"


def _tile_edge(length: int, tile: tuple[int, int], setting: Setting) -> Iterator[Hit]:
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
    difference = _schedule_drift(schedule(launch), length, baseline) if baseline.tiers else _drift(length, baseline)
    if difference:
        yield _DRIFT, at(setting, f"{baseline.file} recommends {difference}")


def _drift(length: int, baseline: Baseline) -> str:
    low, high = baseline.draft_lens or (baseline.draft_len, baseline.draft_len)
    if low is None or high is None or low <= length <= high:
        return ""
    return (f"D = {low}" if low == high else f"D from {low} to {high}") + f", this drafts {length}"


def _schedule_drift(own: tuple[Tier, ...], length: int, baseline: Baseline) -> str:
    """The first batch where a schedule differs; one length for all batches must be that of some tier."""
    if not own:
        known = sorted({tier.draft_len for tier in baseline.tiers})
        return "" if length in known else f"D of {', '.join(map(str, known))} by batch, this drafts {length}"
    for planned in baseline.tiers:
        for tier in own:
            if tier.last >= planned.first and tier.first <= planned.last and tier.draft_len != planned.draft_len:
                batch = max(tier.first, planned.first)
                return f"D = {planned.draft_len} at batch {batch}, this drafts {tier.draft_len}"
    return ""


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
    source="specplan recommend with --model; vllm-project/recipes#967, #839 and GLM/GLM.md", bad=_BAD, good=_GOOD)
_OFF = Rule(
    code="SP602", name="should-be-off", severity="warning",
    summary="The planner recommends plain decoding at this load.",
    why="Verifying drafts costs more than they bring: large batches, low acceptance or spilled weights.",
    fix="Remove the speculative settings for this deployment.",
    source="specplan recommend with --model; vllm-project/vllm#12755; HabanaAI/vllm-fork#1264; "
           "sgl-project/sglang#33083", bad=_BAD, good=_GOOD)
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
