"""Drafters: published shapes, customary ones with a note, their own configurations, and the rules of D."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specplan.planner.messages import InputError
from specplan.planner.models.counts import parameters, weight_bytes
from specplan.planner.models.drafter import MECHANISMS
from specplan.planner.models.drafters import (
    candidate_draft_lens,
    drafter_kv_bytes,
    drafter_kv_bytes_per_token,
    drafter_weight_bytes,
    known_drafters,
    load_drafter,
    position_note,
)
from specplan.planner.models.reader import load_model, model_names

LLAMA_8B = load_model("llama-3.1-8b")
QWEN_8B = load_model("qwen3-8b")


def test_eagle3_for_llama_3_1_8b_by_hand() -> None:
    """One layer whose q, k and v read embedding and hidden state (8192), a 3-to-1 projection, a head of 32k tokens."""
    drafter = load_drafter("eagle3", LLAMA_8B)
    attention = 8192 * (32 + 2 * 8) * 128 + 4096 * 4096
    layer = attention + 3 * 4096 * 14336 + 2 * 4096
    total = layer + 3 * 4096 * 4096 + 32000 * 4096
    assert drafter_weight_bytes(drafter) == 2 * total
    assert total == pytest.approx(0.42e9, rel=0.02)     # yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: 850 MB in fp16
    assert drafter_kv_bytes_per_token(drafter, "bf16") == 8 * 256 * 2
    assert drafter_kv_bytes_per_token(drafter, "fp8", tp=4) == 2 * 256


def test_mtp_of_deepseek_v3_by_hand() -> None:
    """The module holds 11.5 B parameters of its own; embedding and head are the target's."""
    target = load_model("deepseek-v3")
    drafter = load_drafter("mtp", target)
    assert (drafter.depth, drafter.own_head, drafter.own_embedding, drafter.fused_inputs) == (1, False, False, 2)
    experts = 257 * 3 * 7168 * 2048
    assert drafter_weight_bytes(drafter) == pytest.approx(11.5e9, rel=0.02)     # fp8
    assert drafter_weight_bytes(drafter) > experts
    assert drafter_kv_bytes_per_token(drafter, "bf16") == 576 * 2


def test_mtp_modules_are_all_stored() -> None:
    one = load_drafter("mtp", load_model("minimax-m2"))
    assert one.depth == 3
    assert drafter_weight_bytes(one) == pytest.approx(3 * 3.69e9, rel=0.02)


def test_mtp_needs_a_module() -> None:
    with pytest.raises(InputError, match="has no MTP module") as error:
        load_drafter("mtp", LLAMA_8B)
    assert error.value.faults[0].path == ("mechanism",)
    assert load_drafter("mtp", load_model("mimo-v2-flash")).depth == 3      # in the weights, though no field says so


def test_gemma_assistant_reads_the_target_cache() -> None:
    drafter = load_drafter("mtp", load_model("gemma-4-31b-nvfp4"))
    assert drafter.shares_target_kv
    assert drafter_kv_bytes_per_token(drafter, "bf16") == 0.0
    assert drafter_weight_bytes(drafter) == pytest.approx(2 * 470e6, rel=0.01)  # google: 470 M parameters


@pytest.mark.parametrize(("mechanism", "block", "longest"), [
    ("dflash", None, 15), ("dflash", 8, 7), ("dspark", None, 7), ("dspark", 5, 5),
])
def test_blocks_count_the_anchor_for_dflash_and_not_for_dspark(mechanism: str, block: int | None, longest: int) -> None:
    drafter = load_drafter(mechanism, QWEN_8B, block=block)
    assert drafter.max_draft_len == longest
    assert candidate_draft_lens(drafter, 16) == tuple(range(1, longest + 1))


def test_dspark_has_a_markov_head_of_rank_256() -> None:
    dspark, dflash = load_drafter("dspark", QWEN_8B), load_drafter("dflash", QWEN_8B)
    markov = drafter_weight_bytes(dspark) - drafter_weight_bytes(dflash)
    assert markov == 2 * 2 * 151936 * 256       # 156 MB


def test_mtp_in_vllm_takes_whole_multiples_of_its_depth() -> None:
    drafter = load_drafter("mtp", load_model("step-3.5-flash"))
    assert candidate_draft_lens(drafter, 9, engine="vllm") == (1, 2, 3, 6, 9)
    assert candidate_draft_lens(drafter, 4, engine="sglang") == (1, 2, 3, 4)


def test_shapes_come_from_training_configurations_where_there_are_some() -> None:
    known = load_drafter("eagle3", load_model("qwen3-235b-a22b"))
    assert known.network is not None
    assert (known.name, known.network.hidden, known.network.vocab) == ("qwen3-235B-A22B-eagle3", 4096, 32000)
    assert [note.code for note in known.notes] == ["drafter-shape-training"]
    tuned = load_drafter("eagle3", replace(LLAMA_8B, name="Meta-Llama-3.1-8B-Instruct"))
    assert tuned.name == "llama3-8B-eagle3"
    assumed = load_drafter("eagle3", load_model("llama-3.1-405b"))
    assert [note.code for note in assumed.notes] == ["drafter-shape-assumed"]


def test_a_sliding_drafter_keeps_its_window_only() -> None:
    """Qwen3.6-27B's DFlash: 4 of 5 layers slide over 2048 tokens; 8 heads of 128."""
    drafter = load_drafter("dflash", load_model("qwen3.6-27b-nvfp4"))
    token = 8 * 256 * 2
    assert float(drafter_kv_bytes(drafter, "bf16", 10_000.0)) == token * (10_000 + 4 * 2048)
    assert drafter_kv_bytes_per_token(drafter, "bf16") == token


