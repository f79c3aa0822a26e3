vllm serve deepseek-ai/DeepSeek-V4-Flash-0731 -tp 4 --speculative-config \
  '{"method": "dspark", "num_speculative_tokens": 7, "draft_sample_method": "probabilistic"}'
