"""JSON Schema of cfg.yaml, with the explanation under each key of schema.py as its description."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from specplan.planner.config import schema


def json_schema() -> dict[str, Any]:
    """What editors need to complete and check a cfg.yaml."""
    found: dict[str, Any] = schema.Config.model_json_schema()
    explained = _explanations()
    for name, part in [("Config", found), *found["$defs"].items()]:
        for key, text in explained.get(name, {}).items():
            part["properties"][key]["description"] = text
    # a load may leave out batches and contexts (schema.py fills them in)
    workload = found["$defs"]["Workload"]
    loads = [["request_rate"], ["concurrency"], ["slo"]]
    workload["anyOf"] = [{"required": keys} for keys in (workload.pop("required"), *loads)]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "specplan cfg.yaml"}


def _explanations() -> dict[str, dict[str, str]]:
    """The string below each field, by class; read from the source because collecting them at import takes 30 ms."""
    module = ast.parse(Path(schema.__file__).read_text(encoding="utf-8"))
    return {node.name: _of_class(node) for node in module.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for line, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(below, ast.Expr):
            found[line.target.id] = str(ast.literal_eval(below.value))
    return found
