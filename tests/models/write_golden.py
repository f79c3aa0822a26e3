"""Write the golden files of `specplan models show NAME --json` anew: python tests/models/write_golden.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specplan.planner.models.reader import load_model, model_names
from specplan.planner.models.summary import model_summary

GOLDEN = Path(__file__).parent.parent / "data" / "models" / "golden"


def write() -> None:
    """One file for each preset; files of presets that are gone are removed."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for path in GOLDEN.glob("*.json"):
        path.unlink()
    for name in model_names():
        (GOLDEN / f"{name}.json").write_text(as_text(model_summary(load_model(name))), encoding="utf-8")


def as_text(summary: dict[str, Any]) -> str:
    """The file's text."""
    return json.dumps(summary, indent=1) + "\n"


if __name__ == "__main__":
    write()
