"""Storage formats: every recipe in the presets, and the full lists that real checkpoints carry."""

from __future__ import annotations

from typing import Any

import pytest

from specplan.planner.models.architecture import Model
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT, KERNEL_FORMAT, MATH_OF_WEIGHT
from specplan.planner.models.reader import load_model, read_model

DENSE: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 1000, "q_lora_rank": 64, "kv_lora_rank": 32,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "moe_intermediate_size": 128, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
}
FLOAT8 = {"num_bits": 8, "type": "float", "dynamic": False}


def formats(model: Model) -> tuple[str, str, str, str]:
    weights = model.weights
    return weights.attention, weights.ffn, weights.experts, weights.lm_head


def with_recipe(fields: dict[str, Any], recipe: dict[str, Any], **more: Any) -> Model:
    return read_model({**fields, "quantization_config": recipe, **more}, name="quantised")


@pytest.mark.parametrize(("name", "expected", "kv", "static"), [
    ("llama-3.1-70b", ("bf16", "bf16", "bf16", "bf16"), None, False),
    ("deepseek-v3", ("fp8_block", "fp8_block", "fp8_block", "bf16"), None, False),
    ("deepseek-v4-pro", ("fp8_block", "fp8_block", "mxfp4", "bf16"), None, False),
    ("gpt-oss-120b", ("bf16", "bf16", "mxfp4", "bf16"), None, False),
    ("llama-3.1-70b-fp8-nvidia", ("fp8", "fp8", "fp8", "bf16"), "fp8", True),
    ("kimi-k2.5", ("bf16", "bf16", "w4a16_g32", "bf16"), None, False),
    ("kimi-k2.6-nvfp4", ("bf16", "bf16", "nvfp4", "bf16"), "fp8", False),
    ("kimi-k3", ("bf16", "bf16", "mxfp4", "bf16"), None, False),
    ("glm-5.2-nvfp4", ("bf16", "bf16", "nvfp4", "bf16"), "fp8", False),
    ("gemma-4-31b-nvfp4", ("bf16", "nvfp4", "nvfp4", "bf16"), "fp8", False),
    ("gemma-4-26b-a4b-nvfp4", ("bf16", "bf16", "nvfp4", "bf16"), "fp8", False),
    ("nemotron-3-super-120b-a12b-nvfp4", ("nvfp4", "nvfp4", "nvfp4", "bf16"), "fp8", False),
    ("nemotron-3.5-lightning-30b-a3b-nvfp4", ("fp8", "fp8", "nvfp4", "bf16"), "fp8", True),
    ("qwen3.6-27b-nvfp4", ("fp8", "nvfp4_w4a16", "nvfp4_w4a16", "nvfp4_w4a16"), "fp8", True),
    ("qwen3.6-35b-a3b-nvfp4", ("fp8", "nvfp4", "nvfp4", "nvfp4"), "fp8", True),
    ("minimax-m2", ("fp8_block", "fp8_block", "fp8_block", "bf16"), None, False),
])
def test_presets(name: str, expected: tuple[str, ...], kv: str | None, static: bool) -> None:
    model = load_model(name)
    assert formats(model) == expected
    assert (model.kv_dtype, model.weights.static_scales) == (kv, static)


def test_mtp_stays_in_16_bit_where_the_recipe_says_so() -> None:
    for name in ("qwen3.6-27b-nvfp4", "glm-5.2-nvfp4"):
        mtp = load_model(name).mtp
        assert mtp is not None
        assert mtp.weights is not None
        assert mtp.weights.attention == "bf16"
    deepseek = load_model("deepseek-v3").mtp
    assert deepseek is not None
    assert deepseek.weights is None


