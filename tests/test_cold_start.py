"""What a command loads: a cold start is mostly imports, so none may creep back in unseen (times: `make bench`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = "examples/llama-3.3-70b-h200.yaml"
LIST_MODULES = """
import atexit, os, sys
atexit.register(lambda: os.write(2, " ".join(["loaded:", *sys.modules]).encode()))
from specplan.cli import app
app()
"""
NEVER = {
    "scipy", "matplotlib", "torch", "numpy.ma", "specplan.microbench", "specplan.planner.validate",
    "specplan.planner.check", "specplan.planner.output.figures", "specplan.planner.output.report",
    "specplan.planner.engines.dialects",
}
NOT_ASKED = {"specplan.planner.answer.explanation", "specplan.planner.answer.load_answer"}
NO_TABLES = {"rich", "specplan.planner.output.tables"}


@pytest.mark.parametrize(("arguments", "unwanted"), [
    (["recommend", "--model", EXAMPLE], NEVER | NOT_ASKED),
    (["recommend", "--model", EXAMPLE, "--json"], NEVER | NO_TABLES),
    (["explain", "--model", EXAMPLE, "--json"], NEVER | NO_TABLES),
    (["check", EXAMPLE], {"numpy", "scipy"} | NO_TABLES),
    (["--version"], {"numpy", "pydantic", "rich", "yaml", "specplan.planner.config"}),
])
def test_loads_only_what_it_needs(arguments: list[str], unwanted: set[str]) -> None:
    ran = subprocess.run([sys.executable, "-c", LIST_MODULES, *arguments], cwd=ROOT, capture_output=True, text=True,
                         check=True)
    loaded = set(ran.stderr.partition("loaded:")[2].split())
    assert "specplan.cli" in loaded
    assert not unwanted & loaded
