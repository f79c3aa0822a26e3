"""Measured operator tables of the wheel aiconfigurator-core (NVIDIA, Apache-2.0), as slices to fit.

The wheel holds one Parquet file per (system, family, engine, version, table). Each is read here into the arguments of
the timing functions, in SI units. What is left out, and why, is counted: sliding windows, contexts below 256 tokens,
repeated shapes, kernels that the tables only caught on a fallback path, and times that no device can reach.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from specplan.microbench.fit_rows import Mask, Slice, deduplicated, split_by
from specplan.microbench.silicon_tables import TABLES, Table
from specplan.planner.messages import InputError, MissingError, nearest

WHEEL = "aiconfigurator-core"
VERSION = "0.12.0"
LICENCE = "Apache-2.0, Copyright NVIDIA Corporation"
INSTALL = "pip install -e '.[silicon]' in the checkout of specplan"

SYSTEMS: dict[str, str] = {
    # profile name -> folder of the wheel
    "a100-80-sxm": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm", "gb200": "gb200", "gb300": "gb300", "l40s": "l40s",
    "rtx-pro-6000-server": "rtx_pro_6000_server",
}
DEVICES: dict[str, str] = {
    # profile name -> how its GPU is called in the column `device`: 'NVIDIA H100' and 'NVIDIA H100 80GB HBM3' are one
    "a100-80-sxm": "A100", "h100-sxm": "H100", "h200-sxm": "H200", "b200-sxm": "B200", "b300-sxm": "B300",
    "gb200": "GB200", "gb300": "GB300", "l40s": "L40S", "rtx-pro-6000-server": "RTX PRO 6000",
}
ENGINES = ("vllm", "sglang", "trtllm")
WORDS = ("device", "kernel_source", "distribution", "phase")    # columns of text, as are those that end in _dtype
FROM_ZERO = ("step", "window_size")     # tokens; every other count is 1 or more, and `keep` judges times
MIN_ROWS = 16  # smaller slices are not worth a message, let alone a fit


def read_silicon(system: str, engine: str | None = None, *, root: Path | None = None) -> list[Slice]:
    """Every slice of one system's tables, of all engines or of one, in a fixed order.

    Raises
    ------
    MissingError
        The wheel is not installed.
    InputError
        Unknown system or engine, an unreadable file, a missing column or value, rows of two devices in one file or of
        another one than the system's.
    """
    if system not in SYSTEMS:
        raise InputError(f"{system}: no measured tables; they cover {', '.join(SYSTEMS)}{nearest(system, SYSTEMS)}")
    if engine is not None and engine not in ENGINES:
        raise InputError(f"{engine}: no measured tables of this engine; they cover {', '.join(ENGINES)}")
    base = (root or tables_root()) / SYSTEMS[system]
    if not base.is_dir():
        raise InputError(f"{base}: the installed {WHEEL} has no tables of {system}")
    found: list[Slice] = []
    for table in TABLES:
        for name in ENGINES if engine is None else (engine,):
            version, path = _newest(base / table.folder / name, table.file)
            if path is not None:
                found.extend(_read_table(table, name, version, path, DEVICES[system]))
    return found


def tables_root() -> Path:
    """Folder of the tables inside the installed wheel, found without importing it (its engine is compiled code)."""
    spec = importlib.util.find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None or importlib.util.find_spec("pyarrow") is None:
        raise MissingError(f"the measured tables come with the wheel {WHEEL}=={VERSION} (85 MB): {INSTALL}")
    return Path(spec.origin).parent / "systems" / "data"


def source_of(rows: Slice) -> str:
    """Where a slice's rows come from, for the profile."""
    return f"{WHEEL} {VERSION} ({LICENCE}), {rows.engine} {rows.version}"


