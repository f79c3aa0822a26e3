"""What is said where the model, or some batches of it, do not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.answer import Answer, recommend

PRESETS = Path(__file__).parents[2] / "planner" / "models" / "presets"


def ask(target: str, gpu: str, tp: int, batch: list[int], context: list[int], weights: str | None = None) -> Answer:
    question: dict[str, Any] = {
        "target": target, "gpu": gpu, "parallel": {"tp": tp}, "engine": "vllm",
        "workload": {"batch": batch, "context_tokens": context},
    }
    if weights is not None:
        question["dtypes"] = {"weights": weights}
    return recommend(question)


def test_a_target_larger_than_the_gpu_is_said_first_and_without_tables() -> None:
    result = CliRunner().invoke(app, ["recommend", "--model", str(PRESETS / "qwen3-32b.json"), "--gpu", "rtx-5090"])
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    # 32.8e9 parameters at 2 bytes; 90 % of 31.36 GiB, less 2.1 GB
    assert said.startswith("Qwen3-32B does not fit on 1 x rtx-5090: weights 65.5 GB + cache 0.5 GB")
    assert ("of 28.2 GB usable per GPU (90% of 33.7 GB, less 2.1 GB of context, activations, graphs); tp 4 fits; fp8 "
            "weights fit with tp 2; nvfp4 weights fit") in said
    assert "off wins" not in said
    assert "too large" not in said


@pytest.mark.parametrize(
    ("tp", "weights", "fits"), [(2, None, False), (4, None, True), (1, "fp8", False), (2, "fp8", True),
                                (1, "nvfp4", True)],
)
def test_what_is_proposed_does_fit_and_what_needs_fewer_gpus_does_not(
    tp: int, weights: str | None, fits: bool
) -> None:
    answer = ask("qwen3-32b", "rtx-5090", tp, [1], [2000], weights)
    assert answer.off.fits_memory is fits
    assert (answer.room is None) is fits


def test_the_largest_batch_that_fits_fits_and_one_more_does_not() -> None:
    room = ask("qwen3-32b", "h200-sxm", 1, [1, 256], [2000, 32000]).room
    assert room is not None
    assert room.fits
    for context, largest in room.largest_batch:
        edge = ask("qwen3-32b", "h200-sxm", 1, [largest, largest + 1], [context])
        assert [cell.off.fits_memory for cell in edge.cells] == [True, False]
        assert f"{largest} at context {context}" in room.finding


def test_a_repeated_latent_cache_points_to_data_parallel_attention() -> None:
    question: dict[str, Any] = {
        "target": "deepseek-v3", "gpu": "h200-sxm", "parallel": {"tp": 8}, "engine": "vllm",
        "workload": {"batch": [1, 32], "context_tokens": [32000]},
    }
    room = recommend(question).room
    assert room is not None
    assert "dp_attention 8 fits" in room.remedies[0]
    assert recommend({**question, "parallel": {"tp": 8, "dp_attention": 8}}).room is None


def test_a_batch_that_is_too_large_is_not_blamed_on_the_model() -> None:
    room = ask("qwen3-32b", "h200-sxm", 1, [4000], [2000]).room
    assert room is not None
    assert not room.fits
    assert "at batch 4000 does not fit" in room.finding
    assert "largest batch that fits" in room.finding
