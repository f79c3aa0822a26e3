"""Seconds of one decode step, with and without speculation, over the (D, B, S) grid.

off:    target(B, 1, S) + host_step
D >= 0: target(B, 1 + D, S) + drafting(D, B, S) + host_step + spec_extra + per_seq * B (+ trees, + copying states back)

D = 0 with a drafter loaded still pays the extra host work, so it is slower than off: two different rows.
"""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.fact import fact
from specplan.planner.models.architecture import Model, RecurrentMixer
from specplan.planner.models.drafter import Drafter
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.drafting import Drafting, drafting, mean_query_len
from specplan.planner.step.engine_paths import graph_rows
from specplan.planner.step.forward import Op, Part, breakdown_s, forward_pass, total_s
from specplan.planner.step.tokens import Tokens, tokens


@fact
class OffStep:
    """Plain decoding. Arrays broadcast over (1, B, S)."""

    step_s: Array
    gpu_s: Array
    host_s: float
    parts_s: dict[Part, Array]
    ops: tuple[Op, ...]


@fact
class SpeculativeStep:
    """One step with D drafted tokens. `step_s = verify_s + draft_s + overhead_s`, arrays over (D, B, S)."""

    draft_len: Array
    query_len: Array
    verify_s: Array
    draft_s: Array
    overhead_s: Array
    verify_ops: tuple[Op, ...]
    drafting: Drafting

    @property
    def step_s(self) -> Array:
        """Seconds of the whole step."""
        return self.verify_s + self.draft_s + self.overhead_s


def off_step(target: Model, deployment: Deployment, batch: ArrayLike, context_tokens: ArrayLike) -> OffStep:
    """Plain decoding of B sequences with S cached tokens each."""
    ops = forward_pass(target, deployment, _work(deployment, batch, np.ones(()), context_tokens))
    gpu = total_s(ops)
    host = deployment.path.host_step_s.value
    return OffStep(
        step_s=_host_bound(gpu, target, deployment) + host,
        gpu_s=gpu,
        host_s=host,
        parts_s=breakdown_s(ops),
        ops=tuple(ops),
    )


def speculative_step(
    target: Model,
    deployment: Deployment,
    drafter: Drafter,
    draft_len: ArrayLike,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    acceptance_length: Array | None = None,
    *,
    verified_tokens: ArrayLike | None = None,
    branches: ArrayLike = 1.0,
) -> SpeculativeStep:
    """Draft D tokens and verify them in one pass. `acceptance_length` only sets how often a lookup drafts.

    `verified_tokens` replaces 1 + D as the tokens per sequence of the verify pass: the nodes of a tree (root
    included, with `branches` tokens kept per level), or the mean of a schedule that verifies only what it trusts. A
    drafter that drafts trees brings both itself.
    """
    draft = np.asarray(draft_len, dtype=float)
    if verified_tokens is None and drafter.tree is not None:
        verified_tokens, branches = float(drafter.tree.nodes), float(drafter.tree.branches)
    sequences: Array = np.asarray(batch, dtype=float)
    query_len = mean_query_len(drafter, deployment.path, draft, acceptance_length)
    if verified_tokens is not None:
        query_len = np.where(draft > 0, np.asarray(verified_tokens, dtype=float), 1.0)
    ops = forward_pass(target, deployment, _work(deployment, batch, query_len, context_tokens))
    proposal = drafting(drafter, deployment, draft, batch, context_tokens, branches)
    path = deployment.path
    overhead = path.host_step_s.value + path.spec_extra_s.value + path.per_seq_s.value * sequences
    overhead = overhead + _state_commit_s(target, deployment)
    if verified_tokens is not None:
        tree = (np.asarray(branches) > 1) & (draft > 0)
        nodes = path.constant("tree_extra_s") + path.constant("tree_node_s") * query_len * sequences
        overhead = overhead + np.where(tree, nodes, 0.0)
    return SpeculativeStep(
        draft_len=draft,
        query_len=query_len,
        verify_s=_host_bound(total_s(ops), target, deployment),
        draft_s=proposal.total_s,
        overhead_s=overhead,
        verify_ops=tuple(ops),
        drafting=proposal,
    )


def prefill_s(target: Model, deployment: Deployment, input_tokens: float, cached_tokens: float = 0.0) -> float:
    """Seconds that one inserted request of `input_tokens` takes from everyone else's decoding (E9).

    Its roofline pass plus a fixed part per layer. The mean context of a prompt's tokens is half of it, behind the
    `cached_tokens` that a prefix cache already holds.
    """
    work = tokens(1.0, input_tokens, cached_tokens + input_tokens / 2.0)
    recurrent = _recurrent_layers(target)
    fixed = deployment.path.constant("prefill_s_per_layer") * (target.layers - recurrent)
    fixed += deployment.path.constant("prefill_s_per_recurrent_layer") * recurrent
    return float(total_s(forward_pass(target, deployment, work, prefill=True))) + fixed


def _recurrent_layers(target: Model) -> int:
    return sum(group.count for group in target.groups if isinstance(group.layer.mixer, RecurrentMixer))


def _state_commit_s(target: Model, deployment: Deployment) -> float:
    """After a verify pass the state of the last accepted token is copied back, layer by layer."""
    each = deployment.path.constant("state_commit_s_per_layer") * deployment.path.kernel_launch_factor
    return each * _recurrent_layers(target)


def _work(deployment: Deployment, batch: ArrayLike, query_len: Array, context_tokens: ArrayLike) -> Tokens:
    rows = graph_rows(deployment.path.engine, batch, query_len)
    return tokens(batch, query_len, context_tokens, rows)


def _host_bound(gpu: Array, target: Model, deployment: Deployment) -> Array:
    """Eager engines launch layer by layer: a pass is never faster than the host."""
    return np.maximum(gpu, deployment.path.host_s_per_layer * target.layers)