def test_an_external_model_weighs_all_of_itself() -> None:
    drafter = load_drafter("draft_model", load_model("llama-3.3-70b"), model="llama-3.2-1b")
    small = load_model("llama-3.2-1b")
    assert drafter_weight_bytes(drafter, tp=4) == weight_bytes(small, tp=4)
    assert (drafter.own_embedding, drafter.notes) == (True, ())
    fp8 = load_drafter("pard", load_model("llama-3.3-70b"), model="llama-3.2-1b", weights="fp8")
    assert drafter_weight_bytes(fp8) < drafter_weight_bytes(drafter)


def test_another_vocabulary_is_noted() -> None:
    drafter = load_drafter("draft_model", load_model("llama-3.3-70b"), model="qwen3-0.6b")
    assert [note.code for note in drafter.notes] == ["drafter-vocabulary"]


def test_lookups_have_no_network() -> None:
    drafter = load_drafter("ngram", LLAMA_8B, draft_fraction=0.4)
    assert (drafter.network, drafter.draft_fraction, drafter_weight_bytes(drafter)) == (None, 0.4, 0.0)


def test_flat_configuration_of_a_drafter(tmp_path: Path) -> None:
    fields = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 4096,
              "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
              "vocab_size": 128256, "draft_vocab_size": 32000, "max_position_embeddings": 2048}
    path = tmp_path / "my-eagle3" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(fields))
    drafter = load_drafter("eagle3", LLAMA_8B, model=path)
    assert drafter.name == "my-eagle3"
    assert drafter_weight_bytes(drafter) == drafter_weight_bytes(load_drafter("eagle3", LLAMA_8B))
    note = position_note(drafter, 8000)
    assert note is not None
    assert note.code == "drafter-positions"
    assert position_note(drafter, 2048) is None


@pytest.mark.parametrize(("kind", "mechanism", "anchor", "longest"), [
    ("dflash", "dflash", False, 15), ("dspark", "dspark", True, 16), ("dspark", "dspark", False, 15),
])
def test_speculators_format(kind: str, mechanism: str, anchor: bool, longest: int) -> None:
    """Speculators keep the network one level down, and say whether drafts start at the anchor."""
    fields: dict[str, Any] = {
        "architectures": [f"{kind}Speculator"], "speculators_model_type": kind, "block_size": 16,
        "sample_from_anchor": anchor, "draft_vocab_size": 151936,
        "speculators_config": {"algorithm": kind, "verifier": {"name_or_path": "Qwen/Qwen3-8B"}},
        "transformer_layer_config": {
            "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 5, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936},
    }
    drafter = load_drafter(mechanism, QWEN_8B, model=fields)
    assert drafter.network is not None
    assert (drafter.network.layers, drafter.max_draft_len) == (5, longest)


@pytest.mark.parametrize(("arguments", "path"), [
    ({"mechanism": "egale3"}, ("mechanism",)),
    ({"mechanism": "draft_model"}, ("model",)),
    ({"mechanism": "pard"}, ("model",)),
    ({"mechanism": "ngram", "model": "llama-3.2-1b"}, ("model",)),
    ({"mechanism": "eagle3", "block": 8}, ("block",)),
    ({"mechanism": "eagle3", "draft_fraction": 0.5}, ("draft_fraction",)),
    ({"mechanism": "draft_model", "model": "lama-3.2-1b"}, ("model",)),
    ({"mechanism": "eagle3", "model": "no-such-drafter"}, ("model",)),
    ({"mechanism": "eagle3", "model": "qwen3-8b-dflash"}, ("model",)),      # another mechanism
    ({"mechanism": "eagle3", "model": "llama3-70B-ealge3"}, ("model",)),    # another target
    ({"mechanism": "draft_model", "model": {"hidden_size": -1}}, ("model", "hidden_size")),
])
def test_faults_carry_the_argument(arguments: dict[str, Any], path: tuple[str, ...]) -> None:
    mechanism = arguments.pop("mechanism")
    with pytest.raises(InputError) as error:
        load_drafter(mechanism, LLAMA_8B, **arguments)
    assert path in [fault.path for fault in error.value.faults]


def test_known_drafters_of_some_targets() -> None:
    assert [d.mechanism for d in known_drafters(load_model("deepseek-v3"))] == ["mtp", "ngram"]
    llama = {d.mechanism: d for d in known_drafters(load_model("llama-3.3-70b"))}
    assert llama.keys() == {"eagle3", "draft_model", "ngram"}
    assert llama["eagle3"].name == "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"
    siblings = [d.name for d in known_drafters(load_model("qwen3-32b")) if d.mechanism == "draft_model"]
    assert siblings == ["qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b"]
    assert "dspark" in {d.mechanism for d in known_drafters(load_model("kimi-k3"))}


@pytest.mark.parametrize("name", model_names())
def test_every_target_can_have_the_customary_drafters(name: str) -> None:
    target = load_model(name)
    for mechanism in set(MECHANISMS) - {"draft_model", "pard", "mtp"}:
        drafter = load_drafter(mechanism, target)
        assert drafter_weight_bytes(drafter) >= 0.0
        if drafter.network is not None:
            assert drafter.network.hidden == target.hidden
            assert drafter_weight_bytes(drafter) < 2 * parameters(target)
    assert known_drafters(target)[-1].mechanism == "ngram"
