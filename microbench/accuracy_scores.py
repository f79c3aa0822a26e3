"""Scores of fitted kernels on rows that no fit saw, beside a roofline and the priors; extrapolation; tile edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specplan.microbench.fit import fit_candidate, relative_error, too_little
from specplan.microbench.fit_limits import roofline_s
from specplan.microbench.fit_predict import TIMES, model_of
from specplan.microbench.fit_rows import Mask, Slice, column_of, subsample
from specplan.microbench.fit_system import Fitted, Unfitted, prepared
from specplan.microbench.fit_target import Candidate, Target, Within
from specplan.planner.arrays import Array
from specplan.planner.kernels import select
from specplan.planner.kernels.entries import GpuProfile, Hardware
from specplan.planner.messages import InputError

Record = dict[str, Any]     # one line of scores.json

EDGES = (64, 128, 256)
EDGE_SHAPE = 2048           # N and K from which the step at an edge is read
NOISE_ROWS = (9, 15)        # no kernel has a tile edge in there: what spreads is noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    """Fit on rows inside a limit, score on rows beyond another."""

    name: str
    families: frozenset[str]
    train: Callable[[Slice, Target], Mask]
    test: Callable[[Slice, Target], Mask]
    drop: str = ""          # a filter of the target that would hide the rows to test


def records(results: Iterable[Fitted | Unfitted], hardware: Hardware, raw: Mapping[str, Slice]) -> list[Record]:
    """One record per slice; `raw` has the rows before any filter, by slice name, for tests beyond the fitted range."""
    told = []
    for item in results:
        base = {"gpu": hardware.name, "family": item.rows.family, "engine": item.rows.engine,
                "version": item.rows.version, "measured_as": item.rows.kernel, "id": item.target.id,
                "key": dict(item.target.key), "rows": len(item.rows)}
        if isinstance(item, Unfitted):
            told.append({**base, "unfitted": item.reason})
        elif item.scores:
            told.append({**base, **_scores(item, hardware), **_beyond(item, hardware, raw[item.rows.name])})
    return told


def _scores(item: Fitted, hardware: Hardware) -> Record:
    middle = item.median_split
    size = np.abs(middle.error_pct)
    record: Record = {
        "form": item.entry.form, "quality": item.entry.evidence.quality, "held": list(item.held),
        "n": len(size), "splits": [_pct(scored.error_pct) for scored in item.scores.values()],
        "median": _round(np.median(size)), "mean": _round(np.mean(size)), "p90": _round(np.percentile(size, 90)),
        "roofline": _pct(relative_error(roofline_s(middle.rows, item.target, hardware), middle.rows.time_s)),
    }
    prior = prior_s(middle.rows, item.target, hardware, item.table_skew)
    if prior is not None:
        record["prior"] = _pct(relative_error(prior, middle.rows.time_s))
    if item.rows.family == "moe":
        few = middle.rows.columns["tokens"] <= 2
        record["few_tokens"] = {"n": int(few.sum()), "mean": _pct(middle.error_pct[few]),
                                "bias": _round(np.median(middle.error_pct[few]))}
    if item.rows.family == "gemm":
        record["noise"] = _noise(item.rows)
    if item.entry.form == "tile_wave":
        record["edges"] = _edges(item, hardware)
    return record


def prior_s(rows: Slice, target: Target, hardware: Hardware, skew: float) -> Array | None:
    """Seconds by the planner's prior for a GPU without kernels: datasheet rates times typical shares."""
    bare = GpuProfile(name=hardware.name, hardware=hardware)
    engine, key = rows.engine, target.key
    try:
        kernel: Any = None
        if rows.family == "attention":
            kernel = select.attention_kernel(bare, engine, head_dim=int(key["head_dim"]), kv_dtype=str(key["kv_dtype"]),
                                             override=target.id.partition("-")[2])
        elif rows.family == "gemm":
            kernel = select.gemm_kernel(bare, engine, weight_dtype=str(key["weight_dtype"]))
        elif rows.family == "moe":
            kernel = select.moe_kernel(bare, engine, weight_dtype=str(key["weight_dtype"]), gated=bool(key["gated"]))
        elif rows.family == "mla":
            kernel = select.mla_kernel(bare, engine, kv_dtype=str(key["kv_dtype"]))
        elif rows.family == "recurrent":
            made = select.recurrent_kernel(bare, engine, kind=key["kind"],  # type: ignore[arg-type]
                                           verify=key["phase"] == "verify")
            kernel = dataclasses.replace(made, conv_s=0.0)
        elif rows.family == "sparse":
            kernel = select.sparse_kernel(bare, engine, kind=key["kind"])  # type: ignore[arg-type]
    except InputError:
        return None
    return None if kernel is None else TIMES[rows.family](kernel, rows, False, skew)


def _beyond(item: Fitted, hardware: Hardware, raw: Slice) -> Record:
    """Extrapolation scores of this slice: mean and median signed error in percent, by test."""
    if item.rows.family not in ("attention", "gemm", "moe"):
        return {}
    found = {}
    for test in EXTRAPOLATIONS:
        if item.rows.family in test.families:
            score = extrapolate(raw, item.target, _candidate(item), hardware, test)
            if score is not None:
                found[test.name] = score
    return {"beyond": found} if found else {}


