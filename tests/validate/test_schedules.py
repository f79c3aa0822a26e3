"""Schedules against published sweeps over D and batch."""

from __future__ import annotations

from pathlib import Path

from specplan.planner.validate.annotations import read_annotations
from specplan.planner.validate.collection import read_collection
from specplan.planner.validate.pricing import price, speedup
from specplan.planner.validate.published import resolve
from specplan.planner.validate.schedules import schedule_regret

DATA = Path(__file__).parents[1] / "data" / "published"


def test_a_schedule_loses_at_most_two_percent_on_published_sweeps() -> None:
    """SpecDecode-Bench is the only source with AL, a known GPU and two D at several batches."""
    points, _ = resolve(read_collection(DATA)[0], read_annotations(None, DATA))
    known = [point for point in points if point.drafter is not None and point.acceptance_length]
    found = schedule_regret(known, speedup(known, price(known)))
    assert found.sweeps >= 4
    assert found.mean is not None
    assert found.mean <= 0.02


def test_a_schedule_from_wrong_predictions_shows_its_regret() -> None:
    points, _ = resolve(read_collection(DATA)[0], read_annotations(None, DATA))
    known = [point for point in points if point.drafter is not None and point.acceptance_length]
    found = schedule_regret(known, 1.0 / speedup(known, price(known)))
    assert found.mean is not None
    assert found.mean > 0.02
