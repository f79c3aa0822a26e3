"""Which (mechanism, D, max batch, TP) meets a latency target: fewest GPUs first, then the highest rate on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specplan.planner.answer.load_types import LoadRow, SloAnswer
from specplan.planner.answer.loads import Load
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.ways import Way, ways_of
from specplan.planner.decide.load import saturation_rate
from specplan.planner.decide.slo import Target, highest_rate, tpot_limit

SMALLEST = 4            # slots, where none are stated
PER_DRAFTER = 2         # draft lengths per drafter and slots that are looked at in full
Row = Callable[[Way, Load, float | None], LoadRow]


def plan_for(question: Question, load: Load, target: Target, row_of: Row) -> SloAnswer:
    """Search all options, most promising first: TPOT alone bounds the rate that an option can reach."""
    found = list(_options(question, load))
    bounded = [(tpot_limit(way.replica, target), way) for way in found]
    kept = sorted(_promising(bounded), key=lambda item: (item[1].replica.gpus, -item[0]))
    best: tuple[float, Way] | None = None
    for bound, way in kept:
        if best is not None and (way.replica.gpus > best[1].replica.gpus or bound <= best[0]):
            continue
        reached = highest_rate(way.replica, target, bound)
        if reached <= (0.0 if best is None else best[0]):
            continue
        if load.request_rate is not None and reached < load.request_rate:
            continue
        if load.concurrency is not None and not row_of(way, load, None).meets_target:
            continue
        best = reached, way
    if best is not None:
        rate = None if load.request_rate is not None or load.concurrency is not None else best[0]
        row = row_of(best[1], load, rate)
        return SloAnswer(
            percentile=target.percentile, tpot_s=target.tpot_s, ttft_s=target.ttft_s, met=True, choice=row,
            highest_rate=best[0], nearest=None, binds=None, finding=_met(best[1], best[0], load),
        )
    return _nearest(kept, load, target, row_of)


def _nearest(kept: list[tuple[float, Way]], load: Load, target: Target, row_of: Row) -> SloAnswer:
    asked = load.request_rate is not None or load.concurrency is not None
    rows = [
        (_excess(row, target), row_index, row, way)
        for row_index, (_, way) in enumerate(kept)
        for row in [row_of(way, load, None if asked else 0.05 * saturation_rate(way.replica))]
    ]
    _, _, row, way = min(rows, key=lambda item: item[:2])
    figures = []
    if target.tpot_s is not None:
        figures.append(f"TPOT {row.tpot_top_s * 1e3:.1f} ms of {target.tpot_s * 1e3:g} allowed")
    if target.ttft_s is not None:
        found = "without end" if row.ttft_top_s is None else f"{row.ttft_top_s * 1e3:.0f} ms"
        figures.append(f"TTFT {found} of {target.ttft_s * 1e3:g} allowed")
    where = "at this load" if asked else "even when nearly idle"
    text = (
        f"no option meets the target {where}: {row.binds} binds; nearest is {_name(way)} with "
        f"{', '.join(figures)} (p{target.percentile:g})"
    )
    if not row.carries:
        text += f"; it carries {row.saturation_rate:.2f} requests/s"
    return SloAnswer(
        percentile=target.percentile, tpot_s=target.tpot_s, ttft_s=target.ttft_s, met=False, choice=None,
        highest_rate=None, nearest=row, binds=row.binds, finding=text,
    )


def _excess(row: LoadRow, target: Target) -> float:
    ratios = [0.0 if row.carries else row.request_rate / row.saturation_rate * 1e3]
    if target.tpot_s is not None:
        ratios.append(row.tpot_top_s / target.tpot_s)
    if target.ttft_s is not None:
        ratios.append(float("1e6") if row.ttft_top_s is None else row.ttft_top_s / target.ttft_s)
    return max(ratios)


def _options(question: Question, load: Load) -> Iterator[Way]:
    """Every way at every number of slots and every TP."""
    most = max((load.slots, *load.max_batches)) if load.max_batches else load.slots
    for tp in load.tps or (question.deployment.tp,):
        for way in ways_of(question, load, slots=most, tp=tp):
            room = way.replica.max_batch
            asked = load.max_batches or _powers(room)
            for slots in sorted({min(slots, room) for slots in asked}):
                yield way.with_slots(slots)


def _promising(bounded: list[tuple[float, Way]]) -> Iterator[tuple[float, Way]]:
    """The best draft lengths of each (TP, slots, drafter)."""
    groups: dict[tuple[int, int, str | None], list[tuple[float, Way]]] = {}
    for bound, way in bounded:
        groups.setdefault((way.tp, way.replica.max_batch, way.drafter), []).append((bound, way))
    for group in groups.values():
        yield from sorted(group, key=lambda item: -item[0])[:PER_DRAFTER]


def _powers(room: int) -> list[int]:
    return [*(1 << power for power in range(2, room.bit_length()) if SMALLEST <= 1 << power < room), room]


def _name(way: Way) -> str:
    return f"{way.label}, at most {way.replica.max_batch} sequences, TP {way.tp}"


def _met(way: Way, rate: float, load: Load) -> str:
    text = f"{_name(way)} meets the target up to {rate:.2f} requests/s"
    if load.request_rate is not None:
        text += f"; {load.request_rate:g} are asked"
    return text
