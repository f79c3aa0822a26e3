"""Own attention measurements of known truth: the math rate beyond the knee, the gain of a warm cache, and neither."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from specplan.microbench.cases import Case
from specplan.microbench.fit_measurements import fit_measured
from specplan.microbench.fit_predict import kernel_of
from specplan.microbench.fit_system import Fitted
from specplan.microbench.grids import general_grid
from specplan.microbench.measurements import Measurement, Measurements, environment_id
from specplan.planner.kernels.attention import AttentionKernel, attention_time, math_knee_rows
from specplan.planner.kernels.choice import ANY
from specplan.planner.kernels.entries import Entry, GpuProfile
from specplan.planner.kernels.profile import dump_profile, load_gpu
from specplan.planner.kernels.select import attention_kernel
from specplan.planner.kernels.timing import Evidence
from tests.microbench.devices import H200

BASE = load_gpu("h200-sxm")
NUMBERS = {"launch_s": 7e-6, "stream_bytes_per_s": 4.1e12, "block_s": 0.12e-6, "wave_s": 2.2e-6, "combine_s": 1.5e-6,
           "cta_bytes_per_s": 70e9, "math_flop_per_s": 4.2e14, "l2_gain": 1.9}
NOISE = 0.02


def kernel(**numbers: float) -> AttentionKernel:
    entry = Entry(
        id="any-specplan-triton", engine="any", version="", form="walk_fa3", measured_as="", default=False,
        only_by_name=False, key={"head_dim": 128, "kv_dtype": "bf16"}, evidence=Evidence(level="measured", source="t"),
        parameters={**NUMBERS, "tile_rows": 256, "row_tile": 64, "split_cap": 32, "kv_block_tokens": 64,
                    "ctas_per_sm": 1, **numbers})
    found: AttentionKernel = kernel_of("attention", entry, BASE.hardware)
    return found


def grid(*, cold: bool = True) -> list[Case]:
    """Attention cases that a sweep of an H200 measures without being asked."""
    found = general_grid(H200)
    return [case for case in (*found.core, *found.edges)
            if case.op == "attention" and case.dtypes["kv"] == "bf16" and case.cold == cold]


def timed(cases: Iterable[Case], truth: AttentionKernel) -> list[Measurement]:
    random = np.random.default_rng(3)
    points = []
    for case in cases:
        shape = dict(case.shape)
        shape.pop("head_dim")
        shape["context_tokens"] += shape["query_len"]
        seconds = float(attention_time(truth, l2_warm=not case.cold, **shape).time_s) * random.lognormal(0.0, NOISE)
        points.append(Measurement(
            op="attention", kernel="specplan-triton", shape=case.shape, dtypes=case.dtypes, flop=case.flop,
            bytes=case.bytes, cold=case.cold, environment=environment_id(H200), samples_s=(seconds,)))
    return points


def fitted(points: Iterable[Measurement]) -> Fitted:
    measured = Measurements(environment=H200, points=tuple(points), references=())
    (found,) = fit_measured(measured, BASE, splits=("a",)).fitted
    return found


def rows(case: Case) -> int:
    return case.shape["query_heads"] // case.shape["kv_heads"] * case.shape["query_len"]


@pytest.mark.parametrize("rate", [3.0e14, 4.2e14, 5.2e14])
def test_the_math_rate_is_found_within_its_stated_error(rate: float) -> None:
    truth = kernel(math_flop_per_s=rate)
    assert math_knee_rows(truth) < 256      # the grid reaches beyond the knee
    found = fitted(timed(grid(), truth))
    error = found.entry.evidence.parameter_error_pct["math_flop_per_s"]
    assert error <= 10
    assert found.held == ()
    assert abs(found.entry.parameters["math_flop_per_s"] / rate - 1) * 100 <= 4 * error


def test_rows_below_the_knee_leave_the_math_rate_at_its_prior_and_say_so() -> None:
    few = [case for case in grid() if rows(case) <= 64]
    found = fitted(timed(few, kernel()))
    assert "math_flop_per_s" in found.held
    assert "math_flop_per_s" not in found.entry.evidence.parameter_error_pct
    assert "math-flop-per-s" in found.entry.evidence.source
    prefill = attention_kernel(BASE, "vllm", head_dim=128, kv_dtype="bf16").math_flop_per_s
    assert found.entry.parameters["math_flop_per_s"] == pytest.approx(prefill, rel=0.01)


def test_a_held_rate_is_no_slower_than_the_best_one_seen() -> None:
    fast = kernel(stream_bytes_per_s=4.7e12, math_flop_per_s=9.5e14, block_s=0.0, wave_s=0.0, cta_bytes_per_s=1e12)
    points = timed(grid(), fast)
    found = fitted(points)
    best = max(point.flop / point.median_s for point in points)
    assert best > 6e14      # faster than prefill: the shipped rate would contradict these rows
    assert found.entry.parameters["math_flop_per_s"] >= 0.95 * best


def profile(tmp_path: Path) -> GpuProfile:
    measured = Measurements(environment=H200, points=tuple(timed(grid(), kernel(math_flop_per_s=3e14))), references=())
    (tmp_path / "mine.yaml").write_text(dump_profile(fit_measured(measured, BASE, splits=("a",)).profile))
    return load_gpu(tmp_path / "mine.yaml")


def test_the_own_kernel_stands_in_where_nobody_measured_the_engines(tmp_path: Path) -> None:
    mine = profile(tmp_path)
    assert attention_kernel(mine, "vllm", head_dim=128, kv_dtype="bf16").id == "vllm-fa3"
    own = tuple(entry for entry in mine.entries("attention") if entry.engine == ANY)
    alone = dataclasses.replace(mine, kernels={**mine.kernels, "attention": own})
    found = attention_kernel(alone, "vllm", head_dim=128, kv_dtype="bf16")
    assert found.id == "any-specplan-triton"
    assert found.math_flop_per_s == pytest.approx(3e14, rel=0.1)
    assert "timed specplan-triton with several query tokens, not vllm-fa3" in " ".join(n.message for n in found.notes)


def test_other_widths_and_formats_and_a_kernel_named_stay_as_shipped(tmp_path: Path) -> None:
    mine = profile(tmp_path)
    for head_dim, kv, override in ((64, "bf16", None), (128, "fp8", None), (128, "bf16", "vllm-fa3")):
        found, shipped = (attention_kernel(gpu, "vllm", head_dim=head_dim, kv_dtype=kv, override=override)
                          for gpu in (mine, BASE))
        assert found == shipped


def test_a_library_that_the_engine_runs_is_taken_before_the_stand_in() -> None:
    points = timed(grid(), kernel())
    both = [*points, *(dataclasses.replace(point, kernel="flash-attn-3") for point in points)]
    mine = fit_measured(Measurements(environment=H200, points=tuple(both), references=()), BASE, splits=("a",)).profile
    assert attention_kernel(mine, "vllm", head_dim=128, kv_dtype="bf16").id == "any-fa3"
    assert {entry.id for entry in mine.entries("attention") if entry.kernel == "fa3"
            and entry.key == {"head_dim": 128, "kv_dtype": "bf16"}} == {"any-fa3"}      # vLLM's and SGLang's are gone


def test_warm_points_tell_the_gain_of_the_cache_and_nothing_else() -> None:
    truth = kernel()
    cold = timed(grid(), truth)
    warm = timed(grid(cold=False), truth)
    alone, both = fitted(cold).entry, fitted([*cold, *warm]).entry
    assert "l2_gain" not in alone.parameters
    error = both.evidence.parameter_error_pct["l2_gain"]
    assert abs(both.parameters["l2_gain"] / truth.l2_gain - 1) * 100 <= 4 * error
    assert {name: value for name, value in both.parameters.items() if name != "l2_gain"} == alone.parameters


def test_warm_points_beyond_the_cache_tell_no_gain() -> None:
    cold = timed(grid(), kernel())
    large = [dataclasses.replace(case, cold=False) for case in grid() if case.bytes > 2 * BASE.hardware.l2_bytes]
    assert "l2_gain" not in fitted([*cold, *timed(large, kernel())]).entry.parameters
