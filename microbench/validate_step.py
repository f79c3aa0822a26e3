"""`specplan validate step`: build a decode step in torch, time it over D, B and S, and hold the prediction against it.

The step has the target's layers (fewer than the model's where they would not fit or take long: stated), a real KV
cache, and a drafter whose D passes run before the verify pass. The prediction is the planner's own
`speculative_step`, with a code path that has no engine in it: no host cost, small kernels at the measured launch
floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from specplan.microbench import decode_step
from specplan.microbench.environment import describe, find_device
from specplan.microbench.measurements import Environment
from specplan.microbench.runner import ATTENTION, runner_path, small_kernels_s
from specplan.microbench.step_timing import Built, MeasuredStep, Pace, beside, measure_steps
from specplan.planner.acceptance.curve import Acceptance, acceptance_length
from specplan.planner.answer.resolve import Question, resolve
from specplan.planner.arrays import Array
from specplan.planner.config.load import Overrides, load_config
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.architecture import Model, SoftmaxAttention
from specplan.planner.models.drafter import SERIAL, Drafter
from specplan.planner.models.dtypes import BYTES_PER_ACTIVATION
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.step_time import off_step, speculative_step

DRAFT_LENS = tuple(range(13))
CPU_WEIGHT_CACHES = 3.0     # layers are taken until the weights exceed this many last-level caches
GPU_WEIGHT_BYTES = 8e9      # ... or this size on a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One measured step beside its prediction. `draft_len` None is plain decoding without a drafter."""

    batch: int
    context_tokens: int
    draft_len: int | None
    measured_s: float
    predicted_s: float

    @property
    def error_pct(self) -> float:
        """Signed error of the prediction."""
        return 100.0 * (self.predicted_s / self.measured_s - 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The D that the prediction picks for one cell, the best one by the clock, and what the pick loses."""

    batch: int
    context_tokens: int
    chosen: int | None
    best: int | None
    regret: float               # 1 - value of the chosen / value of the best, by measured times


@dataclass(frozen=True, slots=True, kw_only=True)
class StepValidation:
    """All rows, the choices under the given acceptance (empty without one), and how steady the machine was."""

    rows: tuple[StepRow, ...]
    choices: tuple[Choice, ...]
    layers: int
    model_layers: int
    reference_spread: float     # largest over smallest median of plain decoding between rounds, minus 1
    pace: float | None          # time of the sweep's reference point now / during the sweep; None without a sweep
    notes: tuple[Note, ...] = ()

    @property
    def mean_error_pct(self) -> float:
        """Mean of |error| over all rows."""
        return float(np.mean([abs(row.error_pct) for row in self.rows]))

    @property
    def mean_error_at_pace_pct(self) -> float | None:
        """The same with the device as fast as it was during the sweep; None without a sweep beside the profile."""
        if self.pace is None:
            return None
        return float(np.mean([100.0 * abs(row.predicted_s * self.pace / row.measured_s - 1.0) for row in self.rows]))

    @property
    def mean_regret(self) -> float | None:
        """Mean loss by the predicted choice of D; None without an acceptance."""
        return float(np.mean([choice.regret for choice in self.choices])) if self.choices else None


def validate_step(
    config: Path, *, gpu: str | None = None, device: str | None = None, threads: int | None = None,
    layers: int | None = None, draft_lens: Sequence[int] = DRAFT_LENS, drafter: str | None = None,
    report: Callable[[int, int], None] | None = None,
) -> StepValidation:
    """Measure the configuration's step on this device and compare it with the prediction from profile `gpu`.

    Raises
    ------
    InputError
        A model or drafter that cannot be built, a dtype that the device does not run, batches that do not fit in its
        memory, or faults of the configuration.
    MissingError
        No torch, or no CUDA device.
    """
    found = find_device(device)
    question = resolve(load_config(config, Overrides(gpu=gpu)))
    environment = describe(found, threads=threads)
    dtype = _dtype(question, environment)
    option = next((one for one in question.options if drafter in {None, one.drafter.name, one.drafter.mechanism}
                   and one.drafter.network is not None), None)
    if option is None:
        raise InputError(f"drafters: {_missing(drafter, question)}validate step needs one with a network: a "
                         "draft_model, eagle, eagle3 or mtp")
    network = _buildable(option.drafter, question.target)
    count = layers or _layers_that_fit(question.target, environment)
    target = replace(question.target, groups=(replace(question.target.groups[0], count=count),))
    shape = decode_step.shape_of(question.target, count)
    swept = beside(question.deployment.gpu)
    path = runner_path(small_kernels_s(() if swept is None else swept.timed, question.deployment.gpu,
                                       environment.device))
    deployment = replace(question.deployment, path=path, tp=1, ep=1, pp=1, dp_attention=1,
                         attention_kernel=ATTENTION[environment.device])
    cells = [(batch, tokens) for batch in question.batch for tokens in question.context_tokens]
    drawn = decode_step.shape_of(network, network.layers)
    _check_fits((shape, drawn), cells, max(draft_lens) + 1, dtype, environment)
    bench = Built(target=decode_step.build(shape, environment, dtype),
                   drafter=decode_step.build(drawn, environment, dtype))
    before = Pace.of(question.deployment.gpu, environment)
    measured, spread = measure_steps(bench, cells, draft_lens, report or (lambda _done, _total: None), before)
    rows = tuple(_predicted(target, deployment, replace(option.drafter, network=network, fused_inputs=0), measured))
    choices = () if option.acceptance is None else tuple(_choices(rows, option.acceptance))
    return StepValidation(rows=rows, choices=choices, layers=count, model_layers=question.target.layers,
                          reference_spread=spread, pace=before.ratio(),
                          notes=_notes(environment, option.acceptance, count, question.target.layers, spread))


# ---- what is built -------------------------------------------------------------------------------------------


def _dtype(question: Question, environment: Environment) -> str:
    """The one number format that this step runs in."""
    wanted = {"cpu": ("fp32",), "cuda": ("bf16", "fp16")}[environment.device]
    weights, kv = question.target.weights.ffn, question.deployment.kv_dtype
    if weights not in wanted or kv != weights:
        raise InputError(f"dtypes: validate step on {environment.device} runs weights and cache in "
                         f"{' or '.join(wanted)}, not {weights} and {kv}; state dtypes: {{weights: {wanted[0]}, "
                         f"kv: {wanted[0]}}}")
    return weights


def _buildable(drafter: Drafter, target: Model) -> Model:
    """The drafter's network as this step builds it: the target's number formats, one hidden state in."""
    if drafter.mechanism not in SERIAL or drafter.network is None:
        raise InputError(f"drafters: validate step builds serial drafters ({', '.join(sorted(SERIAL))}), not "
                         f"{drafter.mechanism}")
    decode_step.shape_of(drafter.network, 1)     # refuses what cannot be built
    (group,) = drafter.network.groups
    assert isinstance(group.layer.mixer, SoftmaxAttention)
    layer = replace(group.layer, mixer=replace(group.layer.mixer, inputs=1))
    return replace(drafter.network, weights=target.weights, groups=(replace(group, layer=layer),))


def _missing(drafter: str | None, question: Question) -> str:
    """'none is called ...; ' for a drafter that was asked for and is not there."""
    known = list(dict.fromkeys(name for one in question.options for name in (one.drafter.name, one.drafter.mechanism)))
    if drafter is None or drafter in known:
        return ""
    there = f"there are {', '.join(known)}" if known else "there are none"
    return f"none is called '{drafter}'; {there}{nearest(drafter, known)}; "


def _check_fits(
    shapes: Sequence[decode_step.Shape], cells: Sequence[tuple[int, int]], query_len: int, dtype: str,
    environment: Environment,
) -> None:
    """Refuse cells of which weights, caches and the widest rows of a pass (all q tokens of the batch) lack memory."""
    width = BYTES_PER_ACTIVATION[dtype]
    weights = sum(item.layers * item.hidden * (item.qkv + item.query_heads * item.head_dim
                                               + item.matrices * item.intermediate) + item.vocab * item.hidden
                  for item in shapes)
    faults = []
    for batch, tokens in cells:
        caches = sum(2 * item.layers * batch * item.kv_heads * (tokens + query_len) * item.head_dim for item in shapes)
        rows = batch * query_len * (2 * shapes[0].hidden + max(shapes[0].vocab, shapes[0].qkv,
                                                               shapes[0].matrices * shapes[0].intermediate))
        needed = width * (weights + caches + rows)
        if needed > environment.memory_bytes:
            faults.append(Fault(("workload",), f"batch {batch}, context_tokens {tokens}: does not fit: weights, cache "
                                f"and one pass of {query_len} tokens take {needed / 1e9:.3g} GB, this device has "
                                f"{environment.memory_bytes / 1e9:.3g} GB"))
    if faults:
        raise InputError(faults)


def _layers_that_fit(model: Model, environment: Environment) -> int:
    """As many layers as stay well clear of the cache on a CPU, or of a GPU's memory and the time at hand."""
    shape = decode_step.shape_of(model, 1)
    width = 4.0 if environment.device == "cpu" else 2.0
    each = width * shape.hidden * (shape.qkv + shape.query_heads * shape.head_dim + shape.matrices * shape.intermediate)
    wanted = CPU_WEIGHT_CACHES * environment.cache_bytes if environment.device == "cpu" else min(
        GPU_WEIGHT_BYTES, 0.3 * environment.memory_bytes)
    return min(model.layers, max(1, math.ceil(wanted / each)))


# ---- prediction ----------------------------------------------------------------------------------------------


def _predicted(
    target: Model, deployment: Deployment, drafter: Drafter, measured: Sequence[MeasuredStep]
) -> Iterator[StepRow]:
    for item in measured:
        if item.draft_len is None:
            seconds = off_step(target, deployment, item.batch, item.context_tokens).step_s
        else:
            seconds = speculative_step(target, deployment, drafter, item.draft_len, item.batch, item.context_tokens
                                       ).step_s
        yield StepRow(batch=item.batch, context_tokens=item.context_tokens, draft_len=item.draft_len,
                      measured_s=item.seconds, predicted_s=float(np.asarray(seconds).reshape(())))


def _choices(rows: Sequence[StepRow], acceptance: Acceptance) -> Iterator[Choice]:
    """Per cell: D by predicted tokens per second, D by measured ones, and the measured loss of the first.

    D = 0 is plain decoding here (no host, no idle drafter), so it is no choice of its own.
    """
    cells = dict.fromkeys((row.batch, row.context_tokens) for row in rows)
    for batch, tokens in cells:
        mine = [row for row in rows if (row.batch, row.context_tokens) == (batch, tokens) and row.draft_len != 0]
        lengths: Array = acceptance_length(acceptance, np.array([float(row.draft_len or 0) for row in mine]))
        predicted = [float(length) / row.predicted_s for length, row in zip(lengths, mine, strict=True)]
        measured = [float(length) / row.measured_s for length, row in zip(lengths, mine, strict=True)]
        chosen, best = int(np.argmax(predicted)), int(np.argmax(measured))
        yield Choice(batch=batch, context_tokens=tokens, chosen=mine[chosen].draft_len, best=mine[best].draft_len,
                     regret=1.0 - measured[chosen] / measured[best])


def _notes(
    environment: Environment, acceptance: Acceptance | None, layers: int, model_layers: int, spread: float
) -> tuple[Note, ...]:
    notes = [Note("environment", note) for note in environment.notes]
    if layers < model_layers:
        notes.append(Note("scaled-layers", f"{layers} of the model's {model_layers} layers were built and predicted"))
    if acceptance is None:
        notes.append(Note("no-acceptance", "no acceptance in the configuration: the regret of the chosen D is unknown"))
    if spread > 0.10:
        notes.append(Note("unstable-machine", f"plain decoding differed by up to {spread:.0%} from round to "
                                              "round: something else ran beside it"))
    return tuple(notes)


