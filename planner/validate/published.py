"""`specplan validate published`: every row of a collection of measurements, predicted and scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specplan.planner.acceptance.curve import interval
from specplan.planner.acceptance.forms import from_lengths
from specplan.planner.arrays import Array
from specplan.planner.decide.uncertainty import speedup_range
from specplan.planner.step.engine_paths import speedup_sd
from specplan.planner.validate import scores
from specplan.planner.validate.annotations import Annotations, read_annotations
from specplan.planner.validate.baselines import BASELINES, Baseline
from specplan.planner.validate.collection import Refusal, read_collection
from specplan.planner.validate.library_rows import from_library
from specplan.planner.validate.points import Point, resolve_case
from specplan.planner.validate.pricing import Prices, lengths_of, price, speedup
from specplan.planner.validate.report import Report, Rule, ScoredRow, Slice

HEADLINE = "quality A and B, chain drafts, AL given"


def validate_published(directory: str | Path, *, annotations: str | Path | None = None) -> Report:
    """Predict and score every row of the YAML files in `directory`; files and rows that cannot be used are listed.

    `annotations` says what sources leave open (planner/validate/annotations.py); a file beside the data is found by
    itself.
    """
    folder = Path(directory)
    cases, refused = read_collection(folder)
    notes = read_annotations(None if annotations is None else Path(annotations), folder)
    points, more = resolve(cases, notes)
    return score(points, (*refused, *more), directory=str(folder), annotations=notes.source, cases=len(cases))


def resolve(cases: Sequence[object], notes: Annotations) -> tuple[list[Point], list[Refusal]]:
    """Points and refusals of all cases."""
    points: list[Point] = []
    refused: list[Refusal] = []
    for case in cases:
        found, more = resolve_case(case, notes)  # type: ignore[arg-type]
        points += found
        refused += more
    return points, refused


def score(
    points: Sequence[Point], refused: Sequence[Refusal], *, directory: str, annotations: str, cases: int
) -> Report:
    """Scores of resolved points."""
    speculative = [point for point in points if point.drafter is not None]
    known = [point for point in speculative if point.acceptance_length is not None]
    unknown = [
        Refusal(file=p.case.file, case=p.case.name, row=p.row, reason="resolved, but no acceptance in the row")
        for p in speculative if p.acceptance_length is None
    ]
    estimated = from_library([p for p in speculative if p.acceptance_length is None])
    prices = price(known)
    predicted = speedup(known, prices)
    low, high = ranges(known, predicted)
    measured = measured_speedups(known)
    chain = [i for i, p in enumerate(known) if not p.tree]
    head = [i for i in chain if known[i].case.quality in ("A", "B")]
    trees = [i for i, p in enumerate(known) if p.tree and p.case.quality in ("A", "B")]

    def slice_of(kind: str, label: str, members: Sequence[int]) -> Slice:
        return slice_scores(kind, label, known, predicted, measured, low, high, members)

    slices = [
        slice_of("total", HEADLINE, head),
        slice_of("total", "the same without inferred hardware, shapes and paths",
                 [i for i in head if not known[i].inferred]),
        slice_of("total", "the same on engine paths with constants of their own",
                 [i for i in head if known[i].known_path]),
        slice_of("total", "trees, quality A and B", trees),
        slice_of("total", "all rows with AL", range(len(known))),
        library_slice(estimated),
    ]
    for kind, label in (
        ("quality", lambda p: p.case.quality),
        ("mechanism", lambda p: p.mechanism + (" tree" if p.tree else "")),
        ("gpu", lambda p: f"{p.deployment.gpu.hardware.vendor} {p.deployment.gpu.hardware.arch}"),
        ("engine path", lambda p: p.deployment.path.name),
        ("batch", scores.batch_band),
        ("target", lambda p: "MoE" if p.moe else "dense"),
        ("source", lambda p: p.case.file),
        ("case", lambda p: p.case.name),
    ):
        wanted = range(len(known)) if kind in ("quality", "mechanism", "case") else head
        for name, members in scores.sliced([known[i] for i in wanted], label).items():
            slices.append(slice_of(kind, name, [list(wanted)[m] for m in members]))
    return Report(
        directory=directory,
        annotations=annotations,
        cases=cases,
        rows=len(points) + len(refused),
        resolved=len(points),
        scored=len(known),
        slices=tuple(slices),
        rules=tuple(rule_scores(known, prices, predicted, measured, head)),
        scored_rows=tuple(
            scored_row(p, float(predicted[i]), float(low[i]), float(high[i])) for i, p in enumerate(known)
        ),
        refused=(*refused, *unknown),
    )


def library_slice(points: Sequence[Point]) -> Slice:
    """Chains of quality A and B that state no AL, with the library's: counted apart."""
    mine = [p for p in points if p.case.quality in ("A", "B")]
    predicted = speedup(mine, price(mine))
    low, high = ranges(mine, predicted)
    label = "AL from the curve library, quality A and B chains"
    return slice_scores("total", label, mine, predicted, measured_speedups(mine), low, high, range(len(mine)))


