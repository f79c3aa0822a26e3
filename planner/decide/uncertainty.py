"""How sure a predicted speedup is: the model's own error and the doubt of the acceptance, as independent errors."""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array, ArrayLike

NORMAL_90 = 1.6449      # two-sided 90 % of a normal distribution


def speedup_range(
    speedup: ArrayLike, *, model_sd: ArrayLike, length: ArrayLike, length_low: ArrayLike, length_high: ArrayLike
) -> tuple[Array, Array]:
    """90 % range of a speedup: `model_sd` of its ln, and the 90 % range of AL (speedup is proportional to AL)."""
    low, high = np.maximum(length_low, 1.0), np.maximum(length_high, 1.0)
    spread = np.where(np.asarray(length) > 1.0, np.log(high / low) / (2.0 * NORMAL_90), 0.0)
    width = NORMAL_90 * np.hypot(model_sd, spread)
    return np.asarray(speedup * np.exp(-width)), np.asarray(speedup * np.exp(width))
