vllm serve meta-models/Muse-Glimmer-30B -tp 2 --speculative-config \
  '{"method": "dflash", "model": "meta-models/Muse-Glimmer-30B-assistant", "num_speculative_tokens": 16}'
