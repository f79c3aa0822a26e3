"""Time to draft D tokens (E7): serial passes, one parallel pass, or a lookup on the host.

A serial pass is the smooth maximum of its GPU time and a floor that no small network goes below (host work and a
dozen launches per pass): hypot(gpu, floor + slope*(layers - 1)). NVIDIA's guideline 4 estimates the same cost as
rho*D of a target pass, rho the ratio of layers; `depth_ratio` gives it for comparison. A drafter whose pass was
measured costs passes * measured_pass_s instead, at every batch and context: a measurement speaks for those it ran at.

EAGLE-3 projects the target's hidden states once a step, all 1 + D verified tokens of a sequence at a time; its later
passes go on from the drafter's own hidden state (vLLM v1/spec_decode `combine_hidden_states` before the loop,
TensorRT-LLM `apply_eagle3_fc` on the first drafter inputs, SGLang llama_eagle3.py `fc` only where the widths differ).
EAGLE and MTP project embedding and hidden state in every pass.

Ignored: the first pass of a step also reads the tokens accepted last (at most a few rows), and the drafter's context
grows by up to D tokens while it drafts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specplan.planner.arrays import Array, ArrayLike, ceil_div, pnorm
from specplan.planner.fact import fact
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafter import FUSED_ONCE, ONE_PASS, SERIAL, Drafter
from specplan.planner.models.matrices import split
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import EnginePath
from specplan.planner.step.forward import Op, forward_pass, gemm_op, total_s
from specplan.planner.step.tokens import Tokens, tokens


@fact
class Drafting:
    """Drafting of D tokens. `total_s` broadcasts over (D, B, S).

    `pass_ops` are those of one pass, done `passes` times; `first_ops` are done in the first pass only.
    """

    total_s: Array
    pass_ops: tuple[Op, ...]
    first_ops: tuple[Op, ...] = ()
    floor_s: float
    passes: Array


def depth_ratio(drafter: Drafter, target: Model) -> float:
    """rho of guideline 4: draft layers / target layers; 0 for a lookup."""
    return 0.0 if drafter.network is None else drafter.network.layers / target.layers


def drafting(
    drafter: Drafter,
    deployment: Deployment,
    draft_len: ArrayLike,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    branches: ArrayLike = 1.0,
) -> Drafting:
    """Time to draft `draft_len` tokens for each of B sequences; zero at D = 0.

    A tree that keeps `branches` tokens per level has serial passes of that many rows per sequence after the first.
    """
    if drafter.network is None:
        return Drafting(total_s=np.zeros(()), pass_ops=(), floor_s=0.0, passes=np.zeros(()))
    drafted = np.asarray(draft_len, dtype=float)
    copies = drafter_copies(deployment)
    share = ceil_div(batch, copies) if copies > 1 else batch
    predicted = _predicted(drafter, drafter.network, deployment, drafted, share, context_tokens, branches)
    if drafter.measured_pass_s is None:
        return predicted
    return replace(predicted, total_s=predicted.passes * drafter.measured_pass_s)


def _predicted(
    drafter: Drafter, network: Model, deployment: Deployment, drafted: Array, batch: ArrayLike,
    context_tokens: ArrayLike, branches: ArrayLike,
) -> Drafting:
    floor = pass_floor_s(deployment.path, network.layers)
    if drafter.mechanism in SERIAL:
        ops = pass_ops(drafter, network, deployment, tokens(batch, 1.0, context_tokens))
        once: list[Op] = []
        if drafter.mechanism in FUSED_ONCE:
            once.append(fuse_op(drafter, network, deployment, np.asarray(batch, dtype=float) * (1.0 + drafted)))
        later = ops
        if np.any(np.asarray(branches) > 1):
            later = pass_ops(drafter, network, deployment, tokens(batch, np.asarray(branches), context_tokens))
        total = np.minimum(drafted, 1.0) * pnorm(total_s([*ops, *once]), floor, 2.0)
        total = total + np.maximum(drafted - 1.0, 0.0) * pnorm(total_s(later), floor, 2.0)
        return Drafting(total_s=total, pass_ops=tuple(ops), first_ops=tuple(once), floor_s=floor, passes=drafted)
    assert drafter.mechanism in ONE_PASS
    width = np.maximum(drafted + anchor_tokens(drafter), 1.0)
    ops = pass_ops(drafter, network, deployment, tokens(batch, width, context_tokens))
    one = pnorm(total_s(ops), floor, 2.0)
    serial = markov_s(drafter, network, deployment, np.asarray(batch, dtype=float)) * drafted
    total = np.where(drafted > 0, one + serial, 0.0)
    return Drafting(total_s=total, pass_ops=tuple(ops), floor_s=floor, passes=np.minimum(drafted, 1.0))


def anchor_tokens(drafter: Drafter) -> int:
    """Rows of a parallel pass beyond D: DFlash and DSpark feed the last true token beside the masks."""
    return 1 if drafter.mechanism in {"dflash", "dspark"} else 0


def pass_floor_s(path: EnginePath, layers: int) -> float:
    """Least time of one draft pass of `layers` layers on this engine path."""
    eager = path.host_s_per_layer * path.draft_layer_factor * layers
    return path.pass_floor_s.value + path.pass_floor_s_per_extra_layer.value * (layers - 1) + eager


def pass_ops(drafter: Drafter, network: Model, deployment: Deployment, work: Tokens) -> list[Op]:
    """GPU ops of one draft pass: fusing projection (if in every pass), layers, LM head over the draft vocabulary."""
    factor = deployment.path.constant("draft_small_kernels_factor")
    mine = drafter_deployment(deployment)
    ops = forward_pass(network, mine, work, small_kernels_factor=factor)
    if drafter.fused_inputs and drafter.mechanism not in FUSED_ONCE:
        ops.append(fuse_op(drafter, network, deployment, work.rows))
    return ops


def fuse_op(drafter: Drafter, network: Model, deployment: Deployment, rows: Array) -> Op:
    """Concatenated hidden states, projected to the drafter's width.

    As attention under data parallelism: not split over GPUs, each group takes its own sequences.
    """
    mine = drafter_deployment(deployment)
    share = ceil_div(rows, mine.dp_attention) if mine.dp_attention > 1 else rows
    inputs = drafter.fused_inputs * network.hidden
    return gemm_op("fuse", mine, share, n=network.hidden, k=inputs, dtype=network.weights.attention)


def drafter_copies(deployment: Deployment) -> int:
    """Sets of GPUs that draft for different sequences: above 1 under data-parallel attention with a small drafter."""
    return min(deployment.dp_attention, deployment.tp // (deployment.drafter_tp or deployment.tp))


def drafter_deployment(deployment: Deployment) -> Deployment:
    """Where one copy of the drafter runs: on the target's GPUs or some of them, without pipeline.

    A data-parallel attention group drafts for the sequences it holds, as it verifies them: its scheduler sees no
    others, and the module runs in the same process (SGLang, srt/speculative/eagle_worker_v2.py `draft_tp_context`).
    """
    tp = deployment.drafter_tp or deployment.tp
    groups = max(1, deployment.dp_attention // drafter_copies(deployment))
    return replace(deployment, tp=tp, ep=min(deployment.ep, tp), dp_attention=groups, pp=1)


def markov_s(drafter: Drafter, network: Model, deployment: Deployment, batch: Array) -> Array:
    """DSpark's serial head, per drafted token: one row of rank `markov_rank` times the vocabulary."""
    if drafter.markov_rank is None:
        return np.zeros(())
    mine = drafter_deployment(deployment)
    vocab = split(network.vocab, mine.tp)
    return gemm_op("markov", mine, batch, n=vocab, k=drafter.markov_rank, dtype="bf16").total_s


def mean_query_len(
    drafter: Drafter, path: EnginePath, draft_len: Array, acceptance_length: Array | None
) -> Array:
    """Tokens per sequence in a verify pass, on average: 1 + D, or less where only a share of steps drafts.

    A lookup drafts when it finds a match. The share is the drafter's `draft_fraction`, else estimated from how
    much is accepted: min(1, 1.1*sqrt(AL - 1)) (fitted; range 0.8-1.4).
    """
    if drafter.network is not None:
        return 1.0 + draft_len
    if drafter.draft_fraction is not None:
        return 1.0 + draft_len * drafter.draft_fraction
    if acceptance_length is None:
        return 1.0 + draft_len
    share = np.minimum(1.0, path.constant("lookup_rows") * np.sqrt(np.maximum(acceptance_length - 1.0, 0.0)))
    return 1.0 + draft_len * share
