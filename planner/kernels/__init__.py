"""How long a kernel takes: timing forms, one short function per family, and the GPU profiles that hold their numbers."""
