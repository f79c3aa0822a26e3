"""The cases of a sweep: enough for every fit, at both sides of every tile edge, with no case twice."""

from __future__ import annotations

import dataclasses

import pytest

from specplan.microbench.backends import backends_of
from specplan.microbench.cases import Case
from specplan.microbench.fit import ROWS_PER_NUMBER, too_little
from specplan.microbench.fit_measurements import measured_slices, measured_target
from specplan.microbench.fit_rows import held_out
from specplan.microbench.grids import ROW_EDGES, Grid, general_grid, model_grid
from specplan.microbench.measured_base import base_profile
from specplan.microbench.measurements import Environment, Measurement, Measurements
from specplan.planner.models.reader import load_model
from tests.microbench.devices import CPU, H200

DEVICES = pytest.mark.parametrize("environment", [CPU, H200], ids=["cpu", "h200"])
OWN = {"torch-onednn", "torch-mm", "torch-scaled-mm", "torch-packed", "specplan-triton", "specplan-triton-mla",
       "torch-grouped-mm"}


def points(cases: tuple[Case, ...], environment: Environment) -> list[Measurement]:
    """Each case as if its preferred own kernel had taken one millisecond."""
    found = []
    for case in cases:
        kernel = next((backend.name for backend in backends_of(case.op, environment.device)
                       if backend.name in OWN and backend.refuses(case, environment) is None), None)
        if kernel is not None:
            found.append(Measurement(
                op=case.op, kernel=kernel, shape=case.shape, dtypes=case.dtypes, flop=case.flop, bytes=case.bytes,
                environment="", cold=case.cold, samples_s=(1e-3,)))
    return found


@DEVICES
def test_the_core_identifies_every_fit_with_a_third_held_out(environment: Environment) -> None:
    measured = Measurements(environment=environment, points=tuple(points(general_grid(environment).core, environment)),
                            references=())
    base = base_profile(measured)
    slices = measured_slices(measured.timed, "")
    assert {rows.family for rows in slices} >= {"gemm", "attention"}
    for rows in slices:
        target = measured_target(rows, base)
        if rows.family in {"gemm", "attention", "mla"}:
            train = rows.take(~held_out(rows, "a"))
            assert too_little(train, target) is None, (rows.name, too_little(train, target))


@DEVICES
def test_no_case_twice(environment: Environment) -> None:
    grid = general_grid(environment)
    keys = [case.key("") for stage in (grid.core, grid.edges, grid.pool) for case in stage]
    assert len(keys) == len(set(keys))


def test_a_gpu_grid_has_rows_at_both_sides_of_every_edge() -> None:
    rows = packed_rows(general_grid(H200))
    for edge in ROW_EDGES:
        assert any(edge - 16 < count <= edge for count in rows), edge
        if edge < 256:
            assert any(edge < count <= edge + 16 for count in rows), edge


def packed_rows(grid: Grid) -> set[int]:
    return {case.shape["query_heads"] // case.shape["kv_heads"] * case.shape["query_len"]
            for case in (*grid.core, *grid.edges) if case.op == "attention"}


@DEVICES
def test_each_warm_point_has_its_cold_twin_and_enough_of_them_fit_into_the_cache(environment: Environment) -> None:
    attention = [case for case in general_grid(environment).core if case.op == "attention"]
    warm = [case for case in attention if not case.cold]
    cold = {case.key("") for case in attention if case.cold}
    assert {dataclasses.replace(case, cold=True).key("") for case in warm} <= cold
    assert sum(case.bytes < environment.cache_bytes for case in warm) >= ROWS_PER_NUMBER


def test_a_gpu_grid_reaches_many_rows_at_half_a_gigabyte_of_kv_and_every_op() -> None:
    grid = general_grid(H200)
    large = [case for case in grid.core if case.op == "attention" and case.bytes >= 512e6]
    rows = {case.shape["query_heads"] // case.shape["kv_heads"] * case.shape["query_len"] for case in large}
    assert {96, 128, 160, 192, 224, 256} <= rows
    assert {case.op for case in grid.core} >= {
        "gemm", "lm_head", "attention", "mla", "moe", "copy", "launch", "draft_step"}


def test_an_fp8_cache_is_measured_where_the_gpu_converts_it() -> None:
    ampere = dataclasses.replace(H200, device_name="NVIDIA A100-SXM4-80GB", compute_capability="8.0")
    assert {case.dtypes["kv"] for case in general_grid(ampere).core if case.op == "attention"} == {"bf16"}
    assert {case.dtypes["kv"] for case in general_grid(H200).core if case.op == "attention"} == {"bf16", "fp8"}


def test_a_model_grid_holds_the_models_own_matrices_and_groups() -> None:
    model = load_model("llama-3.1-8b")
    grid = model_grid(model, H200, tp=2, batch=(4,), context_tokens=(8192,))
    shapes = {(case.shape["n"], case.shape["k"]) for case in grid.edges if case.op == "gemm"}
    assert {(3072, 4096), (4096, 2048), (14_336, 4096), (4096, 7168)} <= shapes
    attention = [case for case in grid.edges if case.op == "attention"]
    assert {(case.shape["query_heads"], case.shape["kv_heads"]) for case in attention} == {(16, 4)}
    assert {case.shape["query_len"] for case in attention} >= {1, 2, 4, 5, 8, 16, 17}


def test_a_latent_model_grid_measures_mla_and_experts() -> None:
    grid = model_grid(load_model("deepseek-r1"), H200, tp=8)
    assert {case.shape["heads"] for case in grid.edges if case.op == "mla"} == {16}
    assert any(case.op == "moe" and case.shape["experts"] == 256 for case in grid.edges)
