"""The answer under a load: each way at its best D, what carries the rate, and in words where that ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from specplan.planner.answer.load_types import Check, LoadAnswer, LoadRow, wait_of
from specplan.planner.answer.loads import Load
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.room import shortage
from specplan.planner.answer.slo_plan import plan_for
from specplan.planner.answer.ways import Way, ways_of
from specplan.planner.arrays import Array
from specplan.planner.decide.choose import TIE, Objective
from specplan.planner.decide.load import Replica, SteadyState, closed_loop, saturation_rate, steady_state
from specplan.planner.decide.simulate import Requests, poisson_requests, simulate
from specplan.planner.messages import SpecplanError

PERCENTILE = 99.0
SECONDS_PER_HOUR = 3600.0
SIMULATED_REQUESTS = 8000
CARRIED = 0.9           # of saturation: where a load without a rate is looked at


def load_answer(question: Question) -> LoadAnswer | None:
    """Steady state of off and of each drafter under the load of a question; None where no load was stated."""
    load = question.load
    if load is None:
        return None
    found = ways_of(question, load)
    if not found:
        context = round(load.context_tokens)
        missing = shortage(question.target, question.deployment, 1, context)
        raise SpecplanError(f"nothing is feasible: not one sequence of {context} tokens fits; {missing}")
    best = [best_of(ways, load, question.objective) for ways in _by_drafter(found)]
    rows = [row_of(way, load) for way in best]
    rows.sort(key=lambda row: _order(row, question.objective))
    unknown = tuple(option.drafter.name for option in question.options if option.acceptance is None)
    return LoadAnswer(
        request_rate=load.request_rate,
        concurrency=load.concurrency,
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        input_variation=load.input_variation,
        output_variation=load.output_variation,
        prefix_hit=load.prefix_hit,
        context_tokens=load.context_tokens,
        prefill_s=found[0].replica.prefill_s,
        disaggregated=load.disaggregated,
        percentile=percentile(load),
        price_per_gpu_hour=load.price_per_gpu_hour,
        rows=tuple(rows),
        finding=_finding(rows, load, unknown),
        unknown=unknown,
        slo=None if load.target is None else plan_for(question, load, load.target, row_of),
    )


def checked_by_simulation(
    question: Question, *, seed: int = 0, requests: int = SIMULATED_REQUESTS,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[Check, ...]:
    """Simulate off and the best way of each drafter at the rate asked, or just below what it carries."""
    load = question.load
    assert load is not None
    checks = []
    for way in (best_of(ways, load, question.objective) for ways in _by_drafter(ways_of(question, load))):
        rate = min(load.request_rate or math.inf, CARRIED * saturation_rate(way.replica))
        state = steady_state(way.replica, rate, percentile(load))
        served = poisson_requests(way.replica, rate, requests=requests, variation=load.output_variation, seed=seed)
        if load.trace is not None:
            served = _drawn_from(load.trace, served, way.replica, load, seed)
        report = None if progress is None else (lambda share, way=way: progress(way.label, share))
        found = simulate(way.replica, way.survival, served, percentile=percentile(load), seed=seed, progress=report)
        checks.append(
            Check(
                label=f"{way.label} at {rate:.2f} requests/s",
                requests=found.requests,
                seed=seed,
                tpot_s=found.tpot_s,
                tpot_closed_s=float(state.tpot_s[0]),
                ttft_s=found.ttft_s,
                ttft_closed_s=_finite(state.ttft_s[0]),
                tokens_per_s=found.tokens_per_s,
                tokens_per_s_closed=float(state.tokens_per_s_per_gpu[0]) * way.replica.gpus,
                mean_batch=found.mean_batch,
                mean_batch_closed=float(state.mean_batch[0]),
            )
        )
    return tuple(checks)


def _drawn_from(trace: Array, served: Requests, replica: Replica, load: Load, seed: int) -> Requests:
    """The same arrivals with prompts and answers of requests of the trace, prompt and answer together."""
    rows = np.random.default_rng(seed).integers(0, trace.shape[1], served.arrival_s.size)
    inputs, outputs = trace[:, rows]
    grows = replica.prefill_variation / load.input_variation if load.input_variation > 0 else 0.0
    prefill_s = replica.prefill_s * (1.0 + grows * (inputs / load.input_tokens - 1.0))
    return Requests(arrival_s=served.arrival_s, output_tokens=outputs, prefill_s=prefill_s)


def percentile(load: Load) -> float:
    """The percentile that figures are given at."""
    return PERCENTILE if load.target is None else load.target.percentile


def state_of(way: Way, load: Load) -> SteadyState:
    """Steady state at the rate or the number of users asked; without either, just below saturation."""
    if load.concurrency is not None:
        return closed_loop(way.replica, load.concurrency, percentile(load))
    rate = load.request_rate or CARRIED * saturation_rate(way.replica)
    return steady_state(way.replica, rate, percentile(load))


def best_of(ways: list[Way], load: Load, objective: Objective) -> Way:
    """Best D of one drafter: the smallest within 1 % of the best, among those that carry the rate if any does."""
    if load.request_rate is None and load.concurrency is None:
        value = [saturation_rate(way.replica) for way in ways]
    else:
        states = [state_of(way, load) for way in ways]
        carrying = [bool(state.stable[0]) or load.concurrency is not None for state in states]
        if not any(carrying) or (objective == "throughput" and load.concurrency is None):
            value = [saturation_rate(way.replica) for way in ways]
        elif objective == "throughput":
            value = [float(state.request_rate[0]) for state in states]
        else:
            value = [1.0 / float(s.tpot_s[0]) if carried else 0.0 for s, carried in zip(states, carrying, strict=True)]
    top = max(value)
    return next(way for way, each in zip(ways, value, strict=True) if each >= top / (1.0 + TIE))


def row_of(way: Way, load: Load, rate: float | None = None) -> LoadRow:
    """One way under the load, or at another rate."""
    state = state_of(way, load) if rate is None else steady_state(way.replica, rate, percentile(load))
    carries = load.concurrency is not None or bool(state.stable[0])
    meets = binds = None
    if load.target is not None:
        excess, binds = load.target.excess(state)
        meets = carries and excess <= 1.0
        binds = None if meets else binds if carries else "saturation"
    per_gpu = float(state.tokens_per_s_per_gpu[0])
    price = load.price_per_gpu_hour
    first = (None, None, None) if load.disaggregated else (
        _finite(state.ttft_s[0]), _finite(state.ttft_p50_s[0]), _finite(state.ttft_top_s[0])
    )
    return LoadRow(
        mechanism=way.mechanism,
        drafter=way.drafter,
        draft_len=way.draft_len,
        tp=way.tp,
        max_batch=way.replica.max_batch,
        acceptance_length=way.replica.emitted,
        saturation_rate=state.saturation_rate,
        carries=carries,
        request_rate=float(state.request_rate[0]),
        mean_batch=float(state.mean_batch[0]),
        mean_waiting=_finite(state.mean_waiting[0]),
        tpot_s=float(state.tpot_s[0]),
        tpot_p50_s=float(state.tpot_p50_s[0]),
        tpot_top_s=float(state.tpot_top_s[0]),
        step_gap_p50_s=float(state.step_gap_p50_s[0]),
        step_gap_top_s=float(state.step_gap_top_s[0]),
        ttft_s=first[0],
        ttft_p50_s=first[1],
        ttft_top_s=first[2],
        request_s=_finite(state.request_s[0]),
        request_p50_s=_finite(state.request_p50_s[0]),
        request_top_s=_finite(state.request_top_s[0]),
        tokens_per_s_per_user=1.0 / float(state.tpot_s[0]),
        tokens_per_s_per_gpu=per_gpu,
        cost_per_million_tokens=None if price is None else price / SECONDS_PER_HOUR / per_gpu * 1e6,
        meets_target=meets,
        binds=binds,
    )


def _by_drafter(found: Iterable[Way]) -> list[list[Way]]:
    groups: dict[str | None, list[Way]] = {}
    for way in found:
        groups.setdefault(way.drafter, []).append(way)
    return list(groups.values())


def _order(row: LoadRow, objective: Objective) -> tuple[bool, float]:
    return not row.carries, row.tpot_s if objective == "latency" and row.carries else -row.saturation_rate


def label_of(row: LoadRow) -> str:
    """How people call a row."""
    if row.drafter is None:
        return "off"
    mechanism = str(row.mechanism)
    name = row.drafter if mechanism in row.drafter else f"{mechanism} {row.drafter}"
    return f"{name} D = {row.draft_len}"


def _finding(rows: list[LoadRow], load: Load, unknown: tuple[str, ...]) -> str:
    text = _carried(rows, load)
    wait = wait_of(rows[0]) if rows[0].carries and load.target is None else ""
    text += f", but {wait}" if wait else ""
    return f"acceptance of {', '.join(unknown)} unknown; {text}" if unknown else text


def _carried(rows: list[LoadRow], load: Load) -> str:
    best = rows[0]
    off = next((row for row in rows if row.drafter is None), None)
    most = max(rows, key=lambda row: row.saturation_rate)
    if load.concurrency is not None:
        return (
            f"{load.concurrency} users get {best.tokens_per_s_per_user:.0f} tokens/s each with {label_of(best)}: "
            f"{best.request_rate:.2f} requests/s in all" + _beside(best, off)
        )
    name = label_of(best)
    if load.request_rate is not None and not best.carries:
        return (
            f"{load.request_rate:g} requests/s are more than any option carries: the most is "
            f"{most.saturation_rate:.2f} requests/s, with {label_of(most)}"
        )
    text = f"with {name} this deployment carries {best.saturation_rate:.2f} requests/s"
    if most is not best and most.saturation_rate > best.saturation_rate * (1.0 + TIE):
        return f"{text}; above that {label_of(most)} carries {most.saturation_rate:.2f}"
    if off is not None and off is not best:
        return f"{text}; off carries {off.saturation_rate:.2f}"
    return text


def _beside(best: LoadRow, off: LoadRow | None) -> str:
    if off is None or off is best:
        return ""
    return f"; off {off.tokens_per_s_per_user:.0f} tokens/s each, {off.request_rate:.2f} requests/s"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
