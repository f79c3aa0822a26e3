"""Tables in narrow terminals: columns leave whole, in a stated order, and no cell of the others is cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from specplan.planner.answer import explain, recommend
from specplan.planner.output import explained, load_tables, tables
from specplan.planner.output.columns import figure_columns, fitted

EXAMPLES = Path(__file__).parents[2] / "examples"
WIDTHS = (60, 80, 100, 120)


def cells_of(table: Table) -> list[list[str]]:
    return [[str(cell).replace("\\[", "[") for cell in column.cells] for column in table.columns]


def lines(table: Table, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


def assert_whole(table: Table, width: int) -> None:
    shown = lines(table, width)
    assert all(len(line) <= width for line in shown)
    assert not any("…" in line for line in shown)
    rows = zip(*cells_of(table), strict=True)
    for row in rows:
        figures = " ".join(" ".join(row).split())
        assert any(" ".join(line.split()) == figures for line in shown), (width, row)


@pytest.fixture(scope="module")
def wide() -> dict[int, Console]:
    return {width: Console(file=io.StringIO(), width=width) for width in WIDTHS}


@pytest.mark.parametrize("width", WIDTHS)
def test_every_cell_of_the_answer_is_whole(width: int, wide: dict[int, Console]) -> None:
    answer = recommend(EXAMPLES / "llama-3.3-70b-h200.yaml")
    table = tables._cells_table(answer, wide[width])
    assert_whole(table, width)
    heads = [str(column.header) for column in table.columns]
    assert heads[:4] == ["batch", "context", "run", "D (good)"]
    assert "speedup (90 %)" in heads
    assert ("ms / off" in heads) is (width >= 80)
    assert ("tok/s/GPU" in heads) is (width >= 120)
    assert any("too\N{NO-BREAK SPACE}large" in line for line in lines(table, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_cell_under_load_is_whole(width: int, wide: dict[int, Console]) -> None:
    load = recommend(EXAMPLES / "load-llama-3.3-70b-h200.yaml").load
    assert load is not None
    table = load_tables._table(load, wide[width])
    assert_whole(table, width)
    heads = [str(column.header) for column in table.columns]
    assert {"run", "carries/s", "TPOT ms", "target"} <= set(heads)
    assert ("slots" in heads) is (width >= 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("example", ["llama-3.3-70b-h200.yaml", "gpt-oss-120b-b200.yaml"])
def test_every_figure_of_an_explanation_is_whole(example: str, width: int, wide: dict[int, Console]) -> None:
    found = explain(EXAMPLES / example, mechanism="eagle3", draft_len=3, batch=8, context_tokens=4000)
    assert_whole(explained._ops_table(found, wide[width]), width)
    table = explained._sweep_table(found, wide[width])
    shown = lines(table, width)
    for column in table.columns:
        if column.header != "bound":    # the one text, which may wrap
            assert all(any(str(cell) in line.split() for line in shown) for cell in column.cells)
    assert {"D", "step ms", "speedup"} <= {str(column.header) for column in table.columns}


def test_columns_leave_in_the_stated_order_and_are_named() -> None:
    columns = figure_columns(["run", "first", "second"], leaving=("second", "first"), text=("run",))
    rows = [("some way to run", "1234567.890", "1234567.891")]
    seen = []
    for width in (60, 35, 25):
        table = fitted(Console(width=width), "title", columns, rows)
        seen.append(([str(column.header) for column in table.columns], table.caption))
    assert seen == [
        (["run", "first", "second"], None),
        (["run", "first"], "too narrow here for: second"),
        (["run"], "too narrow here for: second, first"),
    ]


def test_all_columns_stand_at_the_width_that_they_fill() -> None:
    columns = figure_columns(["run", "first", "second"], leaving=("second", "first"), text=("run",))
    rows = [("a [b]way[/] to \\[run]", "1234567.890", "1234567.891"), ("off", "1", "22")]
    wide = Console(width=120)
    table = fitted(wide, "title", columns, rows)
    filled = wide.measure(table).minimum
    exact = fitted(Console(width=filled), "title", columns, rows)
    assert exact.caption is None
    assert lines(exact, filled) == lines(table, 120)
    assert fitted(Console(width=filled - 1), "title", columns, rows).caption == "too narrow here for: second"


def test_texts_wrap_only_where_nothing_more_can_leave() -> None:
    columns = figure_columns(["run", "figure"], leaving=(), text=("run",))
    table = fitted(Console(width=30), "title", columns, [("a drafter with a long name", "1234567.890")])
    shown = lines(table, 30)
    assert any("1234567.890" in line for line in shown)
    assert not any("…" in line for line in shown)
    assert "name" in " ".join(shown)
