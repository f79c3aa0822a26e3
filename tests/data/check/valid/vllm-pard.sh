vllm serve Qwen/Qwen3-8B -tp 1 --max_model_len 2048 --gpu_memory_utilization 0.8 --speculative_config \
  '{"model": "amd/PARD-Qwen3-0.6B", "num_speculative_tokens": 12, "method": "draft_model", "parallel_drafting": true}'
