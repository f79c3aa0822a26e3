"""The five guidelines at the headline cell: which numbers of the plan go into each."""

from __future__ import annotations

import numpy as np

from specplan.planner.answer.plan import Plan
from specplan.planner.arrays import Array
from specplan.planner.decide import guidelines as rules
from specplan.planner.decide.choose import Choice, cell, gain
from specplan.planner.decide.guidelines import Guideline
from specplan.planner.decide.value import DrafterValue
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.moe import distinct_experts
from specplan.planner.kernels.select import gemm_kernel
from specplan.planner.models.architecture import MoeFfn
from specplan.planner.models.drafter import SERIAL
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT
from specplan.planner.models.matrices import Matrix, ffn_matrices, mixer_matrices
from specplan.planner.step.drafting import depth_ratio
from specplan.planner.step.ggml import ggml_law, matmul_time
from specplan.planner.step.tiles import AttentionTiles, attention_tiles

MAX_RIDGE_ROWS = 8192
ROUNDING = 1.0 + 1e-9

TRAINING = {    # what it takes to have the mechanism (guideline 5's table; NVIDIA blog, 2026-09-02)
    "draft_model": "an external model of the family: none to train if one exists, own weights and KV cache",
    "pard": "a draft model tuned to draft in parallel, own weights and KV cache",
    "eagle": "a head trained on some billion tokens of the finished target",
    "eagle3": "a head trained on 1-10 billion tokens, again when the target changes",
    "p_eagle": "a parallel head trained on 1-10 billion tokens, again when the target changes",
    "mtp": "nothing to train if the checkpoint ships it",
    "dflash": "a block drafter trained on 1-10 billion tokens, again when the target changes",
    "dspark": "a block drafter with a Markov head trained on 1-10 billion tokens, again when the target changes",
    "ngram": "nothing to train and no memory",
    "suffix": "nothing to train and no GPU memory",
}


def guidelines(plan: Plan, choice: Choice, batch: int, context: int) -> tuple[Guideline, ...]:
    """G1 to G5 at one cell."""
    limit = max((int(value.draft_lens.max()) for value in plan.values), default=16)
    tiles = attention_tiles(plan.question.target, plan.question.deployment)
    share = attention_share(plan, batch, context)
    return (
        _ridge(plan, batch, context, limit),
        _tile(tiles, share),
        _multiples(tiles, share, max(limit, 63)),
        _overhead(plan, choice, batch, context),
        _mechanism(plan, choice, batch, context),
    )


def attention_share(plan: Plan, batch: int, context: int) -> float:
    """Attention's share of the GPU time of a plain step in one cell."""
    off = plan.off
    shape = (1, off.batch.size, off.context_tokens.size)
    attention = np.broadcast_to(off.step.parts_s["attention"], shape)[0, batch, context]
    return float(attention / np.broadcast_to(off.step.gpu_s, shape)[0, batch, context])


def ridge_rows(plan: Plan) -> float:
    """Most rows that cost the model's largest dense GEMM no more than reading its weights.

    Its math stays below the reads, or below the math of a single row: kernels pad a few rows to a whole tile.
    """
    target, deployment = plan.question.target, plan.question.deployment
    largest: Matrix | None = None
    for group in target.groups:
        mine = mixer_matrices(group.layer.mixer, target.hidden, deployment.attention_tp)
        for matrix in (*mine, *ffn_matrices(group.layer.ffn, target.hidden, deployment.tp)):
            if largest is None or matrix.n * matrix.k > largest.n * largest.k:
                largest = matrix
    assert largest is not None
    dtype = target.weights.attention if largest.role == "attention" else target.weights.ffn
    kernel = gemm_kernel(
        deployment.gpu, deployment.path.engine, weight_dtype=dtype, static_scales=target.weights.static_scales
    )
    rows = np.arange(1.0, MAX_RIDGE_ROWS + 1)
    time = gemm_time(kernel, rows=rows, n=largest.n, k=largest.k)
    math = time.parts["tensor"]
    past = (math >= time.parts["memory"]) & (math > math[0] * ROUNDING)
    return float(max(int(np.argmax(past)), 1) if past.any() else MAX_RIDGE_ROWS)


