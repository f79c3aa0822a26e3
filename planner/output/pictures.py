"""Pictures as files: matplotlib is an extra, and a picture is written whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from specplan.planner.messages import Fault, InputError, MissingError, nearest

FORMATS = ("svg", "png", "pdf")
INSTALL = "pictures need matplotlib: pip install '.[plot]' in the checkout of specplan"
# Okabe and Ito's palette, told apart by colour-blind eyes; black first
PALETTE = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#F0E442")
LINES = (*PALETTE[:7], "#7A5C00")      # the yellow is too pale for a line on white
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---", "**")
SIZE_IN = (7.2, 4.4)
DPI = 150


def new_figure(title: str, *, xlabel: str, ylabel: str) -> tuple[Any, Any]:
    """A figure with one pair of axes, a title that says the finding, and units on both axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingError(INSTALL) from None
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, wrap=True)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def check_picture_file(path: Path) -> None:
    """Refuse what cannot be drawn or written before any work is done."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise InputError([Fault((), f"must end in {known}, not '{path.suffix}'{nearest(kind, FORMATS)}", str(path))])
    try:
        import matplotlib as _matplotlib
    except ImportError:
        raise MissingError(INSTALL) from None
    del _matplotlib


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format that its name ends in."""
    check_picture_file(path)
    from matplotlib import rc_context

    stream = io.BytesIO()
    kind = path.suffix.lstrip(".").lower()
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "specplan"}):      # equal input, equal file
        figure.savefig(stream, format=kind, dpi=DPI, metadata=date)
    write_bytes(path, stream.getvalue())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a fault says why it cannot be."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError([Fault((), f"cannot be written: {error.strerror}", file=str(path))]) from None
