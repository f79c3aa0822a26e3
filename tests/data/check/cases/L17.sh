llama-server -m Qwen3-4B-Q4_K_M.gguf -md Qwen3-0.6B-Q8_0.gguf --draft-max 5 --draft-min 1
