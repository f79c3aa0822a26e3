vllm serve deepseek-ai/DeepSeek-V4-Flash-DSpark --tokenizer-mode deepseek_v4 --trust-remote-code \
  --speculative-config '{
    "method": "dspark", "model": "deepseek-ai/DeepSeek-V4-Flash-DSpark", "num_speculative_tokens": 7,
    "draft_sample_method": "probabilistic", "enable_adaptive_verification": true
  }'
