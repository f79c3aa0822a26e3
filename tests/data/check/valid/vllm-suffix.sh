vllm serve Qwen/Qwen3-8B \
  --speculative-config '{
    "method": "suffix", "num_speculative_tokens": 8, "suffix_decoding_max_tree_depth": 24,
    "suffix_decoding_max_cached_requests": 10000, "suffix_decoding_max_spec_factor": 1.0,
    "suffix_decoding_min_token_prob": 0.1
  }'
