python3 -m sglang.launch_server --model Qwen/Qwen2.5-7B-Instruct --speculative-algorithm NGRAM \
    --speculative-num-draft-tokens 16 --speculative-ngram-max-bfs-breadth 10 --mem-fraction-static 0.7 \
    --cuda-graph-max-bs-decode 8 --log-level warning
