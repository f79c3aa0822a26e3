vllm serve Qwen/Qwen3-32B -tp 8 --speculative-config \
  '{"model": "Qwen/Qwen3-0.6B", "method": "draft_model", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 2}'
