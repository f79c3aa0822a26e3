"""Two ways to run, side by side under the model: what each token costs, and which part makes the difference."""

from __future__ import annotations

from specplan.planner.answer.types import Answer, Candidate, Cell
from specplan.planner.fact import fact
from specplan.planner.messages import InputError


@fact
class Side:
    """One of the two: a drafter at one D in one cell, or plain decoding (drafter None)."""

    label: str
    batch: int
    context_tokens: int
    drafter: str | None
    draft_len: int | None
    acceptance_length: float
    verify_s: float
    draft_s: float
    overhead_s: float
    step_s: float
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    memory_bytes: float
    fits_memory: bool

    @property
    def token_s(self) -> float:
        """Seconds per token of one user."""
        return self.step_s / self.acceptance_length


@fact
class Comparison:
    """Both sides, and why the better one is better, largest reason first."""

    a: Side
    b: Side
    faster: str                     # a | b | equal, by tokens/s/user within 1 %
    ratio: float                    # tokens/s/user of b over a
    throughput_ratio: float         # tokens/s/GPU of b over a
    reasons: tuple[str, ...]


def recommended_side(answer: Answer, label: str) -> Side:
    """What an answer recommends in its headline cell."""
    best = answer.recommendation
    if best.speculate is None:
        raise InputError(f"{label}: acceptance is not known, so there is nothing to compare; give `acceptance:`")
    if best.drafter is None or best.draft_len is None:
        return _off_side(answer.cell, label)
    return chosen_side(answer.cell, best.drafter, best.draft_len, label)


def chosen_side(cell: Cell, drafter: str | None, draft_len: int, label: str) -> Side:
    """One drafter (the only one where None) at one D of a cell; D = 0 is plain decoding."""
    if draft_len == 0:
        return _off_side(cell, label)
    mine = [item for item in cell.candidates if drafter in {None, item.drafter, item.mechanism}]
    found = [item for item in mine if item.draft_len == draft_len]
    if not found:
        known = ", ".join(str(d) for d in sorted({item.draft_len for item in mine if item.draft_len})) or "none"
        raise InputError(f"{label}: no candidate with D = {draft_len}; there are {known}")
    if len({item.drafter for item in found}) > 1:
        names = ", ".join(sorted({item.drafter for item in found}))
        raise InputError(f"{label}: several drafters have D = {draft_len} ({names}): choose one with --mechanism")
    return _candidate_side(cell, found[0], label)


def compare(a: Side, b: Side) -> Comparison:
    """Which side is faster and which part of a token's time makes it so."""
    ratio = b.tokens_per_s_per_user / a.tokens_per_s_per_user
    faster = "equal" if abs(ratio - 1.0) < 0.01 else "b" if ratio > 1 else "a"
    return Comparison(
        a=a,
        b=b,
        faster=faster,
        ratio=ratio,
        throughput_ratio=b.tokens_per_s_per_gpu / a.tokens_per_s_per_gpu,
        reasons=tuple(_reasons(a, b)),
    )


def _reasons(a: Side, b: Side) -> list[str]:
    """Differences in time per token, largest first."""
    changes = {
        part: getattr(b, field) / b.acceptance_length - getattr(a, field) / a.acceptance_length
        for part, field in (("verification", "verify_s"), ("drafting", "draft_s"), ("host", "overhead_s"))
    }
    told = [
        f"{part}: {change * 1e3:+.3f} ms per token ({change / a.token_s:+.1%} of {a.label}'s)"
        for part, change in sorted(changes.items(), key=lambda item: -abs(item[1]))
        if abs(change) > 1e-3 * a.token_s
    ]
    told.append(
        f"{b.label} emits {b.acceptance_length:.2f} tokens in {b.step_s * 1e3:.2f} ms, {a.label} "
        f"{a.acceptance_length:.2f} in {a.step_s * 1e3:.2f} ms"
    )
    memory = b.memory_bytes - a.memory_bytes
    if abs(memory) > 1e7:
        told.append(f"memory: {memory / 1e9:+.2f} GB per GPU")
    return told


def _candidate_side(cell: Cell, item: Candidate, label: str) -> Side:
    if item.acceptance_length is None or item.tokens_per_s_per_user is None or item.tokens_per_s_per_gpu is None:
        raise InputError(f"{label}: the acceptance of {item.drafter} is not known, so its speed is not either")
    return Side(
        label=label,
        batch=cell.batch,
        context_tokens=cell.context_tokens,
        drafter=item.drafter,
        draft_len=item.draft_len,
        acceptance_length=item.acceptance_length,
        verify_s=item.verify_s,
        draft_s=item.draft_s,
        overhead_s=item.overhead_s,
        step_s=item.step_s,
        tokens_per_s_per_user=item.tokens_per_s_per_user,
        tokens_per_s_per_gpu=item.tokens_per_s_per_gpu,
        memory_bytes=item.memory_bytes,
        fits_memory=item.fits_memory,
    )


def _off_side(cell: Cell, label: str) -> Side:
    off = cell.off
    host = off.breakdown["host_s"]
    return Side(
        label=label,
        batch=cell.batch,
        context_tokens=cell.context_tokens,
        drafter=None,
        draft_len=None,
        acceptance_length=1.0,
        verify_s=off.step_s - host,
        draft_s=0.0,
        overhead_s=host,
        step_s=off.step_s,
        tokens_per_s_per_user=off.tokens_per_s_per_user,
        tokens_per_s_per_gpu=off.tokens_per_s_per_gpu,
        memory_bytes=off.memory_bytes,
        fits_memory=off.fits_memory,
    )
