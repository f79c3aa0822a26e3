"""Times and AL alone decide: no target, no GPU."""

from __future__ import annotations

import pytest

from specplan.planner.decide.measured_steps import choose_by_times, steps_from_split
from specplan.planner.messages import InputError


def test_speedup_is_al_times_off_over_step() -> None:
    """Hand count: AL 2.6, 7.2 ms off, 9.1 ms a step: 2.057; at D = 5 3.0 * 7.2 / 10.4 = 2.077, within 1 %."""
    found = choose_by_times(off_s=7.2e-3, step_s={3: 9.1e-3, 5: 10.4e-3}, lengths={3: 2.6, 5: 3.0})
    assert found.speedups[3] == pytest.approx(2.057, abs=1e-3)
    assert found.speedups[5] == pytest.approx(2.077, abs=1e-3)
    assert found.draft_len == 3
    assert sorted(found.speedups) == [3, 4, 5]


def test_off_wins_where_nothing_gains() -> None:
    assert choose_by_times(off_s=5e-3, step_s={1: 9e-3}, lengths={1: 1.5}).draft_len == 0


def test_a_split_gives_a_line() -> None:
    """0.7 ms drafting a token, 8 ms to verify 4 tokens against 7.2 ms off: 7.2 + D * (0.7 + 0.8/3)."""
    steps = steps_from_split(off_s=7.2e-3, draft_s=2.1e-3, verify_s=8e-3, draft_len=3, up_to=5)
    assert steps[3] == pytest.approx(10.1e-3)
    assert steps[5] == pytest.approx(7.2e-3 + 5 * (0.7e-3 + 0.8e-3 / 3))


@pytest.mark.parametrize(
    ("off", "steps", "lengths", "message"),
    [
        (0.0, {1: 1e-3}, {1: 1.5}, "above 0"), (1e-3, {1: -1.0}, {1: 1.5}, "above 0"),
        (1e-3, {1: 1e-3}, {1: 2.5}, "impossible at D = 1"), (1e-3, {1: 1e-3}, {5: 2.5}, "no draft length with both"),
    ],
)
def test_impossible_input(off: float, steps: dict[int, float], lengths: dict[int, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_by_times(off_s=off, step_s=steps, lengths=lengths)