def _newest(folder: Path, file: str) -> tuple[str, Path | None]:
    """The newest version that holds at least half as many rows as the fullest: later folders may be supplements."""
    files = sorted(folder.glob(f"*/{file}"), key=lambda path: _version_key(path.parent.name))
    if not files:
        return "", None
    rows = [_row_count(path) for path in files]
    chosen = max(index for index, count in enumerate(rows) if count >= max(rows) / 2)
    return files[chosen].parent.name, files[chosen]


def _row_count(path: Path) -> int:
    import pyarrow
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error


def _version_key(version: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(number or -1), word) for number, word in re.findall(r"(\d+)|([a-z]+)", version))


def _read_table(table: Table, engine: str, version: str, path: Path, gpu: str) -> Iterator[Slice]:
    columns = _read_parquet(path, ("device", "kernel_source", "latency", *table.needs), table.optional)
    devices = sorted(set(columns["device"].tolist()))
    if len(devices) > 1:
        raise InputError(f"{path}: rows of two devices mixed: {' and '.join(devices)}")
    if devices and not re.search(rf"\b{gpu}\b", devices[0]):
        raise InputError(f"{path}: rows of '{devices[0]}' in a table of the {gpu}")
    everything = Slice(
        family=table.family, engine=engine, version=version, kernel="", variant={},
        columns={name: np.asarray(column, dtype=float) for name, column in table.arguments(columns).items()},
        time_s=np.asarray(columns["latency"], dtype=float) * 1e-3,
    )
    reasons = table.keep(columns)
    labels = {"kernel": columns["kernel_source"], **table.labels(columns)}
    for part in _parts(everything, labels, reasons):
        if len(part) >= MIN_ROWS:
            yield part


def _parts(rows: Slice, labels: Mapping[str, npt.NDArray[Any]], reasons: Mapping[str, Mask]) -> Iterator[Slice]:
    """Split by label, then filter, so that every slice carries its own counts."""
    flags = {f"keep:{name}": mask.astype(float) for name, mask in reasons.items()}
    marked = replace(rows, columns={**rows.columns, **flags})
    for part in split_by(marked, labels):
        for name in reasons:
            part = part.take(part.columns[f"keep:{name}"].astype(bool), name)  # noqa: PLW2901 (narrowed step by step)
        columns = {name: column for name, column in part.columns.items() if not name.startswith("keep:")}
        variant = {name: value for name, value in part.variant.items() if name != "kernel"}
        kernel = str(part.variant["kernel"])
        yield deduplicated(replace(part, columns=columns, variant=variant, kernel=kernel))


def _read_parquet(path: Path, needs: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
        missing = [name for name in needs if name not in names]
        if missing:
            raise InputError(f"{path}: no column {', '.join(missing)}; this reader knows {WHEEL} {VERSION}")
        wanted = [*needs, *(name for name in optional if name in names)]
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
    for name in wanted:
        _check_column(path, name, table.column(name))
    return {name: table.column(name).to_numpy() for name in wanted}


def _check_column(path: Path, name: str, column: Any) -> None:
    """Text where names stand, numbers elsewhere, no value missing, and counts that a shape can have."""
    import pyarrow.types as kinds

    text, kind = name in WORDS or name.endswith("_dtype"), column.type
    fits = (kinds.is_string(kind) or kinds.is_large_string(kind) if text
            else kinds.is_integer(kind) or kinds.is_floating(kind))
    if not fits:
        raise InputError(f"{path}: column {name} holds {kind}, not {'text' if text else 'numbers'}")
    if column.null_count:
        raise InputError(f"{path}: column {name}: {column.null_count} of {len(column)} values are missing")
    if text or name == "latency":
        return
    values, least = np.asarray(column.to_numpy(), dtype=float), 0 if name in FROM_ZERO else 1
    wrong = np.flatnonzero(~((values >= least) & np.isfinite(values)))
    if len(wrong):
        row = wrong[0]
        raise InputError(f"{path}: column {name}, row {row + 1}: a count is {least} or more, not {values[row]:g}")
