"""What was read of acceptance, for people: a summary in YAML comments, then the figures as cfg.yaml takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

DIGITS = 6      # of each figure: acceptance is never known better


def reading_text(found: Mapping[str, Any]) -> str:
    """YAML of the canonical form without its nulls; the summary stands in comments, so that it reads back."""
    text = yaml.safe_dump(_short(found), sort_keys=False, width=120, allow_unicode=True)
    return "\n".join(f"# {line}" for line in _summary(found)) + "\n" + text


def _summary(found: Mapping[str, Any]) -> list[str]:
    lines = []
    if found["acceptance_length"] is not None:
        drafted = "" if found["draft_len"] is None else f" at D = {found['draft_len']}"
        lines.append(f"AL {found['acceptance_length']:.3f}{drafted}{_range(found['interval'])}")
    if found["per_position"] is not None:
        lines.append("accepted by position: " + ", ".join(f"{share:.3f}" for share in found["per_position"]))
    if found["curve"] is not None:
        lines.append("AL by D: " + ", ".join(f"{d}: {length:.3f}" for d, length in found["curve"].items()))
    if found["alpha"] is not None:
        lines.append(f"alpha {found['alpha']:.3f}")
    counted = "" if found["steps"] is None else f", {found['steps']:.0f} steps"
    lines.append(f"from {found['source_format']}{counted}: {found['definition']}")
    broken = [check for check in found["checks"] if not check["holds"]]
    lines += [f"does not hold: {check['identity']} ({check['detail']})" for check in broken]
    held = len(found["checks"]) - len(broken)
    lines.append(f"{held} of {len(found['checks'])} identities hold, {len(found['warnings'])} warnings")
    return lines + [f"warning: {warning['message']}" for warning in found["warnings"]]


def _range(interval: Mapping[str, Any] | None) -> str:
    if interval is None:
        return ""
    low, high = interval["acceptance_length"]
    return f" ({interval['level']:.0%} interval {low:.3f} to {high:.3f}, {interval['from']})"


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
