"""On a CUDA device: kernels agree with fp32 in formats that the interpreter cannot run, and a sweep of one minute."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from specplan.microbench import cases
from specplan.microbench.backends import backends_of, check_backend
from specplan.microbench.environment import capability, describe
from specplan.microbench.measurements import Environment, read_measurements
from specplan.microbench.sweep import run_sweep

pytestmark = pytest.mark.gpu
GROUPS, PAGES = (1, 4, 5, 8, 16), (0, 16, 64)


@pytest.fixture(scope="module")
def environment() -> Environment:
    torch = pytest.importorskip("torch", reason="needs torch (extra gpu)")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return describe("cuda")


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("page_tokens", PAGES)
def test_the_triton_kernel_agrees_with_fp32(environment: Environment, group: int, page_tokens: int) -> None:
    backend = next(backend for backend in backends_of("attention", "cuda") if backend.name == "specplan-triton")
    formats = ("bf16", "fp16", "fp8") if capability(environment) >= 89 else ("bf16", "fp16")
    shapes = list(itertools.product((1, 2, 5, 17), formats, (64, 128)))
    # each is compiled for seconds: every group and page size takes other three of them, and all are taken
    first = 3 * (GROUPS.index(group) * len(PAGES) + PAGES.index(page_tokens))
    for query_len, kv, head_dim in (shapes[(first + 5 * step) % len(shapes)] for step in range(3)):
        case = cases.attention(batch=1, context_tokens=20_000, query_len=query_len, query_heads=2 * group, kv_heads=2,
                               head_dim=head_dim, query="bf16" if kv == "fp8" else kv, kv=kv, page_tokens=page_tokens)
        assert check_backend(backend, case, environment) is None, (query_len, kv, head_dim)


def test_every_library_that_is_here_agrees_with_fp32(environment: Environment) -> None:
    for query_len in (1, 4):
        case = cases.attention(batch=2, context_tokens=4096, query_len=query_len, query_heads=16, kv_heads=2,
                               head_dim=128, query="bf16", kv="bf16")
        for backend in backends_of("attention", "cuda"):
            if backend.absent(environment) is None and backend.refuses(case, environment) is None:
                assert check_backend(backend, case, environment) is None, backend.name


def test_latent_attention_and_experts_agree_with_fp32(environment: Environment) -> None:
    latent = cases.mla(batch=2, context_tokens=4096, query_len=3, heads=16, query="bf16", kv="bf16")
    experts = cases.moe(tokens=32, hidden=512, intermediate=256, experts=16, top_k=4, matrices=3, dtype="bf16")
    for case in (latent, experts):
        for backend in backends_of(case.op, "cuda"):
            if backend.absent(environment) is None:
                assert check_backend(backend, case, environment) is None, backend.name


@pytest.mark.timeout(600)
def test_a_minute_of_sweep(tmp_path: Path, environment: Environment) -> None:
    result = run_sweep(device="cuda", minutes=1, out=tmp_path)
    measured = read_measurements(result.measurements)
    assert measured.environment.device_name == environment.device_name
    assert len(measured.timed) >= 100
    copies = [point.bytes_per_s for point in measured.timed if point.op == "copy"]
    assert max(copies) > 1e11
