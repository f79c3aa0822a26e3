"""The published measurements, scored once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from specplan.planner.validate.published import validate_published
from specplan.planner.validate.report import Report

DATA = Path(__file__).parents[1] / "data" / "published"


@pytest.fixture(scope="session")
def report() -> Report:
    return validate_published(DATA)
