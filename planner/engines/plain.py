"""Acceptance as a person, or `specplan acceptance read -o`, writes it in YAML or JSON.

One of `per_position`, `conditional`, `histogram`, `alpha`, `acceptance_length` (a number with `draft_len`, or a
mapping D: AL), `rate` with `draft_len`; beside it `steps`, `per_block`, `labels`; or `contexts: {tokens: {...}}` with
such a mapping for each context length.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from specplan.planner.acceptance.reading import Reading, positions_of, unconditional
from specplan.planner.engines.streams import number, numbers, whole
from specplan.planner.messages import Fault, InputError, KeyPath

ENGINE = "stated"
FORMS = ("per_position", "conditional", "histogram", "alpha", "acceptance_length", "rate", "contexts")
BESIDE = ("draft_len", "steps", "per_block", "labels", "drafted", "accepted", "source", "draft_fraction",
          "length_steps", "draft_s", "step_s", "engine")


def read_plain(document: Any) -> list[Reading] | None:
    """Readings of a parsed YAML or JSON document; None if it is of another form."""
    if not isinstance(document, dict):
        return None
    if "source_format" in document and "definition" in document:
        return [_stated(_from_canonical(document), ())]
    if any(name in document for name in FORMS):
        return [_stated(document, ())]
    return None


def _from_canonical(document: Mapping[str, Any]) -> dict[str, Any]:
    """The stated form of what `specplan acceptance read --json` prints: its fullest numbers and what is beside them."""
    known = {name: value for name, value in document.items() if value is not None}
    if "curve" in known:
        known["acceptance_length"] = known["curve"]
    elif "contexts" in known and isinstance(known["contexts"], dict):
        known["contexts"] = {context: _from_canonical(one) for context, one in known["contexts"].items()
                             if isinstance(one, dict)}
    order = ("contexts", "alpha", *(("acceptance_length",) if "curve" in known else ()), "histogram", "per_position",
             "acceptance_length")
    form = next((name for name in order if name in known), None)
    kept = {name: known[name] for name in BESIDE if name in known and name != "source"}
    return kept if form is None else {form: known[form], **kept}


def _stated(node: Mapping[str, Any], path: KeyPath) -> Reading:
    faults = [Fault((*path, str(key)), "unknown key; known are " + ", ".join(FORMS + BESIDE))
              for key in node if key not in FORMS + BESIDE]
    given = [name for name in FORMS if name in node]
    if len(given) != 1:
        faults.append(Fault(path, f"needs exactly one of {', '.join(FORMS)}; found {' and '.join(given) or 'none'}"))
    faults += [Fault((*path, name), f"{node[name]!r} is not a number of 0 or more")
               for name in ("steps", "draft_len", "drafted", "accepted", "draft_fraction", "draft_s", "step_s")
               if name in node and (number(node[name]) or -1.0) < 0 and number(node[name]) != 0]
    if faults:
        raise InputError(faults)
    labels = node.get("labels")
    length_steps, engine = node.get("length_steps"), node.get("engine")
    base = Reading(
        source_format="stated", engine=engine if isinstance(engine, str) else ENGINE,
        definition="as stated; AL counts the bonus token",
        draft_len=whole(node.get("draft_len")), steps=number(node.get("steps")) or None,
        drafted=number(node.get("drafted")), accepted=number(node.get("accepted")),
        per_block=node.get("per_block") is True, draft_fraction=number(node.get("draft_fraction")),
        draft_s=number(node.get("draft_s")), step_s=number(node.get("step_s")),
        length_steps=lengths_of(length_steps) if isinstance(length_steps, dict) else {},
        labels={str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {})
    return _form(base, given[0], node[given[0]], (*path, given[0]))


def _form(base: Reading, form: str, value: Any, path: KeyPath) -> Reading:
    if form == "contexts":
        if not isinstance(value, dict) or not all(isinstance(one, dict) and number(key) for key, one in value.items()):
            raise InputError([Fault(path, "must map context lengths in tokens to acceptance")])
        inner = tuple((number(key) or 0.0, _stated(one, (*path, str(key)))) for key, one in value.items())
        return dataclasses.replace(base, contexts=inner, definition="a curve per context length")
    if form in {"per_position", "conditional", "histogram"}:
        values = numbers(_counts(value) if isinstance(value, dict) and form == "histogram" else value)
        if not values:
            raise InputError([Fault(path, "must be a list of numbers")])
        return _listed(base, form, values, path)
    if form == "acceptance_length" and isinstance(value, dict):
        lengths = lengths_of(value)
        if not lengths:
            raise InputError([Fault(path, "must map draft lengths to acceptance lengths, or be one number")])
        last = max(lengths)
        return dataclasses.replace(base, lengths=lengths, draft_len=last, acceptance_length=lengths[last])
    single = number(value)
    if single is None:
        raise InputError([Fault(path, f"{value!r} is not a number")])
    return _single(base, form, single, path)


def _single(base: Reading, form: str, value: float, path: KeyPath) -> Reading:
    if form == "alpha":
        return dataclasses.replace(base, alpha=value, definition="one conditional acceptance for every position")
    if form == "rate":
        if base.draft_len is None:
            raise InputError([Fault((*path[:-1], "draft_len"), "is needed: a rate without D says nothing of AL")])
        if not 0 <= value <= 1:
            raise InputError([Fault(path, f"{value:g} is not between 0 and 1")])
        return dataclasses.replace(base, acceptance_length=1.0 + value * base.draft_len,
                                   definition="accepted / drafted where every step drafts D: AL = 1 + rate * D")
    return dataclasses.replace(base, acceptance_length=value)


def _counts(value: Mapping[Any, Any]) -> list[Any]:
    """{accepted: steps} as a list."""
    keys = {whole(key): count for key, count in value.items()}
    top = max((key for key in keys if key is not None and key <= 1024), default=-1)
    return [keys.get(j, 0) for j in range(top + 1)]


def _listed(base: Reading, form: str, values: Sequence[float], path: KeyPath) -> Reading:
    faults = [Fault((*path, k), f"{value:g} is not " + ("a number of steps" if form == "histogram" else
                                                         "between 0 and 1")) for k, value in enumerate(values)
              if value < 0 or (form != "histogram" and value > 1)]
    if form == "histogram" and (len(values) < 2 or sum(values) <= 0):
        faults.append(Fault(path, "needs D + 1 counts, and steps: how many steps accepted 0, 1, ... D drafts"))
    if faults:
        raise InputError(faults)
    if form == "histogram":
        steps = float(sum(values))
        rates = tuple(count / steps for count in positions_of(values))
        return dataclasses.replace(base, histogram=tuple(values), per_position=rates, steps=steps,
                                   acceptance_length=1.0 + sum(rates), draft_len=base.draft_len or len(rates),
                                   accepted=sum(j * n for j, n in enumerate(values)))
    rates = unconditional(values) if form == "conditional" else tuple(values)
    length = 1.0 + sum(rates)
    if base.steps and base.accepted is not None and abs(1.0 + base.accepted / base.steps - length) < 0.01:
        length = 1.0 + base.accepted / base.steps       # counts are exact, printed rates are rounded
    return dataclasses.replace(base, per_position=rates, acceptance_length=length,
                               draft_len=base.draft_len or len(rates))


def write_plain(reading: Reading) -> str:
    """A reading as YAML that cfg.yaml's `acceptance: {file: ...}` takes: one key a line, values as JSON."""
    head = "# written by specplan acceptance read; AL counts the bonus token, positions are unconditional"
    return "\n".join([head, *(f"{key}: {json.dumps(value)}" for key, value in _stated_form(reading).items())]) + "\n"