@pytest.mark.parametrize(("weights", "inputs", "expected", "static"), [
    ({"num_bits": 8, "type": "float", "strategy": "tensor"}, FLOAT8, "fp8", True),
    ({"num_bits": 8, "type": "float", "strategy": "channel"}, {**FLOAT8, "dynamic": True}, "fp8", False),
    ({"num_bits": 8, "type": "float", "strategy": "block"}, {**FLOAT8, "dynamic": True}, "fp8_block", False),
    ({"num_bits": 8, "type": "int"}, {"num_bits": 8, "type": "int", "dynamic": True}, "int8", False),
    ({"num_bits": 8, "type": "int"}, None, "w8a16", False),
    ({"num_bits": 4, "type": "int", "group_size": 128}, None, "w4a16", False),
    ({"num_bits": 4, "type": "int", "group_size": 32}, None, "w4a16_g32", False),
    ({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4, "type": "float"}, "nvfp4", False),
    ({"num_bits": 4, "type": "float", "group_size": 16}, None, "nvfp4_w4a16", False),
    ({"num_bits": 4, "type": "float", "group_size": 32}, None, "mxfp4", False),
])
def test_compressed_tensors_groups(weights: Any, inputs: Any, expected: str, static: bool) -> None:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    model = with_recipe(DENSE, {"quant_method": "compressed-tensors", "config_groups": {"group_0": group},
                                "ignore": ["lm_head"]})
    assert formats(model)[:2] == (expected, expected)
    assert (model.weights.lm_head, model.weights.static_scales) == ("bf16", static)


def test_compressed_tensors_with_a_group_for_each_part_and_an_ignore_list() -> None:
    recipe = {
        "quant_method": "compressed-tensors", "ignore": ["lm_head", r"re:.*self_attn.*", r"re:.*mlp\.gate$"],
        "config_groups": {
            "group_0": {"targets": [r"re:.*mlp\.experts\..*"],
                        "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
            "group_1": {"targets": [r"re:.*shared_experts.*"], "weights": {"num_bits": 8, "type": "float"},
                        "input_activations": {"num_bits": 8, "type": "float", "dynamic": True}},
        },
    }
    assert formats(with_recipe(DEEPSEEK, recipe)) == ("bf16", "fp8", "w4a16_g32", "bf16")


def test_modelopt_with_its_whole_list_of_excluded_modules() -> None:
    excluded = ["lm_head", "model.layers.0*", "model.layers.4*"]
    excluded += [f"model.layers.{layer}.self_attn*" for layer in range(1, 4)]
    model = read_model({**DEEPSEEK}, name="a", quant_fields={
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": excluded},
    })
    assert formats(model) == ("bf16", "nvfp4", "nvfp4", "bf16")
    assert model.kv_dtype == "fp8"
    assert model.mtp is not None
    assert model.mtp.weights is not None


def test_modelopt_mixed_precision_by_module() -> None:
    layers: dict[str, Any] = {}
    for layer in range(32):
        layers |= {f"model.layers.{layer}.self_attn.{name}_proj": {"quant_algo": "FP8"} for name in "qkvo"}
        layers |= {f"model.layers.{layer}.mlp.{name}_proj": {"quant_algo": "NVFP4"} for name in ("gate", "up", "down")}
    recipe = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    model = with_recipe(DENSE, recipe)
    assert formats(model)[:2] == ("fp8", "nvfp4")


@pytest.mark.parametrize(("recipe", "expected"), [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "w4a16"),
    ({"quant_method": "awq", "bits": 4, "group_size": 32}, "w4a16_g32"),
    ({"quant_method": "gptq", "bits": 8}, "w8a16"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "w4a16"),
    ({"quant_method": "fbgemm_fp8"}, "fp8"),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
    ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "w4a16"),
])
def test_other_methods(recipe: dict[str, Any], expected: str) -> None:
    assert formats(with_recipe(DENSE, recipe))[:2] == (expected, expected)


def test_part_of_a_role_in_16_bit_leaves_a_note() -> None:
    model = with_recipe(DENSE, {"quant_method": "fp8", "modules_to_not_convert": ["self_attn.o_proj", "lm_head"]})
    assert model.weights.attention == "fp8"
    assert [note.code for note in model.notes] == ["quantization-mixed"]


def test_base_format_of_the_checkpoint() -> None:
    assert read_model({**DENSE, "torch_dtype": "float16"}, name="a").weights.attention == "fp16"


def test_every_format_has_bytes_and_math() -> None:
    assert BYTES_PER_WEIGHT.keys() == MATH_OF_WEIGHT.keys()
    assert KERNEL_FORMAT.keys() | set(KERNEL_FORMAT.values()) <= BYTES_PER_WEIGHT.keys()
