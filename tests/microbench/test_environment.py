"""What the header of a run says, and how a missing torch or device ends the command."""

from __future__ import annotations

import importlib
import subprocess
import types
from typing import Any

import pytest

from specplan.microbench import environment
from specplan.planner.messages import InputError, MissingError


class FakeCuda:
    """torch.cuda on a machine with one GPU of a given name."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def is_available(self) -> bool:
        return self.name is not None

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, index: int) -> Any:
        return types.SimpleNamespace(name=self.name, total_memory=10**9, multi_processor_count=7, major=8, minor=9,
                                     L2_cache_size=10**6, uuid="abc")


def pretend(monkeypatch: pytest.MonkeyPatch, name: str | None, cuda: str | None = "13.0") -> None:
    fake = types.SimpleNamespace(__version__="2.13.0", version=types.SimpleNamespace(cuda=cuda), cuda=FakeCuda(name))
    monkeypatch.setattr(environment, "require_torch", lambda: fake)


def test_no_torch_ends_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingError, match=r"pip install -e '\.\[gpu\]' in the checkout") as caught:
        environment.find_device("cpu")
    assert caught.value.exit_code == 3


def test_no_cuda_device_says_so_and_what_a_cpu_run_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, None)
    with pytest.raises(MissingError, match=r"no CUDA device is visible.*says nothing about a GPU"):
        environment.find_device(None)
    pretend(monkeypatch, None, cuda=None)
    with pytest.raises(MissingError, match=r"built without CUDA: pip install --force-reinstall torch"):
        environment.find_device("cuda")


def test_an_unknown_device_name_is_bad_input() -> None:
    with pytest.raises(InputError, match="'tpu' is neither cuda nor cpu"):
        environment.find_device("tpu")


def test_a_gpu_of_unknown_name_is_described_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "NVIDIA X9")
    monkeypatch.setattr(environment, "_nvidia_smi", lambda *_: {"driver_version": "580.1", "power.limit": "[N/A]",
                                                               "clocks.max.sm": "1980"})
    found = environment.describe("cuda")
    assert (found.memory_bytes, found.sms, found.compute_capability) == (10**9, 7, "8.9")
    assert found.driver == "580.1"
    assert found.power_limit_w is None
    assert found.clock_hz == 1.98e9
    assert "no profile of the name 'NVIDIA X9'" in found.notes[0]
    pretend(monkeypatch, "NVIDIA H200")
    assert environment.describe("cuda").notes == ()


def test_nvidia_smi_is_read_by_field_and_its_absence_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], **_: object) -> Any:
        assert "--id=GPU-abc" in command
        return types.SimpleNamespace(stdout="580.1, 700.00, 1980\n")

    monkeypatch.setattr(subprocess, "run", answer)
    found = environment._nvidia_smi("abc")
    assert found == {"driver_version": "580.1", "power.limit": "700.00", "clocks.max.sm": "1980"}

    def absent(*_: object, **__: object) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", absent)
    assert environment._nvidia_smi("abc") == {}


def test_threads_are_those_of_the_machine() -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    assert environment.pin_threads(1) == 1
    with pytest.raises(InputError, match="--threads: 999 is not between 1 and"):
        environment.pin_threads(999)


def test_a_cpu_is_described_by_its_kernel() -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    found = environment.describe("cpu", threads=1)
    assert found.cache_bytes >= 2**20
    assert found.memory_bytes >= 2**28
    assert found.threads == 1
    assert "CPU time" in found.notes[0]
