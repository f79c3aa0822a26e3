"""Array types of the model, and the one smooth maximum that all timing forms share.

Every grid quantity broadcasts over three axes in this order: draft length D, batch B, context S; a scalar stands
for an axis of length one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
ArrayLike: TypeAlias = float | npt.NDArray[np.float64] | npt.NDArray[np.int64]


def pnorm(a: ArrayLike, b: ArrayLike, p: float) -> Array:
    """Smooth maximum (a^p + b^p)^(1/p) of two non-negative times; p = 1 is the sum, p -> inf the maximum.

    Scaled by the larger one, so that microseconds raised to p never underflow.
    """
    larger = np.maximum(a, b)
    smaller = np.minimum(a, b)
    ratio = np.divide(smaller, larger, out=np.zeros_like(larger, dtype=float), where=larger > 0)
    return np.asarray(larger * (1.0 + ratio**p) ** (1.0 / p))


def ceil_div(a: ArrayLike, b: ArrayLike) -> Array:
    """Tiles of size b that hold a; exact for integers below 2^53."""
    return np.ceil(np.asarray(a, dtype=float) / b)
