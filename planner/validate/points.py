"""A published row as specplan understands it: what ran, at which point, what was measured, what had to be assumed.

`resolve_case` turns each row into a `Point`, or into a `Refusal` that says what is missing. Nothing is dropped
silently, and what was not stated is listed on the point: `inferred` (a GPU, a shape, a path somebody guessed: scored
with and without) or `assumed` (typical lengths of a data set, a block size from a drafter's name).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from specplan.planner.fact import fact
from specplan.planner.kernels.profile import GpuProfile, load_gpu
from specplan.planner.messages import InputError
from specplan.planner.models.architecture import Model, MoeFfn
from specplan.planner.models.drafter import LOOKUP, Drafter
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import EnginePath, engine_path
from specplan.planner.validate import names
from specplan.planner.validate.annotations import Annotations
from specplan.planner.validate.collection import Case, Refusal, number
from specplan.planner.validate.drafters import row_drafter
from specplan.planner.validate.lengths import Lengths, row_lengths
from specplan.planner.validate.measured import Measured, accepted, draft_len, measured, refusal_of_row
from specplan.planner.validate.targets import row_target

Metric = Literal["decode", "end_to_end"]
DECODE_ENGINES = {"llama_cpp", "mlx", "tilert", "transformers"}     # their figures are single-stream decode rates


@fact
class Point:
    """One scored row (or an off row with a rate, where `drafter` is None)."""

    case: Case
    row: int
    target: Model
    deployment: Deployment
    drafter: Drafter | None
    group: str                      # rows of one group differ in D, batch, lengths and AL only
    draft_len: int
    verified_tokens: float | None   # None: 1 + D
    branches: int
    batch: float
    lengths: Lengths
    metric: Metric
    acceptance_length: float | None
    acceptance_form: str            # acceptance_length | per_position | rate | library | none
    measured: Measured
    inferred: tuple[str, ...]
    assumed: tuple[str, ...]
    length_range: tuple[float, float] | None = None     # 90 % of AL, where it is an estimate

    @property
    def tree(self) -> bool:
        """Whether a tree was verified instead of a chain."""
        return self.branches > 1 or (self.verified_tokens or 0) > self.draft_len + 1

    @property
    def moe(self) -> bool:
        """Whether the target routes tokens to experts."""
        return any(isinstance(group.layer.ffn, MoeFfn) for group in self.target.groups)

    @property
    def mechanism(self) -> str:
        """Mechanism; 'off' without a drafter."""
        return "off" if self.drafter is None else self.drafter.mechanism

    @property
    def known_path(self) -> bool:
        """Whether the engine path has constants of its own."""
        return self.deployment.path.name != "generic"


class _MissingError(Exception):
    """Why a row cannot be resolved."""


def resolve_case(case: Case, notes: Annotations) -> tuple[tuple[Point, ...], tuple[Refusal, ...]]:
    """All rows of a case: points, and refusals with reasons."""
    points: list[Point] = []
    refused: list[Refusal] = []
    for index, row in enumerate(case.rows):
        if not row:
            continue        # refused when the file was read
        try:
            points.append(_point(case, index, row, notes))
        except _MissingError as why:
            refused.append(Refusal(file=case.file, case=case.name, row=index, reason=str(why)))
        except InputError as error:
            reason = "; ".join(str(fault) for fault in error.faults)
            refused.append(Refusal(file=case.file, case=case.name, row=index, reason=reason))
    return tuple(points), tuple(refused)


def _point(case: Case, index: int, row: Mapping[str, Any], notes: Annotations) -> Point:
    if reason := refusal_of_row(case, row):
        raise _MissingError(reason)
    inferred: list[str] = []
    assumed: list[str] = []
    mechanism = _mechanism(case, row)
    drafted = 0 if mechanism == "off" else draft_len(case, row, mechanism, assumed)
    if drafted is None:
        raise _MissingError("draft length is not stated")
    if drafted < 0:
        raise _MissingError(f"draft length {drafted} is impossible")
    found = measured(case, row, index)
    if isinstance(found, str):
        raise _MissingError(found)
    target, shape = row_target(case, row, notes)
    if target is None:
        raise _MissingError(shape)
    if shape == "inferred":
        inferred.append("shape")
    deployment, path_inferred = _deployment(case, row, notes, target, inferred, assumed)
    inferred += path_inferred
    batch = case.number("batch", row)
    if batch is None:
        raise _MissingError("batch is not stated")
    if batch <= 0:
        raise _MissingError(f"batch {batch:g} is impossible")
    drafter = None
    if mechanism != "off" and drafted > 0:
        drafter = row_drafter(case, row, mechanism, target, inferred, assumed)
    verified, branches = _tree(case, row, drafted, mechanism)
    tree = branches > 1 or (verified or 0) > drafted + 1
    length, form = accepted(row, drafted, tree=tree, lookup=mechanism in LOOKUP)
    if isinstance(length, str):
        raise _MissingError(length)
    lengths = row_lengths(case, row, notes, assumed)
    name = "off" if drafter is None else f"{drafter.mechanism}:{drafter.name}:{_layers(drafter)}"
    weights = target.weights
    group = "|".join((
        target.name, str(weights), deployment.gpu.name, deployment.path.name, str(deployment.tp), str(deployment.ep),
        str(deployment.pp), deployment.kv_dtype, str(deployment.power_limit_w), name,
    ))
    return Point(
        case=case, row=index, target=target, deployment=deployment, drafter=drafter, group=group, draft_len=drafted,
        verified_tokens=verified, branches=branches, batch=batch, lengths=lengths,
        metric=_metric(case, row, deployment.path, notes), acceptance_length=length, acceptance_form=form,
        measured=found, inferred=tuple(dict.fromkeys(inferred)), assumed=tuple(dict.fromkeys(assumed)),
    )


def _layers(drafter: Drafter) -> int:
    return 0 if drafter.network is None else drafter.network.layers


def _mechanism(case: Case, row: Mapping[str, Any]) -> str:
    if number(row.get("D")) == 0 or row.get("cfg") in ("none", "off", "no speculation", "baseline"):
        return "off"
    texts = (str(row.get("mechanism") or ""), str(row.get("cfg") or ""), str(row.get("drafter") or ""),
             case.text("mechanism"), case.text("drafter"))
    found = names.mechanism_name(*texts)
    if found is None:
        raise _MissingError(f"mechanism is not clear from '{case.text('mechanism')}'")
    return found


def _tree(case: Case, row: Mapping[str, Any], drafted: int, mechanism: str) -> tuple[float | None, int]:
    """Verified tokens per sequence (None: 1 + D) and tokens kept per level of a tree."""
    branches = int(number(row.get("topk")) or 1)
    words = f"{case.text('mechanism')} {row.get('cfg') or ''}".lower()
    said_tree = "tree" in words and mechanism in ("eagle", "eagle3")
    text = f"{row.get('cfg') or ''} | {case.text('drafter')}"
    if said_tree and "topk" not in row:
        branches = names.first_number((r"topk\s*=?\s*(\d+)",), text) or branches
        if branches == 1 and "vs chain" in case.text("mechanism"):
            return None, 1
    nodes = number(row.get("verify_tokens"))
    if nodes is None and (branches > 1 or said_tree):
        found = names.first_number((r"(\d+)\s*(?:verify\s*|draft\s*)?(?:tokens|nodes)",), text)
        nodes = None if found is None else float(found)
        if nodes is None:
            raise _MissingError("a tree without its number of verified tokens")
    if nodes is not None and nodes != drafted + 1:
        return nodes, max(branches, 2 if said_tree else 1)
    return None, branches


def _deployment(
    case: Case, row: Mapping[str, Any], notes: Annotations, target: Model, inferred: list[str], assumed: list[str]
) -> tuple[Deployment, list[str]]:
    stated = names.gpu_text(case.text("gpu", row))
    if stated.several:      # 'RTX 5090 / H200': the row says which
        stated = names.gpu_text(str(row.get("cfg") or ""))
    said = notes.hardware_of(case, case.text("target", row)) if stated.profile is None else {}
    profile = stated.profile
    if profile is None and "gpu" in said:
        profile = names.Named(str(said["gpu"]), "inferred" if said.get("kind") == "inferred" else "exact")
    if profile is None:
        raise _MissingError(f"no profile for GPU '{case.text('gpu', row)}'")
    if profile.kind == "inferred":
        inferred.append("gpu")
    gpu: GpuProfile = load_gpu(profile.name, allow_preliminary=True)
    tp = _count(case, row, "tp")
    gpus = tp if isinstance(case.fields.get("n_gpus"), str) else _count(case, row, "n_gpus") or stated.count
    if tp is None:
        tp = _annotated_tp(said, case.text("target", row)) or gpus
        if tp is None:
            tp = 1
            assumed.append("tp")
    path, path_inferred = _path(case, row, notes)
    kv = names.kv_format(case.text("kv_dtype", row)) or target.kv_dtype or "bf16"
    pp = max(1, (gpus or tp) // tp) if path.engine in ("llama_cpp", "mlx") else 1
    deployment = Deployment(
        gpu=gpu, path=path, tp=tp, ep=_count(case, row, "ep") or 1, pp=pp, kv_dtype=kv,
        moe_skew=path.constant("moe_skew"), power_limit_w=stated.power_limit_w,
    )
    return deployment, path_inferred


def _count(case: Case, row: Mapping[str, Any], key: str) -> int | None:
    """A whole number of GPUs from the row, its configuration ('TP8'), or the case."""
    if key in row and number(row[key]) is not None:
        return int(number(row[key]) or 1)
    if found := re.search(rf"\b{key.replace('n_gpus', 'x')}\s*=?(\d+)\b", str(row.get("cfg") or "").lower()):
        return int(found[1])
    value = case.fields.get(key)
    if isinstance(value, str):
        if len(re.findall(r"\d+", value)) > 1:
            raise _MissingError(f"{key} is '{value}': which one is not clear")
        value = number(value)
    found_number = number(value)
    return None if found_number is None or found_number < 1 else int(found_number)


def _annotated_tp(said: Mapping[str, Any], target: str) -> int | None:
    tp = said.get("tp")
    if isinstance(tp, Mapping):
        key = names.slug(target)[0]
        tp = next((value for name, value in tp.items() if names.slug(str(name))[0] == key), None)
    found = number(tp)
    return None if found is None else int(found)


def _path(case: Case, row: Mapping[str, Any], notes: Annotations) -> tuple[EnginePath, list[str]]:
    said = names.engine_text(case.text("engine", row))
    annotated = notes.path_of(case)
    if said.engine is None:
        if annotated is None:
            return engine_path("generic"), ["engine"]
        return engine_path(annotated), ["engine"]
    if annotated is not None:
        path = engine_path(annotated)
        if path.engine == said.engine:
            return path, []
    if said.path is not None:
        return engine_path(said.path), []
    return engine_path(said.engine, said.version), []


def path_of_case(case: Case) -> EnginePath:
    """Engine path of a case by its own words."""
    return _path(case, {}, Annotations())[0]


def _metric(case: Case, row: Mapping[str, Any], path: EnginePath, notes: Annotations) -> Metric:
    """Whether a figure is a pure decode rate, or a throughput that includes prefills of new requests.

    Stated by the annotations, else: per-token times and per-user rates are decode; so is what llama.cpp-class
    engines, TileRT and Hugging Face loops print, and a table that names no serving engine; a throughput of a serving
    engine is end to end.
    """
    stated = notes.metric_of(case)
    if stated is not None:
        return "decode" if stated == "decode" else "end_to_end"
    text = case.text("primary_metric").lower()
    rows = {"tpot_ms", "tokens_per_s_user", "step_ms", "step_s"}
    if rows & set(row) or re.search(r"per user|decode|tpot|step time|step-time|single stream|step\b", text):
        return "decode"
    if path.engine in DECODE_ENGINES or path.name == "generic" or not case.text("engine"):
        return "decode"
    return "end_to_end"

