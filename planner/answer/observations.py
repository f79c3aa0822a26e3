"""Measurements of the user's own system: priced at their points, anchored, and what they say without any model.

The fit happens once, when a configuration is resolved; every later evaluation uses its multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specplan.planner.acceptance.curve import acceptance_length
from specplan.planner.acceptance.forms import from_lengths
from specplan.planner.answer.options import Option
from specplan.planner.answer.places import Faults
from specplan.planner.config.schema import Config, Observation
from specplan.planner.decide.anchor import Anchoring, Measurement, Parts, Residual, anchor
from specplan.planner.decide.value import others_prefill_s, request_lengths
from specplan.planner.fact import fact
from specplan.planner.messages import InputError, Note
from specplan.planner.models.architecture import Model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.step_time import off_step, speculative_step


@fact
class Observed:
    """The options (those without acceptance take the AL that was measured) and the anchoring."""

    options: tuple[Option, ...]
    anchoring: Anchoring | None
    notes: tuple[Note, ...] = ()


def observe(
    config: Config, target: Model, deployment: Deployment, options: Sequence[Option], faults: Faults
) -> Observed:
    """Anchor on `config.observations`; faults of single observations go to `faults`."""
    if not config.observations:
        return Observed(options=tuple(options), anchoring=None)
    known = [_with_measured_lengths(option, config.observations, options) for option in options]
    measurements: list[Measurement] = []
    index_of: dict[str, int] = {}
    for index, seen in enumerate(config.observations):
        option = None if seen.mechanism == "off" else _option_of(seen, known, faults, index)
        if seen.mechanism != "off" and option is None:
            continue
        found = _measurements(seen, target, deployment, option, config)
        if isinstance(found, str):
            faults.add(("observations", index), found)
        else:
            measurements += found
            index_of[found[0].label] = index
    if not measurements:
        return Observed(options=tuple(known), anchoring=None)
    found_anchor = anchor(measurements)
    for item in found_anchor.residuals:
        if item.label in index_of and _apart(item) > REFUSED:
            faults.add(("observations", index_of[item.label]), _said(item))
    return Observed(options=tuple(known), anchoring=found_anchor, notes=tuple(_notes(found_anchor)))


def _option_of(seen: Observation, options: Sequence[Option], faults: Faults, index: int) -> Option | None:
    fitting = [option for option in options if option.drafter.mechanism == seen.mechanism]
    if seen.drafter is not None:
        fitting = [option for option in fitting if option.drafter.name == seen.drafter]
    if len(fitting) == 1:
        return fitting[0]
    which = f"{seen.mechanism} drafter" + (f" named '{seen.drafter}'" if seen.drafter else "")
    if fitting:
        names = ", ".join(option.drafter.name for option in fitting)
        faults.add(("observations", index, "drafter"), f"which one: {names}?")
    else:
        faults.add(("observations", index, "mechanism"), f"no {which} is configured (`drafters:`)")
    return None


def _with_measured_lengths(option: Option, seen: Sequence[Observation], options: Sequence[Option]) -> Option:
    """An option without acceptance decides by the AL values that were measured."""
    if option.acceptance is not None:
        return option
    alone = sum(other.drafter.mechanism == option.drafter.mechanism for other in options) == 1
    lengths = {
        item.draft_len: item.acceptance_length for item in seen
        if item.acceptance_length is not None and item.mechanism == option.drafter.mechanism
        and (item.drafter == option.drafter.name or (item.drafter is None and alone))
    }
    if not lengths:
        return option
    try:
        curve = from_lengths(lengths, source="your observations")
    except InputError:
        return option
    kept = tuple(length for length in option.draft_lens if length <= curve.known_draft_len)
    note = Note("acceptance-observed", f"{option.drafter.name}: acceptance from observations, up to D = {max(lengths)}")
    return replace(option, acceptance=curve, draft_lens=kept or option.draft_lens, notes=(*option.notes, note))


def _measurements(
    seen: Observation, target: Model, deployment: Deployment, option: Option | None, config: Config
) -> list[Measurement] | str:
    """One observation as measurements (drafting apart, where it was measured), or why it says nothing."""
    parts = _parts(seen, target, deployment, option)
    share = _prefill_share_s(seen, target, deployment, config)
    parts = replace(parts, prefill_share_s=share)
    kind = {"step_s": "step_s", "speedup": "speedup"}.get(seen.kind, "token_s")
    value = seen.value if seen.kind != "tokens_per_s" else seen.batch / seen.value
    drafter = "" if option is None else option.drafter.name
    if option is not None and kind != "step_s" and option.acceptance is None and seen.acceptance_length is None:
        return (
            f"a rate of {option.drafter.name} says nothing about its step without acceptance: give acceptance_length "
            "here, or acceptance of the drafter"
        )
    what = "off" if option is None else f"{drafter} D={seen.draft_len}"
    label = f"{what} batch {seen.batch:g} context {seen.context_tokens}"
    row = Measurement(
        drafter=drafter, parts=parts, kind=kind, value=value, length=seen.acceptance_length, label=label
    )
    if seen.draft_s is None or option is None or parts.draft_s <= 0:
        return [row]
    return [row, replace(row, kind="draft_s", value=seen.draft_s, length=None, label=f"{label}, drafting")]


def _parts(seen: Observation, target: Model, deployment: Deployment, option: Option | None) -> Parts:
    batch, context = float(seen.batch), float(seen.context_tokens)
    off = off_step(target, deployment, batch, context)
    host = deployment.path.host_step_s.value
    if option is None:
        return Parts(off_s=float(off.step_s), host_s=host)
    length = seen.acceptance_length or 1.0
    if option.acceptance is not None:
        at = context if option.acceptance.contexts else None
        length = float(acceptance_length(option.acceptance, float(seen.draft_len), at))
    mine = replace(deployment, drafter_tp=option.drafter_tp)
    step = speculative_step(target, mine, option.drafter, float(seen.draft_len), batch, context, np.asarray(length))
    return Parts(
        off_s=float(off.step_s), host_s=host, verify_s=float(step.verify_s), draft_s=float(step.draft_s),
        overhead_s=float(step.overhead_s), length=length, draft_len=seen.draft_len,
    )


def _prefill_share_s(seen: Observation, target: Model, deployment: Deployment, config: Config) -> float:
    """Prefill seconds per emitted token in the figure: of all sequences in a rate; of the others alone in TPOT, which
    counts from the first token on, so that the own prompt lies before it.
    """
    work = config.workload
    prompt, answer = work.input_tokens, work.output_tokens
    if seen.metric == "decode" or seen.kind == "step_s" or prompt is None or answer is None:
        return 0.0
    lengths = request_lengths(
        target, deployment, prompt, answer, prefix_hit=work.prefix_hit, disaggregated=work.disaggregated
    )
    if seen.kind == "tpot_s":
        return others_prefill_s(seen.batch, lengths.prefill_s) / answer
    return float(lengths.per_step_s(np.asarray(seen.batch), 1.0))


SUSPECT, REFUSED = 5.0, 100.0      # times apart from the model: a warning; no anchor can be meant
UNITS = (("milliseconds", 1e3), ("microseconds", 1e6))


def _apart(item: Residual) -> float:
    """How many times a measured figure is above or below the model's, whichever is more."""
    ratio = item.measured / item.before
    return max(ratio, 1.0 / ratio)


