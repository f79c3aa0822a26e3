"""From a configuration to an answer: resolve what it names, evaluate, choose, say why. Used by all outer layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specplan.planner.answer.build import build_answer
from specplan.planner.answer.deploy import deployment_under_load
from specplan.planner.answer.plan import evaluate
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.types import Answer
from specplan.planner.config.load import LoadedConfig, Overrides, load_config
from specplan.planner.messages import InputError

if TYPE_CHECKING:
    from specplan.planner.answer.explanation import Explanation

__all__ = ["Answer", "explain", "recommend"]

Source = str | Path | Mapping[str, Any] | LoadedConfig


def recommend(
    cfg: Source,
    overrides: Overrides | None = None,
    *,
    allow_preliminary: bool = False,
    simulate_seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Answer:
    """Which mechanism and draft length to run, and what it gains.

    `cfg` is the path of a cfg.yaml (or of a config.json, with `overrides.gpu`), or a mapping of the same keys. With
    `simulate_seed`, a discrete simulation stands beside the closed form of the load; it reports to `progress`.

    Raises
    ------
    InputError
        With all faults of the configuration.
    """
    question = resolve(load_config(cfg, overrides), allow_preliminary=allow_preliminary)
    answer = build_answer(evaluate(question))
    if question.load is None:
        if simulate_seed is not None:
            raise InputError("--simulate needs a load: workload.request_rate, concurrency or slo")
        return answer
    from specplan.planner.answer.load_answer import checked_by_simulation, load_answer  # noqa: PLC0415 - the same

    load = load_answer(question)
    if load is not None and simulate_seed is not None:
        load = replace(load, simulation=checked_by_simulation(question, seed=simulate_seed, progress=progress))
    if load is None:
        return answer
    return replace(answer, load=load, deployment=deployment_under_load(question, load))


def explain(
    cfg: Source,
    overrides: Overrides | None = None,
    *,
    mechanism: str | None = None,
    draft_len: int | None = None,
    batch: int | None = None,
    context_tokens: int | None = None,
    allow_preliminary: bool = False,
) -> Explanation:
    """Every op of one step at one D, and a sweep over D; what is not given is what `recommend` says there.

    `mechanism` "off" is the plain step.
    """
    from specplan.planner.answer.explanation import explain_question  # noqa: PLC0415 - `recommend` never pays for it

    question = resolve(load_config(cfg, overrides), allow_preliminary=allow_preliminary)
    return explain_question(
        question, mechanism=mechanism, draft_len=draft_len, batch=batch, context_tokens=context_tokens
    )