def _ridge(plan: Plan, batch: int, context: int, limit: int) -> Guideline:
    off = plan.off.memory.max_batch
    shape = (1, plan.off.batch.size, plan.off.context_tokens.size)
    most = float(np.broadcast_to(off, shape)[0, batch, context])
    sequences = plan.question.batch[batch]
    if plan.question.deployment.path.kernels == "ggml":
        return rules.rows_cost(share=_ggml_row_share(plan, sequences), batch=sequences)
    return rules.gemm_ridge(
        ridge_rows=ridge_rows(plan),
        batch=sequences,
        max_batch=most,
        draft_len_limit=limit,
        expert_growth=_expert_growth(plan, sequences),
    )


def _ggml_row_share(plan: Plan, batch: int) -> float:
    """Time that one more row per sequence adds to a matrix, relative to a plain step's."""
    target, deployment = plan.question.target, plan.question.deployment
    hardware, dtype = deployment.gpu.hardware, target.weights.ffn
    one, two = matmul_time(
        ggml_law(hardware, dtype), hardware, rows=np.array([batch, 2.0 * batch]), read_bytes=BYTES_PER_WEIGHT[dtype],
        weights=1.0, power_limit_w=deployment.power_limit_w,
    ).time_s
    return float(two / one - 1.0)


def _expert_growth(plan: Plan, batch: int) -> float | None:
    """Routed experts that two tokens per sequence hit over those that one hits; None without experts."""
    skew = plan.question.deployment.moe_skew
    for group in plan.question.target.groups:
        ffn = group.layer.ffn
        if isinstance(ffn, MoeFfn):
            tokens = np.array([batch, 2.0 * batch])
            one, two = distinct_experts(tokens, experts=ffn.experts, top_k=ffn.top_k, skew=skew)
            return float(two / one)
    return None


def _tile(tiles: AttentionTiles | None, share: float) -> Guideline:
    if tiles is None:
        return Guideline(id="G2", applies=False, finding="no attention over the whole cache: nothing to tile")
    return rules.attention_tile(
        group_size=tiles.group_size,
        tile_rows=tiles.tile_rows,
        kernel=tiles.kernel_id,
        share=share,
        packs=tiles.packs,
        knee=tiles.knee_rows,
    )


def _multiples(tiles: AttentionTiles | None, share: float, limit: int) -> Guideline:
    if tiles is None:
        return Guideline(id="G3", applies=False, finding="no attention over the whole cache: nothing to tile")
    return rules.tile_multiples(
        group_size=tiles.group_size,
        tile_rows=tiles.tile_rows,
        kernel=tiles.kernel_id,
        packs=tiles.packs,
        limit=limit,
        share=share,
    )


def _overhead(plan: Plan, choice: Choice, batch: int, context: int) -> Guideline:
    if not plan.values:
        return Guideline(id="G4", applies=False, finding="no drafter to weigh")
    value = plan.values[choice.drafter or 0]
    lengths = None
    if value.acceptance_length is not None:
        lengths = [float(length) for length in _column(value.acceptance_length, value, batch, context)]
    draft = _column(value.step.draft_s, value, batch, context)
    draft_lens = value.draft_lens[:, 0, 0]
    serial = value.drafter.mechanism in SERIAL
    row = int(np.argmax(draft_lens > 0))
    off = float(_column(value.off.step.step_s, value, batch, context)[0])
    per = float(draft[row] / draft_lens[row] if serial else draft[row]) / off
    return rules.draft_overhead(
        depth_ratio=depth_ratio(value.drafter, plan.question.target),
        share_per_token=per,
        draft_lens=[int(d) for d in draft_lens],
        lengths=lengths,
        batch=plan.question.batch[batch],
        serial=serial,
        known_draft_len=0 if value.acceptance is None else value.acceptance.known_draft_len,
    )


def _mechanism(plan: Plan, choice: Choice, batch: int, context: int) -> Guideline:
    ranking = []
    for value in plan.values:
        gains = gain(value, plan.question.objective)
        if gains is not None:
            column = np.where(value.draft_lens[:, 0, 0] > 0, _column(gains, value, batch, context), 0.0)
            fits = np.where(_column(value.memory.fits, value, batch, context), column, 0.0)
            ranking.append((value.drafter.name, float((fits if fits.any() else column).max()), bool(fits.any())))
    ranking.sort(key=lambda item: -item[1])
    chosen = None if choice.drafter is None else plan.values[choice.drafter].drafter
    training = "" if chosen is None else f"{chosen.name} needs {TRAINING[chosen.mechanism]}"
    name = None if chosen is None else chosen.name
    return rules.mechanism(chosen=name, ranking=ranking, training=training)


def _column(array: Array, value: DrafterValue, batch: int, context: int) -> Array:
    return cell(array, value.draft_lens.size, batch, context)
