"""E5: how long the GPUs of a group take to combine or exchange messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specplan.planner.arrays import ArrayLike
from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence, KernelTime
from specplan.planner.messages import Note


@fact
class Band:
    """alpha + beta * bytes up to a message size at which the engine switches its algorithm."""

    upto_bytes: float
    alpha_s: float
    beta_s_per_byte: float


@fact
class AllReduceKernel:
    """In-graph all-reduce of one engine among `gpus` GPUs; the last band has no upper end."""

    id: str
    version: str
    gpus: int
    bands: Sequence[Band]
    evidence: Evidence
    notes: tuple[Note, ...] = ()


def allreduce_time(kernel: AllReduceKernel, *, message_bytes: ArrayLike) -> KernelTime:
    """Seconds to sum a message of `message_bytes` per GPU: alpha + beta * bytes of its band; one GPU sends nothing."""
    size = np.asarray(message_bytes, dtype=float)
    if kernel.gpus == 1 or not kernel.bands:
        return KernelTime(time_s=np.zeros_like(size), parts={"network": np.zeros_like(size)})
    edges = [band.upto_bytes for band in kernel.bands[:-1]]
    index = np.searchsorted(edges, size, side="left")
    alpha = np.array([band.alpha_s for band in kernel.bands])[index]
    wire = np.array([band.beta_s_per_byte for band in kernel.bands])[index] * size
    return KernelTime(time_s=alpha + wire, parts={"network": wire, "launch": alpha})


def alltoall_time(kernel: AllReduceKernel, *, message_bytes: ArrayLike) -> KernelTime:
    """Seconds for each GPU to send `message_bytes` in all to the others (expert parallelism). A prior.

    An all-reduce moves each byte twice (reduce-scatter, then all-gather) and an all-to-all once, so beta is
    halved; alpha is kept. No public table holds an in-graph all-to-all that we could fit.
    """
    full = allreduce_time(kernel, message_bytes=message_bytes)
    parts = dict(full.parts)
    parts["network"] = parts["network"] / 2
    return KernelTime(time_s=np.asarray(sum(parts.values())), parts=parts)
