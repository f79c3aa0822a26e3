VLLM_USE_V2_MODEL_RUNNER=0 vllm serve Qwen/Qwen3.5-122B-A10B --speculative-config \
  '{"method": "mtp", "num_speculative_tokens": 2, "num_speculative_tokens_per_batch_size": [[1, 4, 2], [5, 512, 0]]}'
