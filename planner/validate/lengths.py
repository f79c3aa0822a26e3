"""Prompt, answer and context lengths of a row: stated, else typical of its data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specplan.planner.fact import fact
from specplan.planner.validate.annotations import Annotations
from specplan.planner.validate.collection import Case
from specplan.planner.validate.names import aliases, dataset_name


@fact
class Lengths:
    """Tokens of a request: prompt, answer, and mean context while decoding."""

    input_tokens: float
    output_tokens: float
    context_tokens: float


def row_lengths(case: Case, row: Mapping[str, Any], notes: Annotations, assumed: list[str]) -> Lengths:
    """Lengths as stated; what is missing is typical of the data set and listed as assumed."""
    stated_in, stated_out = case.number("isl", row), case.number("osl", row)
    context = case.number("context", row)
    typical = _typical(case, row, notes)
    output = stated_out or typical["output"]
    if stated_in is None and context is not None:
        stated_in = max(context - output / 2, 1.0)
    prompt = stated_in or typical["input"]
    if context is None:
        context = prompt + output / 2 if stated_in is not None else typical["context"]
    if stated_in is None or stated_out is None:
        assumed.append("lengths")
    return Lengths(input_tokens=prompt, output_tokens=output, context_tokens=max(context, 1.0))


def _typical(case: Case, row: Mapping[str, Any], notes: Annotations) -> Mapping[str, float]:
    name = dataset_name(case.text("dataset", row))
    table: Mapping[str, Mapping[str, float]] = {**aliases()["lengths"], **notes.lengths}
    return table.get(name, table["unknown"])
