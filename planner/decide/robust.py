"""Which choice holds up when its inputs move: draws of acceptance, step parts and fixed costs, all D at once.

Each draw moves, for each drafter,

    AL(D)   within its interval (one direction for all D of a drafter: a curve is too high or too low as a whole)
    step(D) = off + e^a * (verify - off) + e^b * draft + e^c * fixed

where off cancels: kernels that are too slow are too slow with and without drafts. `fixed` (host work of a speculative
step) is drawn from its stated range; a and b share the rest of the doubt that published rows show (speedup_sd), so
that the spread at the best D is the one that answers state. A larger D leans more on verify and draft, so it is less
certain. Everything is ln-normal and vectorised over (draws, D).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.uncertainty import NORMAL_90
from specplan.planner.fact import fact

DRAWS = 4096
RANGE_SDS = 3.0         # a stated range spans about +-1.5 standard deviations (engine_paths.yaml)
MOST_SD = 0.6           # of a multiplier: the prior that anchoring puts on the same ones (E10)
NEAR = 0.03             # within this of the best counts as equally good


@fact
class Uncertain:
    """One drafter in one cell: arrays over D >= 1."""

    acceptance_length: Array
    al_low: Array               # 90 % interval of AL
    al_high: Array
    off_s: float
    verify_extra_s: Array       # verify pass less the plain pass
    draft_s: Array
    fixed_s: float
    fixed_sd: float             # of ln, from its range
    model_sd: float             # of ln(predicted / measured speedup), all causes but AL


@fact
class Doubt:
    """What the draws say: per drafter arrays over D, and the same figures for off."""

    low: tuple[Array, ...]              # 90 % range of the speedup
    high: tuple[Array, ...]
    near_best: tuple[Array, ...]        # probability to be within 3 % of the best
    regret: tuple[Array, ...]           # mean loss against the best of each draw
    off_near_best: float
    off_regret: float
    al_share: tuple[Array, ...]         # share of the variance of ln speedup that comes from AL


def doubt(options: Sequence[Uncertain], *, seed: int = 0, draws: int = DRAWS) -> Doubt:
    """Draw all drafters together; off is one of the choices in every draw."""
    random = np.random.default_rng(seed)
    gains = [_gains(option, random, draws) for option in options]
    best = np.maximum.reduce([np.ones(draws), *(gain.max(axis=1) for gain, _ in gains)])
    return Doubt(
        low=tuple(_quantile(gain, 0.05) for gain, _ in gains),
        high=tuple(_quantile(gain, 0.95) for gain, _ in gains),
        near_best=tuple((gain >= best[:, None] * (1.0 - NEAR)).mean(axis=0) for gain, _ in gains),
        regret=tuple((1.0 - gain / best[:, None]).mean(axis=0) for gain, _ in gains),
        off_near_best=float((best * (1.0 - NEAR) <= 1.0).mean()),
        off_regret=float((1.0 - 1.0 / best).mean()),
        al_share=tuple(share for _, share in gains),
    )


def steps_to_settle(variance_per_step: float, length: float, ln_gain: float, other_sd: float) -> float | None:
    """Target steps whose count of accepted drafts would separate the speedup from 1; None where no count would.

    The 90 % range must leave 1: |ln gain| > 1.645 * sqrt(other^2 + variance / (length^2 * steps)).
    """
    allowed = (ln_gain / NORMAL_90) ** 2 - other_sd**2
    if allowed <= 0.0:
        return None
    return variance_per_step / (length**2 * allowed)


def _quantile(values: Array, share: float) -> Array:
    """np.quantile over the first axis, to the bit; numpy's own would load its masked arrays, 10 ms of a cold start."""
    place = (len(values) - 1) * share
    below = int(place)
    low, high = np.partition(values, (below, below + 1), axis=0)[below : below + 2]
    part = place - below
    return np.asarray(low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part))


def _gains(option: Uncertain, random: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """Speedups over (draws, D), and the share of their variance that acceptance has."""
    length = option.acceptance_length
    al_sd = np.log(np.maximum(option.al_high, 1.0) / np.maximum(option.al_low, 1.0)) / (2.0 * NORMAL_90)
    step = option.off_s + option.verify_extra_s + option.draft_s + option.fixed_s
    shares = np.stack([option.verify_extra_s, option.draft_s, np.full(length.shape, option.fixed_s)]) / step
    at = int(np.argmax(length / step))
    known = (shares[2, at] * option.fixed_sd) ** 2
    leverage = float(np.hypot(shares[0, at], shares[1, at]))
    sd = min(np.sqrt(max(option.model_sd**2 - known, 0.0)) / max(leverage, 1e-9), MOST_SD)
    # where even large multipliers cannot carry the stated doubt, the rest moves all D alike
    carried = (sd * leverage) ** 2 + known
    common = np.sqrt(max(option.model_sd**2 - carried, 0.0))
    z = random.standard_normal((5, draws, 1))
    drawn = np.clip(length * np.exp(al_sd * z[0]), 1.0, None)
    time = (
        option.off_s
        + option.verify_extra_s * np.exp(sd * z[1])
        + option.draft_s * np.exp(sd * z[2])
        + option.fixed_s * np.exp(option.fixed_sd * z[3])
    )
    gains = drawn * option.off_s / time * np.exp(common * z[4])
    total = np.log(gains).var(axis=0)
    return gains, np.asarray(np.minimum(al_sd**2 / np.maximum(total, 1e-12), 1.0))
