"""The choice of D: ties go to the smaller, what does not fit is never chosen, off wins when nothing gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specplan.planner.acceptance.forms import from_alpha, from_per_position
from specplan.planner.decide.choose import choose
from specplan.planner.decide.value import DrafterValue, Lengths, drafter_value, grid, off_value
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path

TARGET = load_model("llama-3.1-8b")
H200 = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"))


def value(acceptance: Any, batches: list[int], lengths: Lengths | None = None) -> DrafterValue:
    draft_lens, batch, context = grid(range(9), batches, [2000])
    off = off_value(TARGET, H200, batch, context, lengths)
    return drafter_value(TARGET, H200, load_drafter("eagle3", TARGET), acceptance, draft_lens, off)


def test_the_best_d_is_the_argmax_within_one_percent_and_the_smaller_one() -> None:
    found = value(from_alpha(0.75), [1])
    assert found.speedup is not None
    gains = found.speedup[:, 0, 0]
    choice = choose([found], "latency", 0, 0)
    assert choice.row is not None
    within = np.flatnonzero(gains >= gains.max() / 1.01)
    assert choice.row == within.min()
    low, high = choice.draft_len_range or (0, 0)
    near = np.flatnonzero(gains >= 0.97 * gains.max())
    assert (low, high) == (near.min(), near.max())


def test_off_wins_when_nothing_is_accepted() -> None:
    choice = choose([value(from_alpha(0.0), [1])], "latency", 0, 0)
    assert (choice.drafter, choice.draft_len, choice.gain) == (None, None, 1.0)


def test_d_0_is_never_recommended() -> None:
    found = value(from_alpha(0.02), [1])
    choice = choose([found], "latency", 0, 0)
    assert choice.draft_len is None


def test_what_does_not_fit_is_never_chosen() -> None:
    found = value(from_alpha(0.8), [1])
    none_fits = replace(found.memory, usable_bytes=0.0)
    assert choose([replace(found, memory=none_fits)], "latency", 0, 0).drafter is None


def test_without_acceptance_nothing_is_chosen() -> None:
    assert choose([value(None, [1])], "latency", 0, 0).drafter is None


def test_the_better_drafter_wins() -> None:
    poor, good = value(from_alpha(0.5), [1]), value(from_alpha(0.8), [1])
    assert choose([poor, good], "latency", 0, 0).drafter == 1


def test_throughput_looks_at_the_end_to_end_rate() -> None:
    """At a large batch with short answers the prefills that speculation pulls in decide."""
    heavy = Lengths(input_tokens=8000, output_tokens=50, prefill_s=0.3)
    found = value(from_per_position([0.5]), [64], heavy)
    assert choose([found], "latency", 0, 0).gain > choose([found], "throughput", 0, 0).gain


@pytest.mark.parametrize("batch", [1, 64, 512])
def test_the_best_d_never_rises_with_batch(batch: int) -> None:
    small = choose([value(from_alpha(0.7), [batch])], "latency", 0, 0).draft_len or 0
    large = choose([value(from_alpha(0.7), [2 * batch])], "latency", 0, 0).draft_len or 0
    assert large <= small
