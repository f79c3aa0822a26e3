"""Attention kernel designs as data: how each turns query rows into tiles, splits the KV cache, and where it breaks.

The data is gpu_profiles/kernels/attention.yaml; its head says what each key means.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from specplan.planner.config.yaml_reader import load_data
from specplan.planner.fact import fact
from specplan.planner.kernels.profile import PROFILES

FAMILY_FILE = PROFILES / "kernels" / "attention.yaml"

Form: TypeAlias = Literal["walk_fa3", "walk_fa2", "walk_gen", "walk_tile", "walk_xqa", "ramp"]


@fact
class Cliff:
    """A range of shapes in which a kernel takes another, much slower path that no smooth form describes."""

    name: str
    message: str
    group_size: tuple[float, float]
    query_len: tuple[float, float]
    engines: tuple[str, ...]            # whose builds have it; empty = all

    def reached(self, engine: str, group_size: float, max_query_len: int) -> bool:
        """Whether some query length from 1 to `max_query_len` falls into the range."""
        inside = self.group_size[0] <= group_size <= self.group_size[1] and self.query_len[0] <= max_query_len
        return inside and (not self.engines or engine in self.engines)


@fact
class SplitRule:
    """How the KV cache of one sequence is split over CTAs: at q = 1 (decode), at q > 1 (verify), into at most `cap`."""

    rule: str
    decode: bool
    verify: bool
    cap: int
    kv_block_tokens: int
    min_blocks: int = 0         # KV blocks that a split holds at least; 0: splits by FlashAttention's table of waves


@fact
class AttentionFamily:
    """One kernel design. The last tile of a head width is the largest; smaller ones serve fewer rows."""

    name: str
    title: str
    arch: tuple[str, ...]                           # architectures that it runs on
    form: Form                                      # equation where no measured entry says otherwise
    packing: Literal["rows", "whole_tokens", "none"]
    packs_single_token: bool                        # without packing: whether q = 1 still shares a tile
    reread: Literal["once", "per_tile", "per_head"]
    tile_list: tuple[tuple[int, tuple[int, ...]], ...]  # (up to this head_dim, tiles)
    tile_grows_with_group: bool                     # a tile takes a whole token however large the group is
    row_tile: int                                   # rows after which the walk of a CTA costs more
    math_tile: int                                  # rows are padded to this in the math
    ctas_per_sm: int
    split: SplitRule
    kv_efficiency: float                            # share of datasheet bandwidth at large KV
    relative_tile_cost: Mapping[int, float]
    exp: str
    launch_s: float
    wave_s: float
    row_s: float
    cliffs: tuple[Cliff, ...]
    sources: tuple[str, ...]

    def tiles(self, head_dim: int) -> tuple[int, ...]:
        """Tile sizes in rows for this head width, smallest first."""
        return next((tiles for limit, tiles in self.tile_list if head_dim <= limit), self.tile_list[-1][1])


@functools.lru_cache(maxsize=1)
def attention_families() -> Mapping[str, AttentionFamily]:
    """All designs by name."""
    return {name: _family(name, raw) for name, raw in _data()["families"].items()}


@functools.lru_cache(maxsize=1)
def default_families() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(engine, architecture) -> designs in order of preference."""
    return {(row["engine"], arch): tuple(row["families"]) for row in _data()["defaults"] for arch in row["arch"]}


@functools.lru_cache(maxsize=1)
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = load_data(FAMILY_FILE)
    return data


def _family(name: str, raw: Mapping[str, Any]) -> AttentionFamily:
    return AttentionFamily(
        name=name,
        title=raw["title"],
        arch=tuple(raw["arch"]),
        form=raw["form"],
        packing=raw["packing"],
        packs_single_token=raw.get("packs_single_token", False),
        reread=raw["reread"],
        tile_list=tuple((row["head_dim_max"], tuple(row["tiles"])) for row in raw["tile_rows"]),
        tile_grows_with_group=raw.get("tile_grows_with_group", False),
        row_tile=raw["row_tile"],
        math_tile=raw.get("math_tile", 64),
        ctas_per_sm=raw.get("ctas_per_sm", 1),
        split=SplitRule(**raw["split"]),
        kv_efficiency=raw["kv_efficiency"],
        relative_tile_cost=raw.get("relative_tile_cost", {}),
        exp=raw["exp"],
        launch_s=raw["launch_s"],
        wave_s=raw["wave_s"],
        row_s=raw.get("row_s", 0.0),
        cliffs=tuple(_cliff(cliff) for cliff in raw["cliffs"]),
        sources=tuple(raw["sources"]),
    )


def _cliff(raw: Mapping[str, Any]) -> Cliff:
    low_group, high_group = raw.get("group_size", (0, math.inf))
    low_query, high_query = raw.get("query_len", (1, math.inf))
    return Cliff(name=raw["name"], message=raw["message"], group_size=(low_group, high_group),
                 query_len=(low_query, high_query), engines=tuple(raw.get("engines", ())))
