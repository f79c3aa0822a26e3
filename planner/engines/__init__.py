"""The engines and benchmark tools: read their acceptance numbers, write and check their configurations."""
