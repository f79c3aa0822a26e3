"""What an answer must say about the acceptance it used: extrapolation, cuts, rules, contexts, other conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from specplan.planner.acceptance.curve import Acceptance, Rule, acceptance_length
from specplan.planner.acceptance.forms import from_lengths, with_rule
from specplan.planner.messages import Fault, InputError, Note

MIX_POINTS = 16     # a mix with an alpha, which knows every D, is tabulated up to here


def usage_notes(curve: Acceptance, draft_lens: Sequence[int], *, context_tokens: Sequence[float] = (),
                temperature: float | None = None, domain: str | None = None) -> tuple[Note, ...]:
    """Notes on using a curve at these draft lengths and contexts, for this temperature and kind of text."""
    return tuple(_notes(curve, draft_lens, context_tokens, temperature, domain))


def _notes(curve: Acceptance, draft_lens: Sequence[int], context_tokens: Sequence[float], temperature: float | None,
           domain: str | None) -> Iterator[Note]:
    beyond = [d for d in draft_lens if d > curve.known_draft_len]
    if beyond:
        yield Note("acceptance_extrapolated", (
            f"acceptance is known up to D = {curve.known_draft_len}; beyond it (D up to {max(beyond)}) a fitted tail "
            "continues it, with a wider interval: measure there before relying on it"))
    if curve.per_block and any(d < curve.known_draft_len for d in draft_lens):
        yield Note("block_cut", (
            f"the drafter proposes blocks, and acceptance was measured with D = {curve.known_draft_len}: smaller D cut "
            "that block, a drafter trained for a shorter one may accept more"))
    if curve.rule and curve.draft_lens and any(d != curve.draft_lens[0] for d in draft_lens):
        yield _rule_note(curve, draft_lens)
    elif curve.alpha is not None:
        yield Note("alpha_rule", "one alpha stands for all positions (p_k = alpha^k); measured curves bend away from "
                   "it")
    yield from _context_notes(curve, context_tokens)
    stated = curve.labels.get("temperature")
    if temperature is not None and stated is not None and _number(stated) not in (None, temperature):
        yield Note("temperature_differs", (
            f"acceptance was measured at temperature {stated}, the workload samples at {temperature:g}: it usually "
            "falls as temperature rises"))
    measured = curve.labels.get("domain")
    if domain and measured and measured.lower() != domain.lower():
        yield Note("domain_differs", f"acceptance was measured on {measured}, the workload is {domain}")


def _rule_note(curve: Acceptance, draft_lens: Sequence[int]) -> Note:
    """How far apart the two rules are, so that a reader sees what the choice is worth."""
    others: dict[Rule, Rule] = {"geometric": "minimum_variance", "minimum_variance": "geometric"}
    rule = curve.rule or "geometric"
    other = with_rule(curve, others[rule])
    d = max(draft_lens, key=lambda one: abs(one - curve.draft_lens[0]))
    values = [float(acceptance_length(one, float(d))) for one in (curve, other)]
    return Note("acceptance_rule", (
        f"one number at D = {curve.draft_lens[0]} was spread over the positions by the {rule.replace('_', '-')} rule: "
        f"at D = {d} it gives AL {values[0]:.2f}, the {others[rule].replace('_', '-')} rule {values[1]:.2f}"))


def _context_notes(curve: Acceptance, context_tokens: Sequence[float]) -> Iterator[Note]:
    if not curve.contexts:
        return
    low, high = curve.contexts[0][0], curve.contexts[-1][0]
    outside = [s for s in context_tokens if not low <= s <= high]
    if outside:
        yield Note("context_outside", (
            f"acceptance was measured at contexts of {low:g} to {high:g} tokens; the nearest of them was used at "
            + ", ".join(f"{s:g}" for s in outside)))


def mix(parts: Sequence[tuple[float, Acceptance]], *, source: str = "mix") -> Acceptance:
    """One curve for traffic of several kinds; weights are shares of the generated tokens.

    A step on text with long acceptance emits more tokens, so fewer steps go there: AL = 1 / sum(weight / AL), the
    harmonic mean, at each D. It stays a curve AL(D), valid up to the smallest known D of its parts.
    """
    faults = [Fault((i,), f"weight {weight} is not above 0") for i, (weight, _) in enumerate(parts) if not weight > 0]
    if not parts or faults:
        raise InputError(faults or "a mix needs at least one part")
    total = sum(weight for weight, _ in parts)
    known = min(*(curve.known_draft_len for _, curve in parts), 1024)
    draft_lens = np.arange(1, (known if known < 1024 else MIX_POINTS) + 1)
    steps_per_token = sum(weight / total / acceptance_length(curve, draft_lens) for weight, curve in parts)
    mixed = 1.0 / np.asarray(steps_per_token)
    if len(draft_lens) == 1:
        return from_lengths({1: float(mixed[0])}, source=source)
    return from_lengths({int(d): float(value) for d, value in zip(draft_lens, mixed, strict=True)}, source=source)


def with_contexts(curves: Mapping[float, Acceptance], *, source: str = "curves by context") -> Acceptance:
    """One acceptance that depends on the context length, from a curve per number of context tokens."""
    rising = tuple(sorted(curves.items(), key=lambda item: item[0]))
    if not rising or rising[0][0] <= 0:
        raise InputError("curves by context need context lengths above 0")
    return dataclasses.replace(rising[len(rising) // 2][1], contexts=rising, source=source)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
