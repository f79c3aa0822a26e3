"""Attention kernel families as data: how each turns query rows into tiles, splits the KV cache, and where it breaks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from specplan.planner.kernels.profile import PROFILES
from specplan.planner.messages import InputError, nearest

FAMILY_FILE = PROFILES / "kernels" / "attention.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cliff:
    """A shape range in which the kernel runs another, much slower path that no smooth form describes."""

    name: str
    message: str
    group_size: tuple[float, float] = (0.0, float("inf"))
    query_len: tuple[float, float] = (0.0, float("inf"))

    def holds(self, group_size: float, max_query_len: int, level: str = "measured") -> bool:
        """Whether a call with this group size, and up to this query length, falls off."""
        del level
        inside = self.group_size[0] <= group_size <= self.group_size[1]
        return inside and self.query_len[0] <= max_query_len and self.query_len[1] >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFamily:
    """One kernel design. Tile lists by head width: the last tile is the largest, smaller ones serve fewer rows."""

    name: str
    title: str
    form: str                                   # equation where no measured entry says otherwise
    packing: Literal["rows", "whole_tokens", "none"]
    reread: Literal["once", "per_tile", "per_head"]
    tile_list: tuple[tuple[int, tuple[int, ...]], ...]      # (up to this head_dim, tiles)
    arch: tuple[str, ...]                       # architectures it runs on
    grows_with_group: bool                      # one tile takes a whole token however large the group is
    row_tile: int
    packs_single_token: bool                    # unpacked kernels may still pack the heads of one token
    split_rule: str
    splits_decode: bool
    splits_verify: bool
    split_cap: int
    kv_block_tokens: int
    ctas_per_sm: int
    kv_efficiency: float                        # share of datasheet bandwidth at large KV
    relative_tile_cost: Mapping[int, float]
    exp: str
    launch_s: float
    wave_s: float
    row_s: float
    cliffs: tuple[Cliff, ...]
    sources: tuple[str, ...]

    def tiles(self, head_dim: int) -> tuple[int, ...]:
        """Tile sizes in rows for this head width, smallest first."""
        for limit, tiles in self.tile_list:
            if head_dim <= limit:
                return tiles
        return self.tile_list[-1][1]


@functools.lru_cache(maxsize=1)
def attention_families() -> Mapping[str, AttentionFamily]:
    """All families by name."""
    return {name: _family(name, raw) for name, raw in _raw()["families"].items()}


@functools.lru_cache(maxsize=1)
def default_families() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(engine, architecture, families in order of preference)."""
    return tuple((row["engine"], arch, tuple(row["families"])) for row in _raw()["defaults"] for arch in row["arch"])


def find_family(name: str) -> AttentionFamily:
    """The family of this name, or an error with the nearest ones."""
    families = attention_families()
    if name not in families:
        raise InputError(f"attention_kernel: no kernel family '{name}'{nearest(name, families)}")
    return families[name]


@functools.lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(FAMILY_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)  # noqa: S506
    return loaded


def _family(name: str, raw: Mapping[str, Any]) -> AttentionFamily:
    return AttentionFamily(
        name=name,
        title=raw["title"],
        form=raw["form"],
        packing=raw["packing"],
        reread=raw["reread"],
        tile_list=tuple((int(row["head_dim_max"]), tuple(row["tiles"])) for row in raw["tile_rows"]),
        arch=tuple(raw["arch"]),
        grows_with_group=raw.get("tile_grows_with_group", False),
        row_tile=raw["row_tile"],
        packs_single_token=raw.get("packs_single_token", False),
        split_rule=raw["split"]["rule"],
        splits_decode=raw["split"]["decode"],
        splits_verify=raw["split"]["verify"],
        split_cap=raw["split"]["cap"],
        kv_block_tokens=raw["split"]["kv_block_tokens"],
        ctas_per_sm=raw.get("ctas_per_sm", 1),
        kv_efficiency=raw["kv_efficiency"],
        relative_tile_cost={int(tile): float(cost) for tile, cost in raw.get("relative_tile_cost", {}).items()},
        exp=raw["exp"],
        launch_s=float(raw["launch_s"]),
        wave_s=float(raw["wave_s"]),
        row_s=float(raw.get("row_s", 0.0)),
        cliffs=tuple(
            Cliff(name=c["name"], message=c["message"],
                  group_size=tuple(c.get("group_size", (0.0, float("inf")))),  # type: ignore[arg-type]
                  query_len=tuple(c.get("query_len", (0.0, float("inf")))))  # type: ignore[arg-type]
            for c in raw.get("cliffs", ())
        ),
        sources=tuple(raw["sources"]),
    )
