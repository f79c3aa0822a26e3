"""Text that people paste: one flag a line, quoted for a POSIX shell, remarks in front."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence

from specplan.planner.messages import Note


def command(start: Sequence[str], flags: Iterable[Sequence[str]]) -> str:
    """A command with its flags on continued lines; without a command, the flags alone."""
    lines = [shlex.join(flag) for flag in flags]
    if start:
        lines.insert(0, shlex.join(start))
    return " \\\n    ".join(lines) + "\n"


def heredoc(target: str, content: str) -> str:
    """A command that writes a file."""
    return f"cat > {shlex.quote(target)} <<'EOF'\n{content.rstrip()}\nEOF\n"


def remarks(lines: Iterable[str | Note]) -> str:
    """Comment lines that a shell and YAML both skip."""
    text = ""
    for line in lines:
        message = line if isinstance(line, str) else line.message
        text += textwrap.fill(message, 118, initial_indent="# ", subsequent_indent="#   ",
                              break_long_words=False, break_on_hyphens=False) + "\n"
    return text
