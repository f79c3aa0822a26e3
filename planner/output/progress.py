"""How far long work has come, on stderr: a bar on a terminal, a line at every quarter elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from specplan.planner.output.tables import console

QUARTERS = 4


@contextmanager
def progress(what: str) -> Iterator[Callable[[str, float], None]]:
    """A function that takes a label and the share that is done; a new label starts a new bar."""
    err = console(stderr=True)
    if not err.is_terminal:
        told: dict[str, int] = {}

        def tell(label: str, share: float) -> None:
            quarter = int(share * QUARTERS)
            if quarter > told.get(label, -1):
                told[label] = quarter
                err.print(f"{what} {label}: {quarter / QUARTERS:.0%}", markup=False)

        yield tell
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(label: str, share: float) -> None:
            if label not in tasks:
                for other in tasks.values():
                    bars.update(other, visible=False)
                tasks[label] = bars.add_task(f"{what} {label}", total=1.0)
            bars.update(tasks[label], completed=share)

        yield show
