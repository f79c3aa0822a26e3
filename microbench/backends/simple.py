"""What is no kernel of its own: a copy through memory, and the least that a launch costs."""

from __future__ import annotations

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.cases import Case
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands


def _bind_copy(case: Case, environment: Environment, operands: Operands) -> Bound:
    del case, environment
    source, target = operands["source"], operands["target"]
    return Bound(call=lambda: target.copy_(source))


def _bind_launch(case: Case, environment: Environment, operands: Operands) -> Bound:
    del case, environment
    one = operands["one"]
    return Bound(call=lambda: one.add_(1.0))


BACKENDS = (
    Backend(name="torch-copy", ops=("copy",), devices=("cuda", "cpu"), bind=_bind_copy),
    Backend(name="torch-add", ops=("launch",), devices=("cuda", "cpu"), bind=_bind_launch),
)
