"""All-reduce among the ranks of `torchrun`: NCCL between GPUs, gloo between processes of a CPU.

    torchrun --nproc-per-node 2 -m specplan sweep --device cpu -o sweep2

All ranks take the same number of samples, because a rank that stopped by itself would leave the others waiting. A
sample is the slowest rank's time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from specplan.microbench.cases import Case, allreduce
from specplan.microbench.measurements import Environment, Measurement, environment_id
from specplan.microbench.operands import random

SAMPLES = 15
CALLS = 10                                              # per sample
GPU_BYTES = tuple(2**power for power in range(10, 27))  # 1 KiB to 64 MiB, which the fit's bands cover
CPU_BYTES = tuple(2**power for power in range(10, 24))  # to 8 MiB
KERNEL = {"cuda": "nccl-allreduce", "cpu": "gloo-allreduce"}
ALONE = "one process: start with torchrun --nproc-per-node N to measure all-reduce"


def ranks() -> int:
    """Processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among them."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """The group of all ranks, on the GPU of this one."""
    import torch
    import torch.distributed as dist

    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def cases(environment: Environment) -> list[Case]:
    """Message sizes to measure among this environment's ranks."""
    cpu = environment.device == "cpu"
    return [allreduce(message_bytes=size, gpus=environment.gpus, dtype="fp32" if cpu else "bf16")
            for size in (CPU_BYTES if cpu else GPU_BYTES)]


def measure_allreduce(
    environment: Environment, done: set[str], keep: Callable[[Measurement], None]
) -> None:
    """Time every size that is not done yet; called by all ranks inside `process_group`, written by rank 0."""
    kernel = KERNEL[environment.device]
    wanted = _agreed([case.shape["message_bytes"] for case in cases(environment) if case.key(kernel) not in done])
    for case in cases(environment):
        if case.shape["message_bytes"] in wanted:
            seconds = _samples(case, environment)
            if rank() == 0:
                keep(Measurement(
                    op="allreduce", kernel=kernel, shape=case.shape, dtypes=case.dtypes, flop=0.0, bytes=case.bytes,
                    environment=environment_id(environment), samples_s=tuple(seconds), calls_per_sample=CALLS,
                    stop="samples"))


def _agreed(sizes: Sequence[int]) -> set[int]:
    """The sizes of rank 0, which alone has read the file."""
    import torch.distributed as dist

    said: list[Any] = [list(sizes)]
    dist.broadcast_object_list(said, src=0)
    return set(said[0])


def _samples(case: Case, environment: Environment) -> list[float]:
    import torch
    import torch.distributed as dist

    device = torch.device(environment.device)
    dtype = case.dtypes["message"]
    elements = case.shape["message_bytes"] // (4 if dtype == "fp32" else 2)
    message = random((elements,), dtype, device, scale=0.0)     # zeros stay finite however often they are summed
    run = _on_gpu(message) if environment.device == "cuda" else _on_cpu(message)
    run()
    seconds = []
    for _ in range(SAMPLES):
        dist.barrier()
        slowest = torch.tensor([run()], dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        seconds.append(float(slowest))
    return seconds


def _on_cpu(message: Any) -> Callable[[], float]:
    import torch.distributed as dist

    def run() -> float:
        started = time.perf_counter()
        for _ in range(CALLS):
            dist.all_reduce(message)
        return (time.perf_counter() - started) / CALLS

    return run


def _on_gpu(message: Any) -> Callable[[], float]:
    """A graph of CALLS all-reduces, as engines run them."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(message)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            dist.all_reduce(message)

    def run() -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 / CALLS

    return run

