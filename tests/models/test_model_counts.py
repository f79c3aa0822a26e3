"""Parameter counts against outside numbers: what publishers say, and what transformers' own code builds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from specplan.planner.models.counts import active_parameters, mtp_parameters, parameters
from specplan.planner.models.reader import load_model, model_names

DATA = Path(__file__).parent.parent / "data"
PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "published_parameters.yaml").read_text())
PUBLISHED.pop("sources")
BY_TRANSFORMERS = {
    name: count
    for name, count in json.loads((DATA / "transformers_parameters.json").read_text()).items()
    if not name.startswith("_")
}
STRICT = [name for name, entry in PUBLISHED.items() if not entry.get("rounded")]


def rounds_to(value: float, figure: float) -> bool:
    """Whether the value, rounded to the digits that the figure shows, is the figure."""
    exponent = Decimal(str(figure)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return round(value, -exponent) == figure


def total_in_billions(name: str) -> float:
    entry, model = PUBLISHED[name], load_model(name)
    modules = mtp_parameters(model) if entry.get("mtp") else 0
    return (parameters(model) + modules) / 1e9 + float(entry.get("plus", 0.0))


def test_most_presets_have_a_published_count() -> None:
    assert len(STRICT) >= 60
    assert set(PUBLISHED) <= set(model_names())


@pytest.mark.parametrize("name", STRICT)
def test_total_within_one_percent_of_published(name: str) -> None:
    assert total_in_billions(name) == pytest.approx(PUBLISHED[name]["total"], rel=0.01)


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - set(STRICT)))
def test_total_of_a_coarse_figure(name: str) -> None:
    assert total_in_billions(name) == pytest.approx(PUBLISHED[name]["total"], rel=0.02)


@pytest.mark.parametrize("name", [name for name, entry in PUBLISHED.items() if "active" in entry])
def test_active_within_three_percent_or_rounding(name: str) -> None:
    entry, model = PUBLISHED[name], load_model(name)
    table = model.vocab * model.hidden
    extra = {"head": 0, "embedding": table, "neither": -table}[entry.get("counts", "head")]
    active = (active_parameters(model) + extra) / 1e9
    assert active == pytest.approx(entry["active"], rel=0.03) or rounds_to(active, entry["active"])


@pytest.mark.parametrize("name", sorted(BY_TRANSFORMERS))
def test_total_as_transformers_5_24_builds_it(name: str) -> None:
    assert parameters(load_model(name)) == pytest.approx(BY_TRANSFORMERS[name], rel=5e-4)


def test_one_layer_of_llama_3_1_8b_by_hand() -> None:
    model = load_model("llama-3.1-8b")
    attention = 4096 * (32 * 128) + 2 * 4096 * (8 * 128) + (32 * 128) * 4096
    mlp = 3 * 4096 * 14336
    norms = 2 * 4096
    assert parameters(model) == 32 * (attention + mlp + norms) + 4096 + 2 * 128256 * 4096
    assert active_parameters(model) == parameters(model) - 128256 * 4096    # the embedding is looked up, not multiplied


def test_active_counts_top_k_experts_and_all_shared_ones() -> None:
    model = load_model("deepseek-v3")
    expert = 3 * 7168 * 2048
    idle = 58 * (256 - 8) * expert
    assert parameters(model) - active_parameters(model) == idle + 129280 * 7168


def test_latent_experts_work_on_the_narrow_width() -> None:
    """Kimi-K3 and Nemotron 3 read naively, on the hidden size and with a gate, give 5,475 B and 1,495 B."""
    assert parameters(load_model("kimi-k3")) == pytest.approx(2.78e12, rel=0.01)
    assert parameters(load_model("nemotron-3-ultra-550b-a55b")) == pytest.approx(549.3e9, rel=0.001)


def test_tied_heads_are_stored_once() -> None:
    tied = load_model("qwen3-0.6b")
    apart = load_model({"name": "apart", "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
                        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                        "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": False})
    assert parameters(apart) - parameters(tied) == 151936 * 1024
    assert active_parameters(apart) == active_parameters(tied)
