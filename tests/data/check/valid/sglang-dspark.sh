python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Flash-DSpark --trust-remote-code --tp 8 \
    --ep-size 8 --moe-runner-backend flashinfer_mxfp4 --speculative-moe-runner-backend flashinfer_mxfp4 \
    --speculative-algorithm DSPARK --mem-fraction-static 0.85 --cuda-graph-max-bs 32
