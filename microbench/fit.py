"""Robust fits of a kernel's numbers to its measured rows: log residuals, soft loss, priors, honest refusals.

A fit finds the numbers of one timing equation (and which of a few variants of it) from rows that cover the shapes.
What the rows cannot tell is held at its prior and named; too few or one-sided rows are refused with what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specplan.microbench.fit_predict import Model, model_of
from specplan.microbench.fit_rows import Slice, group_labels, subsample
from specplan.microbench.fit_target import Candidate, Free, Target
from specplan.microbench.fit_target_matrix import TABLE_SKEW
from specplan.planner.arrays import Array
from specplan.planner.kernels.entries import Hardware
from specplan.planner.messages import InputError

ROWS_PER_NUMBER = 4         # fewer rows per free number are unstable (kernels.md, section 5: 16 for 4 numbers)
LOSS_SCALE = 0.1            # residuals beyond 10 % count linearly, so that outliers cannot steer a fit
UNKNOWN = 1.0               # a number whose standard error exceeds itself (or its prior) is not known
SEES = 1e-3                 # of the largest derivative by a number: a row below that does not tell it
JUDGED_BY = 10              # fewer shape groups than this say nothing about their own spread
MAX_EVALUATIONS = 300
TOLERANCE = 1e-10           # tight, so that rounding to three digits gives the same digits everywhere

SPANS: Mapping[str, Mapping[str, float]] = {
    # largest over smallest value that a column must cover, or the rows see one side of the equation only
    "attention": {"context_tokens": 8.0, "batch": 4.0},
    "gemm": {"rows": 16.0, "k": 3.0},
    "moe": {"tokens": 16.0},
    "mla": {"context_tokens": 8.0, "batch": 4.0},
    "recurrent": {"batch": 4.0},
    "sparse": {"batch": 4.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Numbers of one equation. `error_pct` is one standard deviation; `held` names those left at their prior.

    `edge` names those at the edge of what is plausible: the rows would have them beyond it.
    """

    candidate: Candidate
    numbers: Mapping[str, float]
    error_pct: Mapping[str, float]
    held: tuple[str, ...]
    edge: tuple[str, ...]
    loss: float
    rows: int


def too_little(rows: Slice, target: Target) -> str | None:
    """What these rows lack for a fit of this target, as a sentence; None where they suffice."""
    numbers = max((len(candidate.free) for candidate in target.candidates), default=0)
    needed = ROWS_PER_NUMBER * numbers
    if len(rows) < needed:
        return f"{len(rows)} rows; needs at least {needed} ({ROWS_PER_NUMBER} per number to fit)"
    for column, ratio in SPANS.get(rows.family, {}).items():
        low, high = float(rows.columns[column].min()), float(rows.columns[column].max())
        if high < ratio * low:
            return (f"one-sided: {column} from {low:g} to {high:g}; needs a range of {ratio:g}, "
                    f"such as {low:g} to {low * ratio:g}")
    return None


def fit_slice(rows: Slice, target: Target, hardware: Hardware, *, l2_warm: bool) -> Fit:
    """The best of the target's equations on these rows; ties go to the first.

    Raises
    ------
    InputError
        Too few rows, or rows that cover one side only.
    """
    lack = too_little(rows, target)
    if lack is not None:
        raise InputError(f"{rows.name}: {lack}")
    sample = subsample(rows)
    fits = [fit_candidate(sample, target, candidate, hardware, l2_warm=l2_warm) for candidate in target.candidates]
    return min(fits, key=lambda fit: fit.loss)


def fit_candidate(rows: Slice, target: Target, candidate: Candidate, hardware: Hardware, *, l2_warm: bool) -> Fit:
    """One equation fitted; numbers that the rows cannot tell are held at their priors and the rest fitted again."""
    model = model_of(target, candidate, rows, hardware, l2_warm=l2_warm)
    held: tuple[str, ...] = ()
    while True:
        free = {name: item for name, item in candidate.free.items() if name not in held}
        fixed = {name: candidate.free[name].prior for name in held}
        starts = [{}, *({name: value} for name, item in free.items() for value in item.also)]
        solved = [_solve(model, rows, free, fixed, start) for start in starts]
        found, jacobian, residual, loss = min(solved, key=lambda item: item[3])
        errors = _standard_errors(jacobian, residual, group_labels(rows))
        scale = [max(abs(found[name]), abs(free[name].prior)) for name in free]
        unknown = [name for name, error, size in zip(free, errors, scale, strict=True) if error > UNKNOWN * size]
        if not unknown or len(free) == 1:
            break
        worst = max(unknown, key=lambda name: errors[list(free).index(name)] / scale[list(free).index(name)])
        held = (*held, worst)
    error_pct = {
        name: float(100 * error / size) for name, error, size in zip(free, errors, scale, strict=True)
    }
    numbers = {name: found[name] if name in free else item.prior for name, item in candidate.free.items()}
    edge = tuple(name for name, item in free.items() if name not in TABLES_ONLY and _at_edge(found[name], item))
    return Fit(candidate=candidate, numbers=numbers, error_pct=error_pct, held=held, edge=edge, loss=loss,
               rows=len(rows))


