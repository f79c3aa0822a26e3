"""Acceptance from each form in which it is stated: per position, histogram, alpha, lengths at some D, rate at D.

Every form becomes the same curve; what is smoothed is said in its notes, what cannot be is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from specplan.planner.acceptance import shape
from specplan.planner.acceptance.curve import SPREAD, Acceptance, Form, Rule
from specplan.planner.acceptance.limits import length_fault, not_a_draft_len, not_a_share, steps_faults
from specplan.planner.acceptance.tail import Tail, fit_tail
from specplan.planner.messages import Fault, InputError, Note

RISE_TOLERANCE = 0.05       # a rise of p_k that is taken as noise where the sample size is unknown
LENGTH_TOLERANCE = 0.3      # misfit of AL(D) from separate runs (reference_acceptance.yaml: "about 0.3 of noise")


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
