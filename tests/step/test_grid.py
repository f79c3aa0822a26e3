"""Large grids equal the direct call, however they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.models.architecture import Model
from specplan.planner.models.drafters import load_drafter
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.grid import step_grid
from specplan.planner.step.step_time import off_step, speculative_step


@pytest.mark.parametrize("chunk_cells", [1, 7, 10_000])
def test_chunks_do_not_change_the_grid(llama_8b: Model, h200: Deployment, chunk_cells: int) -> None:
    eagle = load_drafter("eagle3", llama_8b)
    draft_lens, batches, contexts = np.arange(4.0), np.array([1.0, 40.0]), np.array([128.0, 5000.0, 70000.0])
    grid = step_grid(llama_8b, h200, eagle, draft_lens, batches, contexts, chunk_cells=chunk_cells)
    assert grid.step_s.shape == (4, 2, 3)
    one = speculative_step(llama_8b, h200, eagle, 3.0, 40.0, 5000.0).step_s
    assert grid.step_s[3, 1, 1] == pytest.approx(float(one), rel=1e-12)
    assert grid.off_s[1, 2] == pytest.approx(float(off_step(llama_8b, h200, 40.0, 70000.0).step_s), rel=1e-12)
