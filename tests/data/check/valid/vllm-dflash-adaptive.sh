hf download XiaomiMiMo/MiMo-V2.5-Pro-FP4-DFlash --local-dir MiMo-V2.5-Pro-FP4-DFlash

vllm serve MiMo-V2.5-Pro-FP4-DFlash --tensor-parallel-size 4 --trust-remote-code --max-model-len auto \
  --speculative-config '{
    "method": "dflash", "model": "MiMo-V2.5-Pro-FP4-DFlash/dflash", "num_speculative_tokens": 8,
    "enable_adaptive_verification": true
  }'
