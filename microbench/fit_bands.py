"""All-reduce: time is alpha + beta * bytes in up to three bands of message size, cut where the engine switches.

Edges are sizes of the table, searched over all pairs; inside a band the two numbers have a closed form.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from specplan.microbench.fit_rows import SPLITS, Slice, held_out
from specplan.planner.arrays import Array
from specplan.planner.kernels.collective import AllReduceKernel, Band, allreduce_time
from specplan.planner.kernels.timing import Evidence

BANDS = 3
MIN_BAND_POINTS = 3
MIN_SIZES = 9       # three bands of three sizes

Edges = tuple[float, ...]       # upper ends of all bands but the last


def fit_bands(rows: Slice, edges: Edges | None = None) -> tuple[Band, ...]:
    """Bands with these edges, or with the edges that fit best."""
    size, time = rows.columns["message_bytes"], rows.time_s
    order = np.argsort(size, kind="stable")
    size, time = size[order], time[order]
    if edges is None:
        edges = min(_possible_edges(size), key=lambda cut: _loss(_bands(size, time, cut), size, time))
    return _bands(size, time, edges)


def edges_of(bands: Sequence[Band]) -> Edges:
    """Upper ends of all bands but the last."""
    return tuple(band.upto_bytes for band in bands[:-1])


def held_out_errors(rows: Slice) -> dict[str, tuple[Array, Array]]:
    """Per split, signed errors in percent on held-out sizes: with the edges of all sizes, and with edges refound."""
    given = edges_of(fit_bands(rows))
    errors = {}
    for split in SPLITS:
        mask = held_out(rows, split)
        train, test = rows.take(~mask), rows.take(mask)
        errors[split] = (_errors(fit_bands(train, given), test), _errors(fit_bands(train), test))
    return errors


def as_mappings(bands: Sequence[Band]) -> tuple[Mapping[str, float], ...]:
    """Bands as a profile writes them."""
    return tuple(
        {"upto_bytes": band.upto_bytes, "alpha_s": band.alpha_s, "beta_s_per_byte": band.beta_s_per_byte}
        for band in bands
    )


def predict(bands: Sequence[Band], size: Array) -> Array:
    """Seconds by the planner's own function."""
    kernel = AllReduceKernel(id="fit", version="", gpus=2, bands=tuple(bands),
                             evidence=Evidence(level="measured", source="fit"))
    return allreduce_time(kernel, message_bytes=size).time_s


def _errors(bands: Sequence[Band], rows: Slice) -> Array:
    return 100.0 * (predict(bands, rows.columns["message_bytes"]) / rows.time_s - 1.0)


def _possible_edges(size: Array) -> list[Edges]:
    found: list[Edges] = []
    inner = range(MIN_BAND_POINTS, len(size) - MIN_BAND_POINTS + 1)
    for cuts in itertools.chain.from_iterable(itertools.combinations(inner, count) for count in range(BANDS)):
        starts = (0, *cuts, len(size))
        if all(after - before >= MIN_BAND_POINTS for before, after in itertools.pairwise(starts)):
            found.append(tuple(float(size[cut - 1]) for cut in cuts))
    return found


def _bands(size: Array, time: Array, edges: Edges) -> tuple[Band, ...]:
    """Numbers of each band; a band left with less than two sizes takes those of its neighbour."""
    limits = (*edges, float(size[-1]))
    found: list[Band | None] = []
    low = -np.inf
    for high in limits:
        inside = (size > low) & (size <= high)
        found.append(_line(size[inside], time[inside], high) if np.count_nonzero(inside) >= 2 else None)
        low = high
    known = [band for band in found if band is not None]
    filled = []
    for index, band in enumerate(found):
        near = band or min(known, key=lambda other: abs(found.index(other) - index))
        filled.append(Band(upto_bytes=limits[index], alpha_s=near.alpha_s, beta_s_per_byte=near.beta_s_per_byte))
    return tuple(filled)


def _line(size: Array, time: Array, upto: float) -> Band:
    """alpha + beta * bytes with the least relative error, neither below zero."""
    design = np.stack([1.0 / time, size / time], axis=1)
    unit = np.array([time.min(), time.max() / size.max()])
    from scipy.optimize import nnls

    solved = nnls(design * unit, np.ones(len(time)))[0] * unit
    return Band(upto_bytes=upto, alpha_s=float(solved[0]), beta_s_per_byte=float(solved[1]))


def _loss(bands: Sequence[Band], size: Array, time: Array) -> float:
    error = np.log(np.maximum(predict(bands, size), 1e-12) / time) / 0.1
    return float(np.sum(2 * (np.sqrt(1 + error**2) - 1)))
