python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 16 --max-running-requests 128 \
  --cuda-graph-max-bs 128 --speculative-algorithm NEXTN \
  --speculative-num-steps 1 --speculative-eagle-topk 2 --speculative-num-draft-tokens 4
