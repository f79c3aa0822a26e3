"""Which files may hold a configuration, and their text. Binary, huge and looping things are skipped with a reason."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["shell", "yaml", "json", "env", "dockerfile", "systemd", "log"]

STANDARD_INPUT = Path("-")
MAX_BYTES = 2_000_000       # configurations are small; a larger file is data
MAX_DEPTH = 40
SKIPPED_FOLDERS = frozenset({
    ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox", ".nox",
    ".pytest_cache", "site-packages", ".terraform",
})
_SUFFIXES: dict[str, Kind] = {
    ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".ksh": "shell", ".slurm": "shell", ".sbatch": "shell",
    ".mk": "shell", ".yaml": "yaml", ".yml": "yaml", ".tpl": "yaml", ".json": "json", ".env": "env",
    ".service": "systemd", ".dockerfile": "dockerfile", ".log": "log",
}
_NAMES: dict[str, Kind] = {"makefile": "shell", "justfile": "shell", "dockerfile": "dockerfile",
                           "containerfile": "dockerfile", ".env": "env", "gnumakefile": "shell"}


@dataclass(frozen=True, slots=True)
class Source:
    """A file to check: its path as the user would write it, what it is, and whether it was named itself."""

    path: Path
    kind: Kind
    named: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path that is not checked; `named` paths that do not exist are errors, the rest are notes."""

    path: Path
    reason: str
    fatal: bool = False


def kind_of(path: Path) -> Kind | None:
    """What a file is, by its name; None for files that hold no configuration."""
    name = path.name.lower()
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(".env."):
        return "env"
    if name.startswith(("dockerfile.", "containerfile.")):
        return "dockerfile"
    return _SUFFIXES.get(path.suffix.lower())


def find(paths: Sequence[Path], exclude: Sequence[str] = ()) -> Iterator[Source | Refusal]:
    """All files under `paths` that may hold a configuration, in a stable order, each once."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path.is_dir():
            yield from _folder(path, exclude, seen, 0)
        elif path.is_file():
            if _first_time(path, seen):
                yield Source(path, kind_of(path) or _sniff(path) or "shell", named=True)
        elif path.is_symlink():
            yield Refusal(path, "is a broken or looping symbolic link", fatal=True)
        else:
            yield Refusal(path, "no such file or folder" if not path.exists() else "is no regular file", fatal=True)


def _first_time(path: Path, seen: set[tuple[int, int]]) -> bool:
    status = path.stat()
    key = (status.st_dev, status.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True


def _folder(folder: Path, exclude: Sequence[str], seen: set[tuple[int, int]], depth: int) -> Iterator[Source | Refusal]:
    if depth > MAX_DEPTH:
        yield Refusal(folder, "is nested too deeply")
        return
    if not _first_time(folder, seen):
        if folder.is_symlink():
            yield Refusal(folder, "is a symbolic link to a folder that was read")
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Refusal(folder, f"cannot be read: {error.strerror}")
        return
    for entry in entries:
        path = Path(entry.path)
        if any(fnmatch.fnmatch(entry.path, pattern) or fnmatch.fnmatch(entry.name, pattern) for pattern in exclude):
            continue
        yield from _entry(entry, path, exclude, seen, depth)


def _entry(entry: os.DirEntry[str], path: Path, exclude: Sequence[str], seen: set[tuple[int, int]], depth: int
           ) -> Iterator[Source | Refusal]:
    try:
        if entry.is_dir():
            if entry.name not in SKIPPED_FOLDERS:
                yield from _folder(path, exclude, seen, depth + 1)
        elif entry.is_file():
            kind = kind_of(path)
            if kind is None and "." not in entry.name:
                kind = _sniff(path)
            if kind is not None and _first_time(path, seen):
                yield Source(path, kind, named=False)
        elif entry.is_symlink():
            yield Refusal(path, "is a broken or looping symbolic link")
    except OSError as error:
        yield Refusal(path, f"cannot be read: {error.strerror}")


def _sniff(path: Path) -> Kind | None:
    try:
        with path.open("rb") as stream:
            head = stream.read(80)
    except OSError:
        return None
    if head.startswith(b"#!") and b"sh" in head.split(b"\n")[0]:
        return "shell"
    return "json" if head.lstrip()[:1] == b"{" else None


def kind_of_text(text: str) -> Kind:
    """What a text without a name is: JSON opens with a bracket, YAML's first line that says anything is a key."""
    if text.lstrip()[:1] in ("{", "["):
        return "json"
    said = next((line for line in text.splitlines() if line.strip() and not line.startswith(("#", "---"))), "")
    return "yaml" if re.match(r"[\w./-]+:(\s|$)", said) else "shell"


def read_standard_input() -> str | Refusal:
    """The text on standard input, under the rules for files."""
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        return Refusal(STANDARD_INPUT, f"is more than {MAX_BYTES / 1e6:.0f} MB, larger than any configuration")
    return _decoded(STANDARD_INPUT, raw)


def read(path: Path, max_bytes: int = MAX_BYTES) -> str | Refusal:
    """The text of a file with its line ends as they are, or why it is skipped."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            return Refusal(path, f"is {size / 1e6:.1f} MB, larger than any configuration")
        raw = path.read_bytes()
    except OSError as error:
        return Refusal(path, f"cannot be read: {error.strerror or error}", fatal=True)
    return _decoded(path, raw)


def _decoded(path: Path, raw: bytes) -> str | Refusal:
    if b"\0" in raw:
        return Refusal(path, "is a binary file")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return Refusal(path, "is not UTF-8 text")
