"""A sweep measures, appends, resumes, survives Ctrl-C and writes a profile that the planner loads."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from specplan.microbench import allreduce, cases, sweep
from specplan.microbench.environment import describe
from specplan.microbench.grids import Grid
from specplan.microbench.journal import append, open_journal
from specplan.microbench.measurements import Measurement, environment_id, read_measurements
from specplan.microbench.sweep import Progress, run_sweep
from specplan.microbench.sweep_point import unstable
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import InputError
from tests.microbench.devices import CPU

needs_torch = pytest.mark.usefixtures("torch_here")


@pytest.fixture
def torch_here() -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of a few small cases, and buffers that do not have to leave a cache of 32 MB."""
    gemms = [cases.gemm(rows=rows, n=n, k=k, dtype="fp32") for rows in (1, 4, 16, 64) for n in (64, 256)
             for k in (64, 512)]
    pool = tuple(cases.gemm(rows=rows, n=128, k=256, dtype="fp32") for rows in (1, 2, 3, 8, 32, 128))
    grid = Grid(core=(cases.launch(), cases.copy(moved_bytes=2**22), *gemms), edges=(), pool=pool)
    monkeypatch.setattr(sweep, "general_grid", lambda environment: grid)
    monkeypatch.setitem(sweep.REFERENCE, "cpu", cases.gemm(rows=4, n=256, k=256, dtype="fp32"))
    monkeypatch.setattr(sweep, "describe", lambda device, **more: dataclasses.replace(
        describe(device, **more), cache_bytes=2**16))


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@needs_torch
@pytest.mark.usefixtures("small")
def test_a_sweep_leaves_measurements_a_profile_and_a_summary(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path / "out", report=seen.append)
    measured = read_measurements(result.measurements)
    assert {point.op for point in measured.timed} == {"launch", "copy", "gemm"}
    assert len(measured.references) >= 2
    assert not measured.faults
    assert all(point.skipped for point in measured.points if point.op == "allreduce")
    profile = load_gpu(str(result.profile))
    assert profile.hardware.arch == "cpu"
    assert profile.hardware.memory_bytes == measured.environment.memory_bytes
    assert "says nothing about a GPU" in result.summary_file.read_text()
    assert seen
    assert seen[-1].budget_s == pytest.approx(6.0)


@needs_torch
@pytest.mark.usefixtures("small")
def test_running_again_skips_what_is_done(tmp_path: Path) -> None:
    run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path)
    lines = records(tmp_path / "measurements.jsonl")
    before = {json.dumps([line["op"], line["kernel"], line["shape"]]) for line in lines
              if line["record"] == "point" and not line.get("reference") and line.get("samples_s")}
    run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path)
    after = [json.dumps([line["op"], line["kernel"], line["shape"]])
             for line in records(tmp_path / "measurements.jsonl")[len(lines):]
             if line["record"] == "point" and not line.get("reference") and line.get("samples_s")]
    assert len(before) >= 18
    assert not before & set(after)
    skips = [line["kernel"] for line in records(tmp_path / "measurements.jsonl") if line.get("skipped")]
    assert len(skips) == len(set(skips))      # the same reason is not written twice


@needs_torch
@pytest.mark.usefixtures("small")
def test_ctrl_c_leaves_a_valid_file_and_a_profile(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 5:
            raise KeyboardInterrupt

    result = run_sweep(device="cpu", threads=1, minutes=1, out=tmp_path, report=interrupt)
    assert result.interrupted
    measured = read_measurements(tmp_path / "measurements.jsonl")
    assert len(measured.timed) == 5
    assert not measured.faults
    assert (tmp_path / "profile.yaml").exists()


@needs_torch
@pytest.mark.usefixtures("small")
def test_a_corrupt_line_is_named_and_the_rest_used(tmp_path: Path) -> None:
    run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path)
    with (tmp_path / "measurements.jsonl").open("a") as handle:
        handle.write("{broken\n")
    result = run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path)
    assert any("not JSON" in note.message and "measurements.jsonl:" in note.message for note in result.notes)


@needs_torch
def test_another_machine_is_refused_with_what_differs(tmp_path: Path) -> None:
    with open_journal(tmp_path / "measurements.jsonl", CPU):
        pass
    with pytest.raises(InputError, match=r"device_name: Some CPU there.*Write to another folder with -o"):
        run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path)


@pytest.mark.parametrize(("minutes", "why"), [
    (0, "leaves no time"), (-1, "leaves no time"), (0.05, "leaves no time"), (float("inf"), "is no time that a sweep"),
    (float("nan"), "is no time that a sweep"),
])
def test_no_time_or_endless_time_is_bad_input(tmp_path: Path, minutes: float, why: str) -> None:
    with pytest.raises(InputError, match=rf"--minutes: .* {why}.*; give 0\.1 to 1440"):
        run_sweep(device="cpu", minutes=minutes, out=tmp_path)


