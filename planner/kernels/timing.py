"""What a priced kernel is: seconds, split into the resources that it waits for, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.fact import fact
from specplan.planner.messages import Note

Bound: TypeAlias = Literal["memory", "tensor", "exp", "launch", "network"]
Level: TypeAlias = Literal["measured", "prior"]
Quality: TypeAlias = Literal["ok", "rough"]


@fact
class Evidence:
    """Where a kernel's numbers come from and how wrong they are on shapes that the fit never saw.

    `level` is `measured` (fitted to timings of this GPU) or `prior` (carried over from another GPU or a datasheet).
    Errors are of |predicted / measured - 1| in percent on held-out rows; None where nobody measured.
    """

    level: Level
    source: str
    quality: Quality = "ok"
    error_median_pct: float | None = None
    error_mean_pct: float | None = None
    error_p90_pct: float | None = None
    rows: int | None = None             # fitted and held out together
    held_out_rows: int | None = None
    parameter_error_pct: Mapping[str, float] = field(default_factory=dict)     # one standard deviation
    fitted_range: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


@fact
class KernelTime:
    """Time of one kernel call on a grid, in seconds, and the parts it is made of.

    `parts` maps a resource to the seconds that it alone would need; parts overlap, so they do not add up to
    `time_s`. Arrays broadcast over (D, B, S).
    """

    time_s: Array
    parts: Mapping[Bound, Array]

    def bound(self) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
        """Name of the largest part in each cell of the grid."""
        names = list(self.parts)
        stacked = np.stack(np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in self.parts.values())))
        return np.asarray(np.asarray(names)[np.argmax(stacked, axis=0)], dtype=np.str_)


RANGE_TEXT = " is priced outside the shapes of its fit: "


def range_notes(kernel_id: str, evidence: Evidence, **used: tuple[float, float]) -> tuple[Note, ...]:
    """One warning where a query, from lowest to highest value of each axis, leaves the shapes of the kernel's fit."""
    outside = []
    for axis, (lowest, highest) in used.items():
        low, high = evidence.fitted_range.get(axis, (0.0, float("inf")))
        if lowest < low or highest > high:
            outside.append(f"{axis} {_span(lowest, highest)} (fitted {_span(low, high)})")
    if not outside:
        return ()
    return (Note("outside-fitted-range", f"{kernel_id}{RANGE_TEXT}{', '.join(outside)}"),)


def _span(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
