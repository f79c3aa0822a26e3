vllm serve meta-llama/Meta-Llama-3-8B-Instruct --tensor-parallel-size 2 --speculative-config '{
    "model": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", "draft_tensor_parallel_size": 2,
    "num_speculative_tokens": 2, "method": "eagle3"}'
