"""E10: move the model to a user's own measurements, as far as they say anything, and no further.

Four multipliers and a scale, each 1 before the fit, with prior standard deviations of their ln:

    off'   = scale * off                                                       0.3 (all times alike)
    step'  = scale * (off + verify * (verify_s - off) + draft * draft_s + fixed * (overhead_s - host_s))   0.6 each
    AL'    = length * AL, within [1, 1 + D]                                    0.1

A measurement counts by its ln with 0.03. The fit is a regularised least squares in the ln of the multipliers; what the
points cannot identify keeps 1: one rate alone moves the scale only, plain decoding moves nothing else, and a lookup
has no drafting time to move. `draft`, `fixed` and `length` belong to one drafter, `scale` and `verify` to all.

One row cannot tell an error of AL from one of cost, and need not: the fit spreads it by the priors, and other draft
lengths follow (docs/accuracy.md, anchored).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.fact import fact

SCALE_SD, COST_SD, LENGTH_SD = 0.3, 0.6, 0.1
MEASUREMENT_SD = 0.03
CONTRADICTION = 3.0         # residuals beyond this many standard deviations are reported
IDENTIFIED = 0.98           # a posterior wider than this share of its prior says nothing
ROUNDS = 25
OWN = ("draft", "fixed", "length")
PRIOR_SD = {"scale": SCALE_SD, "verify": COST_SD, "draft": COST_SD, "fixed": COST_SD, "length": LENGTH_SD}


@fact
class Parts:
    """What the model says at one point; seconds. Plain decoding: `verify_s`, `draft_s`, `overhead_s` are 0."""

    off_s: float                # plain step, host included
    host_s: float               # of it
    verify_s: float = 0.0
    draft_s: float = 0.0
    overhead_s: float = 0.0     # host included
    length: float = 1.0         # AL
    draft_len: int = 0
    prefill_share_s: float = 0.0    # prefill seconds per emitted token and sequence, where the figure contains it


@fact
class Measurement:
    """One measured figure: `step_s` seconds of a step, `token_s` seconds per emitted token of a sequence, or speedup.

    `length`, where known, is the AL of that very run: it replaces the curve's in this measurement and counts as one
    of AL itself.
    """

    drafter: str                # '' for plain decoding
    parts: Parts
    kind: str                   # step_s | token_s | speedup | draft_s (drafting alone)
    value: float
    length: float | None = None
    label: str = ""


@fact
class Multipliers:
    """Factors of one drafter; all 1 where nothing was measured."""

    scale: float = 1.0
    verify: float = 1.0
    draft: float = 1.0
    fixed: float = 1.0
    length: float = 1.0


@fact
class Residual:
    """What is left of one measurement after the fit."""

    label: str
    kind: str
    measured: float
    before: float               # predicted without anchoring
    after: float
    contradicts: bool


@fact
class Anchoring:
    """The result: multipliers by drafter ('' = plain decoding), which ones the points moved, and residuals."""

    by_drafter: Mapping[str, Multipliers]
    moved: tuple[str, ...]              # names such as 'scale', 'verify', 'eagle3.draft'
    refused: tuple[str, ...]            # what the points say nothing about
    residuals: tuple[Residual, ...]
    spread: Mapping[str, float] = field(default_factory=dict)   # standard deviation of each ln multiplier afterwards

    def of(self, drafter: str) -> Multipliers:
        """Multipliers of a drafter; one without measurements shares scale and verify."""
        found = self.by_drafter.get(drafter)
        if found is not None:
            return found
        plain = self.by_drafter[""]
        return Multipliers(scale=plain.scale, verify=plain.verify)


def anchored_off_s(off_s: Array, factors: Multipliers) -> Array:
    """Plain step after anchoring."""
    return np.asarray(factors.scale * off_s)


def anchored_verify_s(verify_s: Array, off_s: Array, host_s: float, factors: Multipliers) -> Array:
    """Verify pass after anchoring: the plain pass and the excess over it."""
    core = off_s - host_s
    return np.asarray(factors.scale * (core + factors.verify * (verify_s - core)))


def anchored_overhead_s(overhead_s: Array, host_s: float, factors: Multipliers) -> Array:
    """Fixed costs after anchoring: the plain host time and the excess over it."""
    return np.asarray(factors.scale * (host_s + factors.fixed * (overhead_s - host_s)))


def anchored_length(length: Array, draft_len: Array, factors: Multipliers) -> Array:
    """AL after anchoring, within [1, 1 + D]."""
    return np.clip(factors.length * length, 1.0, 1.0 + np.asarray(draft_len, dtype=float))


def anchor(measurements: Sequence[Measurement]) -> Anchoring:
    """Fit the multipliers to the measurements."""
    drafters = sorted({item.drafter for item in measurements if item.drafter})
    names = ["scale", "verify", *(f"{drafter}.{name}" for drafter in drafters for name in OWN)]
    if len(measurements) == 1 and measurements[0].kind != "speedup":
        names = ["scale"]
    free = _identified(measurements, names)
    x, spread = _fit(measurements, free)
    values = dict(zip(free, np.exp(x), strict=True))
    before = [_predicted(item, {}) for item in measurements]
    after = [_predicted(item, values) for item in measurements]
    return Anchoring(
        by_drafter={drafter: _factors(values, drafter) for drafter in ("", *drafters)},
        moved=tuple(free),
        refused=tuple(name for name in names if name not in free),
        residuals=tuple(
            Residual(
                label=item.label, kind=item.kind, measured=item.value, before=one, after=two,
                contradicts=bool(abs(np.log(two / item.value)) > CONTRADICTION * MEASUREMENT_SD),
            )
            for item, one, two in zip(measurements, before, after, strict=True)
        ),
        spread={name: float(width) for name, width in zip(free, spread, strict=True)},
    )


def _factors(values: Mapping[str, float], drafter: str) -> Multipliers:
    own = {name: float(values.get(f"{drafter}.{name}", 1.0)) for name in OWN} if drafter else {}
    return Multipliers(scale=float(values.get("scale", 1.0)), verify=float(values.get("verify", 1.0)), **own)


def _predicted(item: Measurement, values: Mapping[str, float]) -> float:
    """The measured figure as the model with these multipliers gives it."""
    factors, parts = _factors(values, item.drafter), item.parts
    off = factors.scale * parts.off_s
    share = factors.scale * parts.prefill_share_s
    if not item.drafter:
        return float(off if item.kind == "step_s" else off + share)
    if item.kind == "draft_s":
        return float(factors.scale * factors.draft * parts.draft_s)
    core = parts.off_s - parts.host_s
    step = factors.scale * (
        core + factors.verify * (parts.verify_s - core) + factors.draft * parts.draft_s
        + parts.host_s + factors.fixed * (parts.overhead_s - parts.host_s)
    )
    if item.kind == "step_s":
        return float(step)
    length = item.length
    if length is None:
        length = float(np.clip(factors.length * parts.length, 1.0, 1.0 + parts.draft_len))
    per_token = step / length + share
    return float(per_token if item.kind == "token_s" else (off + share) / per_token)


def _residuals(measurements: Sequence[Measurement], names: Sequence[str], x: Array) -> Array:
    """Residuals in standard deviations: measurements, AL values seen, priors."""
    values = dict(zip(names, np.exp(x), strict=True))
    found = [np.log(item.value / _predicted(item, values)) / MEASUREMENT_SD for item in measurements]
    for item in measurements:
        if item.length is not None and item.drafter and item.parts.length > 1.0:
            factors = _factors(values, item.drafter)
            found.append(np.log(item.length / (factors.length * item.parts.length)) / MEASUREMENT_SD)
    found += [-value / PRIOR_SD[name.rpartition(".")[2]] for name, value in zip(names, x, strict=True)]
    return np.array(found)


def _slopes(measurements: Sequence[Measurement], names: Sequence[str], x: Array) -> Array:
    step = 1e-4
    here = _residuals(measurements, names, x)
    columns = [
        (_residuals(measurements, names, x + step * np.eye(len(names))[i]) - here) / step for i in range(len(names))
    ]
    return np.array(columns).T


def _identified(measurements: Sequence[Measurement], names: Sequence[str]) -> list[str]:
    """Names whose posterior is narrower than their prior, at the prior."""
    slopes = _slopes(measurements, names, np.zeros(len(names)))
    spread = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    prior = np.array([PRIOR_SD[name.rpartition(".")[2]] for name in names])
    return [name for name, narrow in zip(names, spread < IDENTIFIED * prior, strict=True) if narrow]


def _fit(measurements: Sequence[Measurement], names: Sequence[str]) -> tuple[Array, Array]:
    x = np.zeros(len(names))
    if not names:
        return x, x
    for _ in range(ROUNDS):
        residuals, slopes = _residuals(measurements, names, x), _slopes(measurements, names, x)
        move = np.linalg.solve(slopes.T @ slopes, -slopes.T @ residuals)
        size = float(np.abs(move).max())
        x = x + move * min(1.0, 0.5 / max(size, 1e-12))
        if size < 1e-7:
            break
    slopes = _slopes(measurements, names, x)
    return x, np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
