"""Which GPU this machine has, as the name of a shipped profile."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

PROFILE_OF_DEVICE = {   # exactly as nvidia-smi prints the name; other names have no profile
    "NVIDIA A100-SXM4-40GB": "a100-40-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-80-sxm",
    "NVIDIA A10G": "a10g",
    "NVIDIA B200": "b200-sxm",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA GB10": "dgx-spark-gb10",
    "NVIDIA GB200": "gb200",
    "NVIDIA GB300": "gb300",
    "NVIDIA GH200 144G HBM3e": "gh200-144",
    "NVIDIA GH200 480GB": "gh200-96",           # 480 GB is the CPU's memory
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H20": "h20",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "NVIDIA Thor": "jetson-thor-t5000",
}


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """The first GPU of this machine; `profile` is None where no shipped profile describes it."""

    device: str
    count: int
    profile: str | None


def local_gpu() -> LocalGpu | None:
    """Ask nvidia-smi; None where there is no such program or no GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    names = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    if not names:
        return None
    return LocalGpu(names[0], names.count(names[0]), PROFILE_OF_DEVICE.get(names[0]))
