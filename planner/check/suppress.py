"""Comments that silence a rule: `# specplan: ignore[SP012] reason` on the line, above it, or for the whole file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"(?:#|//)\s*specplan:\s*(ignore(?:-file)?)\s*(?:\[([^\]]*)\])?")


@dataclass(slots=True)
class Suppressions:
    """Codes (or None: all) that are silenced per line, and in the whole file."""

    lines: dict[int, set[str | None]] = field(default_factory=dict)
    file: set[str | None] = field(default_factory=set)

    def silence(self, code: str, name: str, *lines: int) -> bool:
        """True if a finding of a rule on any of the lines is silenced."""
        wanted = {None, code, name}
        return bool(self.file & wanted) or any(self.lines.get(line, set()) & wanted for line in lines)


def suppressions(source: str) -> Suppressions:
    """Read the comments of a file. One that stands alone on its line counts for the next line that is no comment."""
    found = Suppressions()
    if "specplan:" not in source:
        return found
    lines = source.split("\n")
    for number, line in enumerate(lines, start=1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        codes: set[str | None] = {code.strip() for code in (match[2] or "").split(",") if code.strip()} or {None}
        if match[1] == "ignore-file":
            found.file |= codes
            continue
        place = number
        if not line[:match.start()].strip():
            place = next((later for later, text in enumerate(lines[number:], start=number + 1)
                          if text.strip() and not text.lstrip().startswith(("#", "//"))), number)
        found.lines.setdefault(place, set()).update(codes)
    return found
