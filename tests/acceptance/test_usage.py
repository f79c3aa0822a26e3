"""Mixes, contexts, and what an answer says about the acceptance that it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from specplan.planner.acceptance.curve import Acceptance, acceptance_length
from specplan.planner.acceptance.forms import from_alpha, from_lengths, from_per_position
from specplan.planner.acceptance.usage import mix, usage_notes, with_contexts
from specplan.planner.messages import InputError


def codes(curve: Acceptance, draft_lens: Sequence[int], **options: Any) -> list[str]:
    return [note.code for note in usage_notes(curve, draft_lens, **options)]


def test_mix_weighs_generated_tokens() -> None:
    # 1000 tokens: 500 at AL 3 take 167 steps, 500 at AL 2 take 250; 1000 / 416.7 = 2.4
    code, chat = from_lengths({2: 3.0}), from_lengths({2: 2.0})
    assert float(acceptance_length(mix([(0.5, code), (0.5, chat)]), 2.0)) == pytest.approx(2.4, abs=1e-6)
    assert float(acceptance_length(mix([(1, code), (1, code)]), 2.0)) == pytest.approx(3.0, abs=1e-6)
    assert mix([(1.0, from_alpha(0.5)), (1.0, from_per_position([0.8, 0.6]))]).known_draft_len == 2
    with pytest.raises(InputError):
        mix([(0.0, code)])
    with pytest.raises(InputError):
        mix([])


def test_contexts_are_interpolated_in_log_and_held_outside() -> None:
    curve = with_contexts({1000.0: from_per_position([0.8]), 100_000.0: from_per_position([0.4])})
    lengths = acceptance_length(curve, 1.0, np.array([10.0, 1000.0, 10_000.0, 100_000.0, 1e6]))
    assert lengths == pytest.approx([1.8, 1.8, 1.6, 1.4, 1.4])
    assert codes(curve, [1], context_tokens=[2000]) == []
    assert codes(curve, [1], context_tokens=[2000, 500_000]) == ["context_outside"]
    with pytest.raises(InputError):
        with_contexts({})


def test_notes_on_use() -> None:
    curve = from_per_position([0.8, 0.6], labels={"temperature": "0", "domain": "coding"})
    assert codes(curve, [1, 2]) == []
    assert codes(curve, [1, 3]) == ["acceptance_extrapolated"]
    assert codes(curve, [2], temperature=0.7, domain="chat") == ["temperature_differs", "domain_differs"]
    assert codes(curve, [2], temperature=0.0, domain="Coding") == []
    block = from_per_position([0.8, 0.6, 0.5], per_block=True)
    assert codes(block, [2]) == ["block_cut"]
    assert codes(block, [3]) == []
    assert codes(from_alpha(0.7), [3]) == ["alpha_rule"]
    assert codes(from_lengths({3: 2.6}), [3]) == []
    (rule,) = usage_notes(from_lengths({3: 2.6}), [1, 3])
    assert rule.code == "acceptance_rule"
    assert "minimum-variance rule" in rule.message
