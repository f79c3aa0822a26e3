"""The facts of a GPU profile as Python sees them: hardware, and per kernel family the entries to price with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from specplan.planner.fact import fact
from specplan.planner.kernels.timing import Evidence

Key: TypeAlias = str | int | bool

# In the order in which a profile lists them; attention_math holds rates of prefill attention, see `attention.py`.
FAMILIES = ("attention", "attention_math", "gemm", "moe", "allreduce", "mla", "recurrent", "sparse")

# What an entry must carry, by family and form; every other parameter has a neutral default.
REQUIRED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "attention": {
        "walk_fa3": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s", "split_cap"),
        "walk_fa2": ("launch_s", "stream_bytes_per_s", "wave_s", "split_cap"),
        "walk_gen": ("launch_s", "stream_bytes_per_s", "block_s", "row_s"),
        "walk_tile": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s", "split_cap", "tile_rows"),
        "walk_xqa": ("launch_s", "stream_bytes_per_s", "block_s", "wave_s", "split_cap"),
        "ramp": ("launch_s", "stream_bytes_per_s", "ramp_s", "ramp_half_bytes"),
    },
    "attention_math": {"rate": ("mma_flop_per_s",)},
    "gemm": {
        "k_chain": ("launch_s", "stream_bytes_per_s", "mma_flop_per_s"),
        "tile_wave": ("launch_s", "stream_bytes_per_s", "mma_flop_per_s", "ragged"),
    },
    "moe": {"moe": ("launch_s", "stream_bytes_per_s", "mma_flop_per_s", "token_s_per_byte")},
    "allreduce": {"bands": ()},
    "mla": {"mla": ("launch_s", "stream_bytes_per_s", "mma_flop_per_s", "block_s", "row_s")},
    "recurrent": {"recurrent": ("launch_s", "stream_bytes_per_s")},
    "sparse": {
        "wave": ("launch_s", "wave_s", "width_tokens"),
        "affine": ("launch_s", "seq_s", "token_s", "seq_s_per_context_token", "token_s_per_context_token"),
        "decode": ("launch_s", "wave_s", "width_tokens", "token_s_per_context_token"),
    },
}
# What tells entries of one kernel apart, by family.
KEYS: Mapping[str, tuple[str, ...]] = {
    "attention": ("head_dim", "kv_dtype"),
    "attention_math": ("head_dim", "kv_dtype"),
    "gemm": ("weight_dtype",),
    "moe": ("weight_dtype", "activation_dtype", "gated"),
    "allreduce": ("gpus",),
    "mla": ("kv_dtype",),
    "recurrent": ("kind", "phase"),
    "sparse": ("kind",),
}
OPTIONAL_KEYS = frozenset({"activation_dtype"})
BAND = ("upto_bytes", "alpha_s", "beta_s_per_byte")


@fact
class Hardware:
    """Datasheet facts. `dense_flop_per_s` is without 2:4 sparsity and with fp32 accumulation."""

    name: str
    vendor: str
    arch: str
    compute_capability: str
    sms: int
    boost_hz: float | None
    memory_bytes: float                         # as the driver gives it to a process
    hbm_bytes_per_s: float
    l2_bytes: float
    dense_flop_per_s: Mapping[str, float]       # by number format: bf16, fp8, fp4, int8
    link_type: str
    link_bytes_per_s: float                     # GPU to GPU, both directions together; 0 = none
    tdp_w: float
    exp_per_clock_per_sm: float | None = None   # the second roof of attention (kernels.md, section 0)
    memory_type: str = ""
    confidence: str = "medium"
    sources: tuple[str, ...] = ()               # keys of the profile's `sources`
    notes: str = ""
    preliminary: bool = False

    @property
    def exp_per_s(self) -> float:
        """Exponentials per second of the whole GPU; infinite where nobody stated the rate."""
        if self.exp_per_clock_per_sm is None or self.boost_hz is None:
            return math.inf
        return self.exp_per_clock_per_sm * self.sms * self.boost_hz

    def dense(self, number_format: str) -> float:
        """Dense peak in FLOP/s; 0 where the GPU has no such tensor cores. A bf16 rate nobody stated is half of fp8."""
        known = self.dense_flop_per_s
        if number_format == "bf16" and "bf16" not in known:
            return known.get("fp8", 0.0) / 2
        return known.get(number_format, 0.0)


@fact
class Entry:
    """Numbers of one kernel for one case: what it is (`id`, `key`), its equation (`form`), its parameters (SI)."""

    id: str                                     # <engine>-<kernel>, as people name it
    engine: str
    version: str
    form: str
    key: Mapping[str, Key]                      # head_dim, kv_dtype | weight_dtype | gpus ...
    parameters: Mapping[str, float]
    evidence: Evidence
    bands: tuple[Mapping[str, float], ...] = () # all-reduce: upto_bytes, alpha_s, beta_s_per_byte
    measured_as: str = ""                       # the kernel's name in the table that it was fitted on
    default: bool = False                       # the engine's own choice where several kernels serve one key
    only_by_name: bool = False                  # never chosen unless asked for: another backend, another activation

    @property
    def kernel(self) -> str:
        """The id without its engine."""
        return self.id.partition("-")[2]


@fact
class GpuProfile:
    """One GPU: hardware and, per kernel family, the entries to price with."""

    name: str
    hardware: Hardware
    kernels: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    prior_from: str | None = None               # measured GPU whose entries stand in, scaled
    prior_math_scale: float = 1.0               # further factor on their share of peak math; hardware.notes says why
    sources: Mapping[str, str] = field(default_factory=dict)    # short name -> where it is
    file: Path | None = None

    def entries(self, family: str) -> tuple[Entry, ...]:
        """Entries of one family; empty where nothing is known."""
        return self.kernels.get(family, ())
