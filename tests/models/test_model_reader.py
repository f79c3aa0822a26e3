"""Reading config.json: other layouts of the same facts, and everything that must be refused with its key named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specplan.planner.messages import InputError
from specplan.planner.models.architecture import DenseFfn, LatentAttention, MoeFfn, RecurrentMixer, SoftmaxAttention
from specplan.planner.models.counts import parameters
from specplan.planner.models.reader import PRESETS, load_model, read_model

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}
MOE: dict[str, Any] = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def preset(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((PRESETS / f"{name}.json").read_text())
    return fields


def faults(fields: dict[str, Any]) -> str:
    with pytest.raises(InputError) as error:
        read_model(fields, name="bad")
    assert error.value.exit_code == 2
    return str(error.value)


def test_a_file_a_folder_a_preset_and_a_mapping_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(preset("qwen3-8b")))
    by_name = load_model("qwen3-8b")
    for reference in (tmp_path, str(tmp_path / "config.json"), preset("qwen3-8b")):
        model = load_model(reference)
        assert (model.groups, model.hidden, model.vocab) == (by_name.groups, by_name.hidden, by_name.vocab)


def test_a_nested_text_config_is_read_like_a_flat_one() -> None:
    nested = {"model_type": "mistral3", "vision_config": {"num_hidden_layers": 24}, "text_config": LLAMA}
    assert read_model(nested, name="a").groups == read_model(LLAMA, name="a").groups


def test_params_json_of_mistral(tmp_path: Path) -> None:
    """The fields of Mistral Large 3's params.json; the preset holds the same facts under Hugging Face names."""
    fields = {
        "dim": 7168, "n_layers": 61, "head_dim": 192, "hidden_dim": 16384, "n_heads": 128, "n_kv_heads": 128,
        "vocab_size": 131072, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "max_position_embeddings": 294912, "norm_eps": 1e-6, "rope_theta": 10000.0,
        "tied_embeddings": False, "yarn": {"factor": 36, "original_max_position_embeddings": 8192},
        "llama_4_scaling": {"beta": 0.1}, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"},
        "moe": {"num_experts": 128, "num_experts_per_tok": 4, "num_shared_experts": 1, "expert_hidden_dim": 4096,
                "first_k_dense_replace": 3, "route_every_n": 1, "routed_scale": 1.0, "num_expert_groups": 1},
    }
    (tmp_path / "params.json").write_text(json.dumps(fields))
    model = load_model(tmp_path)
    assert parameters(model) == parameters(load_model("mistral-large-3"))
    assert (model.weights.experts, model.weights.static_scales) == ("fp8", True)


def test_longer_layer_lists_name_mtp_layers() -> None:
    """Step-3.5 has 48 layer_types for 45 layers and 3 MTP modules."""
    model = load_model("step-3.5-flash")
    assert model.layers == 45
    assert model.mtp is not None
    assert isinstance(model.mtp.layer.mixer, SoftmaxAttention)
    assert (model.mtp.modules, model.mtp.layer.mixer.window_tokens) == (3, 512)
    assert isinstance(model.mtp.layer.ffn, DenseFfn)


def test_sizes_that_hide_in_other_fields() -> None:
    step = [group.layer.mixer for group in load_model("step-3.5-flash").groups]
    heads = {(mixer.window_tokens, mixer.query_heads) for mixer in step if isinstance(mixer, SoftmaxAttention)}
    assert heads == {(None, 64), (512, 96)}
    k3 = {type(group.layer.mixer).__name__: group.layer.mixer for group in load_model("kimi-k3").groups}
    assert isinstance(k3["LatentAttention"], LatentAttention)
    assert k3["LatentAttention"].output_gate
    assert isinstance(k3["RecurrentMixer"], RecurrentMixer)
    assert k3["RecurrentMixer"].full_rank_gate
    moe = next(group.layer.ffn for group in load_model("nemotron-3-ultra-550b-a55b").groups
               if isinstance(group.layer.ffn, MoeFfn))
    assert (moe.matrices, moe.latent_hidden, moe.shared_intermediate) == (2, 2048, 10240)


