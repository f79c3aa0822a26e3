"""Fits find the numbers that made the data, say how well, hold what they cannot tell, and refuse what is too little."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specplan.microbench.fit import ROWS_PER_NUMBER, Fit, fit_candidate, fit_slice, too_little
from specplan.microbench.fit_bands import edges_of, fit_bands
from specplan.microbench.fit_fixture import SYSTEM, read_fixture
from specplan.microbench.fit_limits import impossible, roofline_s
from specplan.microbench.fit_predict import model_of
from specplan.microbench.fit_rows import Slice, subsample
from specplan.microbench.fit_system import Fitted, Unfitted, fit_and_score, prepared
from specplan.microbench.fit_target import Target
from specplan.microbench.fit_targets import target_of
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import InputError

HARDWARE = load_gpu(SYSTEM).hardware
FIXTURE = {rows.name: rows for rows in read_fixture()}
NAMES = list(FIXTURE)
FORMS = [name for name in NAMES if not name.startswith("allreduce")]
NOISE = 0.03


def named(part: str) -> Slice:
    return next(rows for name, rows in FIXTURE.items() if part in name)


def synthetic(rows: Slice, target: Target, numbers: dict[str, float], seed: int = 7) -> Slice:
    """The same shapes, timed by the equation itself with noise."""
    model = model_of(target, target.candidates[0], rows, HARDWARE, l2_warm=True)
    noise = np.exp(np.random.default_rng(seed).normal(0.0, NOISE, len(rows)))
    return dataclasses.replace(rows, time_s=model(numbers, rows) * noise)


def true_numbers(target: Target) -> dict[str, float]:
    """Plausible numbers off the priors, so that a fit which stays at its start is found out."""
    shifts = (1.35, 0.8, 1.2, 0.75, 1.4, 0.85, 1.25, 0.9, 1.3)
    free = target.candidates[0].free
    return {name: float(np.clip(item.prior * shift, item.low, 0.9 * item.high))
            for (name, item), shift in zip(free.items(), shifts[:len(free)], strict=True)}


@pytest.mark.parametrize("name", FORMS)
def test_round_trip_finds_the_numbers_within_the_stated_error(name: str) -> None:
    rows = subsample(FIXTURE[name], 700)
    target = target_of(rows, HARDWARE)
    truth = true_numbers(target)
    fit = fit_candidate(synthetic(rows, target, truth), target, target.candidates[0], HARDWARE, l2_warm=True)
    for number, error in fit.error_pct.items():
        scale = max(abs(truth[number]), target.candidates[0].free[number].prior)
        assert abs(fit.numbers[number] - truth[number]) / scale * 100 <= 4 * error + 0.5, number
    assert set(fit.error_pct) | set(fit.held) == set(truth)
    assert len(fit.held) <= 1


@pytest.mark.parametrize("name", FORMS)
def test_more_noise_gives_larger_stated_errors(name: str) -> None:
    rows = subsample(FIXTURE[name], 400)
    target = target_of(rows, HARDWARE)
    quiet = synthetic(rows, target, true_numbers(target))
    noise = np.exp(np.random.default_rng(3).normal(0.0, 0.1, len(rows)))
    loud = dataclasses.replace(quiet, time_s=quiet.time_s * noise)
    errors = [_fit(data, target).error_pct for data in (quiet, loud)]
    told = errors[0].keys() & errors[1].keys()      # noise may hide a number altogether
    assert len(told) >= 2
    assert all(errors[1][number] > errors[0][number] for number in told)


def _fit(rows: Slice, target: Target) -> Fit:
    return fit_candidate(rows, target, target.candidates[0], HARDWARE, l2_warm=True)


def test_a_rate_that_no_row_reaches_is_held_at_its_prior_and_named() -> None:
    rows = named("linear dtype=bf16")
    few = rows.take(rows.columns["rows"] <= 3)      # weights alone set the time: nothing tells the math rate
    target = target_of(few, HARDWARE)
    few = synthetic(few, target, true_numbers(target))
    fit = fit_candidate(few, target, target.candidates[0], HARDWARE, l2_warm=True)
    assert fit.held == ("mma_flop_per_s",)
    assert fit.numbers["mma_flop_per_s"] == target.candidates[0].free["mma_flop_per_s"].prior
    assert "mma_flop_per_s" not in fit.error_pct


def test_too_few_rows_are_refused_with_the_number_needed() -> None:
    rows = subsample(named("linear dtype=bf16"), 9)
    target = target_of(rows, HARDWARE)
    with pytest.raises(InputError, match=f"9 rows; needs at least {4 * ROWS_PER_NUMBER}"):
        fit_slice(rows, target, HARDWARE, l2_warm=True)


def test_one_sided_rows_are_refused_with_the_range_needed() -> None:
    rows = named("linear dtype=bf16")
    narrow = rows.take(rows.columns["rows"] <= 4)
    assert too_little(narrow, target_of(narrow, HARDWARE)) == (
        "one-sided: rows from 1 to 4; needs a range of 16, such as 1 to 16")


def test_outliers_do_not_steer_a_fit() -> None:
    rows = subsample(named("linear dtype=bf16"), 600)
    target = target_of(rows, HARDWARE)
    truth = true_numbers(target)
    clean = synthetic(rows, target, truth)
    spoilt = clean.time_s.copy()
    spoilt[::25] *= 8.0
    fit = _fit(dataclasses.replace(clean, time_s=spoilt), target)
    assert fit.numbers["stream_bytes_per_s"] == pytest.approx(truth["stream_bytes_per_s"], rel=0.02)


def test_a_time_that_beats_the_datasheet_by_a_tenth_is_impossible() -> None:
    rows = named("linear dtype=bf16")
    target = target_of(rows, HARDWARE)
    least = roofline_s(rows, target, HARDWARE)
    assert not np.any(impossible(rows, target, HARDWARE))
    milliseconds_as_microseconds = dataclasses.replace(rows, time_s=rows.time_s / 1000)
    assert np.all(impossible(milliseconds_as_microseconds, target, HARDWARE)[least > 1e-6])


@pytest.mark.parametrize("wrong", [float("nan"), -1e-6, 0.0, float("inf")])
def test_times_that_are_no_times_are_rejected_and_counted(wrong: float) -> None:
    rows = named("linear dtype=bf16")
    time = rows.time_s.copy()
    time[:5] = wrong
    kept = prepared(dataclasses.replace(rows, time_s=time), target_of(rows, HARDWARE), HARDWARE)
    assert len(kept) == len(rows) - 5
    assert kept.rejected["beyond 110 % of the datasheet, or no positive time"] == 5


def test_small_caches_may_be_read_faster_than_memory_but_large_ones_may_not() -> None:
    rows = named("fa3 head_dim=128 kv=bf16")
    target = target_of(rows, HARDWARE)
    cached = rows.columns["batch"] * rows.columns["context_tokens"] * rows.columns["kv_heads"] * 2 * 128 * 2
    fast = dataclasses.replace(rows, time_s=cached / (1.5 * HARDWARE.hbm_bytes_per_s))
    wrong = impossible(fast, target, HARDWARE)
    assert not np.any(wrong[cached < 0.9 * HARDWARE.l2_bytes])
    assert np.all(wrong[cached > 4 * HARDWARE.l2_bytes])


def test_allreduce_bands_are_found_again() -> None:
    rows = named("allreduce")
    size = rows.columns["message_bytes"]
    alpha, beta = np.select([size <= 2**17], [5e-6], 9e-6), np.select([size <= 2**17], [2e-11], 5e-12)
    bands = fit_bands(dataclasses.replace(rows, time_s=alpha + beta * size))
    assert 2.0**17 in edges_of(bands)
    assert bands[0].alpha_s == pytest.approx(5e-6, rel=1e-6)
    assert bands[-1].alpha_s == pytest.approx(9e-6, rel=1e-6)
    assert bands[-1].beta_s_per_byte == pytest.approx(5e-12, rel=1e-6)


def test_four_message_sizes_are_too_few_for_three_bands() -> None:
    rows = named("allreduce")
    result = fit_and_score(rows.take(rows.columns["message_bytes"] < 4096), HARDWARE)
    assert isinstance(result, Unfitted)
    assert "needs at least 9" in result.reason


STUDY = {   # mean held-out errors of the study in kernel_fits.md for these kernels; within one point is reached
    "fa3 head_dim=128": 5.7, "torch_flow head_dim=128": 11.2, "linear dtype=bf16": 5.5, "CutlassFP8": 7.8,
    "tritonexperts": 11.4, "vLLM_custom_graph": 1.6, "default kv=bf16": 7.1, "fused_recurrent_kda": 4.2,
    "flash_mla_sparse_fwd": 4.4,
}


@pytest.mark.parametrize("part", STUDY)
def test_errors_on_held_out_h200_rows_are_within_a_point_of_the_study(part: str) -> None:
    fitted = fit_and_score(named(part), HARDWARE)
    assert isinstance(fitted, Fitted)
    assert fitted.median_split.mean <= STUDY[part] + 1.0
    target = target_of(fitted.rows, HARDWARE)
    if fitted.rows.family != "sparse":
        rough = roofline_s(fitted.rows, target, HARDWARE) / fitted.rows.time_s - 1
        assert 100 * np.mean(np.abs(rough)) > 2 * fitted.median_split.mean


def test_same_rows_give_the_same_entry() -> None:
    rows = named("fused_recurrent_kda")
    first, second = fit_and_score(rows, HARDWARE), fit_and_score(rows, HARDWARE)
    assert isinstance(first, Fitted)
    assert isinstance(second, Fitted)
    assert first.entry == second.entry
