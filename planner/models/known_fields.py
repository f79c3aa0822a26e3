"""Which configurations and fields the reader must refuse: other kinds of models, and sizes of unknown meaning.

A field that nobody here knows, whose name speaks of layers, heads, experts, ranks, windows or states and that holds a
size, would change what a pass costs; guessing would make every number wrong without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specplan.planner.models.field_names import FIELD_NAMES
from specplan.planner.models.fields import Fields

LANGUAGE_MODEL = re.compile(r"(ForCausalLM\w*|ForConditionalGeneration|LMHeadModel|ChatGLMModel)$")
OTHER_KINDS = frozenset({
    "albert", "bark", "bart", "beit", "bert", "big_bird", "blip", "camembert", "clip", "clip_vision_model",
    "convnext", "deberta", "deberta-v2", "deit", "detr", "dinov2", "dinov2_with_registers", "distilbert", "electra",
    "encodec", "encoder-decoder", "esm", "fsmt", "hubert", "informer", "layoutlm", "layoutlmv3", "led",
    "longformer", "m2m_100", "marian", "mbart", "modernbert", "mpnet", "mt5", "musicgen", "nomic_bert", "patchtst",
    "pegasus", "resnet", "roberta", "sam", "seamless_m4t", "segformer", "siglip", "siglip2", "siglip_vision_model",
    "speecht5", "swin", "t5", "timesfm", "umt5", "vision-encoder-decoder", "vit", "wav2vec2", "wavlm", "whisper",
    "xlm-roberta", "xlnet", "yolos",
})
STANDARD = ("layers", "hidden", "heads", "vocab")

# Read elsewhere under a literal name
READ_BY_NAME = frozenset({
    "attention_other_setting", "attn_type_list", "block_configs", "compression_config", "expert_dtype",
    "language_config", "linear_attn_config", "llm_config", "max_window_layers", "model_type", "moe", "mtp_config",
    "multi_query", "new_decoder_architecture", "quantization", "quantization_config", "sparse_attention_config",
    "text_config", "use_double_wide_mlp", "use_mtp", "use_sliding_window",
})
# Known, and without a share in the cost of a pass that is worth counting
WITHOUT_COST = frozenset({
    "attention_projection_layout", "attn_res_block_size", "attn_scale", "attn_temperature_tuning",
    "chain_hidden_post_norm", "chunk_size", "conv_bias", "conv_kernel_size", "d_rel", "dynamic_shared_experts",
    "ep_size", "expand", "expert_model_parallel", "expert_parallel", "hc_mult", "hc_sinkhorn_iters",
    "head_dim_original", "head_wise_attn_gate", "hidden_dropout", "hybrid_attention", "hybrid_block_size",
    "ignore_index", "index_local_blocks", "index_share_for_mtp_iteration", "index_skip_topk_offset",
    "index_topk_freq", "index_topk_pattern", "indexer_rope_interleave", "latent_moe_use_norm", "mamba_chunk_size",
    "mamba_proj_bias", "mlp_bias", "mlp_intermediate_size", "moe_norm_min", "moe_shared_expert_overlap",
    "mtp_hidden_states_first", "mtp_layer_types", "mtp_local_layer_ids", "mtp_mlp_layer_types",
    "mtp_use_dedicated_embeddings", "n_group", "num_expert_group", "num_expert_groups", "num_expert_groups_per_tok",
    "num_experts_per_tok", "num_hash_layers", "num_logits_to_keep", "num_nextn_predict_layers",
    "number_of_conv_states", "out_hidden_size", "position_embedding_type", "pretraining_tp", "projection_dim",
    "qk_head_dim", "query_pre_attn_scalar", "rank", "rel_extent", "routed_scale", "sconv_kernel_size",
    "shared_expert_gate", "shared_expert_sink", "time_step_rank", "transformers_version", "true_head_dim",
    "unpadded_vocab_size", "use_conv_bias", "use_head_wise_attn_gate", "use_mamba_kernels", "use_moe", "use_sconv",
    "use_shared_embedding", "vocab_size_per_layer_input", "zero_expert_type",
})
# Mappings that describe something other than the language network
OTHER_PARTS = re.compile(
    r"vision|image|visual|audio|video|speech|rope|generation|auto_map|id2label|label2id|task_specific|pruned|_hf_|dflash|"
    r"eagle|tokenizer|projector|diffusion|encoder_config|token2wav|code|talker|processor|yarn|scaling|lora|multimodal"
)
SIZE_WORDS = frozenset({
    "altup", "attention", "attn", "compress", "compression", "conv", "cross", "depth", "dim", "dims", "expert",
    "experts", "ffn", "head", "heads", "hidden", "idxs", "index", "indexer", "intermediate", "kv", "latent",
    "laurel", "layer", "layers", "loop", "loops", "lru", "mamba", "memories", "memory", "moe", "mtp", "nextn",
    "ngram", "passes", "ple", "rank", "recurrent", "repeat", "repeats", "shared", "sinks", "sparse", "sparsity",
    "ssm", "state", "states", "window", "windows",
})
# A name with one of these is a scale, a rule or a limit, not a size
PLAIN_WORDS = frozenset({
    "act", "activation", "alpha", "audio", "aux", "beta", "bias", "bidirectional", "cache", "cap", "checkpoint",
    "clamp", "classifier", "clip", "coef", "dropout", "dtype", "embeddings", "eps", "epsilon", "factor", "float32",
    "floor", "fp32", "func", "gamma", "gradient", "hash", "image", "impl", "init", "initializer", "jitter", "label",
    "labels", "lambda", "layerdrop", "layernorm", "limit", "limits", "litgpt", "loss", "method", "mm", "multiplier",
    "multipliers", "mup", "norm", "normalize", "pdrop", "positions", "projector", "range", "renormalize", "rope",
    "rotary", "router", "scale", "scaling", "softcap", "softcapping", "std", "summary", "swiglu", "temperature",
    "theta", "token", "video", "vision",
})


def check_kind(fields: Fields) -> None:
    """Refuse configurations of anything but a decoder-only language model."""
    values = fields.values
    family = fields.family
    names = values.get("architectures")
    if not isinstance(values.get("model_type"), str | None):
        fields.fault("model_type", f"{values['model_type']!r} is not a string")
    elif values.get("_class_name") is not None:
        fields.fault("_class_name", f"{values['_class_name']!r} is a diffusion component, not a language model")
    elif isinstance(names, list) and names and not any(LANGUAGE_MODEL.search(str(name)) for name in names):
        fields.fault("architectures", f"{', '.join(map(str, names))} is not a decoder-only language model")
    elif family in OTHER_KINDS:
        fields.fault("model_type", f"{family!r} is not a decoder-only language model")
    elif values.get("is_encoder_decoder") is True:
        fields.fault("is_encoder_decoder", "encoder-decoder models are not decoder-only language models")
    elif not any(fields.has(role) for role in STANDARD) and values.get("block_configs") is None:
        wanted = ", ".join(FIELD_NAMES[role][0] for role in STANDARD)
        fields.fault((), f"not the configuration of a language model: none of {wanted} is given")


def check_unknown_sizes(fields: Fields) -> None:
    """Refuse fields that would change the cost of a pass in an unknown way."""
    known = {name for names in FIELD_NAMES.values() for name in names} | READ_BY_NAME | WITHOUT_COST
    for key, value in fields.values.items():
        if key not in known and not key.startswith("_") and _is_size(key, value):
            fields.fault(key, "unknown field that may change the cost of a pass; remove it or set it to null to read "
                              "the model without it")


def _is_size(key: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and not OTHER_PARTS.search(key)
    if value in (None, 0, "") or isinstance(value, bool | str) or value == []:
        return False
    words = set(re.split(r"[_\d]+", key.lower()))
    return bool(words & SIZE_WORDS) and not words & PLAIN_WORDS and not key.endswith(("_id", "_ids_map"))
