python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --cuda-graph-max-bs 2 --max-running-requests 8 \
  --speculative-algorithm EAGLE3 --speculative-draft-model-path Tengyunw/qwen3_8b_eagle3 \
  --speculative-num-steps 6 --speculative-eagle-topk 10 --speculative-num-draft-tokens 32