TABLES_ONLY = ("l2_gain", "one_token", "fade_tokens", TABLE_SKEW)      # plans never use these


def _at_edge(value: float, item: Free) -> bool:
    """At a bound that says something: none of an effect (0, or a factor of 1) is no edge."""
    return value >= item.high * (1 - 1e-6) or (item.low not in (0.0, 1.0) and value <= item.low * (1 + 1e-6))


def _solve(
    model: Model, rows: Slice, free: Mapping[str, Free], fixed: Mapping[str, float], first: Mapping[str, float]
) -> tuple[dict[str, float], Array, Array, float]:
    """Numbers, Jacobian of the log times, log residuals, robust loss per row; starts at `first`, else at priors."""
    from scipy.optimize import least_squares

    names = list(free)
    unit = np.array([max(abs(item.prior), 1e-3 * item.high) for item in free.values()])     # counted in priors
    low = np.array([item.low for item in free.values()]) / unit
    high = np.array([item.high for item in free.values()]) / unit
    start = np.array([first.get(name, item.prior) for name, item in free.items()]) / unit
    start = np.clip(start, low + 1e-9, high - 1e-9)
    measured = np.log(rows.time_s)

    def residual(x: Array) -> Array:
        return np.log(model({**fixed, **dict(zip(names, x * unit, strict=True))}, rows)) - measured

    solved = least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE,
                           x_scale=np.maximum(np.abs(start), 1e-3), max_nfev=MAX_EVALUATIONS,
                           ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE)
    x = np.where(solved.x < low + 1e-6, low, np.where(solved.x > high - 1e-6, high, solved.x))   # onto the bounds
    found = dict(zip(names, (float(value) for value in x * unit), strict=True))
    return found, _jacobian(residual, x, low, high) / unit, np.asarray(residual(x)), float(solved.cost) / len(rows)


def _jacobian(residual: Callable[[Array], Array], x: Array, low: Array, high: Array) -> Array:
    """Derivatives by central differences that stay inside the bounds."""
    columns = []
    for index in range(len(x)):
        step = 1e-3 * max(abs(x[index]), 1e-2)
        up, down = x.copy(), x.copy()
        up[index] = min(x[index] + step, high[index])
        down[index] = max(x[index] - step, low[index])
        columns.append((residual(up) - residual(down)) / (up[index] - down[index]))
    return np.stack(columns, axis=1)


def _standard_errors(jacobian: Array, residual: Array, groups: npt.NDArray[np.int64]) -> Array:
    """Standard errors that allow rows of one shape group to share their error (cluster-robust covariance).

    A number that only a few groups tell is fitted to just their errors, whose sums that covariance then finds to be
    nothing: there it is no less than the plain one. A number that fewer than `ROWS_PER_NUMBER` rows tell is not known.
    """
    weight = 1.0 / np.sqrt(1.0 + (residual / LOSS_SCALE) ** 2)      # of soft_l1: outliers count less
    weighted = jacobian * weight[:, None]
    sees = np.abs(weighted) > SEES * np.abs(weighted).max(axis=0)
    told = sees.sum(axis=0) >= ROWS_PER_NUMBER
    scale = np.sqrt(np.maximum((weighted**2).sum(axis=0), 1e-300))
    bread = np.linalg.pinv((jacobian / scale).T @ (weighted / scale))
    scores = np.zeros((int(groups.max()) + 1, jacobian.shape[1]))
    np.add.at(scores, groups, weighted / scale * residual[:, None])
    clusters = max(len(np.unique(groups)), 2)
    covariance = bread @ (scores.T @ scores) @ bread * clusters / (clusters - 1)
    variance = np.diag(covariance)
    few = np.array([len(np.unique(groups[seen])) for seen in sees.T]) < min(JUDGED_BY, clusters)
    plain = np.diag(bread) * float((weight * residual**2).sum()) / max(len(residual) - len(scale), 1)
    variance = np.where(few, np.maximum(variance, plain), variance)
    return np.where(told, np.sqrt(np.maximum(variance, 0.0)) / scale, np.inf)


def relative_error(predicted: Array, measured: Array) -> Array:
    """Signed error in percent."""
    return 100.0 * (predicted / measured - 1.0)
