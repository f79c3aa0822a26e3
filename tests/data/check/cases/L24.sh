llama-server -m Qwen2.5-7B-Instruct-Q8_0.gguf -md Qwen2.5-0.5B-Instruct-Q8_0.gguf -ngl 99 -ngld 0 \
  --spec-type draft-simple --spec-draft-n-max 16
