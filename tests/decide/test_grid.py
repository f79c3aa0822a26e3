"""Large grids equal the direct call, however they are cut, and the answer, whatever the user measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specplan.planner.answer import explain, recommend
from specplan.planner.answer.pareto import pareto_of
from specplan.planner.answer.report_facts import report_facts
from specplan.planner.answer.resolve import Question, resolve
from specplan.planner.answer.ways import ways_of
from specplan.planner.config.load import load_config
from specplan.planner.decide.grid import step_grid
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.step_time import off_step, speculative_step

CURVE = [0.75, 0.55, 0.4, 0.3, 0.2]
MEASURED: dict[str, Any] = {
    "target": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm:0.24.0",
    "workload": {"batch": [1, 8], "context_tokens": [2000, 8000]},
    "drafters": [{"mechanism": "eagle3", "acceptance": {"per_position": CURVE}}],
    "observations": [
        {"mechanism": "off", "batch": 1, "context_tokens": 2000, "step_s": 0.0105},
        {"mechanism": "eagle3", "draft_len": 3, "batch": 1, "context_tokens": 2000, "step_s": 0.0152,
         "acceptance_length": 2.5},
        {"mechanism": "eagle3", "draft_len": 5, "batch": 8, "context_tokens": 8000, "step_s": 0.0201},
    ],
}


@pytest.mark.parametrize("chunk_cells", [1, 7, 10_000])
def test_chunks_do_not_change_the_grid(chunk_cells: int) -> None:
    llama = load_model("llama-3.1-8b")
    h200 = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"))
    eagle = load_drafter("eagle3", llama)
    draft_lens, batches, contexts = np.arange(4.0), np.array([1.0, 40.0]), np.array([128.0, 5000.0, 70000.0])
    grid = step_grid(llama, h200, eagle, draft_lens, batches, contexts, chunk_cells=chunk_cells)
    assert grid.step_s.shape == (4, 2, 3)
    one = speculative_step(llama, h200, eagle, 3.0, 40.0, 5000.0).step_s
    assert grid.step_s[3, 1, 1] == pytest.approx(float(one), rel=1e-12)
    assert grid.off_s[1, 2] == pytest.approx(float(off_step(llama, h200, 40.0, 70000.0).step_s), rel=1e-12)


@pytest.fixture(scope="module")
def question() -> Question:
    return resolve(load_config(MEASURED))


def test_a_grid_on_measurements_is_the_answer_on_measurements(question: Question) -> None:
    answer = recommend(MEASURED)
    assert answer.anchoring is not None
    assert answer.off.step_s == pytest.approx(0.0105, rel=0.03)
    grid = step_grid(
        question.target, question.deployment, question.options[0].drafter, np.arange(6.0), np.array([1.0, 3.0, 8.0]),
        np.array([2000.0, 8000.0]), anchoring=question.anchoring, chunk_cells=10,
    )
    for cell in answer.cells:
        at = [1, 3, 8].index(cell.batch), [2000, 8000].index(cell.context_tokens)
        assert grid.off_s[at] == pytest.approx(cell.off.step_s, rel=1e-12)
        for row in cell.candidates:
            assert grid.step_s[(row.draft_len, *at)] == pytest.approx(row.step_s, rel=1e-12)


def test_points_and_reports_on_measurements_are_the_answer_on_measurements(question: Question) -> None:
    answer, report = recommend(MEASURED), report_facts(question)
    for cell, columns in zip(answer.cells, report.cells, strict=True):
        step_s = columns["drafters"][0]["columns"]["step_s"]
        assert step_s == pytest.approx([row.step_s for row in cell.candidates], rel=1e-12)
    for point in pareto_of(question).points:
        for cell in answer.cells:
            if (cell.batch, cell.context_tokens) != (point.batch, point.context_tokens):
                continue
            rates = {row.draft_len: row.tokens_per_s_per_user for row in cell.candidates}
            rate = cell.off.tokens_per_s_per_user if point.draft_len is None else rates[point.draft_len]
            assert point.tokens_per_s_per_user == pytest.approx(rate, rel=1e-12)


def test_a_slow_machine_queues_as_a_fast_one_but_longer() -> None:
    """Plain decoding twice as slow: all times of the replica double, and how much they vary stays."""
    workload = {"batch": [1], "context_tokens": 2000, "input_tokens": 1500, "output_tokens": 500, "request_rate": 1.0,
                "lengths": {"input_variation": 0.5}}
    asked = MEASURED | {"workload": workload, "observations": []}
    plain = recommend(asked).off.step_s

    def off(observations: list[dict[str, Any]]) -> Any:
        question = resolve(load_config(asked | {"observations": observations}))
        assert question.load is not None
        return ways_of(question, question.load)[0].replica

    one = off([])
    two = off([{"mechanism": "off", "batch": 1, "context_tokens": 2000, "step_s": 2 * plain}])
    assert two.prefill_s / one.prefill_s == pytest.approx(2.0, rel=0.05)
    assert two.step_s[0] / one.step_s[0] == pytest.approx(two.prefill_s / one.prefill_s)
    assert two.prefill_variation == pytest.approx(one.prefill_variation)


@pytest.mark.parametrize("target", ["llama-3.1-8b", "qwen3.6-35b-a3b-nvfp4"])
@pytest.mark.parametrize("mechanism", ["off", "eagle3"])
def test_the_parts_of_a_step_add_up_to_it_on_measurements(target: str, mechanism: str) -> None:
    asked = MEASURED | {"target": target}
    found = explain(asked, mechanism=mechanism, draft_len=None if mechanism == "off" else 3, batch=8,
                    context_tokens=2000)
    assert sum(line.time_s for line in found.ops) == pytest.approx(found.step_s, rel=1e-9)
    assert "eager_host" not in {line.name for line in found.ops}
    cell = next(cell for cell in recommend(asked).cells if (cell.batch, cell.context_tokens) == (8, 2000))
    row = cell.off.step_s if mechanism == "off" else next(c.step_s for c in cell.candidates if c.draft_len == 3)
    assert found.step_s == pytest.approx(row, rel=1e-12)
