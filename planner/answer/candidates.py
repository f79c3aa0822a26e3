"""All options of all cells as rows of the answer: arrays over (D, B, S) turned into candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from specplan.planner.answer.types import Candidate, OffAnswer
from specplan.planner.decide.value import DrafterValue, OffValue
from specplan.planner.step.forward import Op, Part

Column = npt.NDArray[Any]


def candidate_columns(value: DrafterValue) -> dict[str, Column | None]:
    """Every field of a candidate as an array over (D, B, S); None where acceptance or lengths are unknown."""
    shape = (value.draft_lens.size, value.off.batch.size, value.off.context_tokens.size)
    arrays: dict[str, Column | None] = {
        "draft_len": value.draft_lens.astype(int),
        "acceptance_length": value.acceptance_length,
        "break_even_acceptance_length": value.break_even,
        "verify_s": value.step.verify_s,
        "draft_s": value.step.draft_s,
        "overhead_s": value.step.overhead_s,
        "step_s": value.step.step_s,
        "tokens_per_s_per_user": value.tokens_per_s_per_user,
        "tokens_per_s_per_gpu": value.tokens_per_s_per_gpu,
        "speedup": value.speedup,
        "speedup_end_to_end": value.speedup_end_to_end,
        "fits_memory": value.memory.fits,
        "memory_bytes": value.memory.total_bytes,
        "max_batch": value.memory.max_batch.astype(int),
        "gemm": bound_of_part(value.step.verify_ops, "gemm"),
        "attention": bound_of_part(value.step.verify_ops, "attention"),
    }
    return {name: None if array is None else np.broadcast_to(array, shape) for name, array in arrays.items()}


def candidates_of_cell(
    value: DrafterValue, columns: Mapping[str, Column | None], batch: int, context: int
) -> list[Candidate]:
    """The options of one drafter in one cell, one per D."""
    lists: dict[str, list[Any]] = {
        name: [None] * value.draft_lens.size if array is None else array[:, batch, context].tolist()
        for name, array in columns.items()
    }
    gemm, attention = lists.pop("gemm"), lists.pop("attention")
    source = None if value.acceptance is None else value.acceptance.source
    return [
        Candidate(
            mechanism=value.drafter.mechanism,
            drafter=value.drafter.name,
            acceptance_source=source,
            bound={"gemm": gemm[row], "attention": attention[row]},
            **{name: column[row] for name, column in lists.items()},
        )
        for row in range(value.draft_lens.size)
    ]


def bound_of_part(ops: tuple[Op, ...], part: Part) -> Column | None:
    """What binds the most expensive op of a part, per cell; None where the model has no such part."""
    mine = [op for op in ops if op.part == part]
    if not mine:
        return None
    totals = np.stack(np.broadcast_arrays(*(op.total_s for op in mine)))
    bounds = np.stack([np.broadcast_to(op.time.bound(), totals.shape[1:]) for op in mine])
    largest = totals.argmax(axis=0)[np.newaxis]
    return np.asarray(np.take_along_axis(bounds, largest, axis=0)[0])


def off_of_cell(value: OffValue, batch: int, context: int) -> OffAnswer:
    """Plain decoding in one cell."""
    shape = (1, value.batch.size, value.context_tokens.size)

    def at(array: Column) -> float:
        return float(np.broadcast_to(array, shape)[0, batch, context])

    parts = {f"{part}_s": at(seconds) for part, seconds in value.step.parts_s.items()}
    step = at(value.step.step_s)
    return OffAnswer(
        step_s=step,
        tokens_per_s_per_user=1.0 / step,
        tokens_per_s_per_gpu=at(value.tokens_per_s_per_gpu),
        fits_memory=bool(at(value.memory.fits)),
        memory_bytes=at(value.memory.total_bytes),
        max_batch=int(at(value.memory.max_batch)),
        breakdown={**parts, "host_s": step - sum(parts.values())},   # the host is what the GPU parts do not explain
    )
