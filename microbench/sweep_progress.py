"""A sweep's progress on stderr: time left and the slice that is known worst; a line now and then without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from specplan.microbench.sweep import Progress
from specplan.planner.output.tables import console

LINE_EVERY_S = 30.0


@contextmanager
def show_progress() -> Iterator[Callable[[Progress], None]]:
    """A function for `run_sweep(report=...)`."""
    err = console(stderr=True)
    if not err.is_terminal:
        last = [-LINE_EVERY_S]

        def tell(progress: Progress) -> None:
            if progress.elapsed_s - last[0] >= LINE_EVERY_S:
                last[0] = progress.elapsed_s
                err.print(_line(progress), markup=False, highlight=False)

        yield tell
        return
    columns = BarColumn(), TextColumn("{task.description}", markup=False)
    with Bars(*columns, console=err, transient=True) as bars:
        task = bars.add_task("sweep", total=1.0)

        def show(progress: Progress) -> None:
            bars.update(task, completed=min(1.0, progress.elapsed_s / progress.budget_s), description=_line(progress))

        yield show


def _line(progress: Progress) -> str:
    left = max(0.0, progress.budget_s - progress.elapsed_s)
    text = f"{progress.done} points, {left // 60:.0f}:{left % 60:02.0f} left, {progress.doing}"
    worst = progress.worst
    if worst is None:
        return text
    known = "no fit yet" if worst.error_pct is None else f"{worst.error_pct:.0f} % off"
    return f"{text}; worst: {worst.name} ({known}, {worst.points} points)"
