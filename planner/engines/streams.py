"""Files as streams of bytes: lines that may matter, in constant memory, from logs of any size.

A log is searched in chunks for short substrings ("needles") before any line is decoded, so that a 2 GB file costs
little more than reading it. Gzip, standard input, non-UTF-8 bytes and lines without an end are all fine.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from specplan.planner.messages import InputError

CHUNK_BYTES = 4 << 20
LINE_BYTES = 32 << 20       # a longer line is cut: no engine writes one
DOCUMENT_BYTES = 512 << 20  # a JSON document must fit into memory


@contextlib.contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a gzip file or standard input (`-`) for reading bytes from the start."""
    with contextlib.ExitStack() as opened:
        try:
            stream: Any = sys.stdin.buffer if path == "-" else opened.enter_context(Path(path).open("rb"))
        except (OSError, ValueError) as error:      # ValueError: a path with a zero byte
            raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        head = stream.peek(2)[:2] if isinstance(stream, io.BufferedReader) else b""
        if head == b"\x1f\x8b":
            stream = opened.enter_context(gzip.GzipFile(fileobj=stream))
        yield stream


def read_block(stream: IO[bytes], size: int) -> bytes:
    """Read up to `size` bytes; a gzip file that is cut short or damaged gives what it holds up to there."""
    parts: list[bytes] = []
    read = getattr(stream, "read1", stream.read)
    while size > 0:
        try:
            part = read(size)
        except (EOFError, OSError, zlib.error):
            break
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def blocks(stream: IO[bytes], first: bytes = b"") -> Iterator[bytes]:
    """Yield blocks that end at the end of a line, `first` being what was read already.

    A line that is longer than any engine writes is cut, so that memory stays bounded.
    """
    rest, ended = first, False
    while not ended:
        block = read_block(stream, CHUNK_BYTES)
        ended = len(block) < CHUNK_BYTES
        data = rest + block
        cut = len(data) if ended else data.rfind(b"\n") + 1
        if cut == 0 and len(data) > LINE_BYTES:
            cut = len(data)
        if cut:
            yield data[:cut]
        rest = data[cut:]


def lines_with(block: bytes, needles: Iterable[bytes], window: tuple[int, int] = (0, 0)) -> list[bytes]:
    """Lines of a block that hold one of the needles, in order, each once.

    `window` also takes the lines that begin within so many bytes before and after.
    """
    spans: dict[int, int] = {}
    for needle in needles:
        at = block.find(needle)
        while at >= 0:
            start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            end = len(block) if end < 0 else end
            spans[start] = end
            at = block.find(needle, end)
    if window != (0, 0):
        return _around(block, spans, window)
    return [block[start:spans[start]] for start in sorted(spans)]


def _around(block: bytes, spans: Mapping[int, int], window: tuple[int, int]) -> list[bytes]:
    wide: dict[int, int] = {}
    for start in sorted(spans):
        first = block.rfind(b"\n", 0, max(start - window[0], 0)) + 1
        while first < min(spans[start] + window[1], len(block)):
            end = block.find(b"\n", first)
            end = len(block) if end < 0 else end
            wide[first] = end
            first = end + 1
    return [block[start:wide[start]] for start in sorted(wide)]


def text_of(line: bytes) -> str:
    """A line as text; bytes that are no UTF-8 become replacement marks."""
    return line.decode("utf-8", "replace").rstrip("\r")


def json_document(data: bytes) -> Any:
    """Parse a whole JSON document, or None where it is none."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_in_line(text: str) -> Any:
    """Parse the JSON of a line, also behind `data: ` of an event stream or a log prefix; None where none."""
    start = 0 if text.startswith("[{") else text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def nodes(document: Any, limit: int = 2_000_000) -> Iterator[Mapping[str, Any]]:
    """All JSON objects inside a document, outer ones first."""
    stack = [document]
    while stack and limit > 0:
        limit -= 1
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(value for value in reversed(list(item.values())) if isinstance(value, dict | list))
        elif isinstance(item, list):
            stack.extend(value for value in reversed(item) if isinstance(value, dict | list))


def number(value: Any) -> float | None:
    """A finite JSON number, or None; numbers written as text count, booleans do not."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return result if abs(result) < 1e15 else None


def whole(value: Any) -> int | None:
    """A number that is a small whole one, or None."""
    result = number(value)
    return int(result) if result is not None and result == int(result) else None


def numbers(value: Any) -> list[float]:
    """A list of finite numbers; empty where it is none or has another member."""
    if not isinstance(value, list):
        return []
    result = [number(item) for item in value]
    return [] if any(item is None for item in result) else [item for item in result if item is not None]
