"""Rows that state no acceptance, with the curve library's estimate for their drafter, target and kind of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specplan.planner.acceptance.curve import acceptance_length, interval
from specplan.planner.acceptance.estimate import nearest_curve
from specplan.planner.acceptance.library import family_of
from specplan.planner.messages import InputError
from specplan.planner.validate.points import Point

ASSUMED_DOMAIN = "chat"


def from_library(points: Sequence[Point]) -> list[Point]:
    """Chains without AL, each with an estimate; those that the library knows nothing of are left out."""
    found = []
    for point in points:
        if point.drafter is None or point.tree or point.measured.speedup is None:
            continue
        domain = point.case.text("dataset", point.case.rows[point.row]).split(",")[0].strip() or ASSUMED_DOMAIN
        try:
            curve = nearest_curve(
                point.mechanism, domain=domain if family_of(domain) else ASSUMED_DOMAIN, target=point.target.name
            )[0]
        except InputError:
            continue
        length = min(float(acceptance_length(curve, float(point.draft_len))), 1.0 + point.draft_len)
        low, high = (float(end) for end in interval(curve, float(point.draft_len)))
        found.append(
            replace(point, acceptance_length=length, acceptance_form="library", length_range=(low, high))
        )
    return found
