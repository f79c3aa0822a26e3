"""Number formats: bytes stored per weight (block scales included) and the arithmetic a GPU does with them.

Sources: block sizes of the formats. NVFP4: one fp8 scale per 16 weights; MXFP4: one 8-bit scale per 32; block fp8:
one fp32 scale per 128x128; GPTQ/AWQ int4: one fp16 scale per 128.
"""

from __future__ import annotations

BYTES_PER_WEIGHT: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4.0 / (128 * 128),
    "int8": 1.0,
    "w8a16": 1.0,
    "nvfp4": 0.5 + 1.0 / 16,
    "mxfp4": 0.5 + 1.0 / 32,
    "w4a16": 0.5 + 2.0 / 128,
    "w4a16_g32": 0.5 + 2.0 / 32,    # one fp16 scale per 32 (Kimi-K2 INT4)
    "nvfp4_w4a16": 0.5 + 1.0 / 16,  # nvfp4 weights, 16-bit activations
}

KERNEL_FORMAT: dict[str, str] = {"w4a16_g32": "w4a16", "nvfp4_w4a16": "w4a16"}
"""Formats that differ from another only in scales: the one whose kernels they run on (others: themselves)."""

BYTES_PER_KV: dict[str, float] = {
    "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5 + 1.0 / 16
}

BYTES_PER_ACTIVATION: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}

MATH_OF_WEIGHT: dict[str, str] = {
    # the tensor-core rate that a format's matmul runs at where the GPU has it; elsewhere weights are unpacked to bf16
    "fp32": "bf16", "bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "int8",
    "w8a16": "bf16", "nvfp4": "fp4", "mxfp4": "fp4", "w4a16": "bf16", "w4a16_g32": "bf16", "nvfp4_w4a16": "bf16",
}
