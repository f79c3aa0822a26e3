"""Tables that fit the terminal: whole columns are left out in a stated order; no figure is ever cut short."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from specplan.planner.fact import fact

UNLIMITED = 10_000
SPACE_PER_COLUMN = 2    # of `framed`: one of padding and one of the box
NARROWEST_TEXT = 12     # characters that a text column keeps when it wraps


@fact
class Column:
    """One column. `leaves`: 0 never, else the highest number is left out first. `text` is set left, figures right."""

    name: str
    head: str | None = None     # what stands above it, where that is shorter
    leaves: int = 0
    text: bool = False
    wraps: bool = False     # shrinks before any column is left out


def framed(title: str) -> Table:
    """An empty table in the style of all tables."""
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )


def figure_columns(names: Sequence[str], leaving: Sequence[str], text: Sequence[str] = ()) -> list[Column]:
    """Columns of these names; those in `leaving` are left out in that order."""
    rank = {name: len(leaving) - index for index, name in enumerate(leaving)}
    return [Column(name=name, leaves=rank.get(name, 0), text=name in text) for name in names]


def fitted(out: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
    """The table with the columns that fit in the width of `out`; the rest is named below it.

    Where even the columns that never leave are too wide, texts wrap.
    """
    kept = list(range(len(columns)))
    widest = [_widest(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    if sum(widest) + SPACE_PER_COLUMN * len(columns) <= out.width:      # the usual case: rich need not measure
        return _table(title, columns, rows, kept, widest, fixed=True)
    hidden: list[str] = []
    while True:
        table = _table(title, columns, rows, kept, widest)
        leaving = [index for index in kept if columns[index].leaves]
        if _least_width(out, table) <= out.width or not leaving:
            break
        first = max(leaving, key=lambda index: columns[index].leaves)
        kept.remove(first)
        hidden.append(columns[first].name)
    if _least_width(out, table) > out.width:
        table = _table(title, columns, rows, kept, widest, wrap_texts=True)
    if hidden:
        table.caption = f"too narrow here for: {escape(', '.join(hidden))}"
        table.caption_justify = "left"
    return table


def _widest(column: Column, cells: Sequence[str]) -> int:
    texts = (escape(column.head or column.name), *cells)
    return max(Text.from_markup(text, emoji=False).cell_len if "[" in text else cell_len(text) for text in texts)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], widest: Sequence[int], *,
    fixed: bool = False, wrap_texts: bool = False,
) -> Table:
    table = framed(title)
    for index in kept:
        column = columns[index]
        wraps = column.wraps or (wrap_texts and column.text)
        table.add_column(
            escape(column.head or column.name),
            justify="left" if column.text else "right",
            no_wrap=not wraps,      # alone it would still be cut short: the least width stops that
            overflow="fold",
            width=widest[index] if fixed else None,
            min_width=min(widest[index], NARROWEST_TEXT) if wraps else widest[index],
        )
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    return table


def _least_width(out: Console, table: Table) -> int:
    return out.measure(table, options=out.options.update(width=UNLIMITED)).minimum
