"""When a point has been sampled enough, and over which buffers."""

from __future__ import annotations

import time

import pytest

from specplan.microbench.timing import StopRule, buffer_sets, measure

RULE = StopRule(standard_error=0.01, budget_s=0.060, min_samples=5, max_samples=100)


def test_steady_samples_stop_by_their_standard_error() -> None:
    assert RULE.reason([1.0, 1.0, 1.0, 1.0], 0.01) is None
    assert RULE.reason([1.0, 1.0, 1.0, 1.0, 1.001], 0.01) == "standard_error"


def test_unsteady_samples_stop_by_time() -> None:
    samples = [1.0, 2.0, 1.0, 2.0, 1.0]
    assert RULE.reason(samples, 0.05) is None
    assert RULE.reason(samples, 0.06) == "time"
    assert RULE.reason(samples * 20, 0.0) == "samples"


def test_long_calls_still_get_three_samples() -> None:
    assert RULE.reason([1.0, 1.5], 2.5) is None
    assert RULE.reason([1.0, 1.5, 1.2], 3.7) == "time"


@pytest.mark.parametrize(("size", "device", "cold", "sets"), [
    (100e6, "cuda", True, 4),       # 300 MB over a 60 MB cache, and one more
    (300e6, "cuda", True, 1),
    (100e6, "cuda", False, 1),
    (10.0, "cuda", True, 64),       # no more than 64 sets of almost nothing
    (50e6, "cpu", True, 4),
])  # fmt: skip
def test_buffers_cover_the_cache_several_times(size: float, device: str, cold: bool, sets: int) -> None:
    assert buffer_sets(bytes_per_set=size, cache_bytes=60_000_000, device=device, cold=cold) == sets


def test_a_wall_measurement_visits_every_buffer_and_counts_its_calls() -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    visits = [0, 0, 0]

    def launch(index: int) -> None:
        visits[index] += 1
        end = time.thread_time() + 3e-4
        while time.thread_time() < end:
            pass

    found = measure(launch, sets=3, device="cpu", rule=RULE)
    assert min(visits) > 0
    assert sum(visits) == 2 + found.calls_per_sample * len(found.seconds)
    assert sorted(found.seconds)[len(found.seconds) // 2] == pytest.approx(3e-4, rel=0.5)
