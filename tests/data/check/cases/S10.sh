python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 \
  --speculative-algorithm EAGLE --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3
python3 -m sglang.bench_serving --dataset-name sharegpt --num-prompts 1000 --max-concurrency 128
