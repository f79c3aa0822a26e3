"""docs/measure.md: each import command runs, and prints what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from specplan.planner.acceptance.canonical import canonical
from specplan.planner.engines.acceptance import read_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "measure.md").read_text()
COMMANDS = re.findall(r"^    specplan acceptance read (\S+) --json\n(?:\n```json\n(.*?)\n```)?", PAGE, re.M | re.S)


def test_each_recipe_ends_in_a_command() -> None:
    recipes = re.split(r"^## Recipe ", PAGE, flags=re.M)[1:]
    assert len(recipes) == 3
    assert all("specplan acceptance read tests/data/" in recipe for recipe in recipes)


@pytest.mark.parametrize(("file", "shown"), COMMANDS)
def test_command_prints_what_the_page_shows(file: str, shown: str) -> None:
    found = canonical(read_files([str(ROOT / file)]))
    for key, value in json.loads(shown or "{}").items():
        assert found[key] == (value if value is None or isinstance(value, str) else pytest.approx(value)), key
    assert found["acceptance_length"] > 1
