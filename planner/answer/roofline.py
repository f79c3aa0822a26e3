"""Where verify GEMMs and attention stand on the GPU's roofline, for each D: FLOP per byte and achieved FLOP/s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from specplan.planner.answer.pictures import leading
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.decide.choose import cell
from specplan.planner.fact import fact
from specplan.planner.models.architecture import LatentAttention, Model, SoftmaxAttention
from specplan.planner.models.counts import kv_bytes
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT
from specplan.planner.models.matrices import ffn_matrices, local_heads, mixer_matrices

ACTIVATION_BYTES = 2.0
MOST_DRAFT_LEN = 16


@fact
class RooflinePoint:
    """One part of the verify pass at one D, on one GPU."""

    part: str               # GEMMs | attention
    draft_len: int
    flop_per_byte: float
    flop_per_s: float


@fact
class RooflinePicture:
    """The roof and the points below it; datasheet rates."""

    title: str
    gpu: str
    batch: int
    context_tokens: int
    bytes_per_s: float
    dtype: str
    flop_per_s: float
    points: tuple[RooflinePoint, ...]

    @property
    def ridge(self) -> float:
        """FLOP per byte where the roof bends."""
        return self.flop_per_s / self.bytes_per_s


def roofline_picture(plan: Plan, batch: int, context: int) -> RooflinePicture | None:
    """Dense GEMMs (experts apart) and softmax or latent attention of the verify pass; None without drafters."""
    chosen, _ = leading(plan, batch, context)
    if chosen is None:
        return None
    option = next(option for option in plan.question.options if option.drafter.name == chosen.drafter.name)
    # what acceptance is known for does not matter here: all draft lengths up to a fixed one
    question = replace(
        plan.question, batch=(plan.question.batch[batch],), context_tokens=(plan.question.context_tokens[context],),
        options=(replace(option, acceptance=None, draft_lens=tuple(range(MOST_DRAFT_LEN + 1))),),
    )
    plan = evaluate(question)
    value, batch, context = plan.values[0], 0, 0
    target, hardware = question.target, question.deployment.gpu.hardware
    dtype = "fp8" if target.weights.ffn.startswith("fp8") and "fp8" in hardware.dense_flop_per_s else "bf16"
    size = value.draft_lens.size
    queries = np.broadcast_to(value.step.query_len, (size, 1, 1))[:, 0, 0]
    seconds = {
        part: sum(cell(op.total_s, size, batch, context) for op in value.step.verify_ops if op.part == part)
        for part in ("gemm", "attention")
    }
    points = []
    sequences, tokens = float(question.batch[batch]), float(question.context_tokens[context])
    for row, draft_len in enumerate(value.draft_lens[:, 0, 0].astype(int).tolist()):
        rows = sequences * float(queries[row])
        flop, moved = _gemm_work(target, question.deployment.attention_tp, question.deployment.tp, rows)
        work = {"GEMMs": ("gemm", flop, moved)}
        attention = _attention_work(plan, sequences, float(queries[row]), tokens)
        if attention is not None:
            work["attention"] = ("attention", *attention)
        for name, (part, flops, bytes_) in work.items():
            time = float(np.asarray(seconds[part]).ravel()[row]) if np.ndim(seconds[part]) else 0.0
            if time > 0 and bytes_ > 0:
                points.append(RooflinePoint(
                    part=name, draft_len=draft_len, flop_per_byte=flops / bytes_, flop_per_s=flops / time
                ))
    picture = RooflinePicture(
        title="", gpu=question.deployment.gpu.name, batch=question.batch[batch],
        context_tokens=question.context_tokens[context], bytes_per_s=hardware.hbm_bytes_per_s, dtype=dtype,
        flop_per_s=hardware.dense_flop_per_s[dtype], points=tuple(points),
    )
    return replace(picture, title=_title(picture))      # the title needs the ridge


def _title(picture: RooflinePicture) -> str:
    gemms = [point for point in picture.points if point.part == "GEMMs"]
    if not gemms:
        return "No GEMMs in the verify pass"
    past = [point.draft_len for point in gemms if point.flop_per_byte >= picture.ridge]
    if not past:
        last = gemms[-1]
        share = last.flop_per_byte / picture.ridge
        return f"Verify GEMMs stay memory-bound to D = {last.draft_len}: {share:.0%} of the ridge at most"
    return f"Verify GEMMs pass the ridge at D = {past[0]}: beyond it drafted tokens cost compute"


def _gemm_work(target: Model, attention_tp: int, tp: int, rows: float) -> tuple[float, float]:
    """FLOP and bytes of all dense GEMMs of the layers on one GPU."""
    flop = moved = 0.0
    for group in target.groups:
        layer = group.layer
        matrices = [*(mixer_matrices(layer.mixer, target.hidden, attention_tp) if layer.mixer is not None else [])]
        matrices += ffn_matrices(layer.ffn, target.hidden, tp) if layer.ffn is not None else []
        for matrix in matrices:
            if matrix.role == "router":
                continue
            dtype = target.weights.attention if matrix.role == "attention" else target.weights.ffn
            flop += group.count * 2.0 * rows * matrix.n * matrix.k
            weights = matrix.n * matrix.k * BYTES_PER_WEIGHT[dtype]
            moved += group.count * (weights + rows * (matrix.n + matrix.k) * ACTIVATION_BYTES)
    return flop, moved


def _attention_work(plan: Plan, batch: float, query_len: float, context: float) -> tuple[float, float] | None:
    """FLOP and cache bytes of attention on one GPU; None where other kinds of mixers are among the layers."""
    question = plan.question
    tp = question.deployment.attention_tp
    flop = 0.0
    for heads, width, seen in _mixers(question.target, tp, context):
        if heads < 0:
            return None
        flop += batch * query_len * heads * seen * 2.0 * width
    moved = batch * float(kv_bytes(question.target, question.deployment.kv_dtype, context, tp=tp))
    return (flop, moved) if flop else None


def _mixers(target: Model, tp: int, context: float) -> Iterator[tuple[float, float, float]]:
    """(heads of all layers of a kind, width of keys and values, tokens seen)."""
    for group in target.groups:
        mixer = group.layer.mixer
        if isinstance(mixer, SoftmaxAttention):
            seen = min(context, mixer.window_tokens) if mixer.window_tokens else context
            yield group.count * local_heads(mixer.query_heads, tp), 2.0 * mixer.head_dim, seen
        elif isinstance(mixer, LatentAttention):
            width = 2.0 * mixer.kv_lora_rank + mixer.rope_head_dim
            yield group.count * local_heads(mixer.query_heads, tp), width, context
        elif mixer is not None:
            yield -1.0, 0.0, 0.0
