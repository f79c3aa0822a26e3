"""Acceptance as one type, whatever form it was stated in, and the acceptance length it gives at any draft length.

Vocabulary: D drafted tokens per target step, AL tokens emitted per target step with the bonus token, p_k the
unconditional probability that draft token k is accepted. AL(D) = 1 + p_1 + ... + p_D and AL(0) = 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from specplan.planner.acceptance import shape
from specplan.planner.acceptance.intervals import step_variance, wilson_of_mean
from specplan.planner.acceptance.limits import length_fault, not_a_draft_len, not_a_share, steps_faults
from specplan.planner.acceptance.tail import Tail, fit_tail
from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.messages import Fault, InputError, Note

Form: TypeAlias = Literal["per_position", "alpha", "acceptance_length", "histogram", "rate"]
Rule: TypeAlias = Literal["geometric", "minimum_variance"]

UNLIMITED = 1_000_000       # known_draft_len of an alpha: the rule itself is the assumption
RISE_TOLERANCE = 0.05       # DESIGN 5: a rise of p_k that is taken as noise where the sample size is unknown
LENGTH_TOLERANCE = 0.3      # misfit of AL(D) from separate runs (reference_acceptance.yaml: "about 0.3 of noise")
SPREAD: dict[Form, float] = {
    # one standard deviation of AL - 1, relative, where no counts came with the numbers
    "per_position": 0.04, "histogram": 0.0, "acceptance_length": 0.04, "rate": 0.06, "alpha": 0.10,
}
TAIL_SPREAD = 0.2           # of what the tail adds: tails fitted to 3-5 positions of library curves are this far off
RULE_SPREAD: dict[Rule, float] = {
    # of AL - 1 per doubling of D away from the single D that was stated; one standard deviation over library curves
    "geometric": 0.06, "minimum_variance": 0.31,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What is known of the acceptance of one drafter on one kind of text.

    `survival` is the fitted p_1 ... p_K that all lengths come from; `lengths` are the AL values as they were stated
    or measured at `draft_lens`. `spread` is a relative standard deviation of AL - 1 beyond the sampling noise of
    `steps`. A `per_block` curve belongs to one block of a drafter that proposes blocks: a smaller D is a cut of it.
    """

    form: Form
    source: str
    draft_lens: tuple[int, ...]
    lengths: tuple[float, ...]
    survival: tuple[float, ...]
    tail: Tail
    per_position: tuple[float, ...] | None = None
    alpha: float | None = None
    rule: Rule | None = None            # how a single number was spread over the positions
    steps: float | None = None          # target steps behind the numbers
    spread: float = 0.0
    per_block: bool = False
    contexts: tuple[tuple[float, Acceptance], ...] = ()     # (context_tokens, curve), rising
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def known_draft_len(self) -> int:
        """Largest D that was measured or stated; beyond it the tail speaks."""
        return UNLIMITED if self.alpha is not None and not self.draft_lens else len(self.survival)


def from_per_position(values: Sequence[float], *, steps: float | None = None, source: str = "stated per position",
                      per_block: bool = False, labels: Mapping[str, str] | None = None) -> Acceptance:
    """Unconditional acceptance per position, p_1 first."""
    faults = [Fault(("per_position", k), not_a_share(value)) for k, value in enumerate(values) if not_a_share(value)]
    if not values:
        faults.append(Fault(("per_position",), "empty: give at least the acceptance of the first draft token"))
    faults += steps_faults(steps)
    if faults:
        raise InputError(faults)
    return _per_position("per_position", values, steps, source, per_block, labels)


def from_histogram(counts: Sequence[float], *, source: str = "stated histogram", per_block: bool = False,
                   labels: Mapping[str, str] | None = None) -> Acceptance:
    """Read steps by number of accepted drafts: counts[j] steps accepted exactly j of D = len(counts) - 1 drafts."""
    faults = [Fault(("histogram", j), f"{count} is not a number of steps") for j, count in enumerate(counts)
              if not math.isfinite(count) or count < 0]
    if len(counts) < 2:
        faults.append(Fault(("histogram",), "needs D + 1 counts: steps that accepted 0, 1, ... D drafts"))
    elif not faults and sum(counts) <= 0:
        faults.append(Fault(("histogram",), "no steps were counted"))
    if faults:
        raise InputError(faults)
    steps = float(sum(counts))
    survival = np.cumsum(np.asarray(counts, dtype=float)[::-1])[::-1][1:] / steps
    return _per_position("histogram", survival.tolist(), steps, source, per_block, labels)


def from_alpha(alpha: float, *, source: str = "stated alpha", labels: Mapping[str, str] | None = None) -> Acceptance:
    """One conditional acceptance for all positions: p_k = alpha^k, for any D."""
    if problem := not_a_share(alpha):
        raise InputError([Fault(("alpha",), problem)])
    return Acceptance(form="alpha", source=source, draft_lens=(), lengths=(), survival=(float(alpha),),
                      tail=Tail.geometric(alpha), alpha=float(alpha), rule="geometric", spread=SPREAD["alpha"],
                      labels=labels or {})


