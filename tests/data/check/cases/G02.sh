lmdeploy serve api_server deepseek-ai/DeepSeek-V3 --backend pytorch --tp 8 \
  --speculative-algorithm deepseek_mtp --speculative-num-steps 3 --speculative-num-draft-tokens 4
