"""Simple rules that published rows are also scored by, in the same run, so that a figure has something beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.fact import fact
from specplan.planner.step.drafting import depth_ratio
from specplan.planner.step.tiles import attention_tiles
from specplan.planner.validate.points import Point
from specplan.planner.validate.pricing import Prices, lengths_of, price

Speedups: TypeAlias = Callable[[Sequence[Point], Prices], Array]
DraftRule: TypeAlias = Callable[[Point], int]
BLOG_TILE = 128


@fact
class Baseline:
    """A rule that predicts speedups, or only names a draft length."""

    name: str
    title: str
    speedups: Speedups | None = None
    draft_len: DraftRule | None = None


def depth_rule(points: Sequence[Point], prices: Prices) -> Array:
    """AL / (1 + rho*D), rho = draft layers / target layers (guideline 4)."""
    del prices
    emitted, _, _ = lengths_of(points)
    overhead = np.array([0.0 if p.drafter is None else depth_ratio(p.drafter, p.target) * p.draft_len for p in points])
    return emitted / (1.0 + overhead)


def batch_rule(points: Sequence[Point], prices: Prices) -> Array:
    """Verify priced as decode of B*(1+D) sequences, so that the KV cache is read 1 + D times; drafting as rho*D of off.

    The rule of the most used planner: each generation op at batch x (nextn + 1), times (L + nextn)/L for the module.
    """
    emitted, _, _ = lengths_of(points)
    wide = [replace(p, drafter=None, group=f"{p.group}|wide", batch=p.batch * (p.verified_tokens or p.draft_len + 1))
            for p in points]
    verify = price(wide).off_s
    layers = np.array([1.0 if p.drafter is None else 1.0 + depth_ratio(p.drafter, p.target) * p.draft_len
                       for p in points])
    return np.asarray(emitted * prices.off_s / (verify * layers))


def always_off(points: Sequence[Point], prices: Prices) -> Array:
    """Never speculate: speedup 1."""
    del prices
    return np.ones(len(points))


def tile_rule(point: Point) -> int:
    """D = 128/G - 1 whatever the rest (guideline 2 alone)."""
    tiles = attention_tiles(point.target, point.deployment)
    return 0 if tiles is None else max(BLOG_TILE // tiles.group_size - 1, 1)


BASELINES = (
    Baseline(name="depth", title="AL/(1+rho*D)", speedups=depth_rule),
    Baseline(name="batch", title="batch x (1+D), KV re-read", speedups=batch_rule),
    Baseline(name="off", title="always off", speedups=always_off, draft_len=lambda _: 0),
    Baseline(name="tile", title="D = 128/G - 1", draft_len=tile_rule),
    Baseline(name="d3", title="fixed D = 3", draft_len=lambda _: 3),
    Baseline(name="d5", title="fixed D = 5", draft_len=lambda _: 5),
)
