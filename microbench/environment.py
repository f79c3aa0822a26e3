"""What the machine is: the header of every file of measurements, from the driver and the operating system.

A missing torch or device ends the command with the line that mends it, before anything is measured.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from specplan import __version__
from specplan.microbench.measurements import Environment
from specplan.planner.config.local_gpu import PROFILE_OF_DEVICE
from specplan.planner.messages import InputError, MissingError

INSTALL = "pip install -e '.[gpu]' in the checkout of specplan"
CUDA_TORCH = "pip install --force-reinstall torch"      # where the wheel of the package index is the CUDA build: Linux

ARCH_OF_CAPABILITY: Mapping[str, str] = {
    "8.0": "ampere", "8.6": "ampere-ga102", "8.9": "ada", "9.0": "hopper", "10.0": "blackwell",
    "10.3": "blackwell-ultra", "11.0": "blackwell-thor", "12.0": "blackwell-gb202", "12.1": "blackwell-gb10",
}

LIBRARIES: Mapping[str, str] = {
    # importable name -> distribution
    "flash_attn": "flash-attn",
    "flash_attn_interface": "flash-attn-3",
    "flash_attn.cute": "flash-attn-4",
    "flashinfer": "flashinfer-python",
}


def require_torch() -> Any:
    """The torch module, or MissingError with the line that installs it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingError(f"this command times kernels in torch, which is not installed: {INSTALL}") from None


def find_device(wanted: str | None) -> Literal["cuda", "cpu"]:
    """The device to measure: the one asked for, else a CUDA device where there is one.

    Raises
    ------
    InputError, MissingError
        An unknown device name; CUDA asked for and absent; nothing asked for and no CUDA device.
    """
    if wanted not in {None, "cuda", "cpu"}:
        raise InputError(f"--device: '{wanted}' is neither cuda nor cpu")
    torch = require_torch()
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if torch.version.cuda is None:
        why = f"this torch ({torch.__version__}) is built without CUDA: {CUDA_TORCH} brings the CUDA build on Linux"
    else:
        why = "no CUDA device is visible (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    raise MissingError(f"{why}. `--device cpu` measures this machine's CPU with the same code: a check of the "
                       "pipeline and a CPU profile, it says nothing about a GPU")


def describe(device: Literal["cuda", "cpu"], *, threads: int | None = None, gpus: int = 1) -> Environment:
    """Read the environment of a run; on a CPU, pin torch to `threads` first (default: all cores but one)."""
    torch = require_torch()
    common: dict[str, Any] = {
        "torch": torch.__version__,
        "triton": _version("triton"),
        "cuda": torch.version.cuda,
        "kernels": {name: version for name, module in LIBRARIES.items() if (version := _version(module)) is not None},
        "host_cpu": _cpu_name(),
        "gpus": gpus,
        "specplan": __version__,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if device == "cpu":
        pinned = pin_threads(threads)
        note = "one thread, timed by its CPU time" if pinned == 1 else f"{pinned} threads, timed by the wall clock"
        return Environment(device="cpu", device_name=_cpu_name(), memory_bytes=_memory_bytes(), threads=pinned,
                           cache_bytes=_last_level_cache_bytes(), notes=(note,), **common)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    said = _nvidia_smi(str(getattr(properties, "uuid", "")))
    known = properties.name in PROFILE_OF_DEVICE
    return Environment(
        device="cuda", device_name=properties.name, memory_bytes=properties.total_memory,
        cache_bytes=properties.L2_cache_size, sms=properties.multi_processor_count,
        compute_capability=f"{properties.major}.{properties.minor}",
        driver=said.get("driver_version"), power_limit_w=_number(said.get("power.limit")),
        clock_hz=_scaled(_number(said.get("clocks.max.sm")), 1e6),
        notes=() if known else (f"no profile of the name '{properties.name}': capacity and SMs are the driver's",),
        **common,
    )


def pin_threads(threads: int | None) -> int:
    """Fix the number of compute threads of torch, and where they run; one core is left to the rest of the machine."""
    torch = require_torch()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = threads if threads is not None else max(1, cores - 1)
    if not 1 <= chosen <= cores:
        raise InputError(f"--threads: {chosen} is not between 1 and the {cores} cores of this machine")
    torch.set_num_threads(chosen)
    return chosen


def device_state(environment: Environment) -> dict[str, float | str]:
    """Clock, power, temperature and throttle reasons now, where the driver tells; load average on a CPU."""
    if environment.device == "cpu":
        return {"load_1min": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}
    said = _nvidia_smi("", "clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active")
    found: dict[str, float | str] = {}
    for key, name, scale in (("clocks.sm", "clock_hz", 1e6), ("power.draw", "power_w", 1.0),
                             ("temperature.gpu", "temperature_c", 1.0)):
        if (value := _number(said.get(key))) is not None:
            found[name] = value * scale
    if reasons := said.get("clocks_event_reasons.active"):
        found["throttle"] = reasons
    return found


def capability(environment: Environment) -> int:
    """10 * major + minor of the compute capability; 0 on a CPU."""
    return int(environment.compute_capability.replace(".", "")) if environment.compute_capability else 0


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvidia_smi(
    uuid: str, fields: str = "driver_version,power.limit,clocks.max.sm"
) -> dict[str, str]:
    """Fields of one GPU by name; empty where nvidia-smi is missing or says nothing."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    if uuid:
        command.append(f"--id=GPU-{uuid.removeprefix('GPU-')}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return {}
    first = done.stdout.splitlines()[0] if done.stdout.strip() else ""
    return dict(zip(fields.split(","), (part.strip() for part in first.split(",")), strict=False))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:      # "[N/A]"
        return None


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Hardware"))]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _last_level_cache_bytes() -> int:
    """Largest cache of core 0 by the kernel; 32 MiB where it does not say."""
    sizes = [_kibibytes(path) for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(sizes, default=0) or 32 * 2**20


def _kibibytes(path: Path) -> int:
    text = path.read_text(encoding="utf-8").strip()
    return int(text.rstrip("KM")) * (2**20 if text.endswith("M") else 2**10)
