lmdeploy serve api_server meta-llama/Llama-3.1-8B-Instruct --backend pytorch --server-port 24545 \
  --speculative-draft-model yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --speculative-algorithm eagle3 \
  --speculative-num-draft-tokens 3 --max-batch-size 128 --enable-metrics
