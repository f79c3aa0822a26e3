"""Recompute every figure on the documentation pages: `python tests/refresh_docs.py` rewrites them in place.

Two kinds of blocks carry figures. `>>>` examples show what Python prints; ```console blocks show what the commands
after `$ ` print (stdout; `| head -N` keeps the first lines). The tests compare pages with what this writes.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from specplan.cli import app

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Pages whose figures are computed."""
    return sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def rendered(page: Path) -> str:
    """The page with all figures recomputed."""
    with _in_root():
        text = "".join(_examples(page.read_text(encoding="utf-8")))
        return CONSOLE.sub(lambda block: f"```console\n{_console(block.group(1))}```", text)


def _examples(text: str) -> Iterator[str]:
    names: dict[str, object] = {}
    for piece in doctest.DocTestParser().parse(text):
        if isinstance(piece, str):
            yield piece
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(piece.source, "<page>", "single"), names)
        first, *more = piece.source.rstrip("\n").split("\n")
        indent = " " * piece.indent
        yield "\n".join([f"{indent}>>> {first}", *(f"{indent}... {line}" for line in more)]) + "\n"
        yield "".join(f"{indent}{line}\n" for line in out.getvalue().splitlines())


def _console(block: str) -> str:
    lines = []
    for line in block.splitlines():
        if line.startswith("$ "):
            lines += [line, *_output(line[2:])]
    return "\n".join(lines) + "\n"


def _output(command: str) -> list[str]:
    command, _, pipe = command.partition("|")
    words = shlex.split(command)
    if words[0] != "specplan":
        return []
    result = CliRunner(env={"COLUMNS": "118"}).invoke(app, words[1:])
    if result.exit_code not in {0, 1}:
        raise AssertionError(f"{command}: {result.output}")
    shown = [line.rstrip() for line in result.stdout.splitlines()]
    return shown[: int(pipe.split("-")[-1])] if pipe else shown


@contextlib.contextmanager
def _in_root() -> Iterator[None]:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    for each in pages():
        each.write_text(rendered(each), encoding="utf-8")
