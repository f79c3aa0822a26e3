"""From a configuration to an answer: resolve what it names, evaluate, choose, say why. Used by all outer layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specplan.planner.answer.build import build_answer
from specplan.planner.answer.plan import evaluate
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.types import Answer
from specplan.planner.config.load import LoadedConfig, Overrides, load_config

if TYPE_CHECKING:
    from specplan.planner.answer.explanation import Explanation

__all__ = ["Answer", "explain", "recommend"]

Source = str | Path | Mapping[str, Any] | LoadedConfig


def recommend(cfg: Source, overrides: Overrides | None = None, *, allow_preliminary: bool = False) -> Answer:
    """Which mechanism and draft length to run, and what it gains.

    `cfg` is the path of a cfg.yaml (or of a config.json, with `overrides.gpu`), or a mapping of the same keys.

    Raises
    ------
    InputError
        With all faults of the configuration.
    """
    return build_answer(evaluate(resolve(load_config(cfg, overrides), allow_preliminary=allow_preliminary)))


def explain(
    cfg: Source,
    overrides: Overrides | None = None,
    *,
    mechanism: str,
    draft_len: int,
    batch: int,
    context_tokens: int,
    allow_preliminary: bool = False,
) -> Explanation:
    """Every op of one step at one D, and a sweep over D."""
    from specplan.planner.answer.explanation import explain_question  # noqa: PLC0415 - `recommend` never pays for it

    question = resolve(load_config(cfg, overrides), allow_preliminary=allow_preliminary)
    return explain_question(
        question, mechanism=mechanism, draft_len=draft_len, batch=batch, context_tokens=context_tokens
    )
