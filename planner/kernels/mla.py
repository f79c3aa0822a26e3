"""E3: absorbed MLA decode. All heads of a GPU share one cached latent, so rows per sequence = heads * q."""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import ArrayLike, ceil_div, pnorm
from specplan.planner.fact import fact
from specplan.planner.kernels.attention_kernel import fill_slots
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

HEAD_TILE = 64
BLOCK_TOKENS = 128
OVERLAP = 2.5


@fact
class MlaKernel:
    """Numbers of one MLA decode kernel on one GPU."""

    id: str
    version: str
    kv_dtype: str
    kv_bytes: float                     # per element of the latent
    launch_s: float
    stream_bytes_per_s: float
    mma_flop_per_s: float
    block_s: float                      # per 128 cached tokens
    row_s: float
    sms: int
    evidence: Evidence
    slow_heads: int | None = None       # this many heads per GPU run a slower kernel ...
    slow_factor: float = 1.0            # ... by this factor
    combine_s: float = 0.0              # once, where the latent is split over CTAs ...
    split_s: float = 0.0                # ... and for each of a sequence's CTAs that is joined
    split_min_blocks: int = 0           # > 0: splits fill the SMs and hold at least so many blocks; 0: never split
    l2_bytes: float = 0.0
    l2_gain: float = 1.0
    notes: tuple[Note, ...] = ()


def mla_time(
    kernel: MlaKernel,
    *,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    query_len: ArrayLike,
    heads: ArrayLike,
    latent_width: int = 576,
    value_width: int = 512,
    l2_warm: bool = False,
) -> KernelTime:
    """Seconds of one MLA layer's attention; `heads` are those of one GPU.

    t = launch + pnorm(bytes/stream, 2 B rows S (latent + value) / mma) + waves (blocks block + CTA rows row)
        + [splits > 1] (combine + splits * tiles split)

    One CTA takes 64 rows and a split of the latent; waves = ceil(CTAs / SMs), blocks are those of one split. Without
    `split_min_blocks`, one CTA per sequence. Rows are padded to 64 in the math. q > 1 was never measured in public:
    rows = heads * q is assumed.
    """
    b = np.asarray(batch, dtype=float)
    s = np.asarray(context_tokens, dtype=float)
    rows = heads * np.asarray(query_len, dtype=float)
    width = latent_width + value_width
    latent = b * s * latent_width * kernel.kv_bytes
    stream = np.where(l2_warm & (latent <= kernel.l2_bytes), kernel.l2_gain, 1.0) * kernel.stream_bytes_per_s
    memory = (latent + b * rows * width * 2.0) / stream
    tiles = ceil_div(rows, HEAD_TILE)
    tensor = 2.0 * b * tiles * HEAD_TILE * s * width / kernel.mma_flop_per_s
    blocks, splits, ctas, cta_rows = ceil_div(s, BLOCK_TOKENS), np.ones_like(s), b, rows
    if kernel.split_min_blocks > 0:
        splits = fill_slots(kernel.sms, b * tiles, blocks, kernel.split_min_blocks)
        ctas, cta_rows = b * tiles * splits, rows / tiles
    walk = ceil_div(ctas, kernel.sms) * (ceil_div(blocks, splits) * kernel.block_s + cta_rows * kernel.row_s)
    walk = walk + np.where(splits > 1, kernel.combine_s + kernel.split_s * splits * tiles, 0.0)
    slow = np.where(np.asarray(heads) == (kernel.slow_heads or 0), kernel.slow_factor, 1.0)
    start = np.asarray(kernel.launch_s * slow)
    return KernelTime(
        time_s=start + slow * (walk + pnorm(memory, tensor, OVERLAP)),
        parts={"memory": slow * memory, "tensor": slow * np.maximum(tensor, walk), "launch": start},
    )
