"""What a row measured: speedup against plain decoding, rates, and acceptance; or the reason why that is not known."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from specplan.planner.fact import fact
from specplan.planner.validate.collection import Case, number
from specplan.planner.validate.names import first_number, words

RATES = ("tokens_per_s", "tokens_per_s_user", "tokens_per_s_gpu")
SAME_POINT = ("batch", "dataset", "isl", "osl", "context", "target", "gpu", "tp", "n_gpus")
CONTRADICTION = 0.10        # |ln| between a stated speedup and the one of its own columns
_SPECULATIVE_BASE = re.compile(r"\bd\s*=\s*\d|strict|mtp[- ]?\d|eagle|with spec|dflash|chain", re.IGNORECASE)
_NO_SPECULATION = re.compile(r"\bno\b|without|vanilla|off|baseline|non[- ]spec", re.IGNORECASE)
_REQUEST_METRIC = re.compile(r"latency|run ?time|ttft|e2e|pareto|qps", re.IGNORECASE)


@fact
class Measured:
    """Figures of one row. `speedup` is 1 for an off row; rates are tokens per second of one replica or one user."""

    speedup: float | None
    off_rate: float | None = None       # of the baseline, in the row's own unit
    rate: float | None = None
    unit: str = ""                      # the column of the rates
    contradiction: str = ""


def refusal_of_row(case: Case, row: Mapping[str, Any]) -> str:
    """Why a row holds no figure that a step-time model predicts; empty if it does."""
    if "speedup" not in row and not any(key in row for key in (*RATES, "tpot_ms")):
        return "no speedup and no rate in the row"
    for key in ("speedup", "batch", "tpot_ms", *RATES):
        value = number(row.get(key))
        if value is not None and value <= 0:
            return f"{key} {value:g} is impossible"
    if row.get("p_min") not in (None, 0, 0.0):
        return "drafting stops early (p_min): the draft length varies from step to step"
    if _REQUEST_METRIC.search(case.text("primary_metric")) and not any(key in row for key in (*RATES, "tpot_ms")):
        return f"the metric is '{case.text('primary_metric')}', neither decoding nor throughput"
    if " vs " in case.text("weight_dtype"):
        return f"baseline and speculation differ in more than speculation ('{case.text('weight_dtype')}')"
    return ""


def measured(case: Case, row: Mapping[str, Any], index: int) -> Measured | str:
    """Speedup and rates of a row, or why there is none."""
    is_off = number(row.get("D")) == 0
    unit = next((key for key in RATES if number(row.get(key)) is not None), "")
    rate = number(row.get(unit)) if unit else None
    if rate is None and number(row.get("tpot_ms")):
        unit, rate = "tokens_per_s_user", 1e3 / float(number(row.get("tpot_ms")) or math.nan)
    if is_off:
        return Measured(speedup=1.0, off_rate=rate, rate=rate, unit=unit)
    base = row.get("baseline")
    if isinstance(base, str) and _SPECULATIVE_BASE.search(base) and not _NO_SPECULATION.search(base):
        return f"its baseline speculates too ('{base}')"
    off_rate = number(base)
    if off_rate is not None and off_rate <= 0:
        return f"baseline {off_rate:g} is impossible"
    if off_rate is None and not isinstance(base, str):
        off_rate = _off_row(case, row, index, unit)
    stated = number(row.get("speedup"))
    if off_rate is not None and rate is not None:
        own = rate / off_rate
        if stated is None:
            return Measured(speedup=own, off_rate=off_rate, rate=rate, unit=unit)
        if abs(math.log(own / stated)) > CONTRADICTION:
            text = f"states speedup {stated:g}, its own columns give {own:.3g}"
            return f"contradictory baseline: {text}"
    if stated is None:
        return "no baseline: neither a speedup nor an off row at the same point"
    if rate is None and off_rate is not None:
        rate = stated * off_rate
    return Measured(speedup=stated, off_rate=off_rate, rate=rate, unit=unit)


def _off_row(case: Case, row: Mapping[str, Any], index: int, unit: str) -> float | None:
    """Rate of the off row at the same point of the same case."""
    point = {key: row.get(key) for key in SAME_POINT}
    for other, values in enumerate(case.rows):
        if other != index and number(values.get("D")) == 0 and {k: values.get(k) for k in SAME_POINT} == point:
            rate = number(values.get(unit)) if unit else None
            if rate is None and unit == "tokens_per_s_user" and number(values.get("tpot_ms")):
                rate = 1e3 / float(number(values.get("tpot_ms")) or math.nan)
            if rate is not None and rate > 0:
                return rate
    return None


def draft_len(case: Case, row: Mapping[str, Any], mechanism: str, assumed: list[str]) -> int | None:
    """D of the row, or as its configuration or its drafter's name says."""
    stated = number(row.get("D"))
    if stated is not None:
        return int(stated)
    texts = (str(row.get("cfg") or ""), str(row.get("drafter") or ""), case.text("drafter"), case.text("mechanism"))
    if mechanism in ("dflash", "dspark"):
        mine = tuple(_about(text, mechanism) for text in texts)
        block = first_number((r"block(?: size)?[ =]*(\d+)", r"\bb(\d+)\b", r"\bN\s*=\s*(\d+)"), *mine)
        found = None if block is None else block - 1 if mechanism == "dflash" else block
    else:
        patterns = [r"\bD\s*=\s*(\d+)", r"\bk\s*=\s*(\d+)", r"(\d+)\s*steps", r"(\d+)[- ]token drafts?"]
        patterns += [r"\bmtp[- ]?(\d+)"] if mechanism == "mtp" else []
        found = first_number(patterns, *texts)
    if found is not None:
        assumed.append("draft length from the drafter's name")
    return found


def _about(text: str, mechanism: str) -> str:
    """The part of a text that speaks of a mechanism ('MTP (steps not stated) vs DFlash block 16')."""
    parts = re.split(r"\bvs\b|/|;", text)
    mine = [part for part in parts if mechanism in words(part).replace(" ", "")]
    return " ".join(mine) if mine else (text if len(parts) == 1 else "")


def accepted(row: Mapping[str, Any], drafted: int, *, tree: bool, lookup: bool) -> tuple[float | str | None, str]:
    """Acceptance length of a row and the form it came in; a text where the numbers are impossible.

    A rate of accepted / drafted tokens gives AL only where every step drafts D tokens in a chain: not for trees, and
    not for lookups, which draft in an unknown share of the steps.
    """
    if drafted == 0:
        return 1.0, "acceptance_length"
    form = "acceptance_length"
    length = next((value for key in ("AL", "AL_derived", "AL_from_traces", "acceptance_length")
                   if (value := number(row.get(key))) is not None), None)
    shares = row.get("per_position_accept")
    if length is None and isinstance(shares, list) and len(shares) >= drafted:
        values = [number(share) for share in shares[:drafted]]
        if all(value is not None for value in values):
            length, form = 1.0 + sum(value or 0.0 for value in values), "per_position"
    rate = number(row.get("accept_rate"))
    if length is None and rate is not None and not tree and not lookup:
        if not 0.0 <= rate <= 1.0:
            return f"acceptance rate {rate:g} is not a share", "rate"
        length, form = 1.0 + rate * drafted, "rate"
    if length is None:
        return None, "none"
    if length < 1.0 - 1e-9 or length > drafted + 1.0 + 1e-9:
        return f"acceptance length {length:g} is impossible at D = {drafted}", form
    return length, form
