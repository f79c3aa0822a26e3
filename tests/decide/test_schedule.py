"""Schedules: short, within the tolerance, honest about off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.arrays import Array
from specplan.planner.decide.schedule import schedule, schedule_batches
from specplan.planner.decide.tier import Tier


def gains_of(best: list[int], rows: int, loss: float = 0.10) -> Array:
    """Gain 2 at the best row of each batch, `loss` less per row away from it."""
    away = np.abs(np.arange(rows)[:, None] - np.array(best)[None, :])
    gains: Array = (2.0 * (1.0 - loss) ** away)[:, :, None]
    return gains


def test_one_tier_where_one_d_is_always_best() -> None:
    found = schedule([0, 1, 3], gains_of([2, 2, 2], 3), [1, 2, 4])
    assert found.tiers == (Tier(1, 4, 3),)
    assert found.worst_loss == pytest.approx(0.0)
    assert found.mean_gain == pytest.approx(2.0)


def test_tiers_follow_the_best_d_and_leave_no_gap() -> None:
    found = schedule([0, 1, 3], gains_of([2, 2, 1, 0], 3), [1, 4, 16, 64])
    assert found.tiers == (Tier(1, 4, 3), Tier(5, 16, 1), Tier(17, 64, 0))


def test_neighbours_that_lose_little_are_merged() -> None:
    """One batch of three prefers another D by 5 %: 1.7 % on average is not worth a tier, and the loss is reported."""
    gains = gains_of([2, 1, 2], 3, loss=0.05)
    found = schedule([0, 1, 3], gains, [1, 2, 4])
    assert found.tiers == (Tier(1, 4, 3),)
    assert found.worst_loss == pytest.approx(0.05)
    assert found.worst_loss_batch == 2
    assert len(schedule([0, 1, 3], gains_of([2, 1, 2], 3, loss=0.1), [1, 2, 4]).tiers) == 3


def test_off_from_the_batch_at_which_every_tier_loses() -> None:
    gains = np.array([[0.98, 0.98, 0.97], [1.5, 0.9, 0.8]])[:, :, None]
    found = schedule([0, 2], gains, [1, 32, 128])
    assert found.tiers == (Tier(1, 1, 2), Tier(2, 128, 0))
    assert found.off_from == 32
    assert found.off_advantage == pytest.approx(1 / 0.97 - 1)


def test_contexts_share_one_table() -> None:
    gains = np.ones((2, 1, 2))
    gains[0, 0] = [1.0, 1.0]
    gains[1, 0] = [0.9, 1.4]
    assert schedule([0, 4], gains, [8]).tiers == (Tier(1, 8, 4),)


def test_a_rise_comes_with_the_table_that_only_falls_and_its_cost() -> None:
    """D = 3, 1, 3 by tiers; holding 3 in the middle costs 5 % there, holding 1 at the end 10 %."""
    gains = np.array([[1.0] * 8, [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.8, 1.8], [2.2, 2.2, 2.2, 1.9, 1.9, 1.9, 2.0, 2.0]])
    found = schedule([0, 1, 3], gains[:, :, None], [1, 2, 3, 4, 5, 6, 7, 8], tolerance=0.005)
    assert found.tiers == (Tier(1, 3, 3), Tier(4, 6, 1), Tier(7, 8, 3))
    assert found.smoother is not None
    assert found.smoother.tiers == (Tier(1, 8, 3),)
    assert found.smoother.worst_cost == pytest.approx(0.05)
    assert found.smoother.worst_cost_batch in {4, 5, 6}
    assert found.smoother.mean_cost == pytest.approx(0.05 * 3 / 8)


def test_a_table_that_falls_needs_no_other_and_a_far_one_is_not_named() -> None:
    assert schedule([0, 1, 3], gains_of([2, 2, 1, 0], 3), [1, 4, 16, 64]).smoother is None
    rising = schedule([0, 1, 3], gains_of([1, 1, 2, 2], 3), [1, 4, 16, 64])
    assert rising.tiers == (Tier(1, 4, 1), Tier(5, 64, 3))
    assert rising.smoother is None


@given(st.lists(st.lists(st.floats(0.95, 1.05), min_size=6, max_size=6), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_the_smoother_table_falls_and_costs_what_it_says(values: list[list[float]]) -> None:
    gains, batches = np.array(values)[:, :, None], [1, 2, 4, 8, 16, 32]
    found = schedule(list(range(len(values))), gains, batches, tolerance=0.0)
    if found.smoother is None:
        return
    def lengths(tiers: tuple[Tier, ...]) -> list[int]:
        return [next(tier.draft_len for tier in tiers if tier.first <= batch <= tier.last) for batch in batches]

    mine, best = lengths(found.smoother.tiers), lengths(found.tiers)
    assert mine == sorted(mine, reverse=True)
    assert best != sorted(best, reverse=True)
    costs = 1 - gains[mine, range(6), 0] / gains[best, range(6), 0]
    assert found.smoother.worst_cost == pytest.approx(costs.max(), abs=1e-9)
    assert found.smoother.worst_cost <= 0.08 + 1e-9
    assert costs[batches.index(found.smoother.worst_cost_batch)] == pytest.approx(costs.max(), abs=1e-9)


@given(
    st.lists(st.lists(st.floats(0.5, 3.0), min_size=6, max_size=6), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.02, 0.1]),
)
@settings(max_examples=200, deadline=None)
def test_tiers_stay_within_the_tolerance_on_average_and_no_batch_loses_much(
    values: list[list[float]], tolerance: float
) -> None:
    gains = np.array(values)[:, :, None]
    batches = [1, 2, 4, 8, 16, 32]
    found = schedule(list(range(len(values))), gains, batches, tolerance=tolerance)
    assert [tier.first for tier in found.tiers] == [1, *(tier.last + 1 for tier in found.tiers[:-1])]
    assert found.tiers[-1].last == 32
    for tier in found.tiers:
        mine = [index for index, batch in enumerate(batches) if tier.first <= batch <= tier.last]
        losses = np.log(gains[:, mine, 0].max(axis=0) / gains[tier.draft_len, mine, 0])
        assert losses.mean() <= -np.log1p(-tolerance) + 1e-9
        assert losses.max() <= -np.log1p(-4 * tolerance) + 1e-9


@pytest.mark.parametrize("largest", [1, 7, 32, 33, 256, 1000])
def test_batches_end_at_the_largest_and_rise(largest: int) -> None:
    found = schedule_batches(largest)
    assert found[0] == 1
    assert found[-1] == largest
    assert found == sorted(set(found))
    assert len(found) < 130
