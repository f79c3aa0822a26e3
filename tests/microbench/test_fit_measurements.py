"""Own measurements become a profile: cold points only, medians, entries for every engine over the shipped ones."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from specplan.microbench import cases
from specplan.microbench.cases import Case
from specplan.microbench.fit_measurements import fit_measurements, measured_slices
from specplan.microbench.journal import append, open_journal
from specplan.microbench.measurements import Environment, Measurement, environment_id, read_measurements
from specplan.planner.kernels.gemm import GemmKernel, gemm_time
from specplan.planner.kernels.profile import dump_profile, load_gpu, read_profile
from specplan.planner.kernels.select import gemm_kernel
from specplan.planner.messages import InputError

H200 = Environment(device="cuda", device_name="NVIDIA H200", memory_bytes=141_000_000_000, cache_bytes=60_000_000,
                   torch="2.13.0", sms=132, started="2026-11-29T12:00:00Z")
TRUTH = dataclasses.replace(
    gemm_kernel(load_gpu("h200-sxm"), "vllm", weight_dtype="bf16"), launch_s=5e-6, stream_bytes_per_s=4.0e12,
    mma_flop_per_s=6.0e14, k_chain_s=0.5e-6, row_pad=1, overlap=2.5,
)


def point(case: Case, kernel: str, seconds: float, environment: Environment = H200) -> Measurement:
    return Measurement(
        op=case.op, kernel=kernel, shape=case.shape, dtypes=case.dtypes, flop=case.flop, bytes=case.bytes,
        cold=case.cold,
        environment=environment_id(environment), samples_s=(0.9 * seconds, seconds, 3.0 * seconds), stop="samples",
    )


def write(path: Path, points: list[Measurement], environment: Environment = H200) -> Path:
    with open_journal(path, environment) as journal:
        for item in points:
            append(journal, item)
    return path


def gemm_points(kernel: GemmKernel = TRUTH, rows: tuple[int, ...] = (1, 16, 64, 256, 1024)) -> list[Measurement]:
    shapes = itertools.product(rows, (2048, 8192), (1024, 4096, 16384))
    return [
        point(cases.gemm(rows=m, n=n, k=k, dtype="bf16"), "torch-mm",
              float(gemm_time(kernel, rows=m, n=n, k=k).time_s))
        for m, n, k in shapes
    ]


def test_thirty_points_give_the_four_numbers_of_a_gemm(tmp_path: Path) -> None:
    report = fit_measurements(write(tmp_path / "m.jsonl", gemm_points()))
    (item,) = report.fitted
    assert item.entry.id == "any-torch-mm"
    for name in ("launch_s", "stream_bytes_per_s", "mma_flop_per_s", "k_chain_s"):
        assert item.entry.parameters[name] == pytest.approx(getattr(TRUTH, name), rel=0.01), name
    assert item.entry.evidence.rows == 30


def test_the_file_written_is_the_profile_and_the_planner_uses_its_numbers(tmp_path: Path) -> None:
    report = fit_measurements(write(tmp_path / "m.jsonl", gemm_points()), out=tmp_path / "mine.yaml")
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert text == report.text == dump_profile(read_profile(text))
    chosen = gemm_kernel(load_gpu(tmp_path / "mine.yaml"), "vllm", weight_dtype="bf16")
    assert chosen.id == "any-torch-mm"
    assert chosen.stream_bytes_per_s == pytest.approx(4.0e12, rel=0.01)
    assert "measured on NVIDIA H200 by specplan sweep" in chosen.evidence.source


def test_what_was_not_measured_stays_as_shipped(tmp_path: Path) -> None:
    report = fit_measurements(write(tmp_path / "m.jsonl", gemm_points()))
    shipped, mine = load_gpu("h200-sxm"), report.profile
    assert mine.entries("attention") == shipped.entries("attention")
    assert {entry.key["weight_dtype"] for entry in mine.entries("gemm")} == {
        entry.key["weight_dtype"] for entry in shipped.entries("gemm")}
    assert [entry.id for entry in mine.entries("gemm") if entry.key["weight_dtype"] == "bf16"] == ["any-torch-mm"]


def test_the_same_points_give_the_same_bytes(tmp_path: Path) -> None:
    points = gemm_points()
    texts = [fit_measurements(write(tmp_path / f"{name}.jsonl", points)).text for name in ("first", "second")]
    assert texts[0] == texts[1]


def test_the_median_of_the_samples_counts_and_warm_points_do_not(tmp_path: Path) -> None:
    warm = dataclasses.replace(gemm_points()[0], cold=False)
    measured = read_measurements(write(tmp_path / "m.jsonl", [*gemm_points(), warm]))
    (rows,) = measured_slices(measured.timed, measured.environment.torch)
    assert len(rows) == 30
    assert rows.rejected == {"operands left in cache by the call before": 1}
    assert rows.time_s[0] == pytest.approx(float(gemm_time(TRUTH, rows=1, n=2048, k=1024).time_s))


def test_the_tokens_of_a_pass_are_part_of_its_context(tmp_path: Path) -> None:
    case = cases.attention(batch=2, context_tokens=1000, query_len=8, query_heads=8, kv_heads=1, head_dim=128,
                           query="bf16", kv="bf16")
    measured = read_measurements(write(tmp_path / "m.jsonl", [point(case, "specplan-triton", 1e-5)]))
    (rows,) = measured_slices(measured.timed, measured.environment.torch)
    assert rows.columns["context_tokens"].tolist() == [1008]


def attention_points(noise: float = 0.0) -> list[Measurement]:
    """Verify attention of the project's own kernel, timed by a plain law: launch and bytes."""
    random = np.random.default_rng(1)
    points = []
    for batch, context, query_len, group in itertools.product((1, 8, 64), (1024, 8192, 65536), (1, 4, 8), (4, 16)):
        case = cases.attention(batch=batch, context_tokens=context, query_len=query_len, query_heads=group * 2,
                               kv_heads=2, head_dim=128, query="bf16", kv="bf16")
        seconds = (2e-5 + case.bytes / 3.5e12) * float(np.exp(random.normal(0, noise)))
        points.append(point(case, "specplan-triton", seconds))
    return points


