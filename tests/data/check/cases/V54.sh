vllm serve Qwen/Qwen3.8-27B -tp 2 --speculative-config '{"method": "mtp"}'
