"""The planner as the rules see it: loss and best D per mechanism and batch, from one configuration."""

from __future__ import annotations

import functools
from dataclasses import replace

from specplan.planner.answer.load_answer import load_answer
from specplan.planner.answer.plan import evaluate
from specplan.planner.answer.resolve import Question, resolve
from specplan.planner.check.plan_rules import Planner
from specplan.planner.config.load import LoadedConfig
from specplan.planner.decide.choose import cell, gain
from specplan.planner.step.tiles import attention_tiles


def planner_from(loaded: LoadedConfig, *, max_loss: float | None = None) -> Planner:
    """Answer the rules' questions from the model, GPU and load of a cfg.yaml (its first context).

    Under a request rate, a number of users or a latency target, its choice loses nothing and the mean batch counts.
    A draft length without known acceptance has no loss: the rules then stay silent.
    """
    question = resolve(loaded)
    load = load_answer(question)
    choice = None if load is None else load.choice
    tiles = attention_tiles(question.target, question.deployment)

    @functools.cache
    def gains(mechanism: str, batch: int) -> dict[int, float]:
        return _gains(question, mechanism, batch)

    def loss_of(draft_len: int, mechanism: str, batch: int) -> float | None:
        if choice is not None and (choice.mechanism, choice.draft_len) == (mechanism, draft_len):
            return 0.0
        known = gains(mechanism, batch)
        if not known or draft_len not in known:
            return None
        return 1.0 - known[draft_len] / max(known.values())

    def best_of(mechanism: str, batch: int) -> int | None:
        if choice is not None and choice.mechanism == mechanism:
            return choice.draft_len
        known = gains(mechanism, batch)
        return max(known, key=lambda draft_len: (known[draft_len], -draft_len)) if known else None

    return Planner(
        loss_of=loss_of,
        best_of=best_of,
        batch=max(question.batch) if choice is None else max(1, round(choice.mean_batch)),
        max_loss=max_loss,
        tile=None if tiles is None or not tiles.packs else (tiles.group_size, tiles.tile_rows),
    )


def _gains(question: Question, mechanism: str, batch: int) -> dict[int, float]:
    """Objective relative to off by draft length; 0 stands for off itself, at 1."""
    mine = (option for option in question.options if option.drafter.mechanism == mechanism)
    options = tuple(option for option in mine if option.acceptance is not None)
    if not options:
        return {}
    plan = evaluate(replace(question, options=options[:1], batch=(batch,), context_tokens=question.context_tokens[:1]))
    value = plan.values[0]
    found = gain(value, question.objective)
    assert found is not None
    column = cell(found, value.draft_lens.size, 0, 0)
    return {0: 1.0} | {int(d): float(g) for d, g in zip(value.draft_lens[:, 0, 0], column, strict=True) if d > 0}
