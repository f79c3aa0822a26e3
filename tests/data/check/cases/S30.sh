python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --cuda-graph-max-bs 2 \
  --max-running-requests 32 --speculative-algorithm EAGLE3 \
  --speculative-draft-model-path jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B \
  --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6
python3 -m sglang.bench_serving --dataset-name random --random-input 2048 --random-output 128 --num-prompts 100 \
  --max-concurrency 20
