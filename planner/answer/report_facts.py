"""Everything that a report shows, computed once: the answer, candidates by column, step parts, pictures, points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from specplan.planner.answer.build import build_answer
from specplan.planner.answer.candidates import candidate_columns
from specplan.planner.answer.load_answer import load_answer
from specplan.planner.answer.pareto import ParetoAnswer, pareto_of
from specplan.planner.answer.pictures import (
    PART_NAMES,
    AcceptancePicture,
    MapPicture,
    acceptance_picture,
    map_picture,
)
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.roofline import RooflinePicture, roofline_picture
from specplan.planner.answer.types import Answer
from specplan.planner.decide.value import DrafterValue
from specplan.planner.fact import fact
from specplan.planner.step.forward import breakdown_s
from specplan.planner.step.tiles import edge_query_lens

COLUMNS = (
    "draft_len", "acceptance_length", "break_even_acceptance_length", "step_s", "tokens_per_s_per_user",
    "tokens_per_s_per_gpu", "speedup", "speedup_end_to_end", "fits_memory", "memory_bytes",
)
DIGITS = 5      # of what only charts show


@fact
class ReportFacts:
    """An answer with what its pictures need. `cells` and `pareto_curves` hold plain lists, ready for JSON."""

    answer: Answer
    cells: tuple[dict[str, Any], ...]
    tile_edges: tuple[int, ...]
    map: MapPicture | None
    acceptance: AcceptancePicture | None
    roofline: RooflinePicture | None
    pareto: ParetoAnswer | None


def report_facts(question: Question, progress: Callable[[str, float], None] | None = None) -> ReportFacts:
    """Evaluate a question for a report."""
    tell = progress or (lambda _label, _share: None)
    tell("answer", 0.0)
    plan = evaluate(question)
    answer = build_answer(plan)
    tell("answer", 0.3)
    if question.load is not None:
        answer = replace(answer, load=load_answer(question))
    tell("answer", 0.6)
    batch, context = divmod(answer.headline, len(question.context_tokens))
    longest = max((max(option.draft_lens) for option in question.options), default=0)
    fits = any(cell.off.fits_memory for cell in answer.cells)
    found = ReportFacts(
        answer=answer,
        cells=tuple(_cells(plan)),
        tile_edges=tuple(edge - 1 for edge in edge_query_lens(question.target, question.deployment, longest + 1)),
        map=map_picture(plan),
        acceptance=acceptance_picture(plan),
        roofline=roofline_picture(plan, batch, context),
        pareto=pareto_of(question) if fits else None,
    )
    tell("answer", 1.0)
    return found


def _cells(plan: Plan) -> list[dict[str, Any]]:
    """Drafters of each cell, batch by batch: candidates by column (unrounded, as in the answer) and parts of a step."""
    columns = [candidate_columns(value) for value in plan.values]
    parts = [_parts(value) for value in plan.values]
    return [
        {
            "drafters": [
                {
                    "drafter": value.drafter.name,
                    "columns": {name: _column(column[name], batch, context) for name in COLUMNS},
                    "parts_s": {name: _rounded(seconds[:, batch, context]) for name, seconds in part.items()},
                }
                for value, column, part in zip(plan.values, columns, parts, strict=True)
            ]
        }
        for batch in range(len(plan.question.batch))
        for context in range(len(plan.question.context_tokens))
    ]


def _parts(value: DrafterValue) -> Mapping[str, Any]:
    """Seconds of each part over (D, B, S); parts that the model lacks are left out."""
    shape = (value.draft_lens.size, value.off.batch.size, value.off.context_tokens.size)
    parts = {
        PART_NAMES[part]: np.broadcast_to(seconds, shape)
        for part, seconds in breakdown_s(list(value.step.verify_ops)).items()
    }
    rest = value.step.verify_s + value.step.overhead_s - sum(parts.values())
    parts[PART_NAMES["draft"]] = np.broadcast_to(value.step.draft_s, shape)
    parts[PART_NAMES["fixed"]] = np.broadcast_to(rest, shape)
    return {name: seconds for name, seconds in parts.items() if float(seconds.max()) > 0}


def _column(array: Any, batch: int, context: int) -> list[Any] | None:
    return None if array is None else array[:, batch, context].tolist()


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def pareto_curves(answer: ParetoAnswer) -> list[dict[str, Any]]:
    """Points of an option and a context as lists."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for point in answer.points:
        curve = found.setdefault((point.context_tokens, point.option), {
            "context_tokens": point.context_tokens, "option": point.option, "batch": [], "draft_len": [], "user": [],
            "gpu": [], "frontier": [],
        })
        curve["batch"].append(point.batch)
        curve["draft_len"].append(point.draft_len)
        curve["user"].append(float(f"{point.tokens_per_s_per_user:.{DIGITS}g}"))
        curve["gpu"].append(float(f"{point.tokens_per_s_per_gpu:.{DIGITS}g}"))
        curve["frontier"].append(point.frontier)
    return list(found.values())
