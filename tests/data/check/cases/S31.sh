python3 -m sglang.launch_server --model-path Qwen/Qwen2-72B-Instruct --tp 8 --speculative-algorithm EAGLE \
  --speculative-draft-model-path yuhuili/EAGLE-Qwen2-72B-Instruct \
  --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 2
