vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 4 --enable-expert-parallel \
  --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'
vllm bench serve --model deepseek-ai/DeepSeek-V4-Flash --dataset-name sharegpt --temperature 1.0