@needs_torch
def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run_sweep(device="cpu", threads=1, minutes=0.1, out=tmp_path / "out")


def reference(seconds: float) -> Measurement:
    return Measurement(op="copy", kernel="torch-copy", shape={"moved_bytes": 8}, dtypes={}, flop=0.0, bytes=8.0,
                       environment=environment_id(CPU), samples_s=(seconds,), reference=True)


def test_a_restless_machine_is_told_with_its_spread() -> None:
    assert unstable([reference(1e-3), reference(1.05e-3)]) is None
    note = unstable([reference(1e-3), reference(1.5e-3)])
    assert note is not None
    assert "from 1000 to 1500 us over the run (50% spread)" in note.message
    assert unstable([reference(1e-3)]) is None


@needs_torch
@pytest.mark.usefixtures("small")
def test_a_block_is_measured_again_where_the_reference_drifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([1e-3, 2e-3, *[2e-3] * 50])
    measured: list[tuple[str, bool]] = []

    def measure_point(point: Any, bench: Any, *, at_s: float, reference: bool = False) -> Measurement:
        measured.append((point.key, reference))
        case = point.case
        return Measurement(op=case.op, kernel=point.backend.name, shape=case.shape, dtypes=case.dtypes, flop=case.flop,
                           bytes=case.bytes, environment=environment_id(bench.environment), reference=reference,
                           samples_s=(next(taken) if reference else 1e-3,))

    monkeypatch.setattr(sweep, "measure_point", measure_point)
    monkeypatch.setattr(sweep, "REFERENCE_EVERY", 4)
    run_sweep(device="cpu", threads=1, minutes=0.2, out=tmp_path)
    first = [key for key, reference in measured[:10] if not reference]
    assert [reference for _, reference in measured[:10]] == [True, *[False] * 4, True, *[False] * 4]
    assert first[:4] == first[4:]           # the block before the drift, once more
    found = read_measurements(tmp_path / "measurements.jsonl")
    assert [point.drift for point in found.references[:2]] == [0.0, 1.0]


@needs_torch
def test_allreduce_of_two_processes_by_gloo(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    script = tmp_path / "two.py"
    script.write_text(
        "from pathlib import Path\n"
        "from specplan.microbench import allreduce, sweep\n"
        "from specplan.microbench.environment import describe\n"
        "from specplan.microbench.journal import append, open_journal\n"
        "environment = describe('cpu', threads=1, gpus=allreduce.ranks())\n"
        "with allreduce.process_group('cpu'):\n"
        "    if allreduce.rank() == 0:\n"
        f"        with open_journal(Path({str(tmp_path)!r}) / 'm.jsonl', environment) as journal:\n"
        "            allreduce.measure_allreduce(environment, set(), lambda point: append(journal, point))\n"
        "    else:\n"
        "        allreduce.measure_allreduce(environment, set(), lambda point: None)\n")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29611", str(script)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == 0, done.stderr[-2000:]
    found = read_measurements(tmp_path / "m.jsonl")
    assert found.environment.gpus == 2
    assert [point.shape["message_bytes"] for point in found.points] == list(allreduce.CPU_BYTES)
    assert all(point.kernel == "gloo-allreduce" and len(point.samples_s) == allreduce.SAMPLES for point in found.points)
    assert found.points[-1].median_s > found.points[0].median_s


def test_points_of_a_sweep_can_be_appended_by_hand(tmp_path: Path) -> None:
    with open_journal(tmp_path / "m.jsonl", CPU) as journal:
        append(journal, dataclasses.replace(reference(1e-3), reference=False))
    assert len(read_measurements(tmp_path / "m.jsonl").timed) == 1


@needs_torch
@pytest.mark.usefixtures("small")
def test_the_faster_of_two_visits_counts_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits: dict[str, int] = {}

    def measure_point(point: Any, bench: Any, *, at_s: float, reference: bool = False) -> Measurement:
        count = 0 if reference else visits.get(point.key, 0)
        if not reference:
            visits[point.key] = count + 1
        faster_later = point.case.shape.get("rows", 0) > 4
        seconds = (2e-3, 1e-3)[count % 2] if faster_later else (1e-3, 2e-3)[count % 2]
        case = point.case
        return Measurement(op=case.op, kernel=point.backend.name, shape=case.shape, dtypes=case.dtypes, flop=case.flop,
                           bytes=case.bytes, environment=environment_id(bench.environment), reference=reference,
                           samples_s=(1e-3 if reference else seconds,))

    monkeypatch.setattr(sweep, "measure_point", measure_point)
    run_sweep(device="cpu", threads=1, minutes=0.2, out=tmp_path)
    twice = [key for key, count in visits.items() if count >= 2]
    assert len(twice) >= 18     # every point of the core
    found = {point.key: point for point in read_measurements(tmp_path / "measurements.jsonl").timed}
    assert {found[key].median_s for key in twice} == {1e-3}
