"""Attention in plain fp32: what every backend must agree with before it is timed."""

from __future__ import annotations

from typing import Any

TOLERANCE = {"fp32": 2e-5, "fp16": 2e-3, "bf16": 2e-2}
"""Largest |difference| over the largest |reference| by query dtype.

An output is a convex mix of values of order 1, so rounding to the dtype (2^-11, 2^-8) dominates; fp32 sums over some
thousand keys. Measured with the Triton interpreter: fp32 2 to 10e-7, fp16 2 to 6e-4.
"""


def attention_reference(query: Any, keys: Any, values: Any, lengths: Any, scale: float) -> Any:
    """Exact verify attention: token i of q sees the keys up to its own position, length - q + i.

    `query` [batch, q, query_heads, width], `keys` and `values` [batch, tokens, kv_heads, width]; of `lengths`
    [batch] tokens each. Returns fp32 [batch, q, query_heads, value width].
    """
    import torch

    group = query.shape[2] // keys.shape[2]
    query_len = query.shape[1]
    outputs = []
    for index, length in enumerate(lengths.tolist()):
        key = keys[index, :length].float().repeat_interleave(group, 1)
        value = values[index, :length].float().repeat_interleave(group, 1)
        score = torch.einsum("qhd,khd->hqk", query[index].float(), key) * scale
        position = torch.arange(length, device=query.device)
        limit = length - query_len + torch.arange(query_len, device=query.device)
        score = score.masked_fill(position[None, :] > limit[:, None], float("-inf"))
        outputs.append(torch.einsum("hqk,khd->qhd", score.softmax(-1), value))
    return torch.stack(outputs)


def disagreement(found: Any, expected: Any) -> float:
    """Largest |difference| over the largest |expected|; infinite where anything is not a number."""
    difference = (found.float() - expected).abs().max() / expected.abs().max()
    value = float(difference)
    return value if value == value else float("inf")  # noqa: PLR0124 - NaN is the only value unequal to itself
