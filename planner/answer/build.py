"""Put an evaluated plan together as an `Answer`."""

from __future__ import annotations

from dataclasses import replace

from specplan import __version__
from specplan.planner.answer.cells import cells, headline
from specplan.planner.answer.deploy import deployment_plan
from specplan.planner.answer.doubts import robustness
from specplan.planner.answer.evidence import all_measured, provenance, warnings
from specplan.planner.answer.guidance import guidelines
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.room import room
from specplan.planner.answer.schedules import schedule_of
from specplan.planner.answer.types import Answer, GpuSummary, TargetSummary, Workload
from specplan.planner.models.counts import active_parameters, parameters
from specplan.planner.step.kernels_used import kernels_used
from specplan.planner.step.tiles import attention_tiles


def build_answer(plan: Plan) -> Answer:
    """Choices, candidates, guidelines, warnings and provenance of a plan."""
    question = plan.question
    found = cells(plan)
    index = headline(plan, found)
    batch, context = divmod(index, len(question.context_tokens))
    answer = Answer(
        specplan=__version__,
        target=_target(plan),
        gpu=_gpu(plan),
        workload=Workload(
            engine=question.deployment.path.engine,
            engine_path=question.deployment.path.name,
            tp=question.deployment.tp,
            dtypes=question.dtypes,
            objective=question.objective,
            input_tokens=question.input_tokens,
            output_tokens=question.output_tokens,
            engine_named=question.engine_named[0],
            engine_version=question.engine_named[1],
        ),
        cells=found,
        headline=index,
        guidelines=guidelines(plan, plan.choice(batch, context), batch, context),
        warnings=warnings(plan),
        provenance=provenance(plan),
        schedule=schedule_of(plan),
        room=room(plan, found),
        anchoring=question.anchoring,
    )
    return replace(answer, deployment=deployment_plan(plan, answer), robustness=robustness(plan, batch, context))


def _target(plan: Plan) -> TargetSummary:
    target = plan.question.target
    tiles = attention_tiles(target, plan.question.deployment)
    return TargetSummary(
        name=target.name,
        parameters=parameters(target),
        active_parameters=active_parameters(target),
        group_size=None if tiles is None else tiles.group_size,
        layers=target.layers,
    )


def _gpu(plan: Plan) -> GpuSummary:
    used = kernels_used(plan.question.target, plan.question.deployment)
    attention = [kernel.id for kernel in used if kernel.family.startswith(("attention", "mla"))]
    gemm = [kernel.id for kernel in used if kernel.family.startswith("gemm")]
    return GpuSummary(
        name=plan.question.deployment.gpu.name,
        kernel_attention=attention[0] if attention else None,
        kernel_gemm=gemm[0],
        evidence="measured" if all_measured(kernel.evidence for kernel in used) else "prior",
    )
