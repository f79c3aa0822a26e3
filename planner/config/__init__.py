"""What the user asks: strict YAML, the schema of cfg.yaml, sizes. Only parses: names and files stay references."""
