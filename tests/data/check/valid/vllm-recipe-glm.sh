vllm serve zai-org/GLM-4.6-FP8 \
      --tensor-parallel-size 4 \
      --speculative-config.method mtp \
      --speculative-config.num_speculative_tokens 1 \
      --tool-call-parser glm45 --reasoning-parser glm45 --enable-auto-tool-choice