def _said(item: Residual) -> str:
    """Measured and predicted figure, how far apart, and the unit that would explain it."""
    ratio, shown = item.measured / item.before, "x" if item.kind == "speedup" else "s"
    text = (f"{item.label}: measured {item.measured:.3g} {shown}, the model says {item.before:.3g} {shown}: "
            f"{_apart(item):.3g} times {'more' if ratio > 1 else 'less'}")
    for unit, factor in UNITS if item.kind != "speedup" else ():
        if factor / 5 < ratio < factor * 5:
            return f"{text}. Are these {unit}, given as seconds?"
        if factor / 5 < 1 / ratio < factor * 5:
            return f"{text}. Are these seconds, given as {unit}?"
    return f"{text}. Is it of this model, GPU, batch and unit (tokens_per_s counts all sequences together)?"


def _notes(found: Anchoring) -> list[Note]:
    factors = []
    for name in found.moved:
        drafter, _, own = name.rpartition(".")
        value = getattr(found.of(drafter), own)
        if abs(value - 1.0) >= 0.005:
            factors.append(f"{name} x {value:.3g}" if value < 0.1 else f"{name} x {value:.2f}")
    moved = ", ".join(factors) or "nothing by more than 0.5 %"
    notes = [Note("anchored", f"anchored on {len(found.residuals)} of your measurements; moved: {moved}")]
    if found.refused:
        text = f"your measurements do not tell {', '.join(found.refused)}: left as modelled"
        notes.append(Note("anchor-unidentified", text))
    for item in found.residuals:
        if SUSPECT < _apart(item) <= REFUSED:
            notes.append(Note("observation-far", _said(item)))
        if item.contradicts:
            text = (
                f"{item.label}: measured {item.measured:.4g}, {item.after:.4g} even after anchoring: it contradicts "
                "the other measurements, or is not of this configuration"
            )
            notes.append(Note("observation-contradicts", text))
    return notes
