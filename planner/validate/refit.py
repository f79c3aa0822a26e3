"""Fit the constants of engine_paths.yaml to published rows, held to their priors, and say what a fit is worth.

`refit` gives constants and three scores: in sample, leave one group out (a new target on a new GPU of a calibrated
engine) and leave one source out (a new publication, often a new engine version). Constants live on a log scale:
value = prior * exp(x), x has the prior's standard deviation; a row counts by ln(predicted / measured speedup) with
0.06 of its own, softly limited; a plain-decoding rate counts by its ln with 0.15 where GPU and TP were stated, once
per set-up. Gauss-Newton on a numerical Jacobian; a constant of one path moves only that path's rows, so that one
evaluation differentiates a constant of all paths at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.config.yaml_reader import load_data
from specplan.planner.fact import fact
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import EnginePath, FixedCost
from specplan.planner.step.ggml import ggml_table
from specplan.planner.validate import scores
from specplan.planner.validate.points import Point
from specplan.planner.validate.pricing import Prices, price, speedup

PRIORS = Path(__file__).parent / "data" / "priors.yaml"
ROW_SD = 0.06
OFF_SD = 0.15
STEP = 0.05         # of ln, for derivatives
ROUNDS = 5
CROWD = 8           # rows of one case beyond this share their weight: cases are not all of one size


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A constant: of one path, or shared (path '')."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Prior:
    """Value before the fit and the standard deviation of its ln."""

    value: float
    sd: float


@fact
class LeftOut:
    """Errors of rows that the fit did not see."""

    kind: str
    folds: int
    all_rows: scores.Errors
    by_fold: Mapping[str, scores.Errors]
    predicted: Array


@fact
class Refit:
    """Fitted constants and their scores."""

    constants: Mapping[Key, float]
    priors: Mapping[Key, Prior]
    before: scores.Errors
    in_sample: scores.Errors
    left_out: tuple[LeftOut, ...]


def read_priors() -> dict[Key, Prior]:
    """Constants that may move."""
    table: Mapping[str, Any] = load_data(PRIORS)
    found = {Key("", name): _prior(entry) for name, entry in table["shared"].items()}
    for path, entries in table["paths"].items():
        found |= {Key(path, name): _prior(entry) for name, entry in entries.items()}
    return found


def _prior(entry: Mapping[str, Any]) -> Prior:
    low, high = (float(end) for end in entry["range"])
    value = float(entry["value"])
    low = max(low, value / 4.0)
    return Prior(value, math.log(high / low) / 3.0)


def with_constants(
    constants: Mapping[Key, float], deployment: Deployment, ggml: Mapping[str, Any] | None = None
) -> Deployment:
    """A deployment whose engine path has these constants (and, for llama.cpp, another table of devices)."""
    path = deployment.path
    mine = {key.name: value for key, value in constants.items() if key.path == path.name}
    changed: dict[str, Any] = {}
    for item in fields(EnginePath):
        if item.name in mine:
            old = getattr(path, item.name)
            new = mine[item.name]
            changed[item.name] = replace(old, value=new) if isinstance(old, FixedCost) else new
    shared = {
        name: replace(cost, value=constants.get(Key("", name), cost.value)) for name, cost in path.shared.items()
    }
    skew = shared["moe_skew"].value
    table = ggml if path.kernels == "ggml" else None
    return replace(deployment, path=replace(path, shared=shared, ggml=table, **changed), moe_skew=skew)


def without_device(name: str) -> dict[str, Any]:
    """The llama.cpp table as if a device had never been measured."""
    table = dict(ggml_table())
    return {**table, "devices": {key: value for key, value in table["devices"].items() if key != name}}


def unmeasured() -> dict[str, Any]:
    """The llama.cpp table before any of its rows: one law for every device."""
    table = dict(ggml_table())
    law = {**table["law"], **load_data(PRIORS)["ggml"]}
    return {**table, "law": law, "devices": {}, "architectures": {}, "formats": {}}


@fact
class Problem:
    """Rows to fit, with their weights; `off` are rows whose plain rate counts as well."""

    points: tuple[Point, ...]
    measured: Array
    weights: Array
    off_measured: Array         # seconds per plain end-to-end step; NaN where it does not count
    off_weights: Array
    keys: tuple[Key, ...]
    priors: tuple[Prior, ...]

    def evaluate(self, x: Array, ggml: Mapping[str, Any] | None = None) -> tuple[Array, Array]:
        """ln predicted speedup and ln plain step of every row."""
        constants = {
            key: prior.value * math.exp(value) for key, prior, value in zip(self.keys, self.priors, x, strict=True)
        }
        prices = price(self.points, lambda deployment: with_constants(constants, deployment, ggml))
        return np.log(speedup(self.points, prices)), np.log(plain_step(self.points, prices))


def plain_step(points: Sequence[Point], prices: Prices) -> Array:
    """Seconds of a plain step with its share of prefill, as throughput tables count it."""
    end = np.array([point.metric == "end_to_end" for point in points])
    share = np.array([point.batch / point.lengths.output_tokens for point in points]) * prices.prefill_s
    return np.asarray(prices.off_s + np.where(end, share, 0.0))


def problem(points: Sequence[Point]) -> Problem:
    """The rows of a fit: quality A and B, AL given, engine path known."""
    rows = tuple(
        p for p in points if p.drafter is not None and p.acceptance_length is not None and p.known_path
        and p.case.quality in ("A", "B") and p.measured.speedup
    )
    priors = read_priors()
    used = {p.deployment.path.name for p in rows}
    keys = tuple(sorted(key for key in priors if key.path in used or not key.path))
    crowd: dict[str, int] = {}
    for p in rows:
        crowd[p.case.name] = crowd.get(p.case.name, 0) + 1
    weights = np.array([min(1.0, CROWD / crowd[p.case.name]) for p in rows])
    off, off_weights = _off(rows)
    return Problem(
        points=rows, measured=np.log([p.measured.speedup or math.nan for p in rows]), weights=weights,
        off_measured=off, off_weights=off_weights, keys=keys, priors=tuple(priors[key] for key in keys),
    )


def _off(rows: Sequence[Point]) -> tuple[Array, Array]:
    """Measured plain steps, once per (case, batch, context), where GPU and TP were stated."""
    seconds, weights = np.full(len(rows), math.nan), np.zeros(len(rows))
    seen: set[tuple[object, ...]] = set()
    for i, p in enumerate(rows):
        key = (p.case.name, p.batch, p.lengths, p.target.name)
        rate = p.measured.off_rate
        if rate is None or key in seen or {"gpu", "shape"} & set(p.inferred) or "tp" in p.assumed:
            continue
        seen.add(key)
        per_user = p.measured.unit == "tokens_per_s_user" or p.deployment.path.engine in ("llama_cpp", "mlx")
        gpus = p.deployment.gpus if p.measured.unit == "tokens_per_s_gpu" else 1
        seconds[i] = 1.0 / rate if per_user else p.batch / (rate * gpus)
        weights[i] = 1.0
    return seconds, weights


@fact
class State:
    """A point of the fit with its derivatives."""

    x: Array
    speedup: Array
    plain: Array
    speedup_slopes: Array       # rows x constants
    plain_slopes: Array


def linearise(task: Problem, x: Array) -> State:
    """Values and derivatives at x."""
    value, plain = task.evaluate(x)
    owners = np.array([p.deployment.path.name for p in task.points])
    trees = np.array([p.tree for p in task.points])
    slopes = np.zeros((len(task.points), len(task.keys)))
    plain_slopes = np.zeros_like(slopes)
    for name in sorted({key.name for key in task.keys}):
        columns = [i for i, key in enumerate(task.keys) if key.name == name]
        moved = x.copy()
        moved[columns] += STEP
        there, plain_there = task.evaluate(moved)
        for i in columns:
            mine = owners == task.keys[i].path if task.keys[i].path else np.ones(len(owners), dtype=bool)
            mine = mine & (trees == name.startswith("tree_"))       # trees fit what only trees cost, and nothing else
            slopes[mine, i] = (there - value)[mine] / STEP
            plain_slopes[mine, i] = (plain_there - plain)[mine] / STEP
    return State(x=x, speedup=value, plain=plain, speedup_slopes=slopes, plain_slopes=plain_slopes)


def step(task: Problem, state: State, keep: Array) -> Array:
    """The constants after one Gauss-Newton step on the rows kept, held to the priors."""
    residual = (task.measured - state.speedup) / ROW_SD
    weights = task.weights * keep / np.sqrt(1.0 + residual**2) / ROW_SD**2
    off = np.nan_to_num((np.log(task.off_measured) - state.plain) / OFF_SD)
    off_weights = task.off_weights * keep / np.sqrt(1.0 + off**2) / OFF_SD**2
    sd = np.array([prior.sd for prior in task.priors])
    left = (state.speedup_slopes.T * weights) @ state.speedup_slopes
    left += (state.plain_slopes.T * off_weights) @ state.plain_slopes
    left += np.diag(1.0 / sd**2)
    right = (state.speedup_slopes.T * weights) @ (residual * ROW_SD)
    right += (state.plain_slopes.T * off_weights) @ (off * OFF_SD) - state.x / sd**2
    return np.asarray(state.x + np.clip(np.linalg.solve(left, right), -0.7, 0.7))


def fit(task: Problem) -> State:
    """All rows."""
    state = linearise(task, np.zeros(len(task.keys)))
    for _ in range(ROUNDS):
        state = linearise(task, step(task, state, np.ones(len(task.points))))
    return state


def left_out(task: Problem, state: State, kind: str, labels: Sequence[str]) -> LeftOut:
    """Errors of each fold predicted by a fit that never saw it (derivatives of the full fit, values fresh)."""
    predicted = np.full(len(labels), math.nan)
    folds: dict[str, scores.Errors] = {}
    names = np.array(labels)
    chain = np.array([not p.tree for p in task.points])
    for label in sorted(set(labels)):
        out = names == label
        llama = {p.deployment.gpu.name for p, mine in zip(task.points, out, strict=True)
                 if mine and p.deployment.path.kernels == "ggml"}
        ggml = None if not llama else without_device(llama.pop()) if len(llama) == 1 else unmeasured()
        mine = replace(state)
        for _ in range(3):
            x = step(task, mine, (~out).astype(float))
            value, plain = task.evaluate(x)
            mine = replace(state, x=x, speedup=value, plain=plain)
        if ggml is not None:    # in its own fold a device is an unknown one
            value, _ = task.evaluate(mine.x, ggml)
            mine = replace(mine, speedup=value)
        predicted[out] = mine.speedup[out]
        both = out & chain
        folds[label] = scores.errors(np.exp(predicted[both]), np.exp(task.measured[both]))
    total = scores.errors(np.exp(predicted[chain]), np.exp(task.measured[chain]))
    return LeftOut(kind=kind, folds=len(folds), all_rows=total, by_fold=folds, predicted=np.exp(predicted))


def refit(points: Sequence[Point]) -> Refit:
    """Fit and score."""
    task = problem(points)
    chain = np.array([not p.tree for p in task.points])
    before, _ = task.evaluate(np.zeros(len(task.keys)))
    state = fit(task)
    groups = [f"{p.target.name} on {p.deployment.gpu.name}, {p.deployment.path.name}" for p in task.points]
    sources = [p.case.file for p in task.points]
    return Refit(
        constants={
            key: prior.value * math.exp(value)
            for key, prior, value in zip(task.keys, task.priors, state.x, strict=True)
        },
        priors=dict(zip(task.keys, task.priors, strict=True)),
        before=scores.errors(np.exp(before[chain]), np.exp(task.measured[chain])),
        in_sample=scores.errors(np.exp(state.speedup[chain]), np.exp(task.measured[chain])),
        left_out=(left_out(task, state, "group", groups), left_out(task, state, "source", sources)),
    )
