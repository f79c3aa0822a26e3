"""Properties of DESIGN section 5 that hold for any model on any GPU."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.kernels.profile import Entry, GpuProfile, load_gpu
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step import engine_paths
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.step_time import off_step, speculative_step

GPUS = ("h200-sxm", "b200-sxm", "a100-80-sxm", "l40s", "h20")


@given(
    gpu=st.sampled_from(GPUS),
    draft_lens=st.lists(st.integers(0, 16), min_size=1, max_size=4),
    batches=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    contexts=st.lists(st.integers(1, 200_000), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_the_grid_equals_the_scalar_call(
    gpu: str, draft_lens: list[int], batches: list[int], contexts: list[int]
) -> None:
    target = load_model("llama-3.1-8b")
    deployment = Deployment(gpu=load_gpu(gpu), path=engine_path("vllm", "0.24.0"))
    drafter = load_drafter("eagle3", target)
    step = speculative_step(
        target, deployment, drafter,
        np.array(draft_lens, dtype=float)[:, None, None],
        np.array(batches, dtype=float)[:, None],
        np.array(contexts, dtype=float),
    )
    grid = np.broadcast_to(step.step_s, (len(draft_lens), len(batches), len(contexts)))
    for i, draft_len in enumerate(draft_lens):
        for j, batch in enumerate(batches):
            for k, context in enumerate(contexts):
                one = speculative_step(target, deployment, drafter, draft_len, batch, context)
                assert float(one.step_s) == pytest.approx(grid[i, j, k], rel=1e-12)


@given(
    batch=st.integers(1, 256), context=st.integers(256, 100_000), more=st.integers(1, 64), draft_len=st.integers(0, 15)
)
@settings(max_examples=60, deadline=None)
def test_a_step_never_gets_faster_with_more_work_on_smooth_forms(
    batch: int, context: int, more: int, draft_len: int
) -> None:
    """B200 with trtllm-gen attention and bf16 GEMMs has no stepped form; SGLang pads no graph."""
    target = load_model("llama-3.1-8b")
    deployment = Deployment(gpu=load_gpu("b200-sxm"), path=engine_path("sglang", "0.5.14"))
    drafter = load_drafter("eagle3", target)

    def step(d: int, b: int, s: int) -> float:
        return float(speculative_step(target, deployment, drafter, d, b, s).step_s)

    here = step(draft_len, batch, context)
    assert step(draft_len + 1, batch, context) >= here
    assert step(draft_len, batch + more, context) >= here
    assert step(draft_len, batch, context + 128 * more) >= here


@pytest.mark.parametrize(("name", "gpu"), [("llama-3.1-8b", "h200-sxm"), ("qwen3-30b-a3b", "b200-sxm")])
def test_k_times_the_rates_and_fixed_times_over_k_divide_the_step(
    name: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = 3.0
    target, draft_len = load_model(name), np.arange(0.0, 9.0)
    drafter = load_drafter("eagle3", target)
    plain = Deployment(gpu=load_gpu(gpu), path=engine_path("vllm", "0.24.0"), tp=2)
    before = speculative_step(target, plain, drafter, draft_len, 8, 4000).step_s
    off_before = off_step(target, plain, 8, 4000).step_s
    table = _scaled_table(engine_paths._table(), k)
    monkeypatch.setattr(engine_paths, "_table", lambda: table)
    monkeypatch.setattr("specplan.planner.step.mixers.INDEX_LAUNCH_S", 5e-6 / k)
    fast = Deployment(gpu=_scaled_gpu(plain.gpu, k), path=engine_path("vllm", "0.24.0"), tp=2)
    after = speculative_step(target, fast, drafter, draft_len, 8, 4000).step_s
    assert np.allclose(after, before / k, rtol=1e-9)
    assert float(off_step(target, fast, 8, 4000).step_s) == pytest.approx(float(off_before) / k)


def _scaled_gpu(gpu: GpuProfile, k: float) -> GpuProfile:
    """Every rate times k, every time over k."""
    hardware = replace(
        gpu.hardware,
        hbm_bytes_per_s=gpu.hardware.hbm_bytes_per_s * k,
        boost_hz=None if gpu.hardware.boost_hz is None else gpu.hardware.boost_hz * k,
        dense_flop_per_s={name: rate * k for name, rate in gpu.hardware.dense_flop_per_s.items()},
        link_bytes_per_s=gpu.hardware.link_bytes_per_s * k,
    )
    kernels = {family: tuple(_scaled_entry(entry, k) for entry in entries) for family, entries in gpu.kernels.items()}
    return replace(gpu, hardware=hardware, kernels=kernels)


def _scaled_entry(entry: Entry, k: float) -> Entry:
    bands = tuple(_scaled(band, k) for band in entry.bands)
    return replace(entry, parameters=_scaled(entry.parameters, k), bands=bands)


def _scaled(numbers: Mapping[str, float], k: float) -> dict[str, float]:
    return {name: _scaled_number(name, value, k) for name, value in numbers.items()}


def _scaled_number(name: str, value: float, k: float) -> float:
    if name.endswith("per_s"):
        return value * k
    if name.endswith(("_s", "_s_per_byte", "_s_per_mb", "_s_per_context_token")):
        return value / k
    return value


def _scaled_table(table: Mapping[str, Any], k: float) -> dict[str, Any]:
    scaled: dict[str, Any] = copy.deepcopy(dict(table))
    for group in (scaled["shared"], *scaled["paths"].values()):
        for name, fields in group.items():
            if isinstance(fields, dict) and (name.endswith("_s") or "_s_per_" in name):
                fields["value"] /= k
                fields["range"] = [end / k for end in fields["range"]]
    return scaled


def test_more_bytes_are_never_faster(llama_8b: Model, h200: Deployment) -> None:
    """fp8 KV reads half the bytes, yet FA3 walks its blocks slower: at equal kernels bf16 weights beat nothing."""
    wide = replace(llama_8b, weights=replace(llama_8b.weights, attention="bf16", ffn="bf16"))
    wider = replace(wide, vocab=2 * wide.vocab)
    assert float(off_step(wider, h200, 1, 1000).step_s) > float(off_step(wide, h200, 1, 1000).step_s)
