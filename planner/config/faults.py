"""What pydantic found wrong, as faults for people: key path, what stands there, what is wanted, nearest name."""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from specplan.planner.messages import Fault, KeyPath, nearest

_WANTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "string_type": "text", "bool_type": "true or false", "tuple_type": "a list", "model_type": "a mapping",
    "model_attributes_type": "a mapping", "dict_type": "a mapping", "finite_number": "a finite number",
}
_LIMITS = {
    "greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"), "less_than_equal": ("le", "at most"),
}


def shown(value: Any) -> str:
    """Say in a few characters what a value is.

    >>> shown("abc"), shown(None), shown(True), shown([1]), shown({})
    ("'abc'", 'nothing', 'true', 'a list', 'a mapping')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value)
    return text if len(text) <= 40 else text[:36] + "..." + (text[0] if isinstance(value, str) else "")


def faults_of(error: ValidationError, schema: type[BaseModel]) -> list[Fault]:
    """All that `error` holds, in the order of the schema."""
    return [Fault(item["loc"], _message(item, schema)) for item in error.errors(include_url=False)]


def _message(item: ErrorDetails, schema: type[BaseModel]) -> str:
    kind, context, found = item["type"], item.get("ctx", {}), item["input"]
    if kind == "missing":
        return "is required"
    if kind in {"extra_forbidden", "invalid_key"}:
        return "unknown key" + nearest(str(item["loc"][-1]), _keys(schema, item["loc"][:-1]))
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        hint = nearest(found, allowed) if isinstance(found, str) else ""
        return f"must be {context['expected'].replace(chr(39), '')}, not {shown(found)}{hint}"
    if kind in {"too_long", "too_short"}:
        most = kind == "too_long"
        limit = context["max_length" if most else "min_length"]
        return f"must hold at {'most' if most else 'least'} {limit} {'items' if limit > 1 else 'item'}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"must be {words} {context[name]:g}, not {shown(found)}"
    wanted = _WANTED.get(kind)
    return f"must be {wanted}, not {shown(found)}" if wanted else item["msg"]


def _keys(schema: type[BaseModel], path: KeyPath) -> list[str]:
    """Keys that the schema knows at `path`."""
    for part in path:
        if isinstance(part, str) and part in schema.model_fields:
            inner = _model_inside(schema.model_fields[part].annotation)
            if inner is None:
                return []
            schema = inner
    return list(schema.model_fields)


def _model_inside(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_inside(part)) is not None), None)
