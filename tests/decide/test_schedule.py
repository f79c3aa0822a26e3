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