def test_own_verify_attention_is_fitted_with_query_lengths_above_one(tmp_path: Path) -> None:
    report = fit_measurements(write(tmp_path / "m.jsonl", attention_points(noise=0.02)))
    (item,) = report.fitted
    assert item.entry.id == "any-specplan-triton"
    assert list(item.entry.evidence.fitted_range["query_len"]) == [1, 8]
    assert list(item.entry.evidence.fitted_range["rows"]) == [4, 128]
    assert item.entry.parameters["stream_bytes_per_s"] == pytest.approx(3.5e12, rel=0.05)


def test_too_few_points_say_how_many_are_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", gemm_points()[:7])
    with pytest.raises(InputError, match=r"m\.jsonl: gemm any 2\.13\.0 torch-mm dtype=bf16: 7 rows; needs at least 16"):
        fit_measurements(path)


def test_one_sided_points_say_which_range_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", gemm_points(rows=(1, 2, 4, 8)))
    with pytest.raises(InputError, match="one-sided: rows from 1 to 8; needs a range of 16"):
        fit_measurements(path)


def test_unit_mistakes_are_rejected_and_counted(tmp_path: Path) -> None:
    def milliseconds(item: Measurement) -> Measurement:
        return dataclasses.replace(item, samples_s=tuple(sample / 1000 for sample in item.samples_s))

    points = gemm_points()
    wrong = [milliseconds(item) if item.shape["k"] == 16384 else item for item in points]
    report = fit_measurements(write(tmp_path / "m.jsonl", wrong))
    assert report.fitted[0].entry.evidence.error_mean_pct is None       # too few are left to hold any out
    assert report.rejected["beyond 110 % of the datasheet, or no positive time"] == 10
    assert any("left out: 10 rows" in line for line in report.lines())


def test_two_devices_in_one_file_are_refused_and_both_named(tmp_path: Path) -> None:
    h100 = dataclasses.replace(H200, device_name="NVIDIA H100 80GB HBM3")
    path = write(tmp_path / "m.jsonl", gemm_points())
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"record": "environment", **dataclasses.asdict(h100)}) + "\n")
    with pytest.raises(InputError, match="NVIDIA H200 there, NVIDIA H100 80GB HBM3 here"):
        fit_measurements(path)


@pytest.mark.parametrize("value", ["NaN", "-1e-5"])
def test_times_that_are_no_times_leave_their_line_out_and_are_reported(tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "m.jsonl", gemm_points())
    lines = path.read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[5])
    broken["samples_s"] = ["wrong"]
    lines[5] = json.dumps(broken).replace('"wrong"', value)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = fit_measurements(path)
    assert report.fitted[0].entry.evidence.rows == 29
    assert "m.jsonl:6" in report.lines()[-1]


