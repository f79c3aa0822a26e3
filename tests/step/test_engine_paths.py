"""Fixed costs: which path a version takes, what is said about evidence, how a graph pads."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.step.engine_paths import engine_names, engine_path, graph_rows, shared_constant, speedup_sd


@pytest.mark.parametrize(("engine", "version", "path", "given"), [
    ("vllm", "0.10.1", "vllm-sync", True),
    ("vllm", "0.16.0", "vllm-async", True),
    ("vllm", "0.24.0", "vllm-async", True),
    ("vllm", None, "vllm-async", False),
    ("tensorrt-llm", None, "trtllm-pytorch", True),
    ("TRTLLM", "1.2.1", "trtllm-pytorch", True),
    ("sglang", "0.5.3", "sglang-spec-v1", True),
    ("sglang", "0.5.14", "sglang-spec-v2", True),
    ("sglang-spec-v1", None, "sglang-spec-v1", True),
    ("some-new-engine", None, "generic", False),
])
def test_path_of_a_version(engine: str, version: str | None, path: str, given: bool) -> None:
    found = engine_path(engine, version)
    assert (found.name, found.version_given) == (path, given)


def test_specdecode_bench_host_step_of_vllm_0_10_is_one_millisecond() -> None:
    """14.5 % of a 6.9 ms step of the 8B, 6.3 % of a 16.2 ms step of the 70B."""
    host = engine_path("vllm", "0.10.1").host_step_s
    assert host.value == pytest.approx(0.145 * 6.9e-3, rel=0.05)
    assert host.value == pytest.approx(0.063 * 16.2e-3, rel=0.05)
    assert host.evidence == "measured"


def test_every_constant_lies_in_its_range() -> None:
    for engine in engine_names():
        path = engine_path(engine)
        for name in ("host_step_s", "spec_extra_s", "per_seq_s", "pass_floor_s", "pass_floor_s_per_extra_layer"):
            cost = getattr(path, name)
            assert 0 <= cost.low <= cost.value <= cost.high < 0.01, (engine, name)
            assert cost.evidence in {"measured", "fitted", "weak"}


def test_a_mechanism_without_evidence_is_said_and_widens_the_range() -> None:
    path = engine_path("trtllm")
    assert path.notes(["mtp"]) == ()
    assert path.notes(["ngram", "mtp"])[0].code == "no-path-evidence"
    assert speedup_sd(moe=False, path=path, mechanism="ngram") > speedup_sd(moe=False, path=path, mechanism="mtp")
    assert speedup_sd(moe=True, path=path, mechanism="mtp") > speedup_sd(moe=False, path=path, mechanism="mtp")


def test_an_assumed_version_is_said_and_widens_the_range() -> None:
    assumed, given = engine_path("vllm"), engine_path("vllm", "0.24.0")
    assert assumed.notes(["eagle3"])[0].code == "engine-version-assumed"
    assert speedup_sd(moe=False, path=assumed, mechanism="eagle3") > speedup_sd(
        moe=False, path=given, mechanism="eagle3"
    )


@pytest.mark.parametrize(("batch", "query_len", "rows"), [
    (1, 1, 1), (3, 1, 4), (5, 1, 8), (33, 1, 40), (1, 4, 4), (8, 4, 32), (9, 4, 40), (3, 5, 20), (600, 1, 600),
])
def test_vllm_graph_padding(batch: int, query_len: int, rows: int) -> None:
    """Sizes 1, 2, 4, 8 by 8 to 256, then by 16 to 512, each rounded up to a multiple of 1 + D."""
    assert float(graph_rows("vllm", batch, query_len)) == rows


def test_other_engines_do_not_pad_and_no_batch_is_padded_below_itself() -> None:
    batch = np.arange(1.0, 600.0)
    assert np.array_equal(graph_rows("sglang", batch, 4.0), batch * 4)
    for query_len in (1.0, 3.0, 4.0, 8.0):
        assert np.all(graph_rows("vllm", batch, query_len) >= batch * query_len)


def test_shared_constants_carry_evidence() -> None:
    small = shared_constant("small_kernels_s_per_layer")
    assert small.low <= small.value <= small.high
    assert small.evidence == "fitted"
