"""Mending files: edits that have one meaning only, shown as a difference, written in one step or not at all."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specplan.planner.check.report import Finding
from specplan.planner.engines.rule import Edit


@dataclass(frozen=True, slots=True)
class Fixed:
    """What happened to one file: the difference, and why it was not written, if so."""

    file: str
    diff: str
    edits: int
    refused: str = ""


def fix_files(findings: Iterable[Finding], *, write: bool = True) -> list[Fixed]:
    """Apply the edits of findings, file by file; with `write` False only say what would change."""
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.edits:
            by_file.setdefault(finding.file, []).append(finding)
    return [_fix_file(file, found, write=write) for file, found in sorted(by_file.items())]


def _fix_file(file: str, findings: Sequence[Finding], *, write: bool) -> Fixed:
    path = Path(os.path.realpath(file))     # a link stays a link
    try:
        before = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return Fixed(file, "", 0, refused=f"cannot be read: {error}")
    edits = _disjoint(edit for finding in findings for edit in finding.edits)
    after = before
    for edit in reversed(edits):
        after = after[:edit.start] + edit.new + after[edit.end:]
    diff = "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), file, file))
    refused = _write(path, after) if write and after != before else ""
    return Fixed(file, diff, len(edits), refused)


def _disjoint(edits: Iterable[Edit]) -> list[Edit]:
    """Edits in order, without those that touch an earlier one."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def _write(path: Path, text: str) -> str:
    """Replace a file in one step, with its permissions; the reason if that is not allowed."""
    try:
        mode = path.stat().st_mode
        if not mode & 0o222 or not os.access(path, os.W_OK):
            return "is read-only"
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".specplan")
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode & 0o7777)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        return f"cannot be written: {error.strerror or error}"
    return ""
