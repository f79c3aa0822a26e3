"""Kernels that can run a case: one file per library. A backend says where it is absent and what it refuses.

`bind` gets the operands of one buffer set, brings them into the library's own layout (not timed) and returns the call
that is timed. Before any timing, `check_backend` compares that call with exact fp32 on a small case of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specplan.microbench.cases import Case
from specplan.microbench.measurements import Environment, Op
from specplan.microbench.operands import OPERATIONS, Operands
from specplan.microbench.reference import TOLERANCE, disagreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A call without arguments that returns the result, and the tile that the kernel chose where it says so."""

    call: Callable[[], Any]
    tile: Mapping[str, int] = field(default_factory=dict)


def _never(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kernel of one library for one or more ops."""

    name: str
    ops: tuple[Op, ...]
    devices: tuple[str, ...]
    bind: Callable[[Case, Environment, Operands], Bound]
    absent: Callable[[Environment], str | None] = _never            # why it cannot run here at all
    refuses: Callable[[Case, Environment], str | None] = _never     # why it cannot run this case
    packs_group: bool = True        # attention: reads KV once for all G*q rows


def backends_of(op: Op, device: str) -> tuple[Backend, ...]:
    """Backends for an op on a kind of device, present or not, in order of preference."""
    from specplan.microbench.backends import (  # noqa: PLC0415
        attention_libraries,
        attention_torch,
        attention_triton,
        matrix,
        simple,
        step,
    )

    every = (*matrix.BACKENDS, *simple.BACKENDS, *attention_triton.BACKENDS, *attention_torch.BACKENDS,
             *attention_libraries.BACKENDS, *step.BACKENDS)
    return tuple(backend for backend in every if op in backend.ops and device in backend.devices)


def check_backend(backend: Backend, case: Case, environment: Environment) -> str | None:
    """Run the kernel on a small case of the same kind; what is wrong with the result, or None.

    Where no exact result is defined (copies, launches) nothing is compared.
    """
    import torch

    operation = OPERATIONS[case.op]
    if operation.reference is None or operation.small is None:
        return None
    small = operation.small(case)
    operands = operation.operands(small, torch.device(environment.device))
    expected = operation.reference(small, operands)
    found = backend.bind(small, environment, operands).call()
    allowed = tolerance(small.dtypes, operation.tolerance_dtype)
    wrong = disagreement(found, expected)
    if wrong <= allowed:
        return None
    return f"wrong result: differs from exact fp32 by {wrong:.1e} of the largest value, {allowed:.0e} allowed"


def tolerance(dtypes: Mapping[str, str], role: str) -> float:
    """Allowed disagreement: that of the role's dtype; fp8 operands are exact inputs, their result is 16-bit."""
    return TOLERANCE.get(dtypes[role], TOLERANCE["bf16"])
