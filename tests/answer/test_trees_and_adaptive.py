"""Trees and confidence-scheduled verification are priced by the tokens they verify."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specplan.planner.answer import recommend
from specplan.planner.answer.types import Answer
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import InputError
from specplan.planner.models.drafter import Tree
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.step_time import speculative_step

DSPARK_16 = [0.7123, 0.517, 0.3904, 0.3051, 0.2437, 0.2, 0.1685, 0.1441, 0.1246, 0.1094, 0.0964, 0.0856, 0.0758, 0.0667,
             0.0582, 0.0498]


def dspark(*observations: dict[str, Any], **more: Any) -> Answer:
    """vLLM PR 52992: GLM-5.2-NVFP4 with a DSpark drafter of 16 tokens on 4 GB200."""
    drafter = {"mechanism": "dspark", "block": 16, "draft_len": 16, "acceptance": {"per_position": DSPARK_16}}
    return recommend({
        "target": "glm-5.2-nvfp4", "gpu": "gb200", "parallel": {"tp": 4}, "engine": "vllm:0.25.0",
        "workload": {"batch": [1, 64], "context_tokens": 2000}, "drafters": [{**drafter, **more}],
        "observations": list(observations),
    })


def test_adaptive_verification_pays_at_batch_64() -> None:
    """Measured there: 1589 tokens/s at fixed 16, 4509 adaptive, AL 4.35 and 3.76."""
    fixed, adaptive = dspark().cells[1].candidates[-1], dspark(adaptive=True).cells[1].candidates[-1]
    assert fixed.acceptance_length == pytest.approx(4.35, abs=0.02)
    assert adaptive.acceptance_length == pytest.approx(3.76, abs=0.03)
    assert (adaptive.speedup or 0) > 1.5 * (fixed.speedup or 0)


def test_the_advice_names_a_batch() -> None:
    notes = [note.message for note in dspark().warnings if note.code == "adaptive-verification"]
    assert len(notes) == 1
    assert "gains from batch" in notes[0]
    assert not any(note.code == "adaptive-verification" for note in dspark(adaptive=True).warnings)


def test_the_advice_is_the_same_on_a_slow_machine() -> None:
    """Anchored is compared with anchored: a machine twice as slow as the model is so with and without trust."""
    def advice(answer: Answer) -> list[str]:
        return [note.message for note in answer.warnings if note.code == "adaptive-verification"]

    slow = {"mechanism": "off", "batch": 1, "context_tokens": 2000, "step_s": 2 * dspark().cells[0].off.step_s}
    assert advice(dspark(slow)) == advice(dspark()) != []


def test_adaptive_is_never_slower_than_fixed() -> None:
    for one, two in zip(dspark().cells, dspark(adaptive=True).cells, strict=True):
        for fixed, adaptive in zip(one.candidates, two.candidates, strict=True):
            assert (adaptive.speedup or 0) >= (fixed.speedup or 0) * (1 - 1e-9)


def test_a_chain_beats_a_tree_on_experts() -> None:
    """SpecBundle, Qwen3-30B-A3B at batch 8: the chain of 7 gains 1.34 to 2.48x, trees of as many steps less."""
    answer = recommend({
        "target": "qwen3-30b-a3b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "engine": "sglang:0.5.0",
        "workload": {"batch": [1, 8, 32], "context_tokens": 1000},
        "drafters": [
            {"mechanism": "eagle3", "name": "chain", "draft_len": [3, 5, 7],
             "acceptance": {"acceptance_length": {3: 2.5, 5: 2.83, 7: 2.98}}},
            {"mechanism": "eagle3", "name": "tree", "draft_len": [5, 7], "tree": {"branches": 4, "nodes": 16},
             "acceptance": {"acceptance_length": {5: 3.1, 7: 3.3}}},
        ],
    })
    assert [cell.recommendation.drafter for cell in answer.cells] == ["chain"] * 3


def test_a_tree_costs_its_nodes_and_their_handling() -> None:
    """A tree of 1 + D nodes verifies what a chain does, and adds 0.8 ms and 5 us per node and sequence."""
    model = load_model("llama-3.1-8b")
    deployment = Deployment(gpu=load_gpu("h100-sxm"), path=engine_path("sglang", "0.5.0"))
    chain, tree = load_drafter("eagle3", model), load_drafter("eagle3", model, tree=Tree(branches=2, nodes=6))
    batch = np.array([1.0, 32.0])
    one, two = (speculative_step(model, deployment, drafter, 5.0, batch, 1000.0) for drafter in (chain, tree))
    assert two.verify_s == pytest.approx(one.verify_s)
    assert two.overhead_s - one.overhead_s == pytest.approx(0.8e-3 + 5e-6 * 6 * batch)
    assert np.all(two.draft_s > one.draft_s)


def test_what_cannot_be_a_tree_or_adaptive_is_refused() -> None:
    model = load_model("llama-3.1-8b")
    with pytest.raises(InputError, match="drafts a chain"):
        load_drafter("dflash", model, tree=Tree(branches=2, nodes=8))
    with pytest.raises(InputError, match="no confidence head"):
        load_drafter("eagle3", model, adaptive=True)