def extrapolate(
    raw: Slice, target: Target, candidate: Candidate, hardware: Hardware, test: Extrapolation
) -> dict[str, float | None] | None:
    """Mean and bias in percent where the model was never fitted, or None where the rows do not reach so far."""
    keep = {reason: rule for reason, rule in target.keep.items() if not test.drop or test.drop not in reason}
    rows = prepared(raw, dataclasses.replace(target, keep=keep), hardware)
    inside, outside = rows.take(test.train(rows, target)), rows.take(test.test(rows, target))
    if len(outside) < MIN_BEYOND or too_little(inside, target) is not None:
        return None
    fit = fit_candidate(subsample(inside), target, candidate, hardware, l2_warm=True)
    predicted = model_of(target, candidate, rows, hardware, l2_warm=True)(fit.numbers, outside)
    error = relative_error(predicted, outside.time_s)
    return {"n": len(error), "mean": _pct(error), "bias": _round(np.median(error))}


MIN_BEYOND = 20


def _candidate(item: Fitted) -> Candidate:
    """The variant of the equation that was chosen for this slice."""
    numbers = item.entry.parameters
    return next(c for c in item.target.candidates if c.form == item.entry.form
                and all(numbers.get(name) == value for name, value in c.fixed.items()) and set(c.free) <= {
                    *numbers, "table_skew"})


def _kv_bytes(rows: Slice, target: Target) -> Array:
    c = rows.columns
    width = 2.0 * float(target.key["head_dim"]) * (2.0 if target.key["kv_dtype"] == "bf16" else 1.0)
    return c["batch"] * c["context_tokens"] * c["kv_heads"] * width


def _within(column: str, low: float = -np.inf, high: float = np.inf) -> Callable[[Slice, Target], Mask]:
    rule = Within(column, low=low, high=high)
    return lambda rows, _: rule(rows)


def _powers_of_two(rows: Slice) -> Mask:
    exponent = np.log2(rows.columns["rows"])
    return np.asarray(exponent == np.rint(exponent))


_ATTENTION, _GEMM, _MOE = frozenset({"attention"}), frozenset({"gemm"}), frozenset({"moe"})
EXTRAPOLATIONS: tuple[Extrapolation, ...] = (
    Extrapolation(name="S <= 8k -> S >= 32k", families=_ATTENTION, train=_within("context_tokens", high=8192),
                  test=_within("context_tokens", low=32768)),
    Extrapolation(name="G <= 16 -> G >= 32", families=_ATTENTION, train=_within("group_size", high=16),
                  test=_within("group_size", low=32)),
    Extrapolation(name="KV <= 268 MB -> > 500 MB", families=_ATTENTION,
                  train=lambda rows, target: np.asarray(_kv_bytes(rows, target) <= 268.5e6),
                  test=lambda rows, target: np.asarray(_kv_bytes(rows, target) > 500e6)),
    Extrapolation(name="M powers of two -> others", families=_GEMM, train=lambda rows, _: _powers_of_two(rows),
                  test=lambda rows, _: ~_powers_of_two(rows)),
    Extrapolation(name="M <= 1024 -> 1025 to 8192", families=_GEMM, train=_within("rows", high=1024),
                  test=_within("rows", low=1025, high=8192), drop="more than 1024 rows"),
    Extrapolation(name="T <= 256 -> 512 to 4096", families=_MOE, train=_within("tokens", high=256),
                  test=_within("tokens", low=512, high=4096), drop="more than 2048 tokens"),
)


def _edges(item: Fitted, hardware: Hardware) -> dict[str, list[float]]:
    """t(m + 1) / t(m) at each tile edge: measured median over shapes, and predicted."""
    rows = item.rows.take((item.rows.columns["n"] >= EDGE_SHAPE) & (item.rows.columns["k"] >= EDGE_SHAPE))
    numbers = {name: item.entry.parameters[name] for name in _candidate(item).free}
    predicted = model_of(item.target, _candidate(item), rows, hardware, l2_warm=True)(numbers, rows)
    found = {}
    for edge in EDGES:
        measured, modelled = _step(rows, rows.time_s, edge), _step(rows, predicted, edge)
        if measured is not None and modelled is not None:
            found[str(edge)] = [measured, modelled]
    return found


def _step(rows: Slice, seconds: Array, edge: int) -> float | None:
    shape = rows.columns["n"] * 1e6 + rows.columns["k"]
    at, after = (rows.columns["rows"] == edge), (rows.columns["rows"] == edge + 1)
    common, first, second = np.intersect1d(shape[at], shape[after], return_indices=True)
    return None if not len(common) else _round(np.median(seconds[after][second] / seconds[at][first]), 3)


def _noise(rows: Slice) -> float | None:
    """Mean spread in percent between neighbouring row counts that share all tiles: no smooth model can beat it."""
    inside = rows.take(Within("rows", low=NOISE_ROWS[0], high=NOISE_ROWS[1])(rows))
    shape = column_of(inside, "n") * 1e6 + column_of(inside, "k")
    spread = [np.mean(np.abs(inside.time_s[shape == key] / np.median(inside.time_s[shape == key]) - 1))
              for key in np.unique(shape) if np.count_nonzero(shape == key) >= 3]
    return _round(100 * np.mean(spread)) if spread else None


def _pct(error: Array) -> float | None:
    return _round(np.mean(np.abs(error))) if len(error) else None


def _round(value: Any, digits: int = 1) -> float:
    return round(float(value), digits)
