./llama-server -m model.gguf --spec-type ngram-mod,ngram-map-k4v
./llama-server -m model.gguf --spec-type ngram-simple
