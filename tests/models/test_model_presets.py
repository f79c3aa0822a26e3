"""Presets: each reads, fast, and shows what its golden file says."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from specplan.planner.models.reader import PRESETS, load_model, model_names
from specplan.planner.models.summary import model_line, model_summary

GOLDEN = Path(__file__).parent.parent / "data" / "models" / "golden"
KEYS = {"parameters", "active_parameters", "weight_bytes", "kv_bytes_per_token", "state_bytes_per_sequence", "layers",
        "group_size", "mtp_layers", "quantization", "warnings"}


def test_all_eighty_are_there_with_their_source() -> None:
    assert len(model_names()) == 80
    assert all(json.loads(path.read_text())["_source"] for path in PRESETS.glob("*.json"))


@pytest.mark.parametrize("name", model_names())
def test_summary_is_the_golden_one(name: str) -> None:
    """After a change that is meant: python tests/models/write_golden.py, and read the diff."""
    summary = model_summary(load_model(name))
    assert summary.keys() >= KEYS
    assert json.loads(json.dumps(summary)) == json.loads((GOLDEN / f"{name}.json").read_text())


def test_reading_all_takes_less_than_two_seconds() -> None:
    model_names.cache_clear()
    start = time.perf_counter()
    lines = [model_line(load_model(name)) for name in model_names()]
    assert time.perf_counter() - start < 2.0
    assert len(lines) == 80


@pytest.mark.parametrize(("name", "layers"), [
    ("llama-3.1-8b", {"total": 32, "full_attention": 32, "dense_ffn": 32}),
    ("deepseek-v3", {"total": 61, "mla": 61, "dense_ffn": 3, "moe": 58}),
    ("deepseek-v3.2", {"total": 61, "sparse_mla": 61, "dense_ffn": 3, "moe": 58}),
    ("deepseek-v4-flash", {"total": 43, "window": 2, "csa": 21, "hca": 20, "moe": 43}),
    ("gemma-3-27b", {"total": 62, "sliding_attention": 52, "full_attention": 10, "dense_ffn": 62}),
    ("llama-4-maverick", {"total": 48, "sliding_attention": 36, "full_attention": 12, "moe": 24, "dense_ffn": 24}),
    ("step-3.5-flash", {"total": 45, "full_attention": 12, "sliding_attention": 33, "dense_ffn": 3, "moe": 42}),
    ("inkling", {"total": 66, "sliding_attention": 55, "full_attention": 11, "dense_ffn": 2, "moe": 64}),
    ("minimax-m3", {"total": 60, "full_attention": 3, "sparse_attention": 57, "dense_ffn": 3, "moe": 57}),
    ("qwen3.5-27b", {"total": 64, "gdn": 48, "full_attention": 16, "dense_ffn": 64}),
    ("kimi-k3", {"total": 93, "kda": 69, "mla": 24, "dense_ffn": 1, "moe": 92}),
    ("nemotron-3-nano-30b-a3b", {"total": 52, "mamba2": 23, "full_attention": 6, "moe": 23}),
    ("nemotron-h-56b", {"total": 118, "mamba2": 54, "full_attention": 10, "dense_ffn": 54}),
    ("llama-3.3-nemotron-super-49b", {"total": 80, "full_attention": 49, "dense_ffn": 80}),
])
def test_layers_by_kind(name: str, layers: dict[str, int]) -> None:
    assert model_summary(load_model(name))["layers"] == layers


@pytest.mark.parametrize(("name", "modules"), [
    ("deepseek-v3", 1), ("glm-4.5-air-106b-a12b", 1), ("minimax-m2", 3), ("minimax-m3", 7), ("step-3.5-flash", 3),
    ("inkling", 8), ("mimo-7b", 1), ("mimo-v2-flash", 3), ("qwen3.5-27b", 1), ("qwen3-next-80b-a3b", 1),
    ("nemotron-3-ultra-550b-a55b", 1), ("hy3-preview-295b-a21b", 1), ("kimi-k2-instruct", 0), ("llama-3.1-8b", 0),
])
def test_mtp_depth(name: str, modules: int) -> None:
    assert model_summary(load_model(name))["mtp_layers"] == modules
