"""NVIDIA's five guidelines for the draft length, computed from the model's own numbers (docs/guidelines in README).

They are starting points: each says which D it suggests here, whether it applies at this operating point, and why.
The performance model decides; where a guideline and the model disagree, that is worth reading.

Source: "Co-Designing AI Models Using Speculative Decoding for Faster LLM Inference", NVIDIA technical blog,
2026-09-02.
"""

from __future__ import annotations

from typing import Literal

from specplan.planner.fact import fact

GuidelineId = Literal["G1", "G2", "G3", "G4", "G5"]
LOW_LATENCY_BATCH = 8   # beyond it the source's figures leave the low-latency end of the Pareto frontier


@fact
class Guideline:
    """One guideline at one operating point."""

    id: GuidelineId
    applies: bool
    draft_len: int | None = None
    draft_lens: tuple[int, ...] = ()
    finding: str


EXPERT_GROWTH = 1.2     # routed experts that read more than this once D = 1 set the pace before the dense GEMMs do


def gemm_ridge(
    *, ridge_rows: float, batch: int, max_batch: float, draft_len_limit: int, expert_growth: float | None = None
) -> Guideline:
    """G1: raise D until B*(1+D) rows reach the ridge of the verify GEMMs, while the KV cache has room.

    `ridge_rows` is the most rows whose math stays below reading the GEMM's weights, or inside its first tile.
    `expert_growth`: weights of routed experts read at D = 1 over those at D = 0; None without experts.
    """
    largest = int(ridge_rows // batch) - 1
    if largest < 0:
        finding = (
            f"batch {batch} alone is past the GEMM ridge of {ridge_rows:.0f} rows: verify time grows with every "
            "drafted token"
        )
        return Guideline(id="G1", applies=False, draft_len=0, finding=finding)
    room = "with room in the KV cache" if max_batch >= batch else f"but only {max_batch:.0f} sequences fit in memory"
    suggested = min(largest, draft_len_limit)
    dense = "verify GEMMs" if expert_growth is None else "dense verify GEMMs"
    finding = (
        f"{dense} stay at the price of reading their weights up to {ridge_rows:.0f} rows, so B*(1+D) = {batch}*(1+D) "
        f"costs them little up to D = {largest}, {room}"
    )
    if expert_growth is not None:
        finding += f"; of the routed experts D = 1 reads {expert_growth:.2f} times what a plain step reads"
    applies = max_batch >= batch and (expert_growth is None or expert_growth <= EXPERT_GROWTH)
    return Guideline(id="G1", applies=applies, draft_len=suggested, finding=finding)


def rows_cost(*, share: float, batch: int) -> Guideline:
    """G1 where kernels unpack the weights for every row: `share` is what one more token per sequence adds to them."""
    finding = (
        f"these kernels unpack the weights for every row: at batch {batch} one more drafted token adds {share:.0%} of "
        "a plain step's matrix time, so there is no ridge to fill"
    )
    return Guideline(id="G1", applies=False, draft_len=0, finding=finding)


def attention_tile(
    *, group_size: int, tile_rows: int, kernel: str, share: float, packs: bool, knee: float
) -> Guideline:
    """G2: when attention dominates, D = T/G - 1 fills the kernel's tile of T rows with G*(1+D) query rows."""
    if not packs:
        finding = (
            f"{kernel} does not pack the {group_size} query heads of a KV head into its tile: every drafted token "
            "costs from the first on, so there is no tile to fill"
        )
        return Guideline(id="G2", applies=False, draft_len=0, finding=finding)
    draft_len = max(tile_rows // group_size - 1, 0)
    rows = group_size * (1 + draft_len)
    fill = f"fills {rows} of {tile_rows} rows" if rows <= tile_rows else f"{group_size} heads exceed the tile at once"
    applies = share >= 0.5
    why = f"attention is {share:.0%} of the step" + ("" if applies else ", so it does not set the pace here")
    if knee < rows:
        why += f"; math binds from {knee:.0f} rows on, before the tile is full"
    finding = f"D = {tile_rows}/{group_size} - 1 = {draft_len} {fill} of {kernel}; {why}"
    return Guideline(id="G2", applies=applies, draft_len=draft_len, finding=finding)


def tile_multiples(*, group_size: int, tile_rows: int, kernel: str, packs: bool, limit: int, share: float) -> Guideline:
    """G3: past the first tile keep G*(1+D) on multiples of it; a partly filled last tile costs about a full one."""
    if not packs:
        finding = f"{kernel} has no packed tile, so no multiple of it"
        return Guideline(id="G3", applies=False, finding=finding)
    found: list[int] = []
    tiles = 2
    while len(found) < 8:
        draft_len = tiles * tile_rows // group_size - 1
        if draft_len > limit:
            break
        if draft_len > 0 and draft_len not in found:
            found.append(draft_len)
        tiles += 1
    listed = ", ".join(str(d) for d in found) or f"none up to D = {limit}"
    finding = f"beyond the first tile of {tile_rows} rows, G*(1+D) ends on a tile at D = {listed}"
    first = max(tile_rows // group_size - 1, 0)
    applies = share >= 0.5 and any(d > first for d in found)
    return Guideline(
        id="G3", applies=applies, draft_len=found[0] if found else None, draft_lens=tuple(found), finding=finding
    )


def draft_overhead(
    *,
    depth_ratio: float,
    share_per_token: float,
    draft_lens: list[int],
    lengths: list[float] | None,
    batch: int,
    serial: bool,
    known_draft_len: int,
) -> Guideline:
    """G4: at low latency raise D only while AL(D)/(1 + rho*D) still rises; rho = draft layers / target layers.

    A value that is largest at the last of `draft_lens` has no peak among them: acceptance is known no further than
    `known_draft_len`, or longer drafts were not weighed.
    `share_per_token` is the model's own cost of one drafted token in units of a plain step, which includes heads,
    launches and pass floors that rho leaves out.
    """
    compare = f"rho = {depth_ratio:.3f} by layers; the modelled draft cost is {share_per_token:.3f} of a plain step "
    compare += "per token" if serial else "per step, whatever D"
    if lengths is None:
        finding = f"{compare}; without acceptance there is no AL to weigh it against"
        return Guideline(id="G4", applies=False, finding=finding)
    passes = [d if serial else min(d, 1) for d in draft_lens]
    estimate = [length / (1.0 + depth_ratio * n) for length, n in zip(lengths, passes, strict=True)]
    best = max(range(len(estimate)), key=lambda row: (estimate[row], -row))
    applies = batch <= LOW_LATENCY_BATCH
    where = "low latency" if applies else f"batch {batch} is no longer the low-latency end"
    at = f"D = {draft_lens[best]} ({estimate[best]:.2f}x)"
    last = "with known acceptance" if draft_lens[best] >= known_draft_len else "weighed"
    rising = 0 < best == len(draft_lens) - 1
    shape = f"still rises at {at}, the last draft length {last}" if rising else f"peaks at {at}"
    finding = f"AL/(1 + rho*D) {shape}; {compare}; {where}"
    return Guideline(id="G4", applies=applies, draft_len=draft_lens[best], finding=finding)


def mechanism(*, chosen: str | None, ranking: list[tuple[str, float, bool]], training: str) -> Guideline:
    """G5: choose the mechanism by AL against draft latency, memory, training and deployment cost.

    `ranking`: name, gain at its best D and whether that fits in memory.
    """
    if not ranking:
        return Guideline(id="G5", applies=False, finding="no acceptance given: mechanisms cannot be ranked")
    listed = ", ".join(f"{name} {value:.2f}x" + ("" if fits else " (does not fit)") for name, value, fits in ranking)
    fitting = all(fits for _, _, fits in ranking)
    pick = f"{chosen} wins" if chosen else "none beats off" if fitting else "none that fits in memory beats off"
    applies = len(ranking) > 1
    finding = f"{pick} at each one's best D: {listed}" + (f"; {training}" if training else "")
    return Guideline(id="G5", applies=applies, finding=finding)
