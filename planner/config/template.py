"""The cfg.yaml that `specplan init` writes: complete, commented, answerable as it stands."""

from __future__ import annotations

from specplan.planner.config.local_gpu import LocalGpu

MOST_TP = 8     # GPUs of one NVLink domain of a common server
_TEMPLATE = """\
# A question to specplan. Answer it with:  specplan recommend --model {file}
# All keys:  specplan schema        Presets:  specplan models list, specplan profiles list

target: llama-3.3-70b       # preset, or path of a Hugging Face config.json, or an inline mapping of its fields
gpu: {gpu}
parallel: {{tp: {tp}}}         # GPUs that share one replica; also ep, dp_attention, pp
dtypes: {{weights: fp8, kv: fp8, activations: bf16}}     # what is left out is what the checkpoint says
engine: vllm                # vllm, sglang, trtllm; with a version: 'vllm:0.24.0'

workload:
  batch: [1, 8, 32, 128]            # sequences decoded together; '1-256' means powers of two
  context_tokens: [2k, 32k]         # tokens in the KV cache; 32k is 32000, 32ki is 32768
  input_tokens: 1500                # with both lengths the answer has end-to-end figures too
  output_tokens: 500

objective: latency          # latency: tokens/s/user; throughput: tokens/s/GPU

# Ways to propose tokens. Measured acceptance decides the answer, so none is assumed: without it, the answer says
# what each draft length must reach to break even. Forms (give one): per_position: [0.78, 0.55], alpha: 0.72,
# acceptance_length: {{1: 1.7, 3: 2.6}}, rate: 0.6 with draft_len: 3, histogram: [120, 80, 41].
drafters:
  - {{mechanism: eagle3}}
  - {{mechanism: draft_model, model: llama-3.2-1b}}
  - {{mechanism: ngram}}

max_draft_len: 16           # longest draft to consider
"""


def template(found: LocalGpu | None, *, file: str = "cfg.yaml") -> str:
    """Text of a first configuration for the GPU of this machine, or for an H200 where none is known."""
    if found is None:
        gpu = "h200-sxm               # no GPU was found on this machine: set yours"
    elif found.profile is None:
        gpu = f"h200-sxm               # '{found.device}' has no shipped profile: set the nearest, or measure one"
    else:
        gpu = f"{found.profile:<22} # found on this machine: {found.count} x {found.device}"
    tp = 4 if found is None else min(1 << (found.count.bit_length() - 1), MOST_TP)
    return _TEMPLATE.format(gpu=gpu, tp=tp, file=file)
