"""One step of speculative decoding: a forward pass as ops, drafting, fixed costs, memory, time over (D, B, S)."""
