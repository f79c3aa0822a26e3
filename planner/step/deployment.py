"""Where a model runs: GPU, engine path, parallelism and number formats. One replica; all sizes below are per GPU."""

from __future__ import annotations

from specplan.planner.fact import fact
from specplan.planner.kernels.profile import GpuProfile
from specplan.planner.step.engine_paths import EnginePath


@fact
class Deployment:
    """One replica of a model on tp * pp GPUs.

    `ep` of the `tp` GPUs hold whole experts (1 = experts are split like dense layers). `dp_attention` groups of
    them hold different sequences during attention. `kv_dtype` and `activation_dtype` are storage formats.
    """

    gpu: GpuProfile
    path: EnginePath
    tp: int = 1
    ep: int = 1
    dp_attention: int = 1
    pp: int = 1
    kv_dtype: str = "bf16"
    activation_dtype: str = "bf16"
    attention_kernel: str | None = None     # None: what the engine picks on this GPU
    moe_skew: float = 0.8
    drafter_tp: int | None = None           # GPUs that share the drafter; None: as many as share the target
    power_limit_w: float | None = None      # of each GPU; None: the board's own. Scales math, not memory (ggml.py)

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp

    @property
    def attention_tp(self) -> int:
        """GPUs that share the heads of one sequence."""
        return max(1, self.tp // self.dp_attention)
