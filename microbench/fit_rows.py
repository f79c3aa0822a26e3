"""Rows of measurements, as the fit sees them: one slice per kernel, columns in SI units, groups to hold out.

Two sources fill these: the tables of a wheel (`silicon.py`) and the project's own JSON lines (`fit_measurements.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specplan.planner.arrays import Array

Family: TypeAlias = Literal["attention", "attention_math", "gemm", "moe", "allreduce", "mla", "recurrent", "sparse"]
Mask: TypeAlias = npt.NDArray[np.bool_]

HELD_OUT = 0.3
SPLITS = ("a", "b", "c")  # the three stated splits; the letter salts the hash that ranks the groups
FIT_ROWS = 4000     # rows of larger slices are sampled for the fit; all are scored
FOLDS = 4  # of families with few groups: every row is held out once

GROUPED_BY: dict[Family, tuple[str, ...]] = {
    # a group is held out whole, so that no held-out row has a neighbour in the fit that differs in the easy axes only
    "attention": ("kv_heads", "group_size"),
    "attention_math": ("query_heads", "kv_heads"),
    "gemm": ("n", "k"),
    "moe": ("hidden", "intermediate", "top_k", "experts", "tp", "ep"),
    "allreduce": ("message_bytes",),
    "mla": ("heads", "batch"),
    "recurrent": ("heads",),
    "sparse": ("batch", "query_len"),
}
FOLDED: frozenset[Family] = frozenset({"recurrent", "sparse"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Measured calls of one kernel with one number format.

    Attributes
    ----------
    variant
        What tells this slice from others of the same kernel: head_dim, dtypes, GPUs of a collective, phase.
    columns
        One array per argument of the timing function, all of the same length.
    rejected
        Rows that were left out before, by reason.
    """

    family: Family
    engine: str
    version: str
    kernel: str
    variant: Mapping[str, str | int]
    columns: Mapping[str, Array]
    time_s: Array
    rejected: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def name(self) -> str:
        """Stable name of the slice, for messages and tables.

        >>> Slice(family="gemm", engine="vllm", version="0.24", kernel="linear", variant={"dtype": "bf16"},
        ...       columns={}, time_s=np.empty(0)).name
        'gemm vllm 0.24 linear dtype=bf16'
        """
        variant = " ".join(f"{key}={value}" for key, value in self.variant.items())
        return f"{self.family} {self.engine} {self.version} {self.kernel} {variant}".rstrip()

    def take(self, keep: Mask, reason: str | None = None) -> Slice:
        """The rows where `keep` holds; the others are counted under `reason`."""
        rejected = dict(self.rejected)
        left_out = int(np.count_nonzero(~keep))
        if reason is not None and left_out:
            rejected[reason] = rejected.get(reason, 0) + left_out
        columns = {name: column[keep] for name, column in self.columns.items()}
        return replace(self, columns=columns, time_s=self.time_s[keep], rejected=rejected)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Smallest and largest value of every column that varies or matters to a query."""
        return {name: (float(column.min()), float(column.max())) for name, column in self.columns.items()}


def group_labels(rows: Slice) -> npt.NDArray[np.int64]:
    """Number of the shape group of each row, in the order of the groups' keys."""
    keys = np.stack([column_of(rows, name) for name in GROUPED_BY[rows.family]], axis=1)
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def held_out(rows: Slice, split: str) -> Mask:
    """Rows that a fit on this split must not see: 30 % of whole shape groups, ranked by a hash of their key."""
    groups, labels = _ranked_groups(rows, split)
    count = max(1, round(HELD_OUT * len(groups)))
    return np.isin(labels, groups[:count])


def folds(rows: Slice, split: str) -> list[Mask]:
    """Held-out masks to score: one for a split by groups, `FOLDS` that cover all rows for families with few groups."""
    if rows.family not in FOLDED:
        return [held_out(rows, split)]
    groups, labels = _ranked_groups(rows, split)
    count = min(FOLDS, len(groups))
    return [np.isin(labels, groups[fold::count]) for fold in range(count)]


def subsample(rows: Slice, limit: int = FIT_ROWS) -> Slice:
    """At most `limit` rows, the first in the order of a hash: the same rows on every machine."""
    if len(rows) <= limit:
        return rows
    stacked = np.stack([rows.columns[name] for name in sorted(rows.columns)], axis=1)
    order = np.argsort(_mixed(stacked), kind="stable")
    keep = np.zeros(len(rows), dtype=bool)
    keep[order[:limit]] = True
    return rows.take(keep)


def deduplicated(rows: Slice) -> Slice:
    """One row per shape: the fastest of repeated measurements, which is the least disturbed one."""
    names = sorted(rows.columns)
    order = np.lexsort((rows.time_s, *(rows.columns[name] for name in reversed(names))))
    columns = {name: column[order] for name, column in rows.columns.items()}
    ordered = replace(rows, columns=columns, time_s=rows.time_s[order])
    stacked = np.stack([columns[name] for name in names], axis=1)
    first = np.ones(len(rows), dtype=bool)
    first[1:] = np.any(stacked[1:] != stacked[:-1], axis=1)
    return ordered.take(first, "repeated shape (the fastest was kept)")


def split_by(rows: Slice, labels: Mapping[str, Sequence[str | int] | npt.NDArray[np.generic]]) -> list[Slice]:
    """One slice per combination of the labels, which become part of its variant, in sorted order."""
    names = list(labels)
    combined = np.asarray(["\x1f".join(map(str, row)) for row in zip(*labels.values(), strict=True)])
    parts = []
    for key in np.unique(combined):
        keep = combined == key
        first = int(np.argmax(keep))
        variant = {name: _plain(labels[name][first]) for name in names}
        parts.append(replace(rows.take(keep), variant={**rows.variant, **variant}, rejected={}))
    return parts


def _plain(value: object) -> str | int:
    return int(value) if isinstance(value, int | np.integer) else str(value)


def column_of(rows: Slice, name: str) -> Array:
    """A column by name; `group_size` is query heads per KV head."""
    if name == "group_size":
        return rows.columns["query_heads"] / rows.columns["kv_heads"]
    return rows.columns[name]


def _ranked_groups(rows: Slice, split: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    labels = group_labels(rows)
    first = np.unique(labels, return_index=True)[1]
    keys = np.stack([column_of(rows, name)[first] for name in GROUPED_BY[rows.family]], axis=1)
    digests = [hashlib.blake2b(f"{split}:{[float(v) for v in key]}".encode(), digest_size=8).digest() for key in keys]
    return np.asarray(sorted(range(len(keys)), key=lambda group: digests[group]), dtype=np.int64), labels


def _mixed(columns: Array) -> npt.NDArray[np.uint64]:
    """A well mixed 64-bit number per row (splitmix64 over the columns), independent of platform and process."""
    state = np.zeros(len(columns), dtype=np.uint64)
    for column in columns.T:
        state = state + np.ascontiguousarray(column, dtype=np.float64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state
