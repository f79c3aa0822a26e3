"""`specplan validate anchor`: anchor on plain decoding and one or two rows of a sweep, predict the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specplan.planner.arrays import Array
from specplan.planner.decide.anchor import Measurement, Multipliers, Parts, anchor
from specplan.planner.fact import fact
from specplan.planner.validate import scores
from specplan.planner.validate.annotations import read_annotations
from specplan.planner.validate.baselines import depth_rule
from specplan.planner.validate.collection import read_collection
from specplan.planner.validate.points import Point
from specplan.planner.validate.pricing import Prices, price, speedup
from specplan.planner.validate.published import measured_speedups, resolve

LEAST_ROWS = 3


@fact
class AnchorScore:
    """Errors on the rows that were not given."""

    given: str
    sweeps: int
    anchored: scores.Errors
    unanchored: scores.Errors
    depth_rule: scores.Errors       # AL/(1+rho*D), anchored by one factor per sweep


@fact
class AnchorSweep:
    """One sweep anchored on its middle row."""

    case: str
    over: str
    rows: int
    anchored: scores.Errors
    unanchored: scores.Errors


@fact
class AnchorReport:
    """Everything that `specplan validate anchor` found."""

    directory: str
    scores: tuple[AnchorScore, ...]
    sweeps: tuple[AnchorSweep, ...]


GIVEN = {     # rows of a sweep that are given, as shares of its length
    "off + first row": (0.0,),
    "off + middle row": (0.5,),
    "off + both ends": (0.0, 1.0),
    "off + first and middle": (0.0, 0.5),
}


def validate_anchor(directory: str | Path, *, annotations: str | Path | None = None) -> AnchorReport:
    """Anchor each sweep (over D or batch, at least three rows, quality A or B) and predict its other rows."""
    folder = Path(directory)
    cases, _ = read_collection(folder)
    notes = read_annotations(None if annotations is None else Path(annotations), folder)
    points, _ = resolve(cases, notes)
    known = [
        p for p in points
        if p.drafter is not None and p.acceptance_length is not None and not p.tree and p.case.quality in ("A", "B")
    ]
    prices = price(known)
    plain = speedup(known, prices)
    simple = depth_rule(known, prices)
    measured = measured_speedups(known)
    found = [
        (over, members) for over in ("draft_len", "batch") for members in scores.sweeps(known, over=over)
        if len(members) >= LEAST_ROWS
    ]
    rows: list[AnchorScore] = []
    details: list[AnchorSweep] = []
    for given, places in GIVEN.items():
        ours: list[float] = []
        rest: list[int] = []
        rule: list[float] = []
        for over, members in found:
            used = sorted({min(int(place * len(members)), len(members) - 1) for place in places})
            left = [i for at, i in enumerate(members) if at not in used]
            predicted = predict(known, prices, [members[at] for at in used], left)
            factor = float(np.exp(np.mean([np.log(measured[members[at]] / simple[members[at]]) for at in used])))
            ours += predicted.tolist()
            rule += (simple[left] * factor).tolist()
            rest += left
            if given == "off + middle row":
                details.append(AnchorSweep(
                    case=known[members[0]].case.name, over=over, rows=len(members),
                    anchored=scores.errors(predicted, measured[left]),
                    unanchored=scores.errors(plain[left], measured[left]),
                ))
        rows.append(AnchorScore(
            given=given, sweeps=len(found), anchored=scores.errors(np.array(ours), measured[rest]),
            unanchored=scores.errors(plain[rest], measured[rest]),
            depth_rule=scores.errors(np.array(rule), measured[rest]),
        ))
    return AnchorReport(directory=str(folder), scores=tuple(rows), sweeps=tuple(details))


def predict(points: Sequence[Point], prices: Prices, given: Sequence[int], rest: Sequence[int]) -> Array:
    """Speedups of the other rows after anchoring on plain decoding and the rows given."""
    measurements: list[Measurement] = []
    for i in given:
        speed = points[i].measured.speedup
        assert speed is not None
        measurements.append(Measurement(drafter="d", parts=parts_of(points[i], prices, i), kind="speedup", value=speed))
    factors = anchor(measurements).of("d")
    return np.array([anchored_speedup(parts_of(points[i], prices, i), factors) for i in rest])


def parts_of(point: Point, prices: Prices, index: int) -> Parts:
    """The model's parts at a point."""
    end = point.metric == "end_to_end"
    return Parts(
        off_s=float(prices.off_s[index]), host_s=point.deployment.path.host_step_s.value,
        verify_s=float(prices.verify_s[index]), draft_s=float(prices.draft_s[index]),
        overhead_s=float(prices.overhead_s[index]), length=point.acceptance_length or 1.0, draft_len=point.draft_len,
        prefill_share_s=point.batch * float(prices.prefill_s[index]) / point.lengths.output_tokens if end else 0.0,
    )


def anchored_speedup(parts: Parts, factors: Multipliers) -> float:
    """Speedup with the multipliers (the scale cancels)."""
    core = parts.off_s - parts.host_s
    step = (
        core + factors.verify * (parts.verify_s - core) + factors.draft * parts.draft_s
        + parts.host_s + factors.fixed * (parts.overhead_s - parts.host_s)
    )
    length = float(np.clip(factors.length * parts.length, 1.0, 1.0 + parts.draft_len))
    return (parts.off_s + parts.prefill_share_s) / (step / length + parts.prefill_share_s)


def anchor_rows(report: AnchorReport) -> list[dict[str, object]]:
    """Scores as rows of a table."""
    return [
        {
            "given": item.given, "sweeps": item.sweeps, "rows": item.anchored.rows,
            "anchored": pair(item.anchored), "not anchored": pair(item.unanchored),
            "AL/(1+rho*D), anchored": pair(item.depth_rule),
        }
        for item in report.scores
    ]


def pair(errors: scores.Errors) -> str:
    """Median and 90th percentile."""
    return "-" if errors.median is None or errors.p90 is None else f"{errors.median:.3f} / {errors.p90:.3f}"
