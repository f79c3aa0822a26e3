"""E9: value of a draft length, with numbers worked out in the test."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.acceptance.forms import from_alpha, from_per_position
from specplan.planner.decide.value import Lengths, drafter_value, grid, off_value, request_lengths
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path

TARGET = load_model("llama-3.1-8b")
H200 = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"))
DRAFT_LENS, BATCH, CONTEXT = grid(range(6), [1, 16], [2000])


def test_speedup_is_al_times_off_over_step() -> None:
    off = off_value(TARGET, H200, BATCH, CONTEXT)
    value = drafter_value(TARGET, H200, load_drafter("eagle3", TARGET), from_alpha(0.7), DRAFT_LENS, off)
    assert value.speedup is not None
    by_hand = (1 + 0.7 + 0.49) * float(off.step.step_s[0, 0, 0]) / float(value.step.step_s[2, 0, 0])
    assert float(value.speedup[2, 0, 0]) == pytest.approx(by_hand)
    assert value.speedup_end_to_end is None
    assert value.tokens_per_s_per_user is not None
    assert float(value.tokens_per_s_per_user[2, 0, 0]) == pytest.approx(2.19 / float(value.step.step_s[2, 0, 0]))


def test_al_of_no_draft_is_one_and_the_loaded_drafter_loses() -> None:
    off = off_value(TARGET, H200, BATCH, CONTEXT)
    value = drafter_value(TARGET, H200, load_drafter("eagle3", TARGET), from_alpha(0.7), DRAFT_LENS, off)
    assert value.acceptance_length is not None
    assert float(value.acceptance_length[0, 0, 0]) == 1.0
    assert value.speedup is not None
    assert np.all(value.speedup[0] < 1.0)


def test_end_to_end_carries_al_times_more_prefills() -> None:
    """Batch 16, 500 tokens out, AL 2: 16*2/500 = 0.064 prefills per speculative step, 0.032 per plain one."""
    lengths = Lengths(input_tokens=1500, output_tokens=500, prefill_s=0.040)
    off = off_value(TARGET, H200, BATCH, CONTEXT, lengths)
    curve = from_per_position([0.6, 0.4])
    value = drafter_value(TARGET, H200, load_drafter("eagle3", TARGET), curve, grid([2], [1], [1])[0], off)
    assert value.speedup_end_to_end is not None
    plain = float(off.step.step_s[0, 1, 0]) + 0.032 * 0.040
    spec = float(value.step.step_s[0, 1, 0]) + 0.064 * 0.040
    assert float(value.speedup_end_to_end[0, 1, 0]) == pytest.approx(2.0 * plain / spec)
    assert value.speedup is not None
    assert float(value.speedup_end_to_end[0, 1, 0]) < float(value.speedup[0, 1, 0])


def test_a_gpus_rate_counts_all_sequences_and_all_gpus() -> None:
    from dataclasses import replace

    two = replace(H200, tp=2)
    off = off_value(TARGET, two, BATCH, CONTEXT)
    assert float(off.tokens_per_s_per_gpu[0, 1, 0]) == pytest.approx(16 / (2 * float(off.step.step_s[0, 1, 0])))


def test_break_even_al_makes_the_speedup_one() -> None:
    off = off_value(TARGET, H200, BATCH, CONTEXT)
    value = drafter_value(TARGET, H200, load_drafter("eagle3", TARGET), None, DRAFT_LENS, off)
    assert value.speedup is None
    assert value.tokens_per_s_per_gpu is None
    needed = value.break_even
    assert np.all(needed[1:] > 1.0)
    assert np.allclose(needed * off.step.step_s / value.step.step_s, 1.0)


def test_request_lengths_price_one_prompt() -> None:
    lengths = request_lengths(TARGET, H200, 1500, 500)
    assert 8e-3 < lengths.prefill_s < 60e-3