def test_a_device_without_a_profile_asks_for_one_to_start_from(tmp_path: Path) -> None:
    unknown = dataclasses.replace(H200, device_name="Graphics 9000")
    points = [dataclasses.replace(item, environment=environment_id(unknown)) for item in gemm_points()]
    path = write(tmp_path / "m.jsonl", points, unknown)
    with pytest.raises(InputError, match="'Graphics 9000', which no shipped profile describes"):
        fit_measurements(path)
    assert fit_measurements(path, base="h100-sxm").profile.hardware.name == "h100-sxm"


def test_a_kernel_that_no_design_describes_is_named(tmp_path: Path) -> None:
    points = [dataclasses.replace(item, kernel="my-kernel") for item in attention_points()]
    with pytest.raises(InputError, match=r"my-kernel.*no attention design of this name"):
        fit_measurements(write(tmp_path / "m.jsonl", points))




def lines_of(path: Path, **changes: object) -> Path:
    """The file with changes to every point."""
    head, *points = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, *(json.dumps({**json.loads(line), **changes}) for line in points)]))
    return path


@pytest.mark.parametrize(("changes", "said"), [
    ({"shape": {"rows": -1, "n": 64, "k": 64}}, "shape: rows is -1, which no gemm has"),
    ({"shape": {"rows": 8, "n": 64, "k": 0}}, "shape: k is 0, which no gemm has"),
    ({"shape": {"rows": 10**400, "n": 64, "k": 64}}, "shape: rows is above 1e15, which no gemm has"),
    ({"flop": float("nan")}, "flop, bytes: work that is not a number"),
    ({"dtypes": {"weight": "\u00e9"}}, "dtypes: unknown dtype '\u00e9'; there are fp32"),
    ({"dtypes": {"weight": "bf-16"}}, "did you mean 'bf16'"),
])
def test_a_file_of_which_no_line_can_be_used_says_why_by_line(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    file = lines_of(write(tmp_path / "m.jsonl", gemm_points()), **changes)
    with pytest.raises(InputError) as caught:
        fit_measurements(file, base="h200-sxm")
    assert said in str(caught.value)
    assert "m.jsonl:2: " in str(caught.value)


def test_a_line_nested_without_end_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", gemm_points())
    file.write_text(file.read_text(encoding="utf-8") + "\n" + "[" * 100_000)
    (fault,) = fit_measurements(file).faults
    assert "nested too deeply" in str(fault)


@pytest.mark.parametrize(("factor", "unit"), [
    (1e3, "milliseconds"), (1e6, "microseconds"), (1e300, "another unit")])
def test_times_in_another_unit_are_refused(factor: float, unit: str, tmp_path: Path) -> None:
    points = [dataclasses.replace(item, samples_s=tuple(factor * second for second in item.samples_s))
              for item in gemm_points()]
    with pytest.raises(InputError, match=f"seconds are wanted, these may be .*{unit}"):
        fit_measurements(write(tmp_path / "m.jsonl", points))


CPU_BOX = Environment(device="cpu", device_name="Xeon", memory_bytes=64_000_000_000, cache_bytes=30_000_000,
                      torch="2.13.0", threads=4, started="2026-11-29T12:00:00Z")


def cpu_points(factor: float = 1.0) -> list[Measurement]:
    shapes = itertools.product((1, 4, 16, 64, 256), (1024, 4096), (512, 2048, 8192))
    return [point(cases.gemm(rows=m, n=n, k=k, dtype="fp32"), "torch-linear",
                  factor * (1e-5 + max(4 * n * k / 2e10, 2 * m * n * k / 2e11)), CPU_BOX) for m, n, k in shapes]


def test_a_sweep_of_a_cpu_is_its_own_base(tmp_path: Path) -> None:
    report = fit_measurements(write(tmp_path / "m.jsonl", cpu_points(), CPU_BOX))
    assert report.profile.hardware.arch == "cpu"
    with pytest.raises(InputError, match="these may be microseconds"):
        fit_measurements(write(tmp_path / "us.jsonl", cpu_points(1e6), CPU_BOX))


def test_an_unknown_gpu_is_asked_for_its_base(tmp_path: Path) -> None:
    unknown = dataclasses.replace(H200, device_name="NVIDIA X9")
    points = [dataclasses.replace(item, environment=environment_id(unknown)) for item in gemm_points()]
    with pytest.raises(InputError, match=r"'NVIDIA X9', which no shipped profile describes: name the .* with --base"):
        fit_measurements(write(tmp_path / "m.jsonl", points, unknown))
