"""E3: linear attention and state-space layers: traffic of whole states in place of a KV cache."""

from __future__ import annotations

import numpy as np

from specplan.planner.arrays import ArrayLike
from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note

STATE_BYTES = 4.0       # states are kept in fp32
L2_SHARE = 0.75         # of the L2 keeps states, copies per token included, from one call to the next (tables only)
CONV_S = 3e-6           # causal convolution beside the state kernel: 1.6 to 4.5 us flat (kernel_params.yaml)


@fact
class RecurrentKernel:
    """Numbers of one state-update kernel on one GPU."""

    id: str
    version: str
    kind: str
    verify: bool
    launch_s: float
    stream_bytes_per_s: float
    evidence: Evidence
    token_s: float = 0.0                # per further query token
    conv_s: float = CONV_S              # 0 where only the state kernel is meant
    l2_gain: float = 1.0
    l2_bytes: float = 0.0
    notes: tuple[Note, ...] = ()


def recurrent_time(
    kernel: RecurrentKernel,
    *,
    batch: ArrayLike,
    heads: ArrayLike,
    key_dim: ArrayLike,
    value_dim: ArrayLike,
    query_len: ArrayLike,
    l2_warm: bool = False,
) -> KernelTime:
    """Seconds of one recurrent layer: t = launch + conv + 4 B heads dk dv units / stream + token (q - 1).

    units = 1 + q: one state read and one stored per query token, so that a rejected draft can be rolled back
    (off and q = 1: one read, one write).
    """
    q = np.asarray(query_len, dtype=float)
    state = STATE_BYTES * np.asarray(batch, dtype=float) * heads * key_dim * value_dim
    warm = l2_warm & (state * (1.0 + q) / 2.0 <= L2_SHARE * kernel.l2_bytes)
    stream = np.where(warm, kernel.l2_gain, 1.0) * kernel.stream_bytes_per_s
    memory = state * (1.0 + q) / stream
    fixed = kernel.launch_s + kernel.conv_s + kernel.token_s * (q - 1.0)
    return KernelTime(time_s=memory + fixed, parts={"memory": memory, "launch": np.asarray(fixed)})
