"""Documentation runs: figures on the pages are those that the code gives now, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def load_refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh_docs", ROOT / "tests" / "refresh_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


refresh = load_refresh()


@pytest.mark.parametrize("page", refresh.pages(), ids=lambda page: page.name)
def test_figures_on_the_page_are_those_of_the_code(page: Path) -> None:
    assert refresh.rendered(page) == page.read_text(encoding="utf-8"), "run: python tests/refresh_docs.py"


@pytest.mark.parametrize("page", refresh.pages(), ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_tree_in_the_readme_names_every_folder_of_the_repository() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in sorted(path.name for path in (ROOT / "planner").iterdir() if path.is_dir()):
        if folder != "__pycache__":
            assert f"{folder}/" in readme, folder
