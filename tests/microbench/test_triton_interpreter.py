"""The Triton attention kernel computes what plain fp32 computes, in Triton's interpreter on a machine without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specplan.microbench.reference import TOLERANCE

pytest.importorskip("torch", reason="needs torch (extra gpu)")
pytest.importorskip("triton", reason="needs triton (extra gpu)")

SCRIPT = Path(__file__).parent / "interpreter_cases.py"


def run(*arguments: str) -> list[dict[str, Any]]:
    """Errors by case, from a process of its own: the interpreter cannot be switched on inside one."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check(cases: list[dict[str, Any]]) -> None:
    wrong = [case for case in cases if not case["error"] <= TOLERANCE[case["dtype"]]]
    assert not wrong, wrong[:5]
    assert {case["group"] for case in cases} == {1, 2, 4, 5, 7, 8, 12, 16}
    assert {case["query_len"] for case in cases} == set(range(1, 18))
    assert {case["splits"] for case in cases} == set(range(1, 9))


@pytest.mark.timeout(300)
def test_equals_fp32_on_a_covering_set() -> None:
    cases = run()
    assert 60 <= len(cases) <= 150
    check(cases)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_equals_fp32_on_the_full_grid() -> None:
    cases = run("full")
    assert len(cases) == 8 * 17 * 8
    check(cases)