def from_lengths(lengths: Mapping[int, float], *, steps: Mapping[int, float] | None = None,
                 rule: Rule = "geometric", source: str = "stated acceptance length", per_block: bool = False,
                 labels: Mapping[str, str] | None = None) -> Acceptance:
    """AL (bonus token included) at one D or at several, each D measured on its own.

    A single point is spread over the positions by `rule`; several points are a curve, smoothed so that AL never
    falls and gains ever less.
    """
    faults = [fault for d, value in lengths.items() if (fault := length_fault(d, value))]
    if not any(d != 0 for d in lengths):
        faults.append(Fault(("acceptance_length",), "needs AL at one draft length of 1 or more at least"))
    counted = {d: n for d, n in (steps or {}).items() if d in lengths and d != 0}
    for n in counted.values():
        faults += steps_faults(n)
    if faults:
        raise InputError(faults)
    points = sorted((int(d), float(value)) for d, value in lengths.items() if d != 0)
    draft_lens, values = tuple(d for d, _ in points), tuple(value for _, value in points)
    if len(points) == 1:
        return _one_length(draft_lens[0], values[0], rule, "acceptance_length", source, per_block, labels,
                           counted.get(draft_lens[0]))
    weights = [counted[d] for d in draft_lens] if len(counted) == len(draft_lens) else None
    survival = shape.survival_from_lengths(draft_lens, values, weights)
    misfit = 1.0 + np.cumsum(survival)[np.asarray(draft_lens) - 1] - values
    worst = int(np.abs(misfit).argmax())
    if abs(misfit[worst]) > LENGTH_TOLERANCE:
        raise InputError([Fault(("acceptance_length", draft_lens[worst]), (
            f"AL {values[worst]:g} at D = {draft_lens[worst]} does not fit the other points: a curve that never falls "
            f"and gains ever less passes {abs(misfit[worst]):.2f} away, beyond the noise of {LENGTH_TOLERANCE:g}"))])
    notes = () if abs(misfit[worst]) < 0.005 else (Note("acceptance_smoothed", (
        f"AL(D) was smoothed so that it never falls and gains ever less; moved most at D = {draft_lens[worst]}, "
        f"from {values[worst]:g} to {values[worst] + misfit[worst]:.2f}")),)
    return Acceptance(form="acceptance_length", source=source, draft_lens=draft_lens, lengths=values,
                      survival=tuple(survival.tolist()), tail=fit_tail(survival),
                      steps=float(sum(counted.values())) if weights else None,
                      spread=0.0 if weights else SPREAD["acceptance_length"],
                      per_block=per_block, labels=labels or {}, notes=notes)


def from_rate(rate: float, draft_len: int, *, rule: Rule = "geometric", source: str = "stated rate",
              per_block: bool = False, labels: Mapping[str, str] | None = None,
              steps: float | None = None) -> Acceptance:
    """Read accepted drafts / drafted tokens where every step drafts D: AL = 1 + rate * D."""
    faults = [Fault(("rate",), problem)] if (problem := not_a_share(rate)) else []
    faults += [Fault(("draft_len",), problem)] if (problem := not_a_draft_len(draft_len)) else []
    faults += steps_faults(steps)
    if faults:
        raise InputError(faults)
    return _one_length(draft_len, 1.0 + rate * draft_len, rule, "rate", source, per_block, labels, steps)


def with_rule(curve: Acceptance, rule: Rule) -> Acceptance:
    """Spread the same single number over the positions by another rule; curves with positions stay as they are.

    An alpha is a rule by itself; read as the minimum-variance split it has no meaning, so it stays as well.
    """
    if curve.rule in (None, rule) or not curve.draft_lens:
        return curve
    other = _one_length(curve.draft_lens[0], curve.lengths[0], rule, curve.form, curve.source, curve.per_block,
                        curve.labels, curve.steps)
    return dataclasses.replace(other, spread=curve.spread, contexts=tuple(
        (context, with_rule(inner, rule)) for context, inner in curve.contexts))


def acceptance_length(curve: Acceptance, draft_len: ArrayLike, context_tokens: ArrayLike | None = None) -> Array:
    """AL(D), elementwise; AL(0) = 1. Beyond `known_draft_len` the fitted tail goes on; `usage_notes` says so.

    With curves per context, `context_tokens` broadcasts against `draft_len`: linear in log context between the
    measured contexts, held at the outermost ones.
    """
    d = np.asarray(draft_len, dtype=float)
    if curve.contexts and context_tokens is not None:
        at = np.log([context for context, _ in curve.contexts])
        place = np.clip(np.log(np.maximum(np.asarray(context_tokens, dtype=float), 1.0)), at[0], at[-1])
        values = [_length(inner, d) for _, inner in curve.contexts]
        right = np.clip(np.searchsorted(at, place, side="left"), 1, max(len(at) - 1, 1))
        if len(at) == 1:
            return np.asarray(values[0] + 0.0 * place)
        share = (place - at[right - 1]) / (at[right] - at[right - 1])
        result = np.zeros(np.broadcast_shapes(d.shape, place.shape))
        for i in range(len(at)):
            weight = np.where(right - 1 == i, 1.0 - share, 0.0) + np.where(right == i, share, 0.0)
            result = result + weight * values[i]
        return result
    return _length(curve, d)