def test_infinity_in_a_field_without_cost_is_read(tmp_path: Path) -> None:
    """Nemotron's config.json holds time_step_limit: [0.0, Infinity]."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}))
    assert "Infinity" in path.read_text()
    assert load_model(path).layers == 32


def test_an_unknown_architecture_with_standard_fields_is_read_with_a_warning() -> None:
    model = read_model({**LLAMA, "model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]}, name="new")
    assert [note.code for note in model.notes] == ["architecture-unknown"]
    assert model.groups == read_model(LLAMA, name="a").groups


@pytest.mark.parametrize(("change", "key"), [
    ({"num_hidden_layers": -1}, "num_hidden_layers"),
    ({"num_hidden_layers": 0}, "num_hidden_layers"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
    ({"hidden_size": float("inf")}, "hidden_size"),
    ({"hidden_size": float("nan")}, "hidden_size"),
    ({"hidden_size": "4096"}, "hidden_size"),
    ({"hidden_size": True}, "hidden_size"),
    ({"hidden_size": 4096.5}, "hidden_size"),
    ({"hidden_size": 4097}, "head_dim"),
    ({"vocab_size": None}, "vocab_size"),
    ({"intermediate_size": None}, "intermediate_size"),
    ({"num_key_value_heads": 5}, "num_key_value_heads"),
    ({"num_key_value_heads": 64}, "num_key_value_heads"),
    ({"model_type": "qwen3"}, "head_dim"),
    ({"model_type": "gpt_oss"}, "head_dim"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ({"layer_types": ["full_attention"] * 3}, "layer_types"),
    ({"layer_types": ["full_attention"] * 31 + ["quantum_attention"]}, "layer_types[31]"),
    ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
    ({"hybrid_override_pattern": "M*X"}, "hybrid_override_pattern[2]"),
    ({"n_layers": 31}, "n_layers"),
    ({"num_memory_heads": 4}, "num_memory_heads"),
    ({"attention_chunk_size": 512}, "attention_chunk_size"),
    ({"hidden_size_per_layer_input": 256}, "hidden_size_per_layer_input"),
    ({"torch_dtype": "float3"}, "torch_dtype"),
    ({"quantization_config": {"quant_method": "magic"}}, "quantization_config.quant_method"),
    ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP2"}}, "quantization_config.quant_algo"),
    ({"quantization_config": {"quant_method": "compressed-tensors"}}, "quantization_config.config_groups"),
])
def test_a_fault_names_its_field(change: dict[str, Any], key: str) -> None:
    assert any(line.startswith(f"{key}:") for line in faults({**LLAMA, **change}).splitlines())


@pytest.mark.parametrize(("change", "key"), [
    ({"num_local_experts": 0}, "num_local_experts"),
    ({"num_experts_per_tok": 9}, "num_experts_per_tok"),
    ({"num_experts_per_tok": None}, "num_experts_per_tok"),
    ({"num_experts": 16}, "num_local_experts"),
    ({"moe_layer_freq": [0, 2] * 16}, "moe_layer_freq[1]"),
    ({"mlp_layer_types": ["dense"] * 31 + ["wet"]}, "mlp_layer_types[31]"),
    ({"expert_dtype": "fp3"}, "expert_dtype"),
])
def test_a_fault_of_the_experts_names_its_field(change: dict[str, Any], key: str) -> None:
    fields = {**MOE, "quantization_config": {"quant_method": "fp8"}, **change}
    assert any(line.startswith(f"{key}:") for line in faults(fields).splitlines())


def test_all_faults_come_at_once() -> None:
    text = faults({**LLAMA, "hidden_size": -1, "vocab_size": 0, "num_key_value_heads": "many"})
    assert {line.split(":")[0] for line in text.splitlines()} >= {"hidden_size", "vocab_size", "num_key_value_heads"}


@pytest.mark.parametrize(("fields", "key"), [
    ({**LLAMA, "architectures": ["BertForMaskedLM"], "model_type": "bert"}, "architectures"),
    ({**LLAMA, "architectures": ["Qwen3ForSequenceClassification"]}, "architectures"),
    ({**LLAMA, "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "is_encoder_decoder"),
    ({"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280}, "model_type"),
    ({"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 768}, "architectures"),
    ({"_class_name": "UNet2DConditionModel", "in_channels": 4}, "_class_name"),
    ({"architecture": "resnet50", "num_classes": 1000}, "not the configuration of a language model"),
    ({}, "not the configuration of a language model"),
])
def test_other_kinds_of_models_are_refused(fields: dict[str, Any], key: str) -> None:
    assert faults(fields).startswith(f"{key}:")


@pytest.mark.parametrize(("content", "says"), [
    (b"", "is empty"),
    (b"  \n", "is empty"),
    (b'{"hidden_size": 40', "is not JSON"),
    (b"[1, 2]", "holds no mapping"),
    (b"\xff\xfe\x00\x81", "is not a text file"),
    (b"[" * 100_000, "is not JSON"),
    (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON"),
])
def test_files_that_are_no_configuration(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        load_model(path)
    assert error.value.faults[0].file == str(path)


def test_missing_files_folders_and_large_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path / "nothing.json")
    with pytest.raises(InputError, match=r"has neither config\.json nor params\.json"):
        load_model(tmp_path)
    large = tmp_path / "config.json"
    with large.open("wb") as file:
        file.truncate(50 * 10**6 + 1)
    with pytest.raises(InputError, match="is larger than 50 MB"):
        load_model(large)


def test_a_misspelt_preset_gets_the_nearest_names() -> None:
    with pytest.raises(InputError, match=r"did you mean 'llama-3.3-70b'"):
        load_model("lama-3.3-70b")


def test_a_fault_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "vocab_size": -5}))
    with pytest.raises(InputError) as error:
        load_model(path)
    assert str(error.value) == f"{path}: vocab_size: -5 is out of range [1, 1000000000]"
