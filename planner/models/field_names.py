"""What the fields of a config.json are called: one table from our word to the publishers' names, and their defaults.

Names are searched in the order given; the first that is present and not null is used. All names of one row mean the
same thing, so two of them with different values are a contradiction, except in `FIRST_WINS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    # size of the network
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "dim", "n_embd", "d_model"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "positions": ("max_position_embeddings", "model_max_length", "max_seq_len", "n_positions", "seq_length"),
    "tied": ("tie_word_embeddings", "tied_embeddings"),
    # attention
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_attention_groups", "n_kv_heads", "num_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "value_head_dim": ("v_head_dim",),
    "bias": ("attention_bias", "qkv_bias", "litgpt_attn_bias", "add_qkv_bias"),
    "output_gate": ("attn_output_gate", "attention_output_gate", "mla_use_output_gate"),
    # multi-head latent attention
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "nope_head_dim": ("qk_nope_head_dim",),
    "rope_head_dim": ("qk_rope_head_dim",),
    # sparse and compressed attention
    "index_top_k": ("index_topk",),
    "index_blocks": ("index_topk_blocks",),
    "index_block": ("index_block_size",),
    "index_heads": ("index_n_heads",),
    "index_head_dim": ("index_head_dim",),
    "index_pattern": ("indexer_types",),
    "compress_ratios": ("compress_ratios",),
    "compress_rates": ("compress_rates",),
    "o_lora_rank": ("o_lora_rank",),
    "o_groups": ("o_groups",),
    # sliding windows; the swa_ and global_ names hold the sizes of the other kind of layer
    "window": ("sliding_window", "sliding_window_size"),
    "chunk": ("attention_chunk_size",),
    "layer_types": ("layer_types",),
    "sliding_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
    "sliding_mask": ("sliding_window_layer_mask", "hybrid_layer_pattern"),
    "sliding_ids": ("local_layer_ids",),
    "sliding_heads": ("swa_num_attention_heads", "num_sliding_attention_heads"),
    "sliding_kv_heads": ("swa_num_key_value_heads",),
    "sliding_head_dim": ("swa_head_dim",),
    "sliding_value_head_dim": ("swa_v_head_dim",),
    "full_head_dim": ("global_head_dim",),
    "full_kv_heads": ("num_global_key_value_heads",),
    "keys_are_values": ("attention_k_eq_v",),
    "kv_shared_layers": ("num_kv_shared_layers",),
    "rope_layers": ("no_rope_layers",),
    "rope_interval": ("no_rope_layer_interval",),
    # linear attention and state-space layers
    "full_interval": ("full_attention_interval",),
    "linear_key_heads": ("linear_num_key_heads",),
    "linear_value_heads": ("linear_num_value_heads",),
    "linear_key_dim": ("linear_key_head_dim",),
    "linear_value_dim": ("linear_value_head_dim",),
    "linear_conv": ("linear_conv_kernel_dim",),
    "kda_heads": ("linear_num_heads",),
    "kda_head_dim": ("linear_head_dim",),
    "mamba_heads": ("mamba_num_heads", "mamba_n_heads"),
    "mamba_head_dim": ("mamba_head_dim", "mamba_d_head"),
    "mamba_state": ("ssm_state_size", "mamba_d_state"),
    "mamba_groups": ("n_groups", "mamba_n_groups"),
    "mamba_conv": ("conv_kernel", "mamba_d_conv"),
    "hybrid_blocks": ("layers_block_type",),
    "hybrid_letters": ("hybrid_override_pattern",),
    # feed-forward
    "intermediate": ("intermediate_size", "hidden_dim", "n_inner", "ffn_hidden_size"),
    "dense_intermediate": ("intermediate_size_mlp", "dense_intermediate_size"),
    "activation": ("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
    "top_k": (
        "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts", "experts_per_token", "moe_topk",
        "moe_k",
    ),
    "expert_intermediate": ("moe_intermediate_size", "expert_hidden_dim", "expert_intermediate_size"),
    "expert_hidden": ("routed_expert_hidden_size", "moe_latent_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "shared_intermediate": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
        "shared_intermediate_size",
    ),
    "first_dense": ("first_k_dense_replace", "dense_mlp_idx", "num_dense_layers"),
    "moe_frequency": ("moe_layer_freq", "moe_every_n_layer", "route_every_n"),
    "moe_offset": ("moe_layer_offset",),
    "moe_layer_list": ("moe_layers_enum", "moe_layers"),
    "ffn_kinds": ("mlp_layer_types",),
    "moe_interleave": ("interleave_moe_layer_step", "decoder_sparse_step"),
    "dense_layers": ("mlp_only_layers",),
    "use_moe": ("use_moe", "enable_moe_block"),
    # multi-token prediction
    "mtp_modules": ("num_mtp_modules", "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"),
    "mtp_blocks": ("mtp_layers_block_type",),
    "mtp_letters": ("mtp_hybrid_override_pattern",),
    "mtp_layers": ("mtp_transformer_layers",),
}

FIRST_WINS = frozenset({
    "positions", "bias",
    "vocab",            # litgpt keeps the true and the padded size
    "mtp_modules",      # MiniMax-M3: 7 modules in num_mtp_modules, num_nextn_predict_layers is 1
    "activation",       # Nemotron-H: the MLP's own activation beside that of the Mamba layers
    "window",
})

# What the publisher's configuration class fills in where config.json is silent (transformers 5.24, class defaults).
# `qwen3_next`: vLLM and SGLang load one MTP module for it although the configuration has no field.
CLASS_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "qwen2": {"attention_bias": True},
    "qwen2_moe": {"attention_bias": True},
    "qwen2_5_vl_text": {"attention_bias": True},
    "gemma2": {"sliding_window_pattern": 2},
    "gemma3": {"sliding_window_pattern": 6},
    "gemma3_text": {"sliding_window_pattern": 6},
    "cohere2": {"sliding_window_pattern": 4},
    "llama4_text": {"no_rope_layer_interval": 4, "n_shared_experts": 1},
    "qwen3_next": {"num_nextn_predict_layers": 1, "attn_output_gate": True},
    "qwen3_5_text": {"attn_output_gate": True},
    "qwen3_5_moe_text": {"attn_output_gate": True},
    "muse_glimmer_text": {"attn_output_gate": True},
}

# config.json of the small Gemma 3 leaves out everything that equals the class default
GEMMA3_DEFAULTS: Mapping[str, Any] = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
}

# Families whose head_dim is not hidden / heads: without the field the size is unknown.
OWN_HEAD_DIM = ("qwen3", "gemma", "gpt_oss", "glm4", "minimax", "mimo_v2", "step3", "hy_v3", "nemotron_h", "inkling",
                "muse", "llama4", "mistral3", "ministral")

TIED_BY_DEFAULT = ("gemma", "gpt2", "cohere", "phi4mm")     # families that tie where the field is absent

# Two matrices instead of three: no gate. Activations that say so by themselves, and families with a plain GELU MLP.
UNGATED_ACTIVATIONS = frozenset({"relu2", "relu", "gelu_new", "squared_relu", "xielu"})
UNGATED_FAMILIES = frozenset({
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "phi", "falcon", "bloom", "starcoder2", "nemotron", "nemotron_h",
    "mpt", "persimmon", "codegen",
})

FOUR_TIMES_FAMILIES = frozenset({"gpt2", "gpt_neo", "gptj", "bloom", "codegen", "falcon", "mpt"})    # FFN = 4 * hidden

# Families whose counts were held against their own code: transformers 5.24 on empty weights, to 0.1 % (tests/models),
# and aliases of those. Others are read by their standard fields, with a warning.
KNOWN_FAMILIES = frozenset({
    "arcee", "bloom", "codegen", "cohere", "cohere2", "cwm", "deepseek_v3", "deepseek_v32", "deepseek_v4",
    "diffllama", "ernie4_5", "exaone", "exaone4", "exaone_moe", "falcon", "flex_olmo", "gemma", "gemma2", "gemma3",
    "gemma3_text", "gemma4_text", "gemma4_unified_text", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa",
    "gpt2", "gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoeshared", "helium", "hy_v3",
    "inkling_mm_model", "inkling_text", "internlm3", "jais2", "kimi_k2", "kimi_k25", "kimi_linear", "llama",
    "llama4", "llama4_text", "mimo", "mimo_v2", "mimo_v2_flash", "minimax_m2", "minimax_m3", "minimax_m3_vl_text",
    "ministral3", "mistral", "mistral3", "mistral_large3", "mixtral", "muse_glimmer_text", "nemotron-nas",
    "nemotron_h", "olmo", "olmo2", "olmo3", "olmoe", "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_5_vl",
    "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe",
    "qwen3_next", "qwen3_vl_moe_text", "qwen3_vl_text", "sarvam_mla", "sarvam_moe", "seed_oss", "smollm3",
    "solar_open", "stablelm", "starcoder2", "step3p5", "step3p7", "transformer", "youtu",
})

SHARED_GATE_FAMILIES = ("qwen2_moe", "qwen3_next", "qwen3_5_moe")
