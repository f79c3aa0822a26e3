"""One serial pass of a small drafter, as the sum of its kernels meets it: small kernels and host included."""

from __future__ import annotations

from specplan.microbench.backends import Backend, Bound
from specplan.microbench.backends.matrix import onednn_absent
from specplan.microbench.cases import Case
from specplan.microbench.decode_step import Shape, build, fill_cache, step
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import Operands


def _bind(case: Case, environment: Environment, operands: Operands) -> Bound:
    del operands
    size = case.shape
    shape = Shape(layers=size["layers"], hidden=size["hidden"], intermediate=size["intermediate"], matrices=3,
                  query_heads=size["query_heads"], kv_heads=size["kv_heads"], head_dim=size["head_dim"],
                  vocab=size["vocab"])
    network = build(shape, environment, case.dtypes["weight"])
    cache = fill_cache(network, batch=size["batch"], context_tokens=size["context_tokens"], spare=1)
    return Bound(call=step(network, cache, batch=size["batch"], query_len=1))


def _absent(environment: Environment) -> str | None:
    if environment.device == "cpu":
        return onednn_absent(environment)
    return None if environment.triton is not None else "triton is not installed: pip install triton"


BACKENDS = (Backend(name="torch-step", ops=("draft_step",), devices=("cuda", "cpu"), bind=_bind, absent=_absent),)
