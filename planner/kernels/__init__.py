"""How long a kernel takes: timing forms, one function per family, and the GPU profiles that hold their numbers."""
