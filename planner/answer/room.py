"""What fits in the GPUs' memory, by the formula of step/memory.py, and which deployments would hold more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specplan.planner.answer.plan import Plan
from specplan.planner.answer.resolve import head_faults
from specplan.planner.answer.types import Cell, Room
from specplan.planner.messages import InputError
from specplan.planner.models.architecture import CompressedAttention, LatentAttention, Model
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.kernels_used import kernels_used
from specplan.planner.step.memory import Memory, memory

NODE_GPUS = 8       # larger groups cross nodes: not proposed
NARROWER = ("fp8", "nvfp4")


def room(plan: Plan, cells: tuple[Cell, ...]) -> Room | None:
    """None where every cell fits; else what is needed, what fits and what would help."""
    too_large = [cell for cell in cells if not cell.off.fits_memory]
    if not too_large:
        return None
    question = plan.question
    target, deployment = question.target, question.deployment
    batch, context = min(question.batch), min(question.context_tokens)
    least = memory(target, deployment, None, 0.0, batch, context)
    fits = len(too_large) < len(cells)
    largest = tuple({cell.context_tokens: cell.off.max_batch for cell in cells}.items())
    if fits:
        worst = max(too_large, key=lambda cell: cell.off.memory_bytes)
        finding = _listed(largest)
        remedies = tuple(_groups(target, deployment, worst.batch, worst.context_tokens))
    else:
        finding = _what_is_missing(target, deployment, least, batch, context, largest)
        remedies = _enough(target, deployment, batch, context)
    return Room(
        fits=fits,
        batch=batch,
        context_tokens=context,
        weights_bytes=least.weights_bytes,
        cache_bytes=float(least.cache_bytes),
        usable_bytes=least.usable_bytes,
        largest_batch=largest,
        finding=finding,
        remedies=remedies,
    )


def shortage(target: Model, deployment: Deployment, batch: int, context: int) -> str:
    """In words what a batch that does not fit needs, and what would hold it."""
    least = memory(target, deployment, None, 0.0, batch, context)
    missing = _what_is_missing(target, deployment, least, batch, context, ())
    return "; ".join((missing, *_enough(target, deployment, batch, context)))


def _enough(target: Model, deployment: Deployment, batch: int, context: int) -> tuple[str, ...]:
    return tuple(_remedies(target, deployment, batch, context)) or (
        f"neither tp up to {NODE_GPUS} nor fp8 or nvfp4 weights are enough",
    )


def _listed(largest: tuple[tuple[int, int], ...]) -> str:
    return "largest batch that fits: " + ", ".join(f"{count} at context {tokens}" for tokens, count in largest)


def _what_is_missing(
    target: Model,
    deployment: Deployment,
    least: Memory,
    batch: int,
    context: int,
    largest: tuple[tuple[int, int], ...],
) -> str:
    """What the least demanding cell needs; where a smaller batch would fit, that it is the batch that does not."""
    usable, whole = least.usable_bytes, deployment.gpu.hardware.memory_bytes
    share, reserve = (deployment.path.constant(name) for name in ("memory_fraction", "memory_reserve_bytes"))
    smaller = any(count for _, count in largest)
    return (
        f"{target.name}{f' at batch {batch}' if smaller else ''} does not fit on {deployment.gpus} x "
        f"{deployment.gpu.name}: weights {least.weights_bytes / 1e9:.1f} GB + cache "
        f"{float(least.cache_bytes) / 1e9:.1f} GB (batch {batch}, context {context}) of {usable / 1e9:.1f} GB usable "
        f"per GPU ({share:.0%} of {whole / 1e9:.1f} GB, less {reserve / 1e9:.1f} GB of context, activations, graphs)"
        f"{f'; {_listed(largest)}' if smaller else ''}"
    )


def _remedies(target: Model, deployment: Deployment, batch: int, context: int) -> Iterator[str]:
    """The fewest GPUs that hold the model as it is stored, and in each narrower format that needs fewer."""
    tps = [deployment.tp, *(tp for tp in (2, 4, 8) if deployment.tp < tp <= NODE_GPUS)]
    yield from _groups(target, deployment, batch, context)
    fewest = NODE_GPUS + 1
    stored = BYTES_PER_WEIGHT[target.weights.experts]
    for weights in (None, *(name for name in NARROWER if BYTES_PER_WEIGHT[name] < 0.9 * stored)):
        model = target if weights is None else with_dtypes(target, weights)
        for tp in tps:
            wider = replace(deployment, tp=tp, ep=tp if deployment.ep == deployment.tp > 1 else deployment.ep)
            if tp < fewest and _fits(model, wider, batch, context):
                fewest = tp
                same = tp == deployment.tp
                yield (
                    f"tp {tp} fits" if weights is None
                    else f"{weights} weights fit" if same
                    else f"{weights} weights fit with tp {tp}"
                )
                break


def _groups(target: Model, deployment: Deployment, batch: int, context: int) -> Iterator[str]:
    """Attention by data parallelism: a latent cache is repeated on every GPU of a group that shares its sequences."""
    latent = any(isinstance(group.layer.mixer, LatentAttention | CompressedAttention) for group in target.groups)
    apart = replace(deployment, dp_attention=deployment.tp)
    if not latent or deployment.dp_attention == deployment.tp:
        return
    here = memory(target, deployment, None, 0.0, batch, context)
    there = memory(target, apart, None, 0.0, batch, context)
    more, now = float(there.max_batch), float(here.max_batch)
    if more <= now or not _prices(target, apart):
        return
    enough = "fits" if bool(there.fits) else "holds more"
    yield (
        f"dp_attention {deployment.tp} {enough} (batch up to {more:.0f} at context {context}, against {now:.0f}: the "
        "latent cache is no longer repeated on every GPU)"
    )


def _fits(model: Model, deployment: Deployment, batch: int, context: int) -> bool:
    held: Memory = memory(model, deployment, None, 0.0, batch, context)
    return bool(held.fits) and not head_faults(model, deployment.attention_tp) and _prices(model, deployment)


def _prices(model: Model, deployment: Deployment) -> bool:
    """Whether the engine has kernels for it on this GPU."""
    try:
        kernels_used(model, deployment)
    except InputError:
        return False
    return True
