"""Devices that tests pretend to have been measured on, and points on them."""

from __future__ import annotations

from specplan.microbench.measurements import Environment

CPU = Environment(
    device="cpu", device_name="Some CPU", memory_bytes=2**34, cache_bytes=2**25, torch="2.13.0", threads=1,
    started="2026-11-29T12:00:00+00:00",
)
H200 = Environment(
    device="cuda", device_name="NVIDIA H200", memory_bytes=150_754_820_096, cache_bytes=62_914_560, sms=132,
    compute_capability="9.0", torch="2.13.0", triton="3.9.0", driver="580.1", started="2026-11-29T12:00:00+00:00",
)
