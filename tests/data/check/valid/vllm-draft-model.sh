vllm serve Qwen/Qwen3-4B-Thinking-2507 -tp 1 --max-model-len 2048 --gpu-memory-utilization 0.8 \
    --speculative-config '{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 5, "method": "draft_model"}'