def measured_speedups(points: Sequence[Point]) -> Array:
    """Measured speedups; NaN where a row has none."""
    return np.array([np.nan if p.measured.speedup is None else p.measured.speedup for p in points])


def ranges(points: Sequence[Point], predicted: Array) -> tuple[Array, Array]:
    """The 90 % range that `recommend` would print: error of the model, and of an AL stated at this D."""
    sd = np.array([speedup_sd(moe=p.moe, path=p.deployment.path, mechanism=p.mechanism) for p in points])
    emitted, _, _ = lengths_of(points)
    ends = np.array([_length_range(p) for p in points]).reshape(-1, 2)
    return speedup_range(predicted, model_sd=sd, length=emitted, length_low=ends[:, 0], length_high=ends[:, 1])


def _length_range(point: Point) -> tuple[float, float]:
    length = point.acceptance_length or 1.0
    if point.length_range is not None:
        return point.length_range
    if point.tree or length > point.draft_len + 1:
        return length, length
    low, high = interval(from_lengths({point.draft_len: length}), point.draft_len)
    return float(low), float(high)


def slice_scores(
    kind: str, label: str, points: Sequence[Point], predicted: Array, measured: Array, low: Array, high: Array,
    members: Sequence[int],
) -> Slice:
    """All scores of some of the points."""
    index = np.array(list(members), dtype=int)
    mine = [points[i] for i in index]
    ours, theirs = predicted[index], measured[index]
    emitted, _, _ = lengths_of(mine)
    inside = (low[index] <= theirs) & (theirs <= high[index])
    return Slice(
        kind=kind,
        label=label,
        speedup=scores.errors(ours, theirs),
        step_ratio=scores.errors(emitted / ours, emitted / theirs),
        inside_range=float(inside.mean()) if index.size else None,
        regret=scores.regret(mine, scores.best_predicted(ours)),
        signs=scores.signs(ours, theirs),
        trends=scores.trends(mine, ours),
        inferred_rows=sum(bool(p.inferred) for p in mine),
    )


def rule_scores(
    points: Sequence[Point], prices: Prices, predicted: Array, measured: Array, head: Sequence[int]
) -> list[Rule]:
    """Specplan and the baselines on the headline rows; regret and signs over all chain rows with AL."""
    index = np.array(list(head), dtype=int)
    mine = [points[i] for i in index]
    found = [_rule("specplan", mine, predicted[index], measured[index], None)]
    for baseline in BASELINES:
        ours = None if baseline.speedups is None else baseline.speedups(points, prices)[index]
        found.append(_rule(baseline.title, mine, ours, measured[index], baseline))
    return found


def _rule(name: str, mine: Sequence[Point], ours: Array | None, measured: Array, baseline: Baseline | None) -> Rule:
    draft_rule = None if baseline is None else baseline.draft_len
    choose = (
        scores.nearest_draft_len(mine, draft_rule) if draft_rule is not None
        else scores.best_predicted(ours if ours is not None else measured)
    )
    return Rule(
        name=name,
        speedup=None if ours is None else scores.errors(ours, measured),
        regret=scores.regret(mine, choose),
        signs=None if ours is None else scores.signs(ours, measured),
        trends=None if ours is None else scores.trends(mine, ours),
    )


def scored_row(point: Point, predicted: float, low: float, high: float) -> ScoredRow:
    """One row of the report."""
    measured = point.measured.speedup or float("nan")
    length = point.acceptance_length or float("nan")
    return ScoredRow(
        file=point.case.file,
        case=point.case.name,
        row=point.row,
        quality=point.case.quality,
        target=point.target.name,
        mechanism=point.mechanism,
        tree=point.tree,
        gpu=point.deployment.gpu.name,
        gpus=point.deployment.gpus,
        engine_path=point.deployment.path.name,
        metric=point.metric,
        draft_len=point.draft_len,
        verified_tokens=point.verified_tokens or point.draft_len + 1.0,
        batch=point.batch,
        context_tokens=point.lengths.context_tokens,
        acceptance_length=length,
        acceptance_form=point.acceptance_form,
        measured=measured,
        predicted=predicted,
        low=low,
        high=high,
        step_ratio_measured=length / measured,
        step_ratio_predicted=length / predicted,
        inferred=point.inferred,
        assumed=point.assumed,
    )
