"""The reader of the measured tables: what it filters and counts, what it refuses."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specplan.microbench.fit_profile import fit_silicon
from specplan.microbench.fit_rows import Slice
from specplan.microbench.silicon import MIN_ROWS, SYSTEMS, read_silicon, tables_root
from specplan.planner.kernels.profile import PROFILES
from specplan.planner.messages import InputError, MissingError

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
HAS_WHEEL = HAS_PYARROW and importlib.util.find_spec("aiconfigurator_core") is not None
needs_pyarrow = pytest.mark.skipif(not HAS_PYARROW, reason="needs pyarrow: pip install -e '.[silicon]'")
needs_wheel = pytest.mark.skipif(not HAS_WHEEL, reason="needs the measured tables: pip install -e '.[silicon]'")

GEMM = Path("h200_sxm") / "gemm" / "vllm"
ATTENTION = Path("h200_sxm") / "attention" / "vllm"


def gemm_columns(count: int = 2 * MIN_ROWS) -> dict[str, list[Any]]:
    return {
        "device": ["NVIDIA H200"] * count, "kernel_source": ["linear"] * count, "gemm_dtype": ["bfloat16"] * count,
        "m": list(range(1, count + 1)), "n": [4096] * count, "k": [4096] * count, "latency": [0.02] * count,
    }


def attention_columns(count: int = 2 * MIN_ROWS) -> dict[str, list[Any]]:
    return {
        "device": ["NVIDIA H200"] * count, "kernel_source": ["fa3"] * count, "batch_size": list(range(1, count + 1)),
        "isl": [1] * count, "num_heads": [8] * count, "num_key_value_heads": [1] * count, "head_dim": [128] * count,
        "beam_width": [1] * count, "kv_cache_dtype": ["fp8"] * count, "step": [1023] * count,
        "window_size": [0] * count, "latency": [0.02] * count,
    }


def write(root: Path, folder: Path, version: str, file: str, columns: Mapping[str, list[Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    path = root / folder / version / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)
    return path


def read_gemm(root: Path) -> list[Slice]:
    return read_silicon("h200-sxm", "vllm", root=root)


@needs_pyarrow
def test_a_table_becomes_a_slice_in_seconds_and_tokens(tmp_path: Path) -> None:
    write(tmp_path, ATTENTION, "0.24.0", "generation_attention_perf.parquet", attention_columns())
    (rows,) = read_silicon("h200-sxm", "vllm", root=tmp_path)
    assert rows.name == "attention vllm 0.24.0 fa3 head_dim=128 kv=fp8"
    assert set(rows.columns["context_tokens"]) == {1024}      # cached tokens and the one that is decoded
    assert rows.time_s == pytest.approx(20e-6)


@needs_pyarrow
def test_windows_and_short_contexts_are_left_out_and_counted(tmp_path: Path) -> None:
    columns = attention_columns()
    columns["window_size"][:3] = [128] * 3
    columns["step"][3:5] = [100] * 2
    write(tmp_path, ATTENTION, "0.24.0", "generation_attention_perf.parquet", columns)
    (rows,) = read_silicon("h200-sxm", "vllm", root=tmp_path)
    assert rows.rejected == {"sliding window": 3, "context below 256 tokens": 2}


@needs_pyarrow
def test_another_version_of_the_wheel_works_where_the_columns_match(tmp_path: Path) -> None:
    columns = {**gemm_columns(), "power": [700.0] * (2 * MIN_ROWS)}
    write(tmp_path, GEMM, "9.9.9", "gemm_perf.parquet", columns)
    (rows,) = read_gemm(tmp_path)
    assert (rows.version, len(rows)) == ("9.9.9", 2 * MIN_ROWS)


@needs_pyarrow
def test_a_missing_column_is_named_with_its_file(tmp_path: Path) -> None:
    columns = gemm_columns()
    del columns["n"]
    write(tmp_path, GEMM, "0.25.0", "gemm_perf.parquet", columns)
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: no column n; this reader knows"):
        read_gemm(tmp_path)


@needs_pyarrow
def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", gemm_columns())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: not a readable Parquet file"):
        read_gemm(tmp_path)


@needs_pyarrow
def test_two_devices_in_one_table_are_refused_and_both_named(tmp_path: Path) -> None:
    columns = gemm_columns()
    columns["device"][0] = "NVIDIA H100"
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", columns)
    with pytest.raises(InputError, match="two devices mixed: NVIDIA H100 and NVIDIA H200"):
        read_gemm(tmp_path)


@needs_pyarrow
def test_rows_of_another_gpu_than_the_system_are_refused(tmp_path: Path) -> None:
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", {**gemm_columns(), "device": ["NVIDIA B200"] * 2 * MIN_ROWS})
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: rows of 'NVIDIA B200' in a table of the H200"):
        read_gemm(tmp_path)


@needs_wheel
@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_shipped_tables_are_of_their_systems(system: str) -> None:
    assert read_silicon(system, "trtllm" if system == "a100-80-sxm" else "vllm")


@needs_pyarrow
@pytest.mark.parametrize(("column", "values", "said"), [
    ("latency", ["fast"] * 32, r"column latency holds string, not numbers"),
    ("k", ["4096"] * 32, r"column k holds string, not numbers"),
    ("device", [None] * 32, r"column device holds null, not text"),
    ("device", ["NVIDIA H200"] * 31 + [None], r"column device: 1 of 32 values are missing"),
    ("m", [1] * 31 + [-4], r"column m, row 32: a count is 1 or more, not -4"),
    ("m", [None] + [1] * 31, r"column m: 1 of 32 values are missing"),
])
def test_values_that_no_shape_has_are_named_with_column_and_file(
    column: str, values: list[Any], said: str, tmp_path: Path
) -> None:
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", {**gemm_columns(), column: values})
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: " + said):
        read_gemm(tmp_path)


@needs_pyarrow
def test_tables_of_which_nothing_can_be_fitted_make_no_profile(tmp_path: Path) -> None:
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", {**gemm_columns(), "m": [1] * 32, "k": list(range(1, 33))})
    with pytest.raises(InputError, match=r"(?s)h200-sxm: nothing fitted of vllm.*gemm vllm 0\.24\.0 linear"):
        fit_silicon("h200-sxm", "vllm", root=tmp_path, out=tmp_path / "p.yaml")
    assert not (tmp_path / "p.yaml").exists()
    (tmp_path / "empty" / "h200_sxm").mkdir(parents=True)
    with pytest.raises(InputError, match=r"h200-sxm: nothing fitted: no table has rows enough"):
        fit_silicon("h200-sxm", root=tmp_path / "empty")


@needs_pyarrow
def test_the_newest_version_is_read_unless_it_is_a_supplement(tmp_path: Path) -> None:
    write(tmp_path, GEMM, "0.9.0", "gemm_perf.parquet", gemm_columns(100))
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", gemm_columns(90))
    write(tmp_path, GEMM, "0.25.0", "gemm_perf.parquet", gemm_columns(20))
    assert [rows.version for rows in read_gemm(tmp_path)] == ["0.24.0"]


@needs_pyarrow
def test_nan_and_negative_times_reach_the_filter_that_counts_them(tmp_path: Path) -> None:
    columns = gemm_columns()
    columns["latency"][:2] = [float("nan"), -0.02]
    write(tmp_path, GEMM, "0.24.0", "gemm_perf.parquet", columns)
    (rows,) = read_gemm(tmp_path)
    assert np.count_nonzero(~(rows.time_s > 0)) == 2


@needs_pyarrow
def test_an_unknown_system_or_engine_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"h20-sxm: no measured tables.*did you mean 'h200-sxm'"):
        read_silicon("h20-sxm", root=tmp_path)
    with pytest.raises(InputError, match=r"llama\.cpp: no measured tables of this engine"):
        read_silicon("h200-sxm", "llama.cpp", root=tmp_path)


def test_without_the_wheel_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingError, match=r"pip install -e '\.\[silicon\]' in the checkout") as caught:
        tables_root()
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


@needs_wheel
@pytest.mark.slow
def test_a_shipped_profile_regenerates_identically() -> None:
    assert fit_silicon("a100-80-sxm").text == (PROFILES / "a100-80-sxm.yaml").read_text(encoding="utf-8")
