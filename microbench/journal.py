"""Appending to a file of measurements: every point is on the disk before the next one is measured."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from specplan.microbench.measurements import Environment, Measurement, differences, read_measurements
from specplan.planner.messages import Fault, InputError


@contextmanager
def open_journal(path: Path, environment: Environment) -> Iterator[io.FileIO]:
    """Open a file of measurements for appending, after its environment line.

    A last line that a killed run left unfinished is closed, so that it spoils no other.

    Raises
    ------
    InputError
        The folder is read-only, the disk is full, or the file holds another environment.
    """
    try:
        handle = _open(path, environment)
    except OSError as error:
        raise InputError([Fault((), _said(error), file=str(path))]) from None
    with handle:
        yield handle


def _open(path: Path, environment: Environment) -> io.FileIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = False
    if path.exists() and path.stat().st_size > 0:
        there = read_measurements(path).environment
        if said := differences(there, environment):
            raise InputError(
                [Fault((), f"holds measurements of another environment ({'; '.join(said)}). Write to another folder "
                           f"with -o, or move this file away", file=str(path))]
            )
        with path.open("rb") as raw:
            raw.seek(-1, os.SEEK_END)
            unfinished = raw.read(1) != b"\n"
    handle = path.open("ab", buffering=0)
    try:
        _append(handle, {"record": "environment", **asdict(environment)}, before="\n" if unfinished else "")
    except OSError:
        handle.close()
        raise
    return handle


_DEFAULTS: Mapping[str, Any] = {    # what a line need not say
    item.name: item.default if item.default_factory is MISSING else item.default_factory()
    for item in fields(Measurement)
    if item.default is not MISSING or item.default_factory is not MISSING
}


def append(handle: io.FileIO, measurement: Measurement) -> None:
    """Write one point and put it on the disk. Raises InputError when the disk is full."""
    try:
        _append(handle, {"record": "point", **asdict(measurement)})
    except OSError as error:
        said = f"{_said(error)}; the points before this one are safe"
        raise InputError([Fault((), said, file=str(handle.name))]) from None


def _append(handle: io.FileIO, record: Mapping[str, Any], before: str = "") -> None:
    defaults = _DEFAULTS if record["record"] == "point" else {}
    kept = {key: value for key, value in record.items() if key not in defaults or value != defaults[key]}
    line = (before + json.dumps(kept, allow_nan=False) + "\n").encode()
    if handle.write(line) < len(line):      # unbuffered: what the disk took is all that there is
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(handle.fileno())


def _said(error: OSError) -> str:
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return "cannot be written: the folder is read-only. Choose another with -o"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "the disk is full"
    return f"cannot be written: {error.strerror}"
