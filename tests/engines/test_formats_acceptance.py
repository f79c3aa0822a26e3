"""Every format, from a sample of its documented form, with the exact canonical numbers (samples: tests/data)."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

from specplan.planner.acceptance.canonical import canonical
from specplan.planner.acceptance.curve import acceptance_length
from specplan.planner.acceptance.reading import acceptance_of
from specplan.planner.engines.acceptance import read_files
from specplan.planner.engines.plain import write_plain
from specplan.planner.messages import InputError

DATA = Path(__file__).parents[1] / "data" / "acceptance"

# file: (AL, D, steps, drafted, accepted, per_position, source_format)
SAMPLES = {
    "vllm-log.log": (1 + 513 / 124, 5, 124, 620, 513, [0.960, 0.863, 0.823, 0.782, 0.710], "vllm-log"),
    "vllm-0.9.log": (1 + 150 / 129, 3, 129, 387, 150, [0.543, 0.357, 0.264], "vllm-log"),
    "vllm-before-17908.log": (1 + 150 / 129, 3, 129, 387, 150, [0.543, 0.357, 0.264], "vllm-log"),
    "vllm-v0.log": (0.598 * 4, 3, 4437, 13311, 6179, None, "vllm-v0-log"),
    "vllm-request.json": (2.5, 3, 20, 60, 30, [0.6, 0.6, 0.3], "vllm-requests"),
    "vllm-bench.json": (2.8, 3, 5, 18, 9, [1.0, 0.6, 0.2], "vllm-bench"),
    "vllm-bench.txt": (1 + 31626 / 20481, 3, 20481, 61443, 31626, [0.7359, 0.4946, 0.3137], "vllm-bench"),
    "sglang-new.log": (2.52, 3, None, None, None, None, "sglang-log"),
    "sglang-0.5.3.log": (2.52, 3, None, None, None, None, "sglang-log"),
    "sglang-metrics.prom": (2.8, 3, None, None, None, None, "sglang-gauges"),
    "sglang-meta_info.json": (2.52, 3, 100, 300, 152, [0.79, 0.45, 0.28], "sglang-requests"),
    "sglang-server_info.json": (2.52, 3, None, None, None, None, "sglang-server-info"),
    "sglang-bench.json": (2.52, None, None, None, None, None, "sglang-bench"),
    "sglang-bench.txt": (2.52, None, None, None, None, None, "sglang-bench"),
    "trtllm-metrics.json": (1 + 28 / 16, 4, 16, 64, 28, None, "tensorrt_llm-iterations"),
    "trtllm-bench.txt": (1.86, 3, None, None, None, None, "tensorrt_llm-bench"),
    "trtllm-bench.json": (1.86, 3, None, None, None, None, "tensorrt_llm-bench"),
    "trtllm-response.json": (2.5, 3, 20, 60, 30, [0.6, 0.6, 0.3], "tensorrt_llm-requests"),
    "llama_cpp-today.log": (1 + 167 / 87, None, 87, 259, 167, None, "llama_cpp-log"),
    "llama_cpp-june-2026.log": (1 + 167 / 87, 3, 87, 259, 167, [0.805, 0.632, 0.483], "llama_cpp-log"),
    "llama_cpp-statistics.log": (1 + 167 / 87, 3, 87, 259, 167, [0.805, 0.632, 0.483], "llama_cpp-statistics"),
    "llama_cpp-ngram.log": (1 + 1186 / 861, None, 861, 1207, 1186, None, "llama_cpp-log-old"),
    "llama_cpp-timings.json": (1 + 167 / 88, None, 88, 259, 167, None, "llama_cpp-timings"),
    "llama_cpp-metrics.prom": (2.5, 3, 100, 300, 150, [0.75, 0.5, 0.25], "llama_cpp-prometheus"),
    "ik_llama-table.txt": (1 + 538 / 220, 3, 220, 660, 538, [0.905, 0.805, 0.736], "ik_llama-table"),
    "lmdeploy.log": (1 + 150 / 129, 3, 129, 387, 150, [0.543, 0.357, 0.264], "lmdeploy-log"),
    "lmdeploy-metrics.prom": (2.5, 3, 2, 6, 3, [1.0, 0.5, 0.0], "lmdeploy-prometheus"),
    "aiperf-profile_export_aiperf.json": (1 + 20 / 11, 4, 11, 44, 20, [9 / 11, 6 / 11, 4 / 11, 1 / 11],
                                          "aiperf-summary"),
    "aiperf-profile_export.jsonl": (1 + 20 / 11, 4, 11, 44, 20, [9 / 11, 6 / 11, 4 / 11, 1 / 11], "aiperf-records"),
    "aiperf-server_metrics_export.json": (2.8, None, 2000, 6000, 3600, None, "aiperf-server-metrics"),
    "speed-bench.csv": (27.49 / 11, None, None, None, None, None, "speed-bench-csv"),
    "specdec_bench-acceptance_rate.json": (1.9, 2, 100, None, 90, [0.6, 0.3], "specdec_bench"),
    "stated.yaml": (2.8, 3, 5000, None, None, [0.8, 0.6, 0.4], "stated"),
    "stated.csv": (3.0, 5, None, None, None, None, "stated"),
    "stated-positions.csv": (2.8, 3, None, None, None, [0.8, 0.6, 0.4], "stated"),
}
KEYS = ("acceptance_length", "per_position", "conditional", "draft_len", "steps", "drafted", "accepted",
        "source_format", "definition", "interval", "checks", "warnings")


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_gives_canonical_numbers(name: str) -> None:
    length, draft_len, steps, drafted, accepted, per_position, source_format = SAMPLES[name]
    found = canonical(read_files([str(DATA / name)]))
    assert found["acceptance_length"] == pytest.approx(length, rel=1e-3 if name == "vllm-v0.log" else 1e-9)
    assert (found["draft_len"], found["steps"], found["drafted"], found["accepted"], found["source_format"]) == (
        draft_len, steps, drafted, accepted, source_format)
    assert found["per_position"] == (None if per_position is None else pytest.approx(per_position, abs=1e-9))
    assert set(KEYS) <= found.keys()
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_reads_back_the_same(name: str, tmp_path: Path) -> None:
    reading = read_files([str(DATA / name)])
    for suffix, text in ((".yaml", write_plain(reading)), (".json", json.dumps(canonical(reading)))):
        path = tmp_path / f"written{suffix}"
        path.write_text(text)
        again = read_files([str(path)])
        assert again.acceptance_length == pytest.approx(reading.acceptance_length, abs=1e-9)
        assert (again.steps, again.draft_len, dict(again.labels)) == (
            reading.steps, reading.draft_len, dict(reading.labels))
        if reading.draft_len is not None:
            draft_lens = np.arange(9)
            np.testing.assert_allclose(acceptance_length(acceptance_of(again), draft_lens),
                                       acceptance_length(acceptance_of(reading), draft_lens), atol=1e-9)


def test_both_sglang_conventions_are_told_apart() -> None:
    new, old = (read_files([str(DATA / name)]) for name in ("sglang-new.log", "sglang-0.5.3.log"))
    assert "today" in new.definition
    assert "0.5.3" in old.definition
    assert new.acceptance_length == old.acceptance_length
    assert new.draft_len == old.draft_len


def test_sglang_rate_that_fits_two_meanings_is_not_guessed(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.write_text("Decode batch, #running-req: 1, #token: 9, accept len: 1.10, accept rate: 0.05, cuda graph: True\n")
    found = read_files([str(log)])
    assert found.draft_len is None
    assert "draft_len_needed" in {note.code for note in found.warnings}
    assert read_files([str(log)], draft_len=2).draft_len == 2


def test_old_vllm_length_without_bonus_is_noticed() -> None:
    assert "without the bonus token" in read_files([str(DATA / "vllm-before-17908.log")]).definition
    assert "without" not in read_files([str(DATA / "vllm-0.9.log")]).definition


def test_oldest_llama_line_asks_for_draft_len() -> None:
    path = str(DATA / "llama_cpp-oldest.log")
    with pytest.raises(InputError, match="--draft-len") as caught:
        read_files([path])
    assert caught.value.faults[0].path == ("draft_len",)
    found = read_files([path], draft_len=3)
    assert found.acceptance_length == pytest.approx(1 + 171 / 99)
    assert "ungated_assumed" in {note.code for note in found.warnings}


def test_steps_without_a_draft_count_as_steps() -> None:
    found = read_files([str(DATA / "llama_cpp-ngram.log")])      # 861 steps, 690 of them with a draft
    assert found.steps == 861
    assert found.acceptance_length == pytest.approx(1 + 1186 / 861)


def test_two_scrapes_are_differenced_in_vllm_counters() -> None:
    names = [str(DATA / f"vllm-metrics-{one}.prom") for one in ("before", "after")]
    found = read_files(names)
    assert (found.steps, found.drafted, found.accepted) == (2000, 6000, 3600)
    assert found.per_position == pytest.approx((0.8, 0.6, 0.4))
    joined = read_files([names[1]])
    assert joined.steps == 3000
    assert "single_scrape" in {note.code for note in joined.warnings}


def test_trtllm_gives_drafting_time_and_drops_repeated_rows() -> None:
    found = read_files([str(DATA / "trtllm-metrics.json")])
    assert (found.draft_s, found.step_s) == pytest.approx((0.0042, 0.021))
    assert "repeated_rows" in {note.code for note in found.warnings}


def test_trtllm_rows_polled_into_one_file(tmp_path: Path) -> None:
    polled = tmp_path / "iterations.jsonl"
    rows = (DATA / "trtllm-metrics.json").read_text().replace("\n", "")
    polled.write_text(rows + "\n[]\n" + rows + "\n")
    assert read_files([str(polled)]).steps == 16


def test_aiperf_takes_the_token_weighted_length() -> None:
    found = read_files([str(DATA / "aiperf-profile_export_aiperf.json")])
    assert "macro_mean" in {note.code for note in found.warnings}       # 3.25 over requests


def test_golden_curves_need_a_choice_and_stay_curves() -> None:
    path = str(DATA / "inferencex-qwen3.5_mtp.yaml")
    with pytest.raises(InputError, match=r"thinking_on, .*/thinking_off"):
        read_files([path])
    found = read_files([path], select="thinking_on")
    assert canonical(found)["curve"] == {"1": 1.93, "2": 2.73, "3": 3.39, "4": 3.97, "5": 4.41, "6": 4.8, "7": 5.04,
                                         "8": 5.21}
    assert acceptance_of(found).known_draft_len == 8


def test_speed_bench_column_is_selected() -> None:
    assert read_files([str(DATA / "speed-bench.csv")], select="coding").acceptance_length == 2.84


def test_contexts_become_one_curve() -> None:
    curve = acceptance_of(read_files([str(DATA / "stated-contexts.yaml")]))
    assert acceptance_length(curve, np.array([[3.0]]), np.array([[2048.0, 8192.0, 32768.0]])).ravel() == pytest.approx(
        [2.8, 2.55, 2.3])


def test_gzip_stdin_and_crlf_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = (DATA / "vllm-log.log").read_bytes()
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(raw))
    windows = tmp_path / "windows.log"
    windows.write_bytes(raw.replace(b"\n", b"\r\n"))
    expected = read_files([str(DATA / "vllm-log.log")]).acceptance_length
    for path in (packed, windows):
        assert read_files([str(path)]).acceptance_length == expected

    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(raw)))

    monkeypatch.setattr("sys.stdin", Stdin)
    assert read_files(["-"]).acceptance_length == expected
