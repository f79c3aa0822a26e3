"""A text file that a user named: read whole if it is UTF-8 text of a sensible size, refused in a sentence if not."""

from __future__ import annotations

from pathlib import Path

from specplan.planner.messages import Fault, InputError, nearest

MAX_BYTES = 1_000_000   # a configuration of a megabyte is a mistake; callers with bigger files say so


def read_text(path: str | Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Text of a user's file; what is not a UTF-8 text of a sensible size is refused before it is read whole."""
    path, name = Path(path), str(path)

    def refuse(message: str) -> InputError:
        return InputError([Fault((), message, file=name)])

    try:
        if path.is_dir():
            inside = path / "config.json"
            raise refuse("is a directory, not a file" + (f"; did you mean '{inside}'?" if inside.is_file() else ""))
        if not path.exists():
            raise refuse("no such file" + nearest(path.name, _siblings(path)))
        size = path.stat().st_size
        if size > max_bytes:
            raise refuse(f"is {size / 1e6:.1f} MB; at most {max_bytes / 1e6:g} MB is read")
        with path.open("rb") as stream:
            raw = stream.read(max_bytes + 1)    # a pipe or a device has no size beforehand
    except (OSError, ValueError) as error:
        raise refuse(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > max_bytes:
        raise refuse(f"is larger than {max_bytes / 1e6:g} MB, the most that is read")
    if b"\0" in raw:
        raise refuse("is a binary file, not text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError([Fault((), "is not UTF-8 text", file=name, line=line)]) from None


def user_path(written: str, base: Path = Path()) -> Path:
    """Path that a user wrote, from `base`; `~` is a home folder."""
    try:
        return base / Path(written).expanduser()
    except RuntimeError:        # no such user, or no home
        raise InputError([Fault((), "starts with ~, and there is no such home folder", file=written)]) from None


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; there is none by a name that no file can have."""
    try:
        return path.exists()
    except OSError:
        return False


def _siblings(path: Path) -> list[str]:
    parent = path.parent
    return [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
