lmdeploy serve api_server deepseek-ai/DeepSeek-V3 --backend pytorch --server-port 24545 --tp 16 \
  --speculative-algorithm deepseek_mtp --speculative-num-draft-tokens 3 --max-batch-size 128 --enable-metrics