def interval(curve: Acceptance, draft_len: ArrayLike, level: float = 0.9,
             context_tokens: ArrayLike | None = None) -> tuple[Array, Array]:
    """Lower and upper AL(D) that hold the true one with probability `level`; never outside [1, 1 + D].

    Three independent parts add as variances: the sampling noise of counted steps, the `spread` of AL - 1, and the
    doubt of the tail beyond the known D.
    """
    d = np.asarray(draft_len, dtype=float)
    mean = acceptance_length(curve, d, context_tokens)
    inside = np.minimum(d, curve.known_draft_len)
    beyond = mean - acceptance_length(curve, inside, context_tokens)
    relative = curve.spread**2 + (RULE_SPREAD[curve.rule] * np.log2(np.maximum(d, 1.0) / curve.draft_lens[0])) ** 2 if (
        curve.rule and curve.draft_lens) else curve.spread**2
    other = relative * (mean - 1.0) ** 2 + (TAIL_SPREAD * beyond) ** 2 + _tail_doubt(curve, d) ** 2
    sampling = step_variance(curve.survival, inside) / curve.steps if curve.steps else np.zeros_like(mean)
    return wilson_of_mean(mean, d, sampling, curve.steps, other, level)


def _tail_doubt(curve: Acceptance, d: Array) -> Array:
    known = len(curve.survival)
    if curve.rule is not None or d.size == 0 or float(d.max()) <= known:
        return np.zeros_like(d)
    positions = np.arange(known + 1.0, math.ceil(float(d.max())) + 1.0)
    doubt = np.concatenate([[0.0], curve.survival[-1] * curve.tail.doubt(known, positions)])
    return np.asarray(np.interp(np.maximum(d - known, 0.0), np.arange(len(doubt)), doubt))


def _length(curve: Acceptance, d: Array) -> Array:
    if curve.alpha is not None and not curve.draft_lens:
        return np.asarray(shape.alpha_length(curve.alpha, d))
    known = len(curve.survival)
    table = np.concatenate([[1.0], 1.0 + np.cumsum(curve.survival)])
    inside = np.interp(d, np.arange(known + 1), table)
    if d.size == 0 or float(d.max()) <= known:
        return np.asarray(inside)
    beyond = np.arange(1.0, math.ceil(float(d.max())) - known + 1)
    extra = np.concatenate([[0.0], np.cumsum(curve.survival[-1] * curve.tail.ratio(known, known + beyond))])
    return np.asarray(inside + np.interp(np.maximum(d - known, 0.0), np.arange(len(extra)), extra))


def _per_position(form: Form, values: Sequence[float], steps: float | None, source: str, per_block: bool,
                  labels: Mapping[str, str] | None) -> Acceptance:
    """Check that survival never rises beyond noise, then pool what rises within it."""
    lowest, faults, rose = values[0], [], 0.0
    for k, value in enumerate(values):
        if value > lowest:
            allowed = RISE_TOLERANCE if steps is None else 2.0 * math.sqrt(
                (value * (1 - value) + lowest * (1 - lowest)) / max(steps, 1.0))
            rose = max(rose, value - lowest)
            if value - lowest > max(allowed, 1e-9):
                faults.append(Fault(("per_position", k), (
                    f"{value:g} rises above {lowest:g} of an earlier position, more than noise ({allowed:.3f}) "
                    "explains: unconditional acceptance never rises; if these are conditional rates, "
                    "multiply them up")))
        lowest = min(lowest, value)
    if faults:
        raise InputError(faults)
    survival = shape.antitonic(values) if rose > 0 else np.asarray(values, dtype=float)
    notes = () if rose <= 1e-9 else (Note("acceptance_smoothed", (
        f"acceptance per position rose by up to {rose:.3f} within noise; the rising positions were averaged")),)
    lengths = tuple((1.0 + np.cumsum(survival)).tolist())
    return Acceptance(form=form, source=source, draft_lens=tuple(range(1, len(lengths) + 1)), lengths=lengths,
                      survival=tuple(survival.tolist()), tail=fit_tail(survival, steps),
                      per_position=tuple(survival.tolist()), steps=steps,
                      spread=0.0 if steps is not None else SPREAD[form],
                      per_block=per_block, labels=labels or {}, notes=notes)


def _one_length(draft_len: int, length: float, rule: Rule, form: Form, source: str, per_block: bool,
                labels: Mapping[str, str] | None, steps: float | None) -> Acceptance:
    alpha = shape.geometric(length, draft_len)
    if rule == "geometric":
        survival, tail = alpha ** np.arange(1, draft_len + 1), Tail.geometric(alpha)
    else:
        survival = shape.minimum_variance(length, draft_len)
        tail = Tail.geometric(float(survival[-1]))
    return Acceptance(form=form, source=source, draft_lens=(draft_len,), lengths=(length,),
                      survival=tuple(survival.tolist()), tail=tail, rule=rule, steps=steps,
                      spread=0.0 if steps is not None else SPREAD[form], per_block=per_block, labels=labels or {})
