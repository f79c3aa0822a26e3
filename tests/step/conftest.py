"""A deployment to price on, with nothing drawn from a file twice."""

from __future__ import annotations

import pytest

from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.architecture import Model
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path


@pytest.fixture(scope="session")
def llama_8b() -> Model:
    return load_model("llama-3.1-8b")


@pytest.fixture(scope="session")
def h200() -> Deployment:
    return Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"))
