"""A thousand files take seconds, and one file takes little more than starting Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from specplan.planner.check.run import check_paths

DATA = Path(__file__).parents[1] / "data" / "check"


def test_a_thousand_configurations_take_at_most_3_seconds_of_one_core(tmp_path: Path) -> None:
    """The worst repository: every file holds one."""
    holding = sorted(path for path in (DATA / "valid").iterdir())
    for number in range(1000):
        chosen = holding[number % len(holding)]
        (tmp_path / str(number)).mkdir()
        shutil.copyfile(chosen, tmp_path / str(number) / chosen.name)
    start = time.process_time()
    report = check_paths([tmp_path])
    assert report.files == 1000
    assert time.process_time() - start < 3


def test_one_file_loads_nothing_heavy() -> None:
    """Start-up is what one file costs: numpy, pydantic and the model's arithmetic stay out."""
    code = ("import sys\nfrom specplan.planner.check.run import check_paths\n"
            "from specplan.planner.check.formats import render\nfrom specplan.planner.check.fix import fix_files\n"
            f"report = check_paths([{str(DATA / 'cases' / 'V12.sh')!r}])\nassert report.findings\nrender(report)\n"
            "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'scipy', 'pydantic', 'rich'}))\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
