"""E5: bands of the all-reduce by hand and as measured; one GPU sends nothing."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.kernels.collective import AllReduceKernel, Band, allreduce_time, alltoall_time
from specplan.planner.kernels.entries import GpuProfile
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.kernels.select import allreduce_kernel
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import InputError

MICRO = 1e6
RING = AllReduceKernel(
    id="vllm-allreduce", version="1", gpus=4, evidence=Evidence(level="measured", source="made up"),
    bands=(
        Band(upto_bytes=1000, alpha_s=2e-6, beta_s_per_byte=1e-9),
        Band(upto_bytes=5000, alpha_s=5e-6, beta_s_per_byte=0.0),
        Band(upto_bytes=9000, alpha_s=1e-6, beta_s_per_byte=2e-9),
    ),
)


def test_bands_by_hand() -> None:
    sizes = np.array([1, 1000, 1001, 5000, 5001, 20_000])
    expected = np.array([2 + 0.001, 2 + 1, 5, 5, 1 + 10.002, 1 + 40])
    assert allreduce_time(RING, message_bytes=sizes).time_s * MICRO == pytest.approx(expected)


def test_all_to_all_moves_half_of_an_all_reduce() -> None:
    both = [send(RING, message_bytes=8000.0) for send in (allreduce_time, alltoall_time)]
    assert [float(time.time_s) * MICRO for time in both] == pytest.approx([1 + 16, 1 + 8])


@pytest.mark.parametrize("gpu", ["h200-sxm", "l40s", "jetson-thor-t5000"])
def test_one_gpu_sends_nothing(gpu: str) -> None:
    kernel = allreduce_kernel(load_gpu(gpu), "vllm", gpus=1)
    assert np.all(allreduce_time(kernel, message_bytes=np.array([1.0, 1e9])).time_s == 0)


@pytest.mark.parametrize(("gpu", "engine", "gpus", "alpha", "beta"), [
    # us and us per MB below 256 KB, kernels.md 2.3
    ("h100-sxm", "vllm", 2, 4.3, 3.5), ("h100-sxm", "vllm", 8, 4.8, 23.3), ("h200-sxm", "trtllm", 4, 3.0, 9.4),
    ("a100-80-sxm", "vllm", 4, 5.3, 18.5), ("l40s", "vllm", 4, 12.7, 370),
])
def test_small_messages_kernels_md_2_3(gpu: str, engine: str, gpus: int, alpha: float, beta: float) -> None:
    kernel = allreduce_kernel(load_gpu(gpu), engine, gpus=gpus)
    sizes = np.array([32e3, 128e3])
    found = allreduce_time(kernel, message_bytes=sizes).time_s * MICRO
    assert found == pytest.approx(alpha + beta * sizes / 1e6, rel=0.12)


def test_groups_between_and_beyond_the_measured_sizes_are_scaled_and_say_so(h200: GpuProfile) -> None:
    three, four, sixteen, eight = (allreduce_kernel(h200, "vllm", gpus=gpus) for gpus in (3, 4, 16, 8))
    assert three.bands[-1].beta_s_per_byte == pytest.approx(four.bands[-1].beta_s_per_byte * (2 / 3) / (3 / 4))
    assert sixteen.bands[0].alpha_s == pytest.approx(eight.bands[0].alpha_s * 4 / 3)
    for kernel in (three, sixteen):
        assert "allreduce-size" in {note.code for note in kernel.notes}
        assert kernel.evidence.level == "prior"
    assert not four.notes


def test_a_gpu_without_a_link_cannot_share_a_model() -> None:
    with pytest.raises(InputError, match="jetson-thor-t5000 has no link"):
        allreduce_kernel(load_gpu("jetson-thor-t5000"), "vllm", gpus=2)
