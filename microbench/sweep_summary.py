"""A sweep told to a person: what it ran on, how well each kernel's equation holds, prediction beside measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from specplan.microbench.fit_predict import model_of
from specplan.microbench.fit_profile import FitReport
from specplan.microbench.fit_rows import Slice
from specplan.microbench.fit_system import Fitted
from specplan.microbench.fit_target_matrix import TABLE_SKEW
from specplan.microbench.measurements import Environment, Measurement, Measurements, by_op
from specplan.microbench.runner import SMALL_KERNELS, draft_step_s, launch_floor_s, small_kernels_s
from specplan.planner.arrays import Array
from specplan.planner.kernels.entries import Hardware
from specplan.planner.messages import InputError, Note

WORST_SHOWN = 3     # shapes per kernel, those that the equation misses most


def summary(measured: Measurements, fit: FitReport, notes: Sequence[Note]) -> str:
    """The text of summary.txt."""
    lines = [*_header(measured.environment), "", *_rates(measured.timed), ""]
    for fitted in fit.fitted:
        lines += [*_kernel(fitted, fit.profile.hardware), ""]
    lines += [f"no equation: {item.rows.name} ({len(item.rows)} points): {item.reason}" for item in fit.unfitted]
    lines += _draft_steps(measured, fit)
    lines += _warm(measured.timed)
    lines += _skipped(measured.skipped)
    lines += [f"note: {note.message}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def _header(environment: Environment) -> list[str]:
    parts = [environment.device_name, f"torch {environment.torch}"]
    versions = {"triton": environment.triton, "driver": environment.driver}
    parts += [f"{name} {value}" for name, value in versions.items() if value]
    parts += [f"{environment.threads} threads"] if environment.threads else []
    kind = "" if environment.device == "cuda" else "  (a CPU: checks the pipeline, says nothing about a GPU)"
    return ["  ".join(parts) + kind]


def _rates(points: Iterable[Measurement]) -> list[str]:
    """Best bytes and FLOP per second by op."""
    best: dict[str, Measurement] = {}
    for point in points:
        if point.cold and (point.op not in best or point.bytes_per_s > best[point.op].bytes_per_s):
            best[point.op] = point
    lines = []
    for op, point in best.items():
        if op == "launch":
            lines.append(f"{op:10} {point.median_s * 1e6:9.2f} us")
        else:
            lines.append(f"{op:10} {point.bytes_per_s / 1e9:9.1f} GB/s at best ({point.kernel})")
    return lines


def _kernel(fitted: Fitted, hardware: Hardware) -> list[str]:
    """One kernel: error on held-out points, numbers, and the points that its equation misses most."""
    entry, rows = fitted.entry, fitted.rows
    evidence = entry.evidence
    key = " ".join(f"{name}={value}" for name, value in entry.key.items())
    head = f"{entry.id} {key}: {len(rows)} points"
    if evidence.error_mean_pct is not None:
        head += f", held out {evidence.error_mean_pct:g} % mean, {evidence.error_p90_pct:g} % p90 ({evidence.quality})"
    lines = [head]
    if rows.family == "allreduce":
        return lines
    lines.append("  " + "  ".join(_number(fitted, name, value) for name, value in entry.parameters.items()))
    predicted = predict(fitted, rows, hardware)
    error = 100.0 * (predicted / rows.time_s - 1.0)
    lines.append(f"  all points: {np.mean(np.abs(error)):.1f} % mean, bias {np.median(error):+.1f} %")
    for index in np.argsort(-np.abs(error))[:WORST_SHOWN]:
        shape = " ".join(f"{name}={column[index]:g}" for name, column in rows.columns.items()
                         if name not in {"tp", "ep", "routing_skew"})
        lines.append(f"  {shape}: measured {_time(rows.time_s[index])}, predicted {_time(predicted[index])} "
                     f"({error[index]:+.0f} %)")
    return lines


def _number(fitted: Fitted, name: str, value: float) -> str:
    """A number with its standard error; or marked, where the points cannot tell it."""
    error = fitted.entry.evidence.parameter_error_pct.get(name)
    note = " (prior: not told)" if name in fitted.held else "" if error is None else f" +-{error:g} %"
    return f"{name}={value:.3g}{note}"


def predict(fitted: Fitted, rows: Slice, hardware: Hardware) -> Array:
    """Seconds of rows by a fitted entry."""
    entry = fitted.entry
    candidate = next(item for item in fitted.target.candidates if item.form == entry.form
                     and all(entry.parameters.get(name) == value for name, value in item.fixed.items()))
    numbers = {name: entry.parameters[name] for name in candidate.free if name != TABLE_SKEW}
    if TABLE_SKEW in candidate.free:
        numbers[TABLE_SKEW] = fitted.table_skew
    return model_of(fitted.target, candidate, rows, hardware, l2_warm=False)(numbers, rows)


def _time(seconds: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(seconds * 1e6))) if seconds > 0 else 0
    return f"{seconds * 1e6:.{digits}f} us"


def _draft_steps(measured: Measurements, fit: FitReport) -> list[str]:
    """Whole passes of a drafter beside the sum of their kernels by the new profile: no fit has seen them."""
    points, device = by_op(measured.timed, "draft_step"), measured.environment.device
    small_s = SMALL_KERNELS * launch_floor_s(measured.timed)
    lines = []
    for point in points:
        shape = " ".join(f"{name}={point.shape[name]}" for name in ("layers", "hidden", "batch", "context_tokens"))
        try:
            predicted = draft_step_s(point, fit.profile, device=device, small_s=small_s)
        except InputError as error:
            return [f"draft step {shape}: measured {_time(point.median_s)}, not predicted: {error}"]
        lines.append(f"draft step {shape}: measured {_time(point.median_s)}, predicted {_time(predicted)} "
                     f"({100 * (predicted / point.median_s - 1):+.0f} %)")
    if lines:
        told_s = small_kernels_s(measured.timed, fit.profile, device)
        lines.append(f"small kernels of a layer: {_time(small_s)} as launches alone, so predicted above; "
                     f"{_time(told_s)} by these passes, which validate step takes")
    return lines


def _warm(points: Sequence[Measurement]) -> list[str]:
    """The same call with its operands left in the cache: what tables that loop on one buffer show, and plans do not."""
    cold = {point.key: point for point in points if point.cold}
    lines = []
    for point in points:
        twin = cold.get(point.key.removesuffix("warm") + "cold")
        if not point.cold and twin is not None:
            shape = " ".join(f"{name}={value}" for name, value in point.shape.items())
            lines.append(f"operands in cache: {point.kernel} {shape}: {_time(point.median_s)} warm, "
                         f"{_time(twin.median_s)} cold ({twin.median_s / point.median_s:.2f} times)")
    return lines


def _skipped(points: Sequence[Measurement]) -> list[str]:
    """Kernels and sizes that were left out, by reason."""
    reasons: dict[tuple[str, str], int] = {}
    for point in points:
        key = (point.kernel, str(point.skipped))
        reasons[key] = reasons.get(key, 0) + 1
    return [f"skipped: {kernel} ({count} points): {reason}" for (kernel, reason), count in sorted(reasons.items())]
