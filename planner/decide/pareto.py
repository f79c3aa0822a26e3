"""Trading users' speed against throughput: which operating points no other point beats in both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from specplan.planner.arrays import Array


def nondominated(per_user: Array, per_gpu: Array) -> npt.NDArray[np.bool_]:
    """Points that no other point matches in one rate and beats in the other.

    >>> nondominated(np.array([3.0, 2.0, 1.0, 1.5]), np.array([1.0, 2.0, 3.0, 1.5])).tolist()
    [True, True, True, False]
    """
    order = np.lexsort((-per_gpu, -per_user))       # fastest users first, then most throughput
    best = np.maximum.accumulate(per_gpu[order])
    before = np.concatenate([[-np.inf], best[:-1]])
    found = np.zeros(per_user.size, dtype=bool)
    found[order] = per_gpu[order] > before
    return found
