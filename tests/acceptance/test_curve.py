"""Conversions between the forms of acceptance, what is smoothed, what is refused, and AL at any draft length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.acceptance.curve import Acceptance, acceptance_length, interval
from specplan.planner.acceptance.forms import (
    from_alpha,
    from_histogram,
    from_lengths,
    from_per_position,
    from_rate,
    with_rule,
)
from specplan.planner.acceptance.reading import conditional, positions_of, unconditional
from specplan.planner.acceptance.shape import antitonic, non_negative_least_squares, survival_from_lengths
from specplan.planner.messages import InputError

survivals = st.lists(st.floats(0.3, 1.0), min_size=1, max_size=10).map(lambda rates: np.cumprod(rates).tolist())


def at(curve: Acceptance, *draft_lens: float) -> list[float]:
    return [float(length) for length in acceptance_length(curve, np.array(draft_lens, dtype=float))]


def test_hand_count_of_all_forms() -> None:
    # 10 steps: 2 accept nothing, 3 accept one draft, 5 accept both: p = 0.8, 0.5 and AL = 2.3
    for curve in (from_histogram([2, 3, 5]), from_per_position([0.8, 0.5]), from_lengths({1: 1.8, 2: 2.3})):
        assert at(curve, 0, 1, 2) == pytest.approx([1.0, 1.8, 2.3], abs=1e-6)
    assert at(from_alpha(0.5), 0, 1, 2, 60) == pytest.approx([1.0, 1.5, 1.75, 2.0])
    assert at(from_alpha(1.0), 3) == [4.0]
    assert at(from_rate(0.65, 2), 2) == pytest.approx([2.3])
    assert from_histogram([2, 3, 5]).steps == 10


@given(survivals)
def test_round_trip_per_position_through_every_form(survival: list[float]) -> None:
    draft_lens = range(1, len(survival) + 1)
    lengths = [1 + sum(survival[:d]) for d in draft_lens]
    expected = pytest.approx(lengths, abs=1e-5)
    steps = 1_000_000
    counts = -np.diff([1.0, *survival, 0.0]) * steps
    assert at(from_per_position(survival), *draft_lens) == expected
    assert at(from_histogram(counts.tolist()), *draft_lens) == expected
    assert at(from_lengths(dict(zip(draft_lens, lengths, strict=True))), *draft_lens) == expected or len(survival) == 1
    assert unconditional(conditional(survival)) == pytest.approx(survival)
    assert np.asarray(positions_of(counts.tolist())) / steps == pytest.approx(np.array(survival))
    last = len(survival)
    assert at(from_rate((lengths[-1] - 1) / last, last), last) == pytest.approx([lengths[-1]])
    for rule in ("geometric", "minimum_variance"):
        assert at(from_lengths({last: lengths[-1]}, rule=rule), last) == pytest.approx([lengths[-1]], abs=1e-6)


@given(survivals, st.integers(1, 40))
def test_al_starts_at_one_never_falls_and_stays_below_one_plus_d(survival: list[float], far: int) -> None:
    draft_lens = np.arange(far + 1.0)
    lengths = acceptance_length(from_per_position(survival), draft_lens)
    assert lengths[0] == 1.0
    assert (np.diff(lengths) >= -1e-12).all()
    assert (np.diff(np.diff(lengths)) <= 1e-9).all()
    assert (lengths <= 1 + draft_lens + 1e-9).all()


def test_array_call_equals_scalar_calls_and_keeps_the_shape() -> None:
    curve = from_per_position([0.8, 0.6, 0.3])
    grid = np.arange(6.0).reshape(6, 1, 1)
    assert acceptance_length(curve, grid).shape == (6, 1, 1)
    assert acceptance_length(curve, grid).ravel().tolist() == [float(acceptance_length(curve, d)) for d in range(6)]


def test_noise_is_smoothed_and_said_beyond_it_is_refused() -> None:
    curve = from_per_position([0.8, 0.5, 0.53])
    assert curve.per_position == pytest.approx((0.8, 0.515, 0.515))
    assert curve.notes[0].code == "acceptance_smoothed"
    with pytest.raises(InputError) as caught:
        from_per_position([0.8, 0.5, 0.6])
    assert caught.value.faults[0].path == ("per_position", 2)
    from_per_position([0.8, 0.5, 0.6], steps=40)        # two standard errors of 40 steps are 0.22
    with pytest.raises(InputError):
        from_per_position([0.8, 0.5, 0.53], steps=100_000)


def test_golden_dspark_tail_is_flattened() -> None:
    # InferenceX golden set, DeepSeek-V4-Pro-0813 DSpark: the last two points fall (3.77, 3.73, 3.47)
    golden = dict(zip(range(1, 9), [1.84, 2.51, 3.01, 3.36, 3.61, 3.77, 3.73, 3.47], strict=True))
    curve = from_lengths(golden)
    assert at(curve, 1, 2, 3, 4, 5) == pytest.approx([1.84, 2.51, 3.01, 3.36, 3.61], abs=1e-5)
    assert at(curve, 6, 7, 8) == pytest.approx([np.mean([3.77, 3.73, 3.47])] * 3, abs=1e-4)
    assert curve.lengths == tuple(golden.values())
    assert "D = 8" in curve.notes[0].message


def test_sparse_curve_is_filled_without_rising_increments() -> None:
    curve = from_lengths({1: 1.8, 3: 2.85, 7: 3.5})
    assert at(curve, 1, 3, 7) == pytest.approx([1.8, 2.85, 3.5], abs=1e-5)
    assert 2.35 < at(curve, 2)[0] < 2.45
    assert (np.diff(curve.survival) <= 1e-9).all()


@pytest.mark.parametrize(("build", "path", "said"), [
    (lambda: from_per_position([]), ("per_position",), "empty"),
    (lambda: from_per_position([0.9, 71.0]), ("per_position", 1), "write 0.71"),
    (lambda: from_per_position([0.9, float("nan")]), ("per_position", 1), "between 0 and 1"),
    (lambda: from_per_position([0.9], steps=0), ("steps",), "above 0"),
    (lambda: from_alpha(-0.1), ("alpha",), "between 0 and 1"),
    (lambda: from_lengths({3: 4.2}), ("acceptance_length", 3), "more than 1 \\+ D"),
    (lambda: from_lengths({3: 0.9}), ("acceptance_length", 3), "bonus"),
    (lambda: from_lengths({}), ("acceptance_length",), "at least"),
    (lambda: from_lengths({0: 1.5, 3: 2.0}), ("acceptance_length", 0), "more than 1"),
    (lambda: from_lengths({1: 1.9, 2: 2.5, 3: 2.5, 8: 1.7}), ("acceptance_length", 8), "does not fit"),
    (lambda: from_rate(1.5, 3), ("rate",), "percent"),
    (lambda: from_rate(0.5, 0), ("draft_len",), "whole number"),
    (lambda: from_histogram([3]), ("histogram",), "D \\+ 1 counts"),
    (lambda: from_histogram([0, 0]), ("histogram",), "no steps"),
    (lambda: from_histogram([3, -1]), ("histogram", 1), "not a number of steps"),
])
def test_impossible_numbers_are_refused_at_their_path(
    build: Callable[[], Acceptance], path: tuple[str | int, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        build()
    assert caught.value.faults[0].path == path


def test_all_faults_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        from_lengths({1: 2.5, 3: 9.0, 4: 0.2})
    assert len(caught.value.faults) == 3


def test_rules_agree_where_measured_and_differ_elsewhere() -> None:
    geometric = from_lengths({3: 2.6})
    other = with_rule(geometric, "minimum_variance")
    assert other.survival == pytest.approx((1.0, 0.6, 0.0))     # 1 or 2 drafts accepted, never 0 or 3
    assert at(geometric, 3) == pytest.approx(at(other, 3))
    assert at(other, 1)[0] > at(geometric, 1)[0] + 0.1
    assert at(other, 6)[0] < at(geometric, 6)[0] - 0.1
    curve = from_per_position([0.8, 0.5])
    assert with_rule(curve, "minimum_variance") is curve


@settings(deadline=None, max_examples=12)
@given(st.lists(st.floats(0.4, 0.95), min_size=2, max_size=6), st.integers(0, 2**32 - 1))
def test_interval_from_counts_holds_the_truth(rates: list[float], seed: int) -> None:
    survival = np.cumprod(rates)
    shares = -np.diff([1.0, *survival, 0.0])
    rng = np.random.default_rng(seed)
    held = []
    for counts in rng.multinomial(400, shares, size=120):
        low, high = interval(from_histogram(counts.tolist()), float(len(rates)), 0.9)
        held.append(low <= 1 + survival.sum() <= high)
    assert 0.78 <= np.mean(held) <= 0.99


def test_interval_narrows_with_steps_widens_beyond_known_and_stays_in_range() -> None:
    few, many = (from_per_position([0.8, 0.5, 0.3], steps=n) for n in (100, 10_000))
    width = [np.subtract(*interval(curve, 3.0)[::-1]) for curve in (few, many)]
    assert width[0] > 5 * width[1] > 0
    low, high = interval(many, np.array([3.0, 6.0, 12.0]))
    assert (np.diff(high - low) > 0).all()
    for curve in (from_histogram([0, 0, 10]), from_histogram([10, 0]), from_alpha(1.0), from_alpha(0.0)):
        low, high = interval(curve, np.arange(6.0))
        assert (low >= 1).all()
        assert (high <= 1 + np.arange(6.0) + 1e-12).all()
    assert interval(from_histogram([0, 0, 10]), 2.0)[0] < 3     # ten steps do not prove certainty


def test_antitonic_is_the_least_squares_fit() -> None:
    values = np.array([0.9, 0.4, 0.6, 0.5, 0.7])
    fitted = antitonic(values)
    assert fitted == pytest.approx([0.9, 0.55, 0.55, 0.55, 0.55])
    assert antitonic([0.2, 0.8], [3.0, 1.0]) == pytest.approx([0.35, 0.35])


def test_non_negative_least_squares_against_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows, wanted = rng.normal(size=(9, 5)), rng.normal(size=9)
        assert non_negative_least_squares(rows, wanted) == pytest.approx(optimize.nnls(rows, wanted)[0], abs=1e-8)


def test_survival_stays_a_probability_where_the_first_position_is_not_measured() -> None:
    survival = survival_from_lengths([3, 7], [3.9, 6.0])
    assert (survival <= 1).all()
    assert (np.diff(survival) <= 1e-9).all()
    assert 1 + survival.sum() == pytest.approx(6.0, abs=1e-3)
