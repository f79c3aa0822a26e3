"""What pydantic found wrong, as faults for people: key path, what stands there, what is wanted, nearest name."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from specplan.planner.messages import Fault, KeyPath, nearest

_WANTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "string_type": "text", "bool_type": "true or false", "tuple_type": "a list", "model_type": "a mapping",
    "model_attributes_type": "a mapping", "dict_type": "a mapping", "finite_number": "a finite number",
}
_MEANT = {  # number formats by the name of a method or of a kind of file
    "int4": "; 4-bit weights with 16-bit activations are 'w4a16', with a scale per 32 'w4a16_g32'",
    "awq": "; AWQ and GPTQ store 'w4a16'", "gptq": "; AWQ and GPTQ store 'w4a16'",
    "gguf": "; name the format of the file's weights, such as 'q4_k_m' or 'q8_0'",
    "fp4": "; there are 'nvfp4' and 'mxfp4'",
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
        return "unknown key" + _meant(str(item["loc"][-1]), found, _schema_at(schema, item["loc"][:-1]))
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        hint = (_MEANT.get(found.lower()) or nearest(found, allowed)) if isinstance(found, str) else ""
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


def _meant(name: str, value: Any, schema: type[BaseModel] | None) -> str:
    """The key that was meant: this very one in a part one level down, or one like it here."""
    inside = _parts_with(name, schema)
    if not inside:
        return nearest(name, list(schema.model_fields) if schema else [])
    text = "..." if isinstance(value, bool) or not isinstance(value, int | float | str) else str(value)
    return "; did you mean " + " or ".join(f"`{part}: {{{name}: {text}}}`" for part in inside) + "?"


def _schema_at(schema: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """What the schema knows at `path`."""
    for part in path:
        if isinstance(part, str) and part in schema.model_fields:
            inner = _model_inside(schema.model_fields[part].annotation)
            if inner is None:
                return None
            schema = inner
    return schema


def _parts_with(name: str, schema: type[BaseModel] | None) -> list[str]:
    """Parts one level down that know a key: `tp` belongs under `parallel`. Parts that are lists are left out."""
    found = []
    for part, field in schema.model_fields.items() if schema else ():
        listed = any(get_origin(kind) is tuple for kind in (field.annotation, *get_args(field.annotation)))
        inner = None if listed else _model_inside(field.annotation)
        if inner is not None and name in inner.model_fields:
            found.append(part)
    return found


def _model_inside(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_inside(part)) is not None), None)
