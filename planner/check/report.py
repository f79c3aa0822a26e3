"""What a check found, where, and what the exit code is."""

from __future__ import annotations

from dataclasses import dataclass, field

from specplan.planner.engines.rule import Edit, Severity

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")     # rising


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of one rule. Lines and columns count from 1; `edits` are offsets in the file."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    name: str
    severity: Severity
    message: str
    engine: str
    edits: tuple[Edit, ...] = ()
    anchor_line: int = 0        # line where the configuration that holds it starts: a comment above it counts


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why."""

    file: str
    reason: str


@dataclass(slots=True)
class Report:
    """All findings of a run, by file and place."""

    findings: list[Finding] = field(default_factory=list)
    suppressed: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    unreadable: list[Skipped] = field(default_factory=list)
    files: int = 0              # files looked at
    configurations: int = 0     # speculative configurations found in them
    fail_on: Severity = "warning"

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 clean (notes do not fail by default), 1 findings, 2 a named file that cannot be read."""
        if self.unreadable:
            return 2
        least = SEVERITIES.index(self.fail_on)
        return int(any(SEVERITIES.index(finding.severity) >= least for finding in self.findings))
