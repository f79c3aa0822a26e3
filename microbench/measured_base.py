"""The profile that a sweep starts from: the shipped one of the device, else what driver and rates say of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from specplan.microbench.environment import ARCH_OF_CAPABILITY, capability
from specplan.microbench.measurements import Environment, Measurement, Measurements
from specplan.planner.config.local_gpu import PROFILE_OF_DEVICE
from specplan.planner.kernels.entries import GpuProfile, Hardware
from specplan.planner.kernels.profile import load_gpu

SOURCE = "sweep"


def base_profile(measured: Measurements) -> GpuProfile:
    """Hardware facts and, for a known GPU, the shipped kernels; capacity is the driver's in any case."""
    environment = measured.environment
    name = PROFILE_OF_DEVICE.get(environment.device_name)
    if environment.device == "cuda" and name is not None:
        base = load_gpu(name, allow_preliminary=True)
        hardware = dataclasses.replace(base.hardware, memory_bytes=float(environment.memory_bytes),
                                       l2_bytes=float(environment.cache_bytes),
                                       sms=environment.sms or base.hardware.sms)
        return dataclasses.replace(base, hardware=hardware, file=None)
    origin = f"specplan sweep on {environment.device_name}, {environment.started[:10]}, torch {environment.torch}"
    hardware = _seen(measured)
    return GpuProfile(name=hardware.name, hardware=hardware, sources={SOURCE: origin})


def profile_name(environment: Environment) -> str:
    """Name of the device's profile: the shipped one, else the driver's name in small letters, marked.

    >>> profile_name(Environment(device="cuda", device_name="NVIDIA X9", memory_bytes=1, cache_bytes=1, torch=""))
    'unknown-nvidia-x9'
    """
    known = PROFILE_OF_DEVICE.get(environment.device_name)
    if known is not None:
        return known
    words = "".join(letter if letter.isalnum() else " " for letter in environment.device_name.lower()).split()
    return "-".join(["cpu" if environment.device == "cpu" else "unknown", *words])


def _seen(measured: Measurements) -> Hardware:
    """Hardware facts of a device without a profile: driver for sizes, the best measured rates for the rest."""
    environment = measured.environment
    cpu = environment.device == "cpu"
    rates = _best_rates(measured.timed)
    dense = {"bf16": rates["fp32" if cpu else "bf16"]}
    if not cpu and rates["fp8"] > 0:
        dense["fp8"] = rates["fp8"]
    notes = ("CPU: dense rate is the best fp32 product seen, bandwidth the best stream seen; says nothing about a GPU"
             if cpu else "unknown GPU: capacity and SMs by the driver, rates are the best ones seen in the sweep")
    return Hardware(
        name=profile_name(environment), vendor="cpu" if cpu else "nvidia",
        arch="cpu" if cpu else ARCH_OF_CAPABILITY.get(environment.compute_capability or "", "hopper"),
        compute_capability="none" if cpu else f"sm_{capability(environment)}",
        sms=environment.threads or environment.sms or 1, boost_hz=environment.clock_hz,
        memory_bytes=float(environment.memory_bytes), hbm_bytes_per_s=rates["stream"],
        l2_bytes=float(environment.cache_bytes), dense_flop_per_s=dense, link_type="none", link_bytes_per_s=0.0,
        tdp_w=environment.power_limit_w or 0.0, confidence="low", sources=(SOURCE,), notes=notes,
    )


def _best_rates(points: Iterable[Measurement]) -> dict[str, float]:
    """Bytes per second of any cold stream, FLOP per second of matrix products by number format."""
    best = {"stream": 1.0, "fp32": 1.0, "bf16": 1.0, "fp8": 0.0}
    for point in points:
        if point.cold and point.op in {"copy", "gemm", "lm_head", "attention"}:
            best["stream"] = max(best["stream"], point.bytes_per_s)
        dtype = point.dtypes.get("weight")
        if point.op in {"gemm", "lm_head"} and dtype is not None:
            kind = "bf16" if dtype == "fp16" else dtype
            best[kind] = max(best.get(kind, 0.0), point.flop_per_s)
    return best
