"""Measure one point: check the kernel, lay out its buffers, time it; whatever goes wrong becomes a reason to skip."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field

from specplan.microbench.backends import Bound, check_backend
from specplan.microbench.environment import device_state
from specplan.microbench.measurements import Environment, Measurement, environment_id
from specplan.microbench.operands import OPERATIONS, Operands
from specplan.microbench.sweep_plan import Point
from specplan.microbench.timing import StopRule, buffer_sets, measure
from specplan.planner.messages import Note

MEMORY_SHARE = 0.6      # of the device that rotating buffers may take; operands are drawn and laid out beside them
UNSTABLE = 0.10         # spread of the reference point that is worth a warning
CHECKED = ("query_len", "heads", "head_dim", "value_width", "matrices")


@dataclass(slots=True)
class Bench:
    """What one run of a sweep remembers between points: which kernels were found right or wrong."""

    environment: Environment
    rule: StopRule = field(default_factory=StopRule)
    verdicts: dict[str, str | None] = field(default_factory=dict)


def measure_point(point: Point, bench: Bench, *, at_s: float, reference: bool = False) -> Measurement:
    """One measurement, timed or skipped with its reason. Never raises for what a kernel does."""
    try:
        reason = point.backend.refuses(point.case, bench.environment) or _verdict(point, bench)
        if reason is not None:
            return _record(point, bench, at_s=at_s, skipped=reason)
        return _timed(point, bench, at_s, reference)
    except Exception as error:
        _release(bench.environment.device)
        return _record(point, bench, at_s=at_s, skipped=_reason(point, error))


def _timed(point: Point, bench: Bench, at_s: float, reference: bool) -> Measurement:
    import torch

    case, environment = point.case, bench.environment
    sets = buffer_sets(bytes_per_set=case.bytes, cache_bytes=environment.cache_bytes, device=environment.device,
                       cold=case.cold)
    needed = sets * case.bytes
    limit = MEMORY_SHARE * environment.memory_bytes
    if needed > limit:
        return _record(point, bench, at_s=at_s, skipped=_too_large(needed, limit))
    torch.manual_seed(0)
    device = torch.device(environment.device)
    drawn = OPERATIONS[case.op].operands(case, device)
    # the other sets hold the same numbers elsewhere in memory: drawing takes longer than timing
    bound: list[Bound] = [point.backend.bind(case, environment, drawn if index == 0 else _copied(drawn))
                          for index in range(sets)]
    del drawn
    calls: list[Callable[[], object]] = [one.call for one in bound]
    found = measure(lambda index: calls[index](), sets=sets, device=environment.device, rule=bench.rule)
    return _record(
        point, bench, at_s=at_s, samples_s=found.seconds, calls_per_sample=found.calls_per_sample, stop=found.stop,
        tile=bound[0].tile, reference=reference, state=device_state(environment) if reference else {},
    )


def _copied(operands: Operands) -> Operands:
    return {name: tensor.clone() for name, tensor in operands.items()}


def _verdict(point: Point, bench: Bench) -> str | None:
    """What is wrong with the kernel's result on cases of this kind; computed once per kind."""
    case = point.case
    group = case.shape["query_heads"] // case.shape["kv_heads"] if case.op == "attention" else 0
    checked = () if case.op in {"gemm", "lm_head"} else CHECKED
    kind = [f"{name}={case.shape[name]}" for name in checked if name in case.shape]
    key = " ".join([point.backend.name, case.op, *kind, f"group={group}", *map(str, case.dtypes.items()),
                    *map(str, case.options.items())])
    if key not in bench.verdicts:
        bench.verdicts[key] = check_backend(point.backend, case, bench.environment)
    return bench.verdicts[key]


def _record(point: Point, bench: Bench, *, at_s: float, **found: object) -> Measurement:
    case = point.case
    return Measurement(
        op=case.op, kernel=point.backend.name, shape=case.shape, dtypes=case.dtypes, flop=case.flop, bytes=case.bytes,
        environment=environment_id(bench.environment), options=case.options, cold=case.cold, at_s=round(at_s, 3),
        **found,  # type: ignore[arg-type]
    )


def _too_large(needed: float, limit: float) -> str:
    return f"out of memory: its buffers take {needed / 1e9:.1f} GB, {limit / 1e9:.1f} GB are there for them"


def _reason(point: Point, error: Exception) -> str:
    text = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text.lower():
        return f"out of memory at {point.case.bytes / 1e9:.2f} GB of operands"
    return f"{type(error).__name__}: {text}"


def _release(device: str) -> None:
    """Give memory back after a failure: what the traceback held, and torch's cache."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def unstable(references: list[Measurement]) -> Note | None:
    """A warning where the repeats of the reference point spread more than the drift that a sweep tolerates."""
    medians = [point.median_s for point in references if point.samples_s]
    if len(medians) < 2:
        return None
    spread = max(medians) / min(medians) - 1.0
    if spread <= UNSTABLE:
        return None
    return Note("unstable-machine", f"the reference point took from {min(medians) * 1e6:.0f} to "
                                    f"{max(medians) * 1e6:.0f} us over the run ({spread:.0%} spread): something else "
                                    "ran beside it; close it and run again for better numbers")
