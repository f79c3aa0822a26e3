vllm serve XiaomiMiMo/MiMo-7B-Base --tensor-parallel-size 1 \
    --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
