python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 8 --trust-remote-code \
  --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
python3 -m sglang.bench_serving --backend sglang --dataset-name sharegpt --num-prompts 500 --max-concurrency 64
