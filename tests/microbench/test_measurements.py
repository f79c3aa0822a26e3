"""The measurement file: what is written comes back, what is broken is named, what differs is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from specplan.microbench.journal import append, open_journal
from specplan.microbench.measurements import (
    Environment,
    Measurement,
    differences,
    environment_id,
    read_measurements,
)
from specplan.planner.messages import InputError

CPU = Environment(
    device="cpu", device_name="Some CPU", memory_bytes=2**34, cache_bytes=2**25, torch="2.13.0", threads=2
)
GEMM = Measurement(
    op="gemm", kernel="torch-mm", shape={"rows": 8, "n": 64, "k": 32}, dtypes={"weight": "fp32"}, flop=32768.0,
    bytes=11264.0, environment=environment_id(CPU), samples_s=(1e-5, 1.1e-5, 0.9e-5), calls_per_sample=4,
    stop="standard_error",
)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "out" / "measurements.jsonl"
    with open_journal(path, CPU) as handle:
        append(handle, GEMM)
    return path


def test_what_is_written_comes_back(journal: Path) -> None:
    found = read_measurements(journal)
    assert found.environment == CPU
    assert found.points == (GEMM,)
    assert found.points[0].median_s == 1e-5
    assert found.points[0].flop_per_s == 32768 / 1e-5
    assert not found.faults


def test_statistics_by_hand() -> None:
    point = dataclasses.replace(GEMM, samples_s=(1.0, 2.0, 3.0))
    assert point.quartiles_s == (1.5, 2.5)
    assert point.standard_error == pytest.approx(1 / 3**0.5 / 2)
    assert dataclasses.replace(GEMM, samples_s=(1.0,)).standard_error == float("inf")


def test_a_point_measured_again_replaces_the_first(journal: Path) -> None:
    again = dataclasses.replace(GEMM, samples_s=(2e-5,))
    with open_journal(journal, CPU) as handle:
        append(handle, again)
    assert read_measurements(journal).points == (again,)


def test_corrupt_lines_are_named_and_the_rest_kept(journal: Path) -> None:
    lines = [
        '{"record": "point", "op": "gemm", "ker',                                           # a killed run
        json.dumps({"record": "point", "op": "gem"}),
        json.dumps({"hello": 1}),
        json.dumps({"record": "point", **dataclasses.asdict(GEMM), "samples_s": [-1.0]}),
        json.dumps({"record": "point", **dataclasses.asdict(GEMM), "shape": {"rows": 1, "n": 2}}),
        json.dumps({"record": "point", **dataclasses.asdict(GEMM), "environment": "0"}),
        json.dumps({"record": "point", **dataclasses.asdict(GEMM), "colour": "red"}),
    ]
    with journal.open("a") as handle:
        handle.write("\n".join(lines))
    found = read_measurements(journal)
    assert found.points == (GEMM,)
    assert sorted(fault.line or 0 for fault in found.faults) == [3, 4, 5, 6, 7, 8, 9]
    said = "\n".join(map(str, found.faults))
    for words in ("not JSON", "nor 'point'", "positive number", "gemm lacks k", "environment 0", "colour"):
        assert words in said


def test_an_unfinished_line_does_not_spoil_the_next(journal: Path) -> None:
    with journal.open("a") as handle:
        handle.write('{"record": "point", "op"')
    with open_journal(journal, CPU) as handle:
        append(handle, dataclasses.replace(GEMM, kernel="other"))
    found = read_measurements(journal)
    assert [point.kernel for point in found.points] == ["torch-mm", "other"]
    assert [fault.line for fault in found.faults] == [3]


def test_another_environment_is_refused_and_the_difference_said(journal: Path) -> None:
    other = dataclasses.replace(CPU, torch="2.12.0", threads=8, started="later")
    assert differences(CPU, other) == ("torch: 2.13.0 there, 2.12.0 here", "threads: 2 there, 8 here")
    with pytest.raises(InputError, match=r"torch: 2\.13\.0 there, 2\.12\.0 here"), open_journal(journal, other):
        pass
    with journal.open("a") as handle:
        handle.write(json.dumps({"record": "environment", **dataclasses.asdict(other)}) + "\n")
    with pytest.raises(InputError, match="two environments in one file"):
        read_measurements(journal)


def test_the_same_environment_on_another_day_is_the_same() -> None:
    assert environment_id(dataclasses.replace(CPU, started="2026-01-01", specplan="9")) == environment_id(CPU)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"record": "environment", "schema": 99}) + "\n")
    with pytest.raises(InputError, match="schema 99"):
        read_measurements(path)


@pytest.mark.parametrize("text", ["", "not json\n", '{"record": "point"}\n'])
def test_a_file_without_an_environment_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="no environment line"):
        read_measurements(path)


def test_missing_file() -> None:
    with pytest.raises(InputError, match="No such file"):
        read_measurements(Path("/nowhere/m.jsonl"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said() -> None:
    full = Path("/dev/full")
    with full.open("ab", buffering=0) as handle, pytest.raises(InputError, match="full; the points before"):
        append(handle, GEMM)
    with pytest.raises(InputError, match="the disk is full"), open_journal(full, CPU):
        pass


def test_a_read_only_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *args: object, **more: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match="read-only"), open_journal(tmp_path / "x" / "m.jsonl", CPU):
        pass