def _stated_form(reading: Reading) -> dict[str, Any]:
    form: dict[str, Any]
    if reading.contexts:
        form = {"contexts": {f"{context:g}": _stated_form(one) for context, one in reading.contexts}}
    elif reading.alpha is not None:
        form = {"alpha": reading.alpha}
    elif len(reading.lengths) > 1:
        form = {"acceptance_length": dict(sorted(reading.lengths.items()))}
        if reading.length_steps:
            form["length_steps"] = dict(sorted(reading.length_steps.items()))
    elif reading.histogram is not None:
        form = {"histogram": list(reading.histogram)}
    elif reading.per_position is not None:
        form = {"per_position": list(reading.per_position)}
    else:
        form = {"acceptance_length": reading.acceptance_length}
    form |= {name: value for name in BESIDE if (value := getattr(reading, name, None)) not in (None, False)
             and name not in {"labels", "length_steps"} and not (name == "draft_len" and len(reading.lengths) > 1)}
    if reading.labels:
        form["labels"] = dict(reading.labels)
    if reading.files:
        form["source"] = f"{reading.source_format}: {', '.join(reading.files)}"
    return form


def lengths_of(value: Mapping[Any, Any]) -> dict[int, float]:
    """{D: AL}; empty where a key is no whole number or a value no number."""
    result = {whole(key): number(one) for key, one in value.items()}
    if any(key is None or not 0 <= key <= 1024 or one is None for key, one in result.items()):
        return {}
    return {key: one for key, one in result.items() if key is not None and one is not None}
