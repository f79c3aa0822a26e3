"""The facts of a transformer that decide what one forward pass costs. Sizes are those of the whole model.

A layer is a token mixer (attention or a recurrent state) and a feed-forward part; either may be absent, as in
hybrids that alternate them. Equal layers are kept once with a count, so that pricing a 126-layer model looks at
one layer.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from specplan.planner.fact import fact
from specplan.planner.messages import Note


@fact
class SparseIndex:
    """A cheap scorer that picks the `top_k` cached tokens that the real attention then reads."""

    heads: int
    head_dim: int
    top_k: int
    block_tokens: int = 1   # tokens picked together (MiniMax-M3 picks blocks)
    own_scorer: bool = True # False: this layer reuses the picks of an earlier one (GLM-5.2 "shared")


@fact
class SoftmaxAttention:
    """Full, sliding or chunked attention with `kv_heads` cached keys and values: MHA, GQA and MQA are one thing."""

    query_heads: int
    kv_heads: int
    head_dim: int                       # width of a query and a key
    value_head_dim: int
    window_tokens: int | None = None    # at most this many cached tokens are kept and read; None = all
    keys_are_values: bool = False       # one projection makes both (Gemma 4, full layers); both are cached, as only
                                        # keys are rotated (transformers 5.24, gemma4/modeling_gemma4.py)
    output_gate: bool = False           # the query projection also makes a gate of the same width (Qwen3-Next)
    index: SparseIndex | None = None
    shares_kv: bool = False             # reads another layer's cache and has no K/V projection of its own
    inputs: int = 1                     # hidden-sized inputs concatenated before q, k and v (EAGLE-3: 2)


@fact
class LatentAttention:
    """MLA: all heads read one cached latent of `kv_lora_rank + rope_head_dim` numbers per token (absorbed decode)."""

    query_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    output_gate: bool = False
    index: SparseIndex | None = None


@fact
class CompressedAttention:
    """DeepSeek-V4: one shared key-value head over every `compress_ratio`-th summary plus a sliding window."""

    query_heads: int
    head_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    rope_head_dim: int
    compress_ratio: int                 # 0 = window only
    window_tokens: int
    index: SparseIndex | None = None    # CSA layers pick top_k summaries; HCA layers read them all


@fact
class RecurrentMixer:
    """Linear attention or a state-space layer: a state of fixed size per sequence in place of a KV cache."""

    kind: Literal["gdn", "kda", "mamba2"]
    key_heads: int          # mamba2: groups
    value_heads: int        # heads that own a state
    key_dim: int            # mamba2: ssm_state_size
    value_dim: int          # mamba2: mamba_head_dim
    conv_kernel: int
    full_rank_gate: bool = False    # kda: the output gate has a full matrix (Kimi-K3) instead of one of low rank


Mixer: TypeAlias = SoftmaxAttention | LatentAttention | CompressedAttention | RecurrentMixer


@fact
class DenseFfn:
    """A plain feed-forward part: 3 matrices with a gate (SwiGLU), 2 without (relu2, gelu)."""

    intermediate: int
    matrices: Literal[2, 3] = 3


@fact
class MoeFfn:
    """Routed experts, of which each token uses `top_k`, plus shared ones that every token uses."""

    experts: int
    top_k: int
    intermediate: int                   # of one routed expert
    matrices: Literal[2, 3] = 3
    shared_intermediate: int = 0        # of all shared experts together; 0 = none
    shared_gate: bool = False           # a 1-wide gate scales the shared expert (Qwen)
    latent_hidden: int | None = None    # experts work on this narrower width (Kimi-K3, Nemotron 3 Super)
    dense_intermediate: int = 0         # a dense FFN beside the experts in the same layer (Gemma 4 26B-A4B)


Ffn: TypeAlias = DenseFfn | MoeFfn


@fact
class Layer:
    """One residual block pair; either half may be missing (Nemotron-H alternates them)."""

    mixer: Mixer | None
    ffn: Ffn | None


@fact
class LayerGroup:
    """`count` equal layers."""

    layer: Layer
    count: int


@fact
class WeightDtypes:
    """Storage format of the weights by role; names are keys of `dtypes.BYTES_PER_WEIGHT`."""

    attention: str = "bf16"
    ffn: str = "bf16"        # dense feed-forward parts and shared experts
    experts: str = "bf16"    # routed experts
    lm_head: str = "bf16"
    embedding: str = "bf16"
    static_scales: bool = False   # activation scales are in the checkpoint: no quantisation kernel at run time


@fact
class MtpModules:
    """Multi-token-prediction heads that ship with the model."""

    modules: int                # trained depth; a module is reused beyond it
    layer: Layer                # the (main) layer of one module
    projection_inputs: int = 2  # hidden states and embeddings concatenated before the layer
    layers: int = 1             # layers in one module
    weights: WeightDtypes | None = None     # where they differ from the model's (quantised models often keep 16 bit)


@fact
class Model:
    """A decoder-only language model, as its config.json describes it.

    `kv_dtype` and `weights` are what the checkpoint asks for; a configuration may override them.
    """

    name: str
    hidden: int
    vocab: int
    tied_head: bool                     # the LM head is the embedding: stored once
    groups: tuple[LayerGroup, ...]
    weights: WeightDtypes = field(default_factory=WeightDtypes)
    kv_dtype: str | None = None         # None: not stated in the checkpoint
    quantization: str | None = None     # the checkpoint's own word for it, for people
    mtp: MtpModules | None = None
    max_positions: int | None = None
    model_type: str = ""
    qkv_bias: bool = False
    source: str = ""
    weights_name: str | None = None     # where its weights are published, as engines take it
    notes: tuple[Note, ...] = ()

    @property
    def layers(self) -> int:
        """Number of layers, MTP modules not counted."""
        return sum(group.count for group in self.groups)
