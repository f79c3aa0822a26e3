"""Logs of any size: block edges change nothing, memory stays flat, and reading is fast."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from specplan.planner.engines import acceptance as module
from specplan.planner.engines import streams
from specplan.planner.engines.acceptance import read_files

DATA = Path(__file__).parents[1] / "data" / "acceptance"
NOISE = "INFO 11-20 10:00:00 [async_llm.py:123] Added request. prompt: 'accept the draft, Position 3' " + "x" * 150


@pytest.mark.parametrize("name", [
    "vllm-log.log", "vllm-0.9.log", "sglang-new.log", "llama_cpp-june-2026.log", "lmdeploy.log",
    "aiperf-profile_export.jsonl", "ik_llama-table.txt",
])
def test_block_edges_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DATA / name).read_text() * 7
    path = tmp_path / name
    path.write_text("\n".join(f"{NOISE}\n{line}" for line in text.splitlines()) + "\n")
    whole = read_files([str(path)])
    monkeypatch.setattr(streams, "CHUNK_BYTES", 1_000)
    monkeypatch.setattr(module, "SMALL_BYTES", 700)
    cut = read_files([str(path)])
    assert (cut.steps, cut.draft_len) == (whole.steps, whole.draft_len)
    assert cut.acceptance_length == pytest.approx(whole.acceptance_length)
    assert cut.per_position == (whole.per_position and pytest.approx(whole.per_position))


def log(path: Path, name: str, size: int) -> Path:
    lines = "".join(f"{NOISE}\n" for _ in range(20)) + (DATA / name).read_text()
    with path.open("w") as file:
        for _ in range(size // len(lines) + 1):
            file.write(lines)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vllm-log.log", "sglang-new.log", "llama_cpp-june-2026.log"])
def test_log_is_read_at_50_mb_per_s(name: str, tmp_path: Path) -> None:
    path = log(tmp_path / "server.log", name, 150_000_000)
    start = time.process_time()
    read_files([str(path)])
    assert path.stat().st_size / (time.process_time() - start) > 50e6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    peaks = []
    for size in (40_000_000, 160_000_000):
        path = log(tmp_path / "server.log", "vllm-log.log", size)
        tracemalloc.start()
        read_files([str(path)])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 80e6
