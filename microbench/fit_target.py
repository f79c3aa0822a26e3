"""What is fitted to a slice: the entry it becomes, the equations to try and their free numbers, the rows that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from specplan.microbench.fit_rows import Mask, Slice, column_of
from specplan.planner.kernels.entries import Key

US = 1e-6


@dataclass(frozen=True, slots=True)
class Free:
    """A number to fit: its prior (also the start) and its physical bounds, in the unit of its name.

    `also` are other values to start from: the loss is flat where a maximum hides the number, and a fit that starts
    there never finds it.
    """

    prior: float
    low: float
    high: float
    also: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An equation with its fixed and free numbers, named as in the kernels' dataclasses."""

    form: str
    fixed: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, Free] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Within:
    """Keeps rows whose column lies between two values, both included."""

    column: str
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, rows: Slice) -> Mask:
        """Rows to keep."""
        values = column_of(rows, self.column)
        return np.asarray((values >= self.low) & (values <= self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The profile entry that a slice becomes. `keep` filters by shape, each with the reason for the rows it drops."""

    id: str
    key: Mapping[str, Key]
    candidates: tuple[Candidate, ...]
    keep: Mapping[str, Callable[[Slice], Mask]] = field(default_factory=dict)
    default: bool = False
    only_by_name: bool = False
    unfit: str = ""         # why no equation describes these rows; the slice is then listed, not fitted
