"""Splits hold out whole shape groups, the same ones everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.microbench.fit_fixture import read_fixture
from specplan.microbench.fit_rows import (
    FOLDS,
    GROUPED_BY,
    SPLITS,
    Slice,
    column_of,
    deduplicated,
    folds,
    group_labels,
    held_out,
    split_by,
    subsample,
)

FIXTURE = read_fixture()


def slice_of(family: str, **columns: list[float]) -> Slice:
    arrays = {name: np.array(values, dtype=float) for name, values in columns.items()}
    time = arrays.pop("time_s")
    return Slice(family=family, engine="any", version="1", kernel="k", variant={},  # type: ignore[arg-type]
                 columns=arrays, time_s=time)


@pytest.mark.parametrize("rows", FIXTURE, ids=lambda rows: rows.name)
@pytest.mark.parametrize("split", SPLITS)
def test_no_shape_group_is_both_fitted_and_held_out(rows: Slice, split: str) -> None:
    keys = np.stack([column_of(rows, name) for name in GROUPED_BY[rows.family]], axis=1)
    for mask in folds(rows, split):
        seen = {tuple(key) for key in keys[~mask]}
        hidden = {tuple(key) for key in keys[mask]}
        assert hidden
        assert not seen & hidden


@pytest.mark.parametrize("rows", [rows for rows in FIXTURE if rows.family not in ("recurrent", "sparse")],
                         ids=lambda rows: rows.name)
def test_three_tenths_of_the_groups_are_held_out(rows: Slice) -> None:
    labels = group_labels(rows)
    held = len(np.unique(labels[held_out(rows, "a")]))
    assert held == max(1, round(0.3 * len(np.unique(labels))))


@pytest.mark.parametrize("rows", [rows for rows in FIXTURE if rows.family in ("recurrent", "sparse")],
                         ids=lambda rows: rows.name)
def test_folds_hold_out_every_row_once(rows: Slice) -> None:
    masks = folds(rows, "a")
    assert 2 <= len(masks) <= FOLDS
    assert np.all(np.sum(masks, axis=0) == 1)


def test_splits_differ_and_do_not_depend_on_the_order_of_rows() -> None:
    rows = FIXTURE[0]
    masks = [held_out(rows, split) for split in SPLITS]
    assert any(np.any(masks[0] != other) for other in masks[1:])
    order = np.arange(len(rows))[::-1]
    backwards = Slice(family=rows.family, engine="", version="", kernel="", variant={},
                      columns={name: column[order] for name, column in rows.columns.items()}, time_s=rows.time_s[order])
    assert np.array_equal(held_out(backwards, "a"), masks[0][order])


def test_the_hash_is_the_same_on_every_machine() -> None:
    rows = slice_of("allreduce", message_bytes=[2.0**k for k in range(8, 18)], time_s=[1e-6] * 10)
    assert np.flatnonzero(held_out(rows, "a")).tolist() == HELD_OUT_BY_A


HELD_OUT_BY_A = [3, 7, 8]


def test_subsample_takes_the_same_rows_in_any_order() -> None:
    rows = slice_of("allreduce", message_bytes=list(range(100)), time_s=[1e-6] * 100)
    few = subsample(rows, 10)
    backwards = slice_of("allreduce", message_bytes=list(range(99, -1, -1)), time_s=[1e-6] * 100)
    assert len(few) == 10
    assert set(few.columns["message_bytes"]) == set(subsample(backwards, 10).columns["message_bytes"])
    assert subsample(rows, 200) is rows


def test_the_fastest_of_repeated_shapes_is_kept_and_the_others_counted() -> None:
    rows = deduplicated(slice_of("allreduce", message_bytes=[4, 8, 4, 4], time_s=[3e-6, 5e-6, 2e-6, 4e-6]))
    assert rows.columns["message_bytes"].tolist() == [4, 8]
    assert rows.time_s.tolist() == [2e-6, 5e-6]
    assert sum(rows.rejected.values()) == 2


def test_split_by_makes_one_slice_per_combination() -> None:
    rows = slice_of("gemm", rows=[1, 2, 3, 4], n=[1] * 4, k=[1] * 4, time_s=[1, 2, 3, 4])
    parts = split_by(rows, {"dtype": np.array(["fp8", "bf16", "fp8", "bf16"]), "gpus": np.array([1, 1, 2, 1])})
    assert [(part.variant, part.time_s.tolist()) for part in parts] == [
        ({"dtype": "bf16", "gpus": 1}, [2, 4]), ({"dtype": "fp8", "gpus": 1}, [1]), ({"dtype": "fp8", "gpus": 2}, [3])]


def test_take_counts_what_it_leaves_out_by_reason() -> None:
    rows = slice_of("allreduce", message_bytes=[1, 2, 3], time_s=[1, 1, 1])
    once = rows.take(np.array([True, False, True]), "too odd").take(np.array([False, True]), "too odd")
    assert once.rejected == {"too odd": 2}
    assert once.columns["message_bytes"].tolist() == [3]
