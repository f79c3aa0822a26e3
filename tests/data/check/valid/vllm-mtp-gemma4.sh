vllm serve google/gemma-4-E2B-it --tensor-parallel-size 1 --max-model-len 8192 \
    --speculative-config '{"method":"mtp","model":"gg-hf-am/gemma-4-E2B-it-assistant","num_speculative_tokens":1}'
