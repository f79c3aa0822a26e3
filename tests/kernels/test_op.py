"""`specplan op`: rows in the order of the inputs, each with its time, what binds, and the parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specplan.planner.kernels.op import price_op
from specplan.planner.kernels.profile import gpu_names, load_gpu
from specplan.planner.kernels.summary import gpu_line, gpu_summary
from specplan.planner.messages import InputError


def test_lists_multiply_out_in_the_order_written() -> None:
    rows = price_op("gemm", gpu="h200-sxm", kernel="vllm-cublas",
                    inputs={"m": [1, 64], "n": [8192], "k": [4096, 8192], "dtype": ["bf16"]})
    assert [(row["inputs"]["m"], row["inputs"]["k"]) for row in rows] == [(1, 4096), (1, 8192), (64, 4096), (64, 8192)]
    assert [row["kernel"] for row in rows] == ["vllm-cublas"] * 4
    assert rows[1]["bound"] == "memory"
    assert rows[1]["time_s"] == pytest.approx(35e-6, rel=0.15)
    assert set(rows[0]["parts"]) == {"memory", "tensor", "launch"}
    json.dumps(rows, allow_nan=False)


INPUTS: dict[str, dict[str, list[int | float | str]]] = {
    "attention": {"batch": [64], "context": [4096], "query_heads": [8], "kv_heads": [1], "head_dim": [128],
                  "query_len": [1, 2, 4], "kv_dtype": ["bf16"]},
    "allreduce": {"bytes": [65536, 1048576], "gpus": [1, 4]},
    "moe": {"tokens": [1, 8, 64], "hidden": [7168], "intermediate": [2048], "experts": [256], "top_k": [8], "tp": [1],
            "ep": [1, 8], "dtype": ["fp8"], "routing": ["balanced", "power_law_1.01", 0.8]},
    "mla": {"batch": [8], "context": [32768], "heads": [16], "query_len": [1, 4], "kv_dtype": ["bf16"]},
    "recurrent": {"kind": ["gdn", "kda", "mamba2"], "batch": [8], "heads": [32], "key_dim": [128], "value_dim": [128],
                  "query_len": [1, 4]},
    "sparse": {"batch": [8], "context": [65536], "heads": [64], "top_k": [2048], "query_len": [1, 4]},
}


@pytest.mark.parametrize("family", INPUTS)
@pytest.mark.parametrize("gpu", ["h200-sxm", "b200-sxm", "l40s"])
def test_every_family_is_priced(family: str, gpu: str) -> None:
    rows = price_op(family, gpu=gpu, inputs=INPUTS[family])
    for row in rows:
        single = family == "allreduce" and row["inputs"]["gpus"] == 1
        assert row["time_s"] > 0 or single
        assert row["bound"] in row["parts"]
        assert max(row["parts"].values()) <= row["time_s"] * (1 + 1e-12)


def test_kernel_named_by_its_id_or_design() -> None:
    inputs = {"batch": [8], "context": [4096], "heads": [64], "top_k": [2048], "query_len": [4]}
    for kernel in ("vllm-hca", "vllm-hca-decode", "sglang-dsa", "sglang-dsa-decode"):
        assert price_op("sparse", gpu="h200-sxm", kernel=kernel, inputs=inputs)[0]["kernel"] == kernel
    row = price_op("attention", gpu="h200-sxm", kernel="nvidia-128", inputs=INPUTS["attention"])[0]
    assert row["kernel"] == "nvidia-128"


def test_sparse_picks_of_one_token_and_of_several_take_their_own_entries() -> None:
    inputs = {"batch": [8], "context": [4096], "heads": [64], "top_k": [2048], "query_len": [1, 4]}
    one, several = price_op("sparse", gpu="h200-sxm", inputs=inputs)
    assert (one["kernel"], several["kernel"]) == ("sglang-dsa-decode", "sglang-dsa")


def test_experts_without_a_gate_take_two_matrices() -> None:
    shape = {"tokens": [64], "hidden": [2688], "intermediate": [1856], "experts": [128], "top_k": [6]}
    two, three = (price_op("moe", gpu="b200-sxm", inputs={**shape, "matrices": [count]})[0] for count in (2, 3))
    assert two["parts"]["memory"] < 0.8 * three["parts"]["memory"]


def test_l2_warm_is_for_tables_only() -> None:
    inputs = {"batch": [8], "context": [8192], "query_heads": [8], "kv_heads": [1]}
    cold, warm = (price_op("attention", gpu="h200-sxm", inputs=inputs, l2_warm=flag)[0] for flag in (False, True))
    assert warm["time_s"] < cold["time_s"]


@pytest.mark.parametrize(("family", "inputs", "message"), [
    ("conv", {}, "no kernel family 'conv'"),
    ("attention", {"batch": [1], "context": [1], "query_heads": [8], "kv_heads": [3]}, "do not share 3 KV heads"),
    ("gemm", {"m": [0], "n": [8], "k": [8]}, "--m: must be above 0, is 0"),
    ("gemm", {"m": list(range(1, 400)), "n": list(range(1, 400)), "k": [8]}, "multiply out to 159201 rows"),
    ("moe", {"tokens": [1], "hidden": [8], "intermediate": [8], "experts": [4], "top_k": [8]}, "8 of 4 experts"),
    ("moe", {"tokens": [1], "hidden": [8], "intermediate": [8], "experts": [6], "top_k": [2], "ep": [4]}, "not divide"),
    ("moe", {"tokens": [1], "hidden": [8], "intermediate": [8], "experts": [8], "top_k": [2], "routing": ["ballanced"]},
     "did you mean 'balanced'"),
    ("moe", {"tokens": [1], "hidden": [8], "intermediate": [8], "experts": [8], "top_k": [2], "matrices": [4]},
     "--matrices: must be 3"),
    ("recurrent", {"kind": ["rwkv"], "batch": [1], "heads": [1], "key_dim": [1], "value_dim": [1]}, "must be gdn, kda"),
])
def test_what_cannot_be_priced_is_said(family: str, inputs: dict[str, list[int | float | str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        price_op(family, gpu="h200-sxm", inputs=inputs)


def test_unknown_kernel_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="did you mean 'vllm-cublas'"):
        price_op("gemm", gpu="h200-sxm", kernel="vllm-cublass", inputs={"m": [1], "n": [8], "k": [8]})


@pytest.mark.parametrize("name", gpu_names())
def test_summaries_are_json_and_name_their_sources(name: str) -> None:
    gpu = load_gpu(name, allow_preliminary=True)
    facts = json.loads(json.dumps([gpu_line(gpu), gpu_summary(gpu)], allow_nan=False))[1]
    assert facts["hardware"]["sources"]
    for entries in facts["kernels"].values():
        for entry in entries:
            assert len(entry["source"]) > 10
            assert entry["level"] in ("measured", "prior")


def test_profile_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (Path(load_gpu("h200-sxm").file or "")).read_text(encoding="utf-8")
    path.write_text(text.replace("name: h200-sxm", "name: mine"), encoding="utf-8")
    assert load_gpu(path).name == "mine"
    assert price_op("gemm", gpu=path, inputs={"m": [1], "n": [8192], "k": [8192]})[0]["time_s"] > 0
