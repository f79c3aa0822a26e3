"""What a transformer is: layer kinds and sizes, readers of config.json, presets and drafters, what they weigh."""
