VLLM_USE_V2_MODEL_RUNNER=0 vllm serve google/gemma-4-31B-it --max-num-seqs 256 --speculative-config \
  '{"model": "google/gemma-4-31B-it-assistant", "method": "mtp", "num_speculative_tokens": 4,
    "num_speculative_tokens_per_batch_size": [[1, 256, 0]]}'
