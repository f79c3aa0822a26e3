"""`specplan explain`: one step op by op, and what binds at each D."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from specplan.planner.answer.candidates import bound_of_part
from specplan.planner.answer.evidence import warnings
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.recommended import OFF, options_named, recommended
from specplan.planner.answer.resolve import Question
from specplan.planner.arrays import Array
from specplan.planner.decide.anchor import Multipliers
from specplan.planner.decide.choose import cell
from specplan.planner.decide.value import DrafterValue
from specplan.planner.fact import fact
from specplan.planner.kernels.moe import distinct_experts
from specplan.planner.messages import InputError, Note
from specplan.planner.models.architecture import MoeFfn
from specplan.planner.step.forward import Op, Part
from specplan.planner.step.tiles import attention_tiles, edge_query_lens

NOTHING_S = 1e-12   # below it a remainder is rounding
LONGEST = 64    # draft tokens, as in cfg.yaml


@fact
class OpLine:
    """One kind of kernel call of a step."""

    stage: str          # verify | draft | fixed; decode: the plain step's
    name: str
    count: float
    time_s: float       # all calls
    bound: str
    share: float        # of the step


@fact
class SweepLine:
    """One D: where the time goes, what binds, whether a tile edge was crossed."""

    draft_len: int
    verify_s: float
    draft_s: float
    overhead_s: float
    step_s: float
    acceptance_length: float | None
    break_even_acceptance_length: float
    speedup: float | None
    bound: Mapping[str, str | None]
    attention_rows: int | None
    attention_tiles: int | None
    tile_edge: bool
    experts_touched: float | None
    expert_share: float | None


@fact
class Explanation:
    """Every op of one step, and a sweep over D."""

    target: str
    gpu: str
    mechanism: str
    drafter: str
    draft_len: int
    batch: int
    context_tokens: int
    off_step_s: float
    step_s: float
    ops: tuple[OpLine, ...]
    sweep: tuple[SweepLine, ...]
    warnings: tuple[Note, ...]


def explain_question(
    question: Question,
    *,
    mechanism: str | None = None,
    draft_len: int | None = None,
    batch: int | None = None,
    context_tokens: int | None = None,
) -> Explanation:
    """Explain one drafter at one D, batch and context; `mechanism` "off" is plain decoding.

    What is not given is what is recommended there, at the first batch and context asked for.
    """
    batch = question.batch[0] if batch is None else batch
    context_tokens = question.context_tokens[0] if context_tokens is None else context_tokens
    here = replace(question, batch=(batch,), context_tokens=(context_tokens,))
    if mechanism is None or (draft_len is None and mechanism != OFF):
        mechanism, draft_len = recommended(here, mechanism, draft_len)
    if mechanism == OFF:
        if draft_len:
            raise InputError("draft_len: plain decoding (off) drafts nothing; give --mechanism, or 0")
        return _explain_off(here)
    assert draft_len is not None
    if not 0 <= draft_len <= LONGEST:
        raise InputError(f"draft_len: must be from 0 to {LONGEST}, not {draft_len}")
    options = options_named(question, mechanism)
    draft_lens = tuple(sorted({*options[0].draft_lens, draft_len, *range(draft_len + 1)}))
    acceptance = options[0].acceptance
    if acceptance is not None and draft_len > acceptance.known_draft_len:
        raise InputError(f"draft_len: acceptance is known up to D = {acceptance.known_draft_len}, not {draft_len}")
    option = replace(options[0], draft_lens=draft_lens)
    plan = evaluate(replace(here, options=(option,)))
    value = plan.values[0]
    row = draft_lens.index(draft_len)
    step = _at(value.step.step_s, value, row)
    return Explanation(
        target=question.target.name,
        gpu=question.deployment.gpu.name,
        mechanism=option.drafter.mechanism,
        drafter=option.drafter.name,
        draft_len=draft_len,
        batch=batch,
        context_tokens=context_tokens,
        off_step_s=_at(plan.off.step.step_s, value, row),
        step_s=step,
        ops=tuple(_op_lines(plan, value, row, step)),
        sweep=tuple(_sweep(plan, value, batch)),
        warnings=warnings(plan, draft_len),
    )


def _explain_off(question: Question) -> Explanation:
    """The plain step."""
    plan = evaluate(replace(question, options=()))
    off = plan.off.step

    def at(array: Array) -> float:
        return float(cell(array, 1, 0, 0)[0])

    step = at(off.step_s)
    lines = []
    for op in off.ops:
        seconds, parts = at(op.total_s), {name: at(part) for name, part in op.time.parts.items()}
        bound = max(parts, key=lambda name: parts[name])
        lines.append(OpLine(
            stage="decode", name=op.name, count=op.count, time_s=seconds, bound=bound, share=seconds / step
        ))
    rest = {"host_step": off.host_s, "eager_host": step - off.host_s - sum(line.time_s for line in lines)}
    lines += [
        OpLine(stage="fixed", name=name, count=1.0, time_s=seconds, bound="launch", share=seconds / step)
        for name, seconds in rest.items()
        if abs(seconds) > NOTHING_S
    ]
    return Explanation(
        target=question.target.name,
        gpu=question.deployment.gpu.name,
        mechanism=OFF,
        drafter=OFF,
        draft_len=0,
        batch=question.batch[0],
        context_tokens=question.context_tokens[0],
        off_step_s=step,
        step_s=step,
        ops=tuple(_merged(lines)),
        sweep=(),
        warnings=warnings(plan),
    )


def _at(array: Array, value: DrafterValue, row: int) -> float:
    return float(cell(array, value.draft_lens.size, 0, 0)[row])


def _op_lines(plan: Plan, value: DrafterValue, row: int, step_s: float) -> list[OpLine]:
    lines = [_op_line("verify", op, value, row, 1.0, step_s) for op in value.step.verify_ops]
    passes = _at(value.step.drafting.passes, value, row)
    lines += [_op_line("draft", op, value, row, passes, step_s) for op in value.step.drafting.pass_ops if passes]
    lines += [_op_line("draft", op, value, row, 1.0, step_s) for op in value.step.drafting.first_ops if passes]
    lines += _fixed(plan, value, row, step_s, sum(line.time_s for line in lines if line.stage == "draft"))
    return _merged(lines)


def _op_line(stage: str, op: Op, value: DrafterValue, row: int, passes: float, step_s: float) -> OpLine:
    seconds = _at(op.total_s, value, row) * passes
    parts = {name: _at(part, value, row) for name, part in op.time.parts.items()}
    bound = max(parts, key=lambda name: parts[name])
    return OpLine(
        stage=stage, name=op.name, count=op.count * passes, time_s=seconds, bound=bound, share=seconds / step_s
    )


def _fixed(plan: Plan, value: DrafterValue, row: int, step_s: float, draft_ops_s: float) -> list[OpLine]:
    path, anchoring = plan.question.deployment.path, plan.question.anchoring
    batch = plan.question.batch[0]
    factors = Multipliers() if anchoring is None else anchoring.of(value.drafter.name)
    extra = factors.scale * factors.fixed
    named = {
        "host_step": path.host_step_s.value * factors.scale,
        "spec_extra": path.spec_extra_s.value * extra,
        "per_seq": path.per_seq_s.value * batch * extra,
    }
    verify_ops_s = sum(_at(op.total_s, value, row) for op in value.step.verify_ops)
    measured = plan.question.options[0].drafter.measured_pass_s is not None
    rest = {
        "measured_minus_ops" if measured else "pass_floor": _at(value.step.draft_s, value, row) - draft_ops_s,
        **named,
        "states_and_trees": _at(value.step.overhead_s, value, row) - sum(named.values()),
        "eager_host": _at(value.step.verify_s, value, row) - verify_ops_s,
    }
    return [
        OpLine(stage="fixed", name=name, count=1.0, time_s=seconds, bound="launch", share=seconds / step_s)
        for name, seconds in rest.items()
        if abs(seconds) > NOTHING_S
    ]


def _merged(lines: list[OpLine]) -> list[OpLine]:
    """Calls of the same name in layers of several kinds, added up."""
    found: dict[tuple[str, str], OpLine] = {}
    for line in lines:
        key = (line.stage, line.name)
        if key in found:
            known = found[key]
            bound = known.bound if known.time_s >= line.time_s else line.bound
            found[key] = replace(
                known,
                count=known.count + line.count,
                time_s=known.time_s + line.time_s,
                share=known.share + line.share,
                bound=bound,
            )
        else:
            found[key] = line
    return list(found.values())


def _sweep(plan: Plan, value: DrafterValue, batch: int) -> list[SweepLine]:
    target, deployment = plan.question.target, plan.question.deployment
    draft_lens = [int(d) for d in value.draft_lens[:, 0, 0]]
    tiles = attention_tiles(target, deployment)
    edges = set(edge_query_lens(target, deployment, max(draft_lens) + 1))
    routed_layers = (group.layer.ffn for group in target.groups if isinstance(group.layer.ffn, MoeFfn))
    moe = max(routed_layers, key=lambda ffn: ffn.experts, default=None)
    size = len(draft_lens)
    bounds = {}
    parts: tuple[Part, ...] = ("gemm", "attention", "moe")
    for part in parts:
        named = bound_of_part(value.step.verify_ops, part)
        bounds[part] = None if named is None else np.broadcast_to(named, (size, 1, 1))[:, 0, 0]
    lines = []
    for row, draft_len in enumerate(draft_lens):
        query_len = 1 + draft_len
        experts = share = None
        if moe is not None:
            routed = batch * query_len
            experts = float(
                distinct_experts(routed, experts=moe.experts, top_k=moe.top_k, skew=deployment.moe_skew)
            )
            moe_s = sum(_at(op.total_s, value, row) for op in value.step.verify_ops if op.part == "moe")
            share = moe_s / _at(value.step.step_s, value, row)
        lines.append(
            SweepLine(
                draft_len=draft_len,
                verify_s=_at(value.step.verify_s, value, row),
                draft_s=_at(value.step.draft_s, value, row),
                overhead_s=_at(value.step.overhead_s, value, row),
                step_s=_at(value.step.step_s, value, row),
                acceptance_length=None if value.acceptance_length is None else _at(value.acceptance_length, value, row),
                break_even_acceptance_length=_at(value.break_even, value, row),
                speedup=None if value.speedup is None else _at(value.speedup, value, row),
                bound={part: None if names is None else str(names[row]) for part, names in bounds.items()},
                attention_rows=None if tiles is None else tiles.group_size * query_len,
                attention_tiles=(
                    None if tiles is None or not tiles.packs else -(-tiles.group_size * query_len // tiles.tile_rows)
                ),
                tile_edge=query_len in edges,
                experts_touched=experts,
                expert_share=share,
            )
        )
    return lines
