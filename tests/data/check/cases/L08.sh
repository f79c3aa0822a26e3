llama-server -m Qwen3.8-27B-IQ4_XS.gguf -c 32768 -ngl 60 --spec-type draft-mtp --spec-draft-n-max 4
