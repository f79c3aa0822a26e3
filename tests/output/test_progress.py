"""Long work says on stderr how far it is, and Ctrl-C ends it with nothing half-written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG: dict[str, Any] = {
    "target": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm",
    "workload": {"request_rate": 0.2, "input_tokens": 500, "output_tokens": 2000},
    "drafters": [{"mechanism": "eagle3", "acceptance": {"alpha": 0.6}}],
}
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "     # some runners ignore it


def started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    (folder / "cfg.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [sys.executable, "-c", START + "from specplan.cli import app; app()", *arguments, "-m", "cfg.yaml"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("arguments", [("recommend", "--simulate", "--json"), ("report", "-o", "report.html")])
def test_ctrl_c_ends_long_work_cleanly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = started(tmp_path, *arguments)
    assert process.stderr is not None
    first = process.stderr.readline()       # the first report of progress: work has begun
    assert b"0%" in first
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert out == b""
    assert b"Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["cfg.yaml"]
