"""Shares of a step: published time breakdowns beside the model's, with and without the prefills of new requests.

A breakdown of a busy server counts the prefills of arriving requests into its verify passes. Without them the model
seems to draft far too long at large batch; with them the measured share lies between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specplan.planner.fact import fact
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import InputError
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.step_time import prefill_s, speculative_step
from specplan.planner.validate import names
from specplan.planner.validate.annotations import Annotations
from specplan.planner.validate.collection import Case, number
from specplan.planner.validate.drafters import row_drafter
from specplan.planner.validate.points import path_of_case
from specplan.planner.validate.targets import row_target

INPUT, OUTPUT, CONTEXT, LENGTH = 300.0, 300.0, 500.0, 2.4    # a mix of chat, summaries, mathematics and code


@fact
class Share:
    """Draft time over verify time of one row."""

    target: str
    mechanism: str
    batch: float
    measured: float
    model: float
    with_prefill: float


def shares(cases: Sequence[Case]) -> tuple[Share, ...]:
    """Rows that give shares of a step in percent (draft_pct, verify_pct) and draft on a GPU."""
    found: list[Share] = []
    for case in cases:
        for row in case.rows:
            draft, verify = number(row.get("draft_pct")), number(row.get("verify_pct"))
            if not draft or not verify or draft < 2:
                continue
            share = _share(case, row, draft / verify)
            if share is not None:
                found.append(share)
    return tuple(found)


def _share(case: Case, row: Mapping[str, Any], measured: float) -> Share | None:
    target, _ = row_target(case, row, Annotations())
    gpu = names.gpu_text(case.text("gpu", row)).profile
    mechanism = names.mechanism_name(str(row.get("cfg") or ""))
    batch, drafted = number(row.get("batch")), number(row.get("D"))
    if target is None or gpu is None or mechanism is None or batch is None or drafted is None:
        return None
    try:
        drafter = row_drafter(case, {**row, "drafter": ""}, mechanism, target, [], [])
    except InputError:
        return None
    counts = [int(count) for count in case.text("tp").split("/") if count.strip().isdigit()]
    tp = max(counts, default=1) if target.hidden > 6000 else min(counts, default=1)
    path = path_of_case(case)
    deployment = Deployment(gpu=load_gpu(gpu.name), path=path, tp=tp, moe_skew=path.constant("moe_skew"))
    step = speculative_step(target, deployment, drafter, drafted, batch, CONTEXT)
    prefill = batch * LENGTH / OUTPUT * prefill_s(target, deployment, INPUT)
    drafting, verifying = float(step.draft_s), float(step.verify_s)
    return Share(target=target.name, mechanism=mechanism, batch=batch, measured=measured, model=drafting / verifying,
                 with_prefill=drafting / (verifying + prefill))
