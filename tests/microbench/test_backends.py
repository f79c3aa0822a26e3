"""Every kernel that runs on a CPU agrees with exact fp32; one that does not is reported and never timed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from specplan.microbench import cases
from specplan.microbench.backends import Backend, Bound, backends_of, check_backend
from specplan.microbench.cases import Case
from specplan.microbench.measurements import Environment
from specplan.microbench.reference import attention_reference, disagreement
from specplan.microbench.sweep_plan import Point
from specplan.microbench.sweep_point import Bench, measure_point
from specplan.microbench.timing import StopRule
from tests.microbench.devices import CPU, H200

torch = pytest.importorskip("torch", reason="needs torch (extra gpu)")

FEW = StopRule(budget_s=0.002, min_samples=2, max_samples=2)
FP32: dict[str, Any] = {"query": "fp32", "kv": "fp32"}
CASES = [
    cases.gemm(rows=5, n=48, k=96, dtype="fp32"),
    cases.gemm(rows=1, n=200, k=64, dtype="fp32", op="lm_head"),
    cases.attention(batch=2, context_tokens=70, query_len=1, query_heads=5, kv_heads=1, head_dim=16, **FP32),
    cases.attention(batch=2, context_tokens=33, query_len=7, query_heads=8, kv_heads=2, head_dim=32, **FP32),
    cases.mla(batch=2, context_tokens=20, query_len=3, heads=4, latent_width=48, value_width=32, **FP32),
    cases.moe(tokens=9, hidden=32, intermediate=48, experts=6, top_k=2, matrices=3, dtype="fp32"),
    cases.moe(tokens=1, hidden=32, intermediate=48, experts=6, top_k=2, matrices=2, dtype="fp32"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.shape.get('query_len', case.flop)}")
def test_cpu_kernels_agree_with_fp32(case: Case) -> None:
    present = [backend for backend in backends_of(case.op, "cpu") if backend.absent(CPU) is None]
    assert present
    for backend in present:
        assert backend.refuses(case, CPU) is None
        assert check_backend(backend, case, CPU) is None, backend.name


def wrong(case: Case, environment: Environment, operands: dict[str, Any]) -> Bound:
    return Bound(call=lambda: operands["input"] @ operands["weight"].t() * 1.01)


def test_a_wrong_kernel_is_reported_and_never_timed() -> None:
    backend = Backend(name="wrong", ops=("gemm",), devices=("cpu",), bind=wrong)
    found = measure_point(Point(case=CASES[0], backend=backend), Bench(environment=CPU, rule=FEW), at_s=0.0)
    assert found.samples_s == ()
    assert found.skipped is not None
    assert found.skipped.startswith("wrong result: differs from exact fp32 by 1.0e-02")


def test_a_result_that_is_no_number_is_wrong() -> None:
    assert disagreement(torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0])) == float("inf")


def test_the_reference_masks_the_future_of_each_token() -> None:
    keys = torch.zeros(1, 3, 1, 2)
    values = torch.arange(3.0).view(1, 3, 1, 1).expand(1, 3, 1, 2)
    query = torch.zeros(1, 2, 1, 2)      # equal weights on all that is visible
    found = attention_reference(query, keys, values, torch.tensor([3]), 1.0)
    assert found[0, :, 0, 0].tolist() == pytest.approx([0.5, 1.0])     # tokens 0..1, then 0..2


@pytest.mark.parametrize(("failure", "said"), [
    (MemoryError(), "out of memory at 0.00 GB"),
    (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), "out of memory"),
    (RuntimeError("something\nelse"), "RuntimeError: something else"),
])  # fmt: skip
def test_a_failing_kernel_becomes_a_reason(failure: Exception, said: str) -> None:
    def bind(*_: object) -> Bound:
        raise failure

    backend = Backend(name="failing", ops=("copy",), devices=("cpu",), bind=bind)
    found = measure_point(Point(case=cases.copy(moved_bytes=2**20), backend=backend), Bench(environment=CPU, rule=FEW),
                          at_s=0.0)
    assert found.skipped is not None
    assert found.skipped.startswith(said)


def test_what_does_not_fit_is_skipped_with_its_size() -> None:
    small = dataclasses.replace(CPU, memory_bytes=10**6)
    (backend,) = backends_of("copy", "cpu")
    point = Point(case=cases.copy(moved_bytes=2**30), backend=backend)
    found = measure_point(point, Bench(environment=small, rule=FEW), at_s=0.0)
    assert found.skipped == "out of memory: its buffers take 1.1 GB, 0.0 GB are there for them"


def test_an_unsupported_number_format_is_refused_with_its_reason() -> None:
    fp8 = cases.attention(batch=1, context_tokens=8, query_len=1, query_heads=2, kv_heads=1, head_dim=16, query="fp32",
                          kv="fp8")
    for backend in backends_of("attention", "cpu"):
        assert "no matrix unit for fp8" in (backend.refuses(fp8, CPU) or "")
    ampere = dataclasses.replace(H200, compute_capability="8.0")
    reasons = {backend.name: backend.refuses(fp8, ampere) for backend in backends_of("attention", "cuda")}
    assert "sm_89 or newer" in (reasons["specplan-triton"] or "")


def test_absent_libraries_say_how_to_get_them() -> None:
    absent = {backend.name: backend.absent(H200) for backend in backends_of("attention", "cuda")}
    assert "pip install flash-attn" in (absent["flash-attn-2"] or "")
    assert "pip install flashinfer-python" in (absent["flashinfer-fa2"] or "")
    assert absent["specplan-triton"] is None
    assert "triton is not installed" in (
        next(b for b in backends_of("attention", "cuda") if b.name == "specplan-triton").absent(
            dataclasses.replace(H200, triton=None)) or "")


def test_every_backend_of_a_gpu_names_what_it_refuses_without_touching_one() -> None:
    case = cases.attention(batch=1, context_tokens=64, query_len=17, query_heads=16, kv_heads=1, head_dim=128,
                           query="bf16", kv="bf16", block_m=256)
    for backend in backends_of("attention", "cuda"):
        reason = backend.refuses(case, H200)
        assert reason is None or len(reason) > 10
    flex = next(backend for backend in backends_of("attention", "cuda") if backend.name == "flex")
    assert "holds 128 rows, not 272" in (flex.refuses(case, H200) or "")
