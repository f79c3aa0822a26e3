"""2,000 random mutations of the presets: each gives a model with sane sizes or a clean error."""

from __future__ import annotations

import json
import math
import random
from typing import Any

from specplan.planner.messages import InputError
from specplan.planner.models.counts import kv_bytes
from specplan.planner.models.reader import PRESETS, load_model, model_names
from specplan.planner.models.summary import model_summary

MUTATIONS = 2000
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 10**30, 0.5, 1e300, float("nan"), float("inf"), -float("inf"), "", "8",
    "abc", [], [1], [None], ["x"] * 100, {}, {"a": 1}, [[1]], "sliding_attention", "fp8", "re:(", b"x".hex(),
)


def mutate(value: Any, rng: random.Random) -> Any:
    """Change one thing somewhere in a nested value."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        kind = rng.random()
        changed = dict(value)
        if kind < 0.15:
            del changed[key]
        elif kind < 0.25:
            changed[key] = changed[rng.choice(sorted(value))]
        else:
            changed[key] = mutate(changed[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        changed_list = list(value)
        place = rng.randrange(len(changed_list))
        kind = rng.random()
        if kind < 0.2:
            del changed_list[place:]
        elif kind < 0.4:
            changed_list.insert(place, changed_list[place])
        else:
            changed_list[place] = mutate(changed_list[place], rng)
        return changed_list
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice([value * 2, value // 2, value + 1, value - 1, -value, value * 1000, float(value)])
    return rng.choice(STRANGE)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_random_mutations_give_a_model_or_a_clean_error() -> None:
    rng = random.Random(20261129)
    presets = {name: json.loads((PRESETS / f"{name}.json").read_text()) for name in model_names()}
    models, messages = 0, []
    for _ in range(MUTATIONS):
        fields = presets[rng.choice(model_names())]
        for _ in range(rng.randint(1, 3)):
            fields = mutate(fields, rng)
        try:
            model = load_model(fields)
        except InputError as error:
            messages += [fault.message for fault in error.faults] or [""]
            continue
        models += 1
        sizes = [*numbers(model_summary(model)), float(kv_bytes(model, "fp8", 10_000.0, tp=3, pp=2))]
        assert all(math.isfinite(size) and size >= 0 for size in sizes), model.name
    assert all(messages)
    assert MUTATIONS / 10 < models < MUTATIONS * 9 / 10     # the mutations reach both outcomes
