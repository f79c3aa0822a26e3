"""What an answer rests on: kernel entries with their errors, fixed costs, acceptance sources, and the warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.acceptance.usage import usage_notes
from specplan.planner.answer.advice import adaptive_notes
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.types import Provenance
from specplan.planner.arrays import Array
from specplan.planner.kernels.timing import RANGE_TEXT, Evidence, range_notes
from specplan.planner.messages import Note
from specplan.planner.models.architecture import MoeFfn
from specplan.planner.models.dtypes import BYTES_PER_ACTIVATION
from specplan.planner.step.engine_paths import FixedCost, shared_constant
from specplan.planner.step.kernels_used import KernelUsed, kernels_used
from specplan.planner.step.tiles import shape_notes

FEW_TOKENS = 2      # of a batch without drafts


def provenance(plan: Plan) -> tuple[Provenance, ...]:
    """Source of every number that carries weight in the answer."""
    question = plan.question
    target, deployment = question.target, question.deployment
    found = [Provenance(parameter="target", value=target.name, source=target.source or "inline")]
    hardware = deployment.gpu.hardware
    sources = "; ".join(hardware.sources) or "the profile"
    found.append(
        Provenance(parameter="gpu", value=deployment.gpu.name, source=f"{sources} ({hardware.confidence} confidence)")
    )
    found += [
        Provenance(parameter=used.family, value=_label(used), source=_evidence_text(used.evidence))
        for used in kernels_used(target, deployment)
    ]
    path = deployment.path
    for name in ("host_step_s", "spec_extra_s", "per_seq_s", "pass_floor_s", "pass_floor_s_per_extra_layer"):
        cost: FixedCost = getattr(path, name)
        found.append(
            Provenance(
                parameter=name,
                value=f"{cost.value:g} ({cost.low:g} to {cost.high:g})",
                source=f"{path.name}: {cost.evidence}",
            )
        )
    if any(isinstance(group.layer.ffn, MoeFfn) for group in target.groups):
        skew = shared_constant("moe_skew")
        text = f"{skew.value:g} ({skew.low:g} to {skew.high:g})"
        found.append(Provenance(parameter="moe_skew", value=text, source=skew.evidence))
    for option in question.options:
        source = "not given" if option.acceptance is None else _acceptance_source(option.acceptance)
        found.append(Provenance(parameter="acceptance", value=option.drafter.name, source=source))
        if option.drafter.source:
            name = option.drafter.name
            found.append(Provenance(parameter="drafter", value=name, source=option.drafter.source))
    return tuple(found)


OUTSIDE = "outside-fitted-range"


def warnings(plan: Plan, draft_len: int | None = None) -> tuple[Note, ...]:
    """Everything that was assumed, extrapolated or is in doubt, each once; shapes that no fit saw in one line, last.

    `draft_len` is the one asked about; None: those that the plan chooses.
    """
    found = tuple(dict.fromkeys(_warnings(plan, draft_len)))
    return (*(note for note in found if note.code != OUTSIDE), *_joined([n for n in found if n.code == OUTSIDE]))


def _joined(outside: Sequence[Note]) -> tuple[Note, ...]:
    if len(outside) < 2:
        return tuple(outside)
    by_kernel: dict[str, list[str]] = {}
    for note in outside:
        kernel, _, axes = note.message.partition(RANGE_TEXT)
        by_kernel.setdefault(kernel, []).append(axes)
    told = "; ".join(f"{kernel} {', '.join(axes)}" for kernel, axes in by_kernel.items())
    return (Note(OUTSIDE, f"priced outside the shapes of their fits: {told}"),)


def _warnings(plan: Plan, draft_len: int | None) -> Iterator[Note]:
    question = plan.question
    yield from question.notes
    longest = 1 + max((max(option.draft_lens) for option in question.options), default=0)
    tokens, chosen = _chosen(plan, draft_len)
    shapes = shape_notes(question.target, question.deployment, longest)
    yield from (note for note in shapes if note.code != OUTSIDE)
    for used in kernels_used(question.target, question.deployment):
        yield from used.notes
        yield from _doubts(used)
        yield from _outside(used, plan, tokens, chosen)
    yield from (note for note in shape_notes(question.target, question.deployment, chosen) if note.code == OUTSIDE)
    yield from question.deployment.path.notes(value.drafter.mechanism for value in plan.values)
    for option in question.options:
        yield from option.notes
        yield from option.drafter.notes
        if option.acceptance is not None:
            yield from option.acceptance.notes
            yield from usage_notes(
                option.acceptance,
                option.draft_lens[1:],
                context_tokens=question.context_tokens,
                temperature=question.temperature,
                domain=question.domain,
            )
    yield from adaptive_notes(plan)
    yield from _memory(plan)


def _chosen(plan: Plan, draft_len: int | None) -> tuple[int, int]:
    """Most tokens of a pass, and most of one sequence, that the answer rests on: plain decoding and the options chosen.

    Where acceptance is not known, or one length serves all batches of a load, every draft length is weighed.
    """
    if draft_len is not None:
        return max(plan.question.batch) * (1 + draft_len), 1 + draft_len
    question = plan.question
    weighed = question.load is not None or any(option.acceptance is None for option in question.options)
    every = max((max(option.draft_lens) for option in question.options), default=0) if weighed else 0
    tokens, longest = 1, 1
    for b, batch in enumerate(question.batch):
        for s in range(len(question.context_tokens)):
            length = 1 + max(every, plan.choice(b, s).draft_len or 0)
            tokens, longest = max(tokens, batch * length), max(longest, length)
    return tokens, longest


def _doubts(used: KernelUsed) -> Iterator[Note]:
    evidence = used.evidence
    yield from evidence.notes
    if evidence.level == "prior" and not used.notes:
        text = f"{used.family}: {used.id} was not measured on this GPU; {evidence.source}"
        yield Note("kernel-prior", text)
    elif evidence.quality == "rough":
        mean = evidence.error_mean_pct
        error = "" if mean is None else f" (mean error {mean:g} % on unseen shapes)"
        yield Note("kernel-rough", f"{used.family}: the fit of {used.id} is rough{error}")


def _outside(used: KernelUsed, plan: Plan, most_tokens: int, longest: int) -> Iterator[Note]:
    """Queries beyond the shapes that the kernel was fitted on."""
    question = plan.question
    tokens = (float(min(question.batch)), float(most_tokens))
    message = question.target.hidden * BYTES_PER_ACTIVATION[question.deployment.activation_dtype]
    asked = {
        **used.shapes,
        "context_tokens": (float(min(question.context_tokens)), float(max(question.context_tokens))),
        "batch": (tokens[0], float(max(question.batch))),
        "tokens": tokens,
        "message_bytes": (tokens[0] * message, tokens[1] * message),
    }
    if used.family.startswith("gemm"):
        asked["rows"] = tokens  # for attention, rows are G*q: shape_notes speaks of them
    if used.family == "sparse decode":
        asked["batch"] = tokens     # it takes every token as a sequence of its own
    if used.family == "mla":
        asked["query_len"] = (1.0, float(longest))
    if used.family in ("sparse", "state of a verify pass") and longest > 1:
        asked["query_len"] = (2.0, float(longest))
    known = {axis: span for axis, span in asked.items() if axis in used.evidence.fitted_range}
    yield from range_notes(used.id, used.evidence, **known)
    if used.family == "moe" and tokens[0] <= FEW_TOKENS and used.evidence.level == "measured":
        yield Note("moe-few-tokens", f"{used.id}: tables of one to four tokens are up to 40 % faster than priced here; "
                                     "published servers are not (docs/model.md, E4)")


def _memory(plan: Plan) -> Iterator[Note]:
    full = [
        (batch, context)
        for b, batch in enumerate(plan.question.batch)
        for s, context in enumerate(plan.question.context_tokens)
        if not bool(_at(plan.off.memory.fits, plan, b, s))
    ]
    if full:
        listed = ", ".join(f"{batch} x {context}" for batch, context in full[:4]) + (" ..." if len(full) > 4 else "")
        yield Note("does-not-fit", f"batch x context that do not fit in memory even without a drafter: {listed}")


def _at(array: Array, plan: Plan, batch: int, context: int) -> float:
    shape = (1, plan.off.batch.size, plan.off.context_tokens.size)
    return float(np.broadcast_to(array, shape)[0, batch, context])


def _label(used: KernelUsed) -> str:
    return f"{used.id} {used.version}".strip()


def _acceptance_source(acceptance: Acceptance) -> str:
    """The source; where it names some of many library curves, all of them."""
    unnamed = [curve for curve in acceptance.curves if curve not in acceptance.source]
    return f"{acceptance.source}; all curves: {', '.join(acceptance.curves)}" if unnamed else acceptance.source


def _evidence_text(evidence: Evidence) -> str:
    error = "" if evidence.error_mean_pct is None else f", mean error {evidence.error_mean_pct:g} % held out"
    rows = "" if evidence.rows is None else f", {evidence.rows} rows"
    return f"{evidence.level}: {evidence.source}{rows}{error}"


def all_measured(evidences: Iterable[Evidence]) -> bool:
    """Whether every kernel was measured on this GPU."""
    return all(evidence.level == "measured" for evidence in evidences)
