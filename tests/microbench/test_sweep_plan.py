"""What a sweep measures next: shapes far from the measured ones first, and slices without a fit before all others."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from specplan.microbench import cases
from specplan.microbench.backends import Backend, Bound
from specplan.microbench.cases import Case
from specplan.microbench.fit_measurements import fit_measured
from specplan.microbench.measured_base import base_profile, profile_name
from specplan.microbench.measurements import Environment, Measurement, Measurements, environment_id
from specplan.microbench.runner import LAUNCH_PRIOR_S, SMALL_KERNELS
from specplan.microbench.sweep_plan import BATCH, Point, State, assess, worst
from specplan.microbench.sweep_summary import summary
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.profile import dump_profile, load_gpu, read_profile
from specplan.planner.kernels.select import attention_kernel, gemm_kernel
from specplan.planner.messages import Note
from tests.microbench.devices import CPU, H200


def bind(*_: Any) -> Bound:
    raise AssertionError("planning runs no kernel")


ONEDNN = Backend(name="torch-onednn", ops=("gemm",), devices=("cpu",), bind=bind)
PACKED = Backend(name="torch-packed", ops=("attention",), devices=("cpu",), bind=bind)


def timed(case: Case, kernel: str, seconds: float, environment: Environment = CPU) -> Measurement:
    return Measurement(op=case.op, kernel=kernel, shape=case.shape, dtypes=case.dtypes, flop=case.flop,
                       bytes=case.bytes, environment=environment_id(environment), samples_s=(seconds,) * 3)


def gemm_seconds(case: Case) -> float:
    """A CPU of 15 GB/s and 70 GFLOP/s that adds memory and math."""
    return 40e-6 + case.shape["n"] * case.shape["k"] * 4 / 15e9 + case.flop / 70e9


def attention_seconds(case: Case) -> float:
    shape = case.shape
    heads = shape["batch"] * shape["kv_heads"]
    rows = shape["query_heads"] // shape["kv_heads"] * shape["query_len"]
    keys = shape["context_tokens"] + shape["query_len"]
    walk = heads * math.ceil(rows / 4) * (math.ceil(keys / 128) * 3e-6 + 2e-6)
    return 30e-6 + 2 * heads * keys * 64 * 4 / 9e9 + walk


def drafting_seconds() -> float:
    """One pass of two layers and a head, kernel by kernel; small kernels at the prior of a launch."""
    def product(n: int, k: int) -> float:
        return gemm_seconds(cases.gemm(rows=8, n=n, k=k, dtype="fp32"))

    walk = attention_seconds(cases.attention(batch=8, context_tokens=512, query_len=1, query_heads=8, kv_heads=2,
                                             head_dim=64, query="fp32", kv="fp32"))
    layer = product(768, 512) + walk + product(512, 512) + product(3072, 512) + product(512, 1536)
    return 2 * (layer + SMALL_KERNELS * LAUNCH_PRIOR_S) + product(4096, 512)


def measured(noise: float = 0.0) -> Measurements:
    rng = np.random.default_rng(1)
    gemms = [cases.gemm(rows=rows, n=n, k=k, dtype="fp32")
             for rows, (n, k) in itertools.product((1, 4, 16, 64), ((512, 512), (2048, 512), (512, 2048), (1024, 1024),
                                                                    (4096, 1024), (2048, 2048)))]
    walks = [cases.attention(batch=batch, context_tokens=tokens, query_len=length, query_heads=heads * group,
                             kv_heads=heads, head_dim=64, query="fp32", kv="fp32")
             for (batch, tokens, length), (heads, group) in itertools.product(
                 ((1, 256, 1), (4, 1024, 3), (8, 512, 1), (1, 4096, 9), (2, 2048, 5)),
                 ((1, 4), (2, 2), (4, 1), (4, 4), (1, 8), (2, 5)))]
    points = [timed(case, "torch-onednn", gemm_seconds(case) * rng.lognormal(0, noise)) for case in gemms]
    points += [timed(case, "torch-packed", attention_seconds(case) * rng.lognormal(0, noise)) for case in walks]
    points += [timed(cases.copy(moved_bytes=2**27), "torch-copy", 2**27 / 18e9)]
    return Measurements(environment=CPU, points=tuple(points), references=())


def test_the_least_certain_point_is_the_one_farthest_from_what_was_measured() -> None:
    near = Point(case=cases.gemm(rows=8, n=1024, k=1024, dtype="fp32"), backend=ONEDNN)
    far = Point(case=cases.gemm(rows=1024, n=256, k=8192, dtype="fp32"), backend=ONEDNN)
    chosen, states = assess(measured(noise=0.05), [near, far])
    assert [point.key for point in chosen] == [far.key, near.key]
    assert {state.name for state in states} == {"torch-onednn fp32", "torch-packed 64 fp32"}
    assert all(state.error_pct is not None and state.error_pct < 15 for state in states)


def test_a_batch_asks_for_different_things() -> None:
    twins = [Point(case=cases.gemm(rows=1024, n=256 + step, k=8192, dtype="fp32"), backend=ONEDNN) for step in range(8)]
    other = Point(case=cases.gemm(rows=1, n=16_384, k=256, dtype="fp32"), backend=ONEDNN)
    chosen, _ = assess(measured(noise=0.05), [*twins, other])
    assert len(chosen) == BATCH
    assert other.key in {point.key for point in chosen[:3]}     # before the eight equal ones are through


def test_a_slice_without_a_fit_comes_first_and_is_the_worst() -> None:
    only_gemm = dataclasses.replace(measured(), points=tuple(
        point for index, point in enumerate(measured().points) if point.op == "gemm" or index % 6 == 0))
    walk = Point(case=cases.attention(batch=1, context_tokens=64, query_len=1, query_heads=4, kv_heads=4, head_dim=64,
                                      query="fp32", kv="fp32"), backend=PACKED)
    product = Point(case=cases.gemm(rows=512, n=256, k=8192, dtype="fp32"), backend=ONEDNN)
    chosen, states = assess(only_gemm, [product, walk])
    assert chosen[0].key == walk.key
    assert worst(states) == State(name="torch-packed 64 fp32", points=5, error_pct=None)


def test_numbers_of_a_cpu_come_back_from_noisy_points() -> None:
    found = measured(noise=0.03)
    report = fit_measured(found, base_profile(found), splits=("a",))
    entries = {item.entry.id: item.entry for item in report.fitted}
    gemm, walk = entries["any-torch-onednn"].parameters, entries["any-torch-packed"].parameters
    assert gemm["overlap"] == 1.0
    assert gemm["stream_bytes_per_s"] == pytest.approx(15e9, rel=0.1)
    assert gemm["mma_flop_per_s"] == pytest.approx(70e9, rel=0.1)
    assert walk["tile_rows"] == 4
    assert walk["block_s"] == pytest.approx(3e-6, rel=0.15)
    assert all((item.entry.evidence.error_mean_pct or 0) < 6 for item in report.fitted)


def test_the_planner_prices_by_the_profile_of_a_sweep() -> None:
    found = measured()
    profile = read_profile(dump_profile(fit_measured(found, base_profile(found), splits=("a",)).profile))
    kernel = gemm_kernel(profile, "vllm", weight_dtype="fp32")
    assert kernel.evidence.level == "measured"
    case = cases.gemm(rows=24, n=3072, k=1536, dtype="fp32")      # a shape that was not measured
    assert float(gemm_time(kernel, rows=24, n=3072, k=1536).time_s) == pytest.approx(gemm_seconds(case), rel=0.05)
    attention = attention_kernel(profile, "vllm", head_dim=64, kv_dtype="fp32")
    assert (attention.id, attention.evidence.level, attention.kv_bytes) == ("any-torch-packed", "measured", 4.0)


def test_a_known_gpu_keeps_its_datasheet_and_kernels_and_takes_the_drivers_capacity() -> None:
    nothing = Measurements(environment=H200, points=(), references=())
    base = base_profile(nothing)
    shipped = load_gpu("h200-sxm")
    assert base.kernels == shipped.kernels
    assert base.hardware.hbm_bytes_per_s == shipped.hardware.hbm_bytes_per_s
    assert base.hardware.memory_bytes == H200.memory_bytes
    assert base.hardware.l2_bytes == H200.cache_bytes


def test_an_unknown_gpu_is_marked_and_takes_the_best_rates_seen() -> None:
    unknown = dataclasses.replace(H200, device_name="NVIDIA X9", compute_capability="10.0")
    case = cases.gemm(rows=4096, n=4096, k=4096, dtype="bf16")
    points = (timed(cases.copy(moved_bytes=2**30), "torch-copy", 2**30 / 2e12, unknown),
              timed(case, "torch-mm", case.flop / 5e14, unknown))
    base = base_profile(Measurements(environment=unknown, points=points, references=()))
    assert base.name == profile_name(unknown) == "unknown-nvidia-x9"
    assert base.hardware.hbm_bytes_per_s == pytest.approx(2e12)
    assert base.hardware.dense_flop_per_s == {"bf16": pytest.approx(5e14)}
    assert (base.hardware.arch, base.hardware.compute_capability) == ("blackwell", "sm_100")
    assert "unknown GPU" in base.hardware.notes


def test_a_summary_puts_prediction_beside_measurement_and_lists_what_is_missing() -> None:
    found = measured(noise=0.02)
    skipped = dataclasses.replace(timed(cases.copy(moved_bytes=8), "flash-attn-3", 1.0), samples_s=(),
                                  skipped="not here")
    walk = next(point for point in found.points if point.op == "attention")
    warm = dataclasses.replace(walk, cold=False, samples_s=(walk.median_s / 2,))
    draft = timed(cases.draft_step(batch=8, context_tokens=512, layers=2, hidden=512, intermediate=1536, query_heads=8,
                                   kv_heads=2, head_dim=64, vocab=4096, dtype="fp32"), "torch-step", drafting_seconds())
    found = dataclasses.replace(found, points=(*found.points, skipped, skipped, warm, draft))
    text = summary(found, fit_measured(found, base_profile(found), splits=("a",)), [Note("x", "something to know")])
    assert "says nothing about a GPU" in text
    assert "any-torch-onednn weight_dtype=fp32: 24 points" in text
    assert "points, held out" in text
    assert "measured" in text
    assert "predicted" in text
    assert "skipped: flash-attn-3 (2 points): not here" in text
    assert "note: something to know" in text
    (told,) = [line for line in text.splitlines() if line.startswith("draft step layers=2 hidden=512 batch=8")]
    assert abs(int(told.partition("(")[2].split()[0])) <= 3     # percent, of a sum that no fit has seen
    assert "operands in cache: torch-packed batch=1" in text
    assert "cold (2.00 times)" in text
