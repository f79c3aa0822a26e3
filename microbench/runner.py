"""The step of `decode_step.py` as the planner sees it: the kernels that it runs, and no engine around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from specplan.microbench.measurements import Measurement
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.models.drafter import SERIAL
from specplan.planner.models.reader import read_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import EnginePath, FixedCost, engine_path
from specplan.planner.step.step_time import off_step

SMALL_KERNELS = 10          # of a layer of decode_step: 2 norms, 2 cache writes, 2 copies, 2 for the gate, 2 sums
LAUNCH_PRIOR_S = 2e-6       # inside a CUDA graph, where no sweep told it (kernels.md 2.4)
ATTENTION = {"cuda": "any-specplan-triton", "cpu": "any-torch-packed"}      # what decode_step runs
BEYOND_FLOOR = 15.0         # small kernels take at most this many times their launches alone
TORCH_NAME = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def runner_path(small_s: float) -> EnginePath:
    """The code path of this step: no host, no floor of a pass, and the small kernels of a layer."""
    nothing = FixedCost(value=0.0, low=0.0, high=0.0, evidence="none")
    small = FixedCost(value=small_s, low=0.0, high=2 * small_s, evidence="measured")
    shared = {**engine_path("vllm").shared, "small_kernels_s_per_layer": small,
              "draft_small_kernels_factor": FixedCost(value=1.0, low=1.0, high=1.0, evidence="none")}
    return EnginePath(name="torch-step", engine="torch", host_step_s=nothing, spec_extra_s=nothing, per_seq_s=nothing,
                      pass_floor_s=nothing, pass_floor_s_per_extra_layer=nothing, evidence_for=tuple(SERIAL),
                      shared=shared)


def small_kernels_s(points: Sequence[Measurement], gpu: GpuProfile, device: str) -> float:
    """Time of a layer beside its matrix products and attention.

    Between large kernels the small ones find nothing in cache, and on a CPU neither does the code that calls them: a
    launch by itself is their lower bound. What drafter passes took beyond the sum of their kernels tells the rest.
    """
    floor_s = SMALL_KERNELS * launch_floor_s(points)
    beyond = [(point.median_s - draft_step_s(point, gpu, device=device, small_s=0.0)) / point.shape["layers"]
              for point in points if point.op == "draft_step"]
    if not beyond:
        return floor_s
    return min(max(float(np.median(beyond)), floor_s), BEYOND_FLOOR * floor_s)


def launch_floor_s(points: Iterable[Measurement]) -> float:
    """Least time of a kernel among these measurements; a prior where there is none."""
    return next((point.median_s for point in points if point.op == "launch"), LAUNCH_PRIOR_S)


def draft_step_s(point: Measurement, gpu: GpuProfile, *, device: str, small_s: float) -> float:
    """Predicted seconds of a measured drafter pass, as the planner adds up its kernels.

    No kernel is fitted to it. What an engine adds to a pass (`pass_floor` of its code path) is not in it either.
    """
    size, dtype = point.shape, point.dtypes["weight"]
    network = read_model({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": TORCH_NAME[dtype],
        "hidden_act": "silu", "hidden_size": size["hidden"], "num_hidden_layers": size["layers"],
        "num_attention_heads": size["query_heads"], "num_key_value_heads": size["kv_heads"],
        "head_dim": size["head_dim"], "intermediate_size": size["intermediate"], "vocab_size": size["vocab"],
    }, name="drafter")
    deployment = Deployment(gpu=gpu, path=runner_path(small_s), kv_dtype=dtype, attention_kernel=ATTENTION[device])
    step = off_step(network, deployment, size["batch"], size["context_tokens"])
    return float(np.asarray(step.step_s).reshape(()))
