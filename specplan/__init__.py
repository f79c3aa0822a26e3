"""specplan: which speculative-decoding mechanism and draft length to run, and what it gains.

This folder only gathers the real ones (`planner/`, `microbench/`, `gpu_profiles/`, `commands/`, `cli.py` at the
repository root) under one import name, by links in a checkout and by copies in a wheel; see pyproject.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specplan.planner.answer import Answer, recommend

__version__ = "0.1.0"
__all__ = ["Answer", "__version__", "recommend"]


def __getattr__(name: str) -> Any:
    """Load the planner on first use: `import specplan` alone costs nothing."""
    if name in {"Answer", "recommend"}:
        from specplan.planner import answer  # noqa: PLC0415

        return getattr(answer, name)
    raise AttributeError(f"module 'specplan' has no attribute {name!r}")
