python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Pro --tp 8 --max-running-requests 1536 \
  --cuda-graph-max-bs 1536 --speculative-algorithm EAGLE \
  --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
python3 -m sglang.bench_serving --backend sglang --dataset-name sharegpt --max-concurrency 8192
