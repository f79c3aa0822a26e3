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

# llama.cpp's file formats: bits per weight as files of dense 8B-70B models average (block scales and the tensors that
# a recipe keeps wider included); *_k_xl are Unsloth's mixes
GGUF_BITS: dict[str, float] = {
    "iq2_xxs": 2.5, "q2_k": 3.2, "iq3_xxs": 3.3, "q3_k_m": 3.95, "iq4_xs": 4.3, "q4_0": 4.6, "q4_k_s": 4.65,
    "q4_k_m": 4.9, "q4_k_xl": 5.2, "q5_k_m": 5.7, "q5_k_xl": 5.9, "q6_k": 6.6, "q6_k_xl": 7.0, "q8_0": 8.5,
    "q8_k_xl": 10.3,
}
BYTES_PER_WEIGHT.update({name: bits / 8 for name, bits in GGUF_BITS.items()})

KERNEL_FORMAT: dict[str, str] = {"w4a16_g32": "w4a16", "nvfp4_w4a16": "w4a16"}
"""Formats that differ from another only in scales: the one whose kernels they run on (others: themselves)."""

BYTES_PER_KV: dict[str, float] = {
    "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5 + 1.0 / 16,
    "q8_0": 1.0 + 2.0 / 32, "q4_0": 0.5 + 2.0 / 32,     # llama.cpp: one fp16 scale per 32
}

BYTES_PER_ACTIVATION: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}

MATH_OF_WEIGHT: dict[str, str] = {
    # the tensor-core rate that a format's matmul runs at where the GPU has it; elsewhere weights are unpacked to bf16
    "fp32": "bf16", "bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "int8",
    "w8a16": "bf16", "nvfp4": "fp4", "mxfp4": "fp4", "w4a16": "bf16", "w4a16_g32": "bf16", "nvfp4_w4a16": "bf16",
}
MATH_OF_WEIGHT.update(dict.fromkeys(GGUF_BITS, "bf16"))     # unpacked where a tensor-core kernel meets them
