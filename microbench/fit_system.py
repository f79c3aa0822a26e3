"""All kernels of one GPU, fitted and scored: on rows that no fit saw, on three splits, beside two baselines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specplan.microbench import fit_bands
from specplan.microbench.fit import fit_candidate, fit_slice, relative_error, too_little
from specplan.microbench.fit_limits import impossible
from specplan.microbench.fit_predict import entry_of, model_of
from specplan.microbench.fit_rows import SPLITS, Slice, folds, subsample
from specplan.microbench.fit_target import Candidate, Target
from specplan.microbench.fit_target_matrix import TABLE_SKEW
from specplan.microbench.fit_targets import target_of
from specplan.planner.arrays import Array
from specplan.planner.kernels.entries import Entry, Hardware
from specplan.planner.kernels.timing import Evidence, Quality

SOURCE = "fit"                  # key of the profile's `sources`
DIGITS = 3                      # of fitted numbers: more would be noise
ROUGH_PCT, ROUGH_MOE_PCT = 12.0, 15.0
REJECT_PCT = 20.0               # a mean error beyond this describes nothing
IMPOSSIBLE = "beyond 110 % of the datasheet, or no positive time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Held-out rows of one split and their signed errors in percent."""

    rows: Slice
    error_pct: Array

    @property
    def mean(self) -> float:
        """Mean absolute error."""
        return float(np.mean(np.abs(self.error_pct)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A slice with its entry: numbers from all rows, errors from rows held out. `held` were left at their prior.

    Few rows that suffice for a fit may not suffice for one without the held-out ones: then there are no scores.
    """

    rows: Slice
    target: Target
    entry: Entry
    held: tuple[str, ...]
    scores: Mapping[str, Scored]        # by split
    table_skew: float = 1.0

    @property
    def median_split(self) -> Scored:
        """The split whose mean error is the median of the splits."""
        return sorted(self.scores.values(), key=lambda scored: scored.mean)[len(self.scores) // 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfitted:
    """A slice without an entry, and why."""

    rows: Slice
    target: Target
    reason: str


def fit_system(
    slices: Iterable[Slice], hardware: Hardware, *, l2_warm: bool = True, splits: Sequence[str] = SPLITS,
    targets: Callable[[Slice, Hardware], Target] = target_of,
) -> list[Fitted | Unfitted]:
    """Fit each slice, in order. `l2_warm` says that the rows were measured with operands still in L2."""
    return [fit_and_score(rows, hardware, l2_warm=l2_warm, splits=splits, targets=targets) for rows in slices]


def fit_and_score(
    rows: Slice, hardware: Hardware, *, l2_warm: bool = True, splits: Sequence[str] = SPLITS,
    targets: Callable[[Slice, Hardware], Target] = target_of,
) -> Fitted | Unfitted:
    """One slice: filters, refusals, a fit of all rows, and a fit per split that is scored on its held-out rows."""
    target = targets(rows, hardware)
    if target.unfit:
        return Unfitted(rows=rows, target=target, reason=target.unfit)
    rows = prepared(rows, target, hardware)
    if rows.family == "attention_math":
        return _rate(rows, target)
    if rows.family == "allreduce":
        return _bands(rows, target, splits)
    lack = too_little(rows, target)
    if lack is not None:
        return Unfitted(rows=rows, target=target, reason=lack)
    masks = {split: folds(rows, split) for split in splits}
    enough = all(too_little(rows.take(~mask), target) is None for found in masks.values() for mask in found)
    scores: dict[str, Scored] = {}
    candidate: Candidate | None = None
    for split, found in masks.items() if enough else ():
        errors = []
        for mask in found:      # the variant of the equation is chosen once, by the first rows that are fitted
            train, test = rows.take(~mask), rows.take(mask)
            fit = (fit_slice(train, target, hardware, l2_warm=l2_warm) if candidate is None
                   else fit_candidate(subsample(train), target, candidate, hardware, l2_warm=l2_warm))
            candidate = fit.candidate
            predicted = model_of(target, candidate, rows, hardware, l2_warm=l2_warm)(fit.numbers, test)
            errors.append(relative_error(predicted, test.time_s))
        order = np.concatenate([np.flatnonzero(mask) for mask in found])
        scores[split] = Scored(rows=_pick(rows, order), error_pct=np.concatenate(errors))
    fit = (fit_slice(rows, target, hardware, l2_warm=l2_warm) if candidate is None
           else fit_candidate(subsample(rows), target, candidate, hardware, l2_warm=l2_warm))
    candidate = fit.candidate
    evidence = evidence_of(rows, scores, fit.error_pct, fit.held, fit.edge)
    numbers = {name: rounded(value) for name, value in fit.numbers.items() if name != TABLE_SKEW}
    entry = entry_of(target, candidate, rows, numbers, evidence)
    fitted = Fitted(rows=rows, target=target, entry=entry, held=fit.held, scores=scores,
                    table_skew=fit.numbers.get(TABLE_SKEW, 1.0))
    if scores and fitted.median_split.mean > REJECT_PCT:
        return Unfitted(rows=rows, target=target,
                        reason=f"mean error {fitted.median_split.mean:.0f} % on held-out rows: the equation fails")
    return fitted


def prepared(rows: Slice, target: Target, hardware: Hardware) -> Slice:
    """The rows that count, the others counted by reason."""
    rows = rows.take(~impossible(rows, target, hardware), IMPOSSIBLE)
    for reason, keep in target.keep.items():
        rows = rows.take(keep(rows), reason)
    return rows


def evidence_of(
    rows: Slice, scores: Mapping[str, Scored], error_pct: Mapping[str, float], held: Sequence[str],
    edge: Sequence[str] = (),
) -> Evidence:
    """What a profile says of a fit. `source` names the numbers held at their prior, or at the edge of the plausible."""
    errors = {name: float(max(1, round(value))) for name, value in error_pct.items() if name != TABLE_SKEW}
    if not scores:
        return Evidence(level="measured", source=source_key(held, edge), quality="rough", rows=len(rows),
                        parameter_error_pct=errors, fitted_range=fitted_range(rows))
    middle = sorted(scores.values(), key=lambda scored: scored.mean)[len(scores) // 2]
    size = np.abs(middle.error_pct)
    limit = ROUGH_MOE_PCT if rows.family == "moe" else ROUGH_PCT
    quality: Quality = "rough" if middle.mean > limit else "ok"
    return Evidence(
        level="measured", source=source_key(held, edge), quality=quality, rows=len(rows), held_out_rows=len(size),
        error_median_pct=round(float(np.median(size)), 1), error_mean_pct=round(middle.mean, 1),
        error_p90_pct=round(float(np.percentile(size, 90)), 1), parameter_error_pct=errors,
        fitted_range=fitted_range(rows),
    )


def source_key(held: Sequence[str], edge: Sequence[str] = ()) -> str:
    """Short name of a source in the profile; numbers held at their prior or at an edge are part of it."""
    told = [SOURCE]
    for word, names in (("held", held), ("edge", edge)):
        spelt = [name.replace("_", "-") for name in names if name != TABLE_SKEW]
        told += [word, *spelt] if spelt else []
    return "-".join(told)


def source_texts(entries: Iterable[Entry], origin: str) -> dict[str, str]:
    """The sources that these entries name, spelt out."""
    texts = {}
    for entry in entries:
        source, notes = entry.evidence.source, []
        held, _, edge = source.partition("-edge-")
        for part, meaning in ((held.partition("-held-")[2], "held at its prior, which the rows cannot tell"),
                              (edge, "at the edge of what is plausible")):
            named = [name for name in entry.parameters if f"-{name.replace('_', '-')}-" in f"-{part}-"]
            notes += [f"; {meaning}: {', '.join(named)}"] if named else []
        texts[source] = f"{origin}; fitted by specplan{''.join(notes)}"
    return dict(sorted(texts.items()))


RANGES: Mapping[str, tuple[str, ...]] = {
    "attention": ("context_tokens", "query_len", "batch"), "attention_math": ("context_tokens",),
    "gemm": ("rows", "n", "k"), "moe": ("tokens", "tp", "ep", "hidden", "intermediate", "experts", "top_k"),
    "allreduce": ("message_bytes",),
    "mla": ("context_tokens", "query_len", "batch", "heads"), "recurrent": ("query_len", "batch", "heads"),
    "sparse": ("query_len", "batch", "context_tokens"),
}


def fitted_range(rows: Slice) -> dict[str, tuple[float, float]]:
    """Smallest and largest value of each axis that a query can leave; `rows` of attention are those per KV head."""
    c = rows.columns
    found = {name: (float(c[name].min()), float(c[name].max())) for name in RANGES[rows.family]}
    if rows.family == "attention":
        packed = c["query_heads"] / c["kv_heads"] * c["query_len"]
        found["rows"] = (float(packed.min()), float(packed.max()))
    return found


def rounded(value: float) -> float:
    """To `DIGITS` significant digits.

    >>> rounded(0.00012345), rounded(0.0)
    (0.000123, 0.0)
    """
    return float(f"{value:.{DIGITS - 1}e}")


def _pick(rows: Slice, order: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Slice:
    columns = {name: column[order] for name, column in rows.columns.items()}
    return dataclasses.replace(rows, columns=columns, time_s=rows.time_s[order])


def _bands(rows: Slice, target: Target, splits: Sequence[str]) -> Fitted | Unfitted:
    if len(rows) < fit_bands.MIN_SIZES:
        return Unfitted(rows=rows, target=target,
                        reason=f"{len(rows)} message sizes; needs at least {fit_bands.MIN_SIZES}, up to 64 MiB")
    edges = fit_bands.edges_of(fit_bands.fit_bands(rows))
    scores = {}
    for split in splits:
        (mask,) = folds(rows, split)
        bands = fit_bands.fit_bands(rows.take(~mask), edges)
        test = rows.take(mask)
        predicted = fit_bands.predict(bands, test.columns["message_bytes"])
        scores[split] = Scored(rows=test, error_pct=relative_error(predicted, test.time_s))
    numbers = tuple({name: value if name == "upto_bytes" else rounded(value) for name, value in band.items()}
                    for band in fit_bands.as_mappings(fit_bands.fit_bands(rows)))
    entry = entry_of(target, target.candidates[0], rows, {}, evidence_of(rows, scores, {}, ()))
    return Fitted(rows=rows, target=target, entry=dataclasses.replace(entry, bands=numbers), held=(), scores=scores)


def _rate(rows: Slice, target: Target) -> Fitted | Unfitted:
    """Math rate of prefill attention: the median over long prompts. It bounds decode from below, so it has no error."""
    if len(rows) < MIN_RATE_ROWS:
        return Unfitted(rows=rows, target=target, reason=f"{len(rows)} rows; needs at least {MIN_RATE_ROWS}")
    c = rows.columns
    flop = 2.0 * c["batch"] * c["query_heads"] * c["query_len"] ** 2 * float(target.key["head_dim"])     # causal
    rate = {"mma_flop_per_s": rounded(float(np.median(flop / rows.time_s)))}
    evidence = Evidence(level="measured", source=SOURCE, rows=len(rows), fitted_range=fitted_range(rows))
    entry = entry_of(target, target.candidates[0], rows, rate, evidence)
    return Fitted(rows=rows, target=target, entry=entry, held=(), scores={})


MIN_RATE_ROWS = 30
