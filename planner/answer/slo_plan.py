"""Which (mechanism, D, max batch, TP) meets a latency target: fewest GPUs first, then the highest rate on them.

An option meets the target where its row under the load asked does. Without a rate, the rate is the highest at which it
does; of users who ask again at once, the rate that they make. Of those within 1 % of the highest, or 5 % where a lower
rate is asked, the one that carries most: the closed form cannot tell them apart, and the room is worth having.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from specplan.planner.answer.load_types import LoadRow, SloAnswer, wait_of
from specplan.planner.answer.loads import Load
from specplan.planner.answer.resolve import Question
from specplan.planner.answer.ways import Way, ways_of
from specplan.planner.decide.choose import TIE
from specplan.planner.decide.slo import Target, highest_rate, lowest_rate, meets, top_rate, tpot_limit

PER_DRAFTER = 2         # draft lengths per drafter that are looked at in full
SAME = 0.05             # of the highest rate: what the closed form is held to
Row = Callable[[Way, Load, float | None], LoadRow]


def plan_for(question: Question, load: Load, target: Target, row_of: Row) -> SloAnswer:
    """Search all options on the fewest GPUs, then on more until one meets the target."""
    most = max((load.slots, *load.max_batches)) if load.max_batches else load.slots
    tried: list[tuple[float, Way]] = []
    for tp in sorted(set(load.tps)) or [question.deployment.tp]:
        ways = ways_of(question, load, slots=most, tp=tp)
        here = list(_options(ways, load, target, row_of))
        tried += here
        found = _best(here, load, row_of)
        if found is not None:
            rate, way, row = found
            return SloAnswer(
                percentile=target.percentile, tpot_s=target.tpot_s, ttft_s=target.ttft_s, met=True, choice=row,
                highest_rate=rate, nearest=None, binds=None, finding=_met(way, row, rate, load),
            )
    return _nearest(tried, load, target, row_of)


def _options(ways: list[Way], load: Load, target: Target, row_of: Row) -> Iterator[tuple[float, Way]]:
    """Ways and the rates that they reach within the target, none or less where they miss it."""
    drafters: dict[str | None, list[_Counts]] = {}
    for way in ways:
        counts = _Counts(way, load, target, row_of)
        drafters.setdefault(way.drafter, []).append(counts)
    for found in drafters.values():
        for counts in sorted(found, key=lambda each: -max(each.rates.values()))[:PER_DRAFTER]:
            counts.refine()
            yield from ((rate, counts.way.with_slots(slots)) for slots, rate in counts.reached().items())


class _Counts:
    """One way by its number of slots: the rate up to which TPOT meets its limit, for users who ask again the target."""

    def __init__(self, way: Way, load: Load, target: Target, row_of: Row) -> None:
        self.way, self.load, self.target, self.row_of = way, load, target, row_of
        room = way.replica.max_batch
        self.rates = {slots: self.rate(slots) for slots in {min(n, room) for n in load.max_batches or _powers(room)}}

    def rate(self, slots: int) -> float:
        way = self.way.with_slots(slots)
        if self.load.concurrency is None:
            return tpot_limit(way.replica, self.target)
        row = self.row_of(way, self.load, None)
        return row.request_rate if row.meets_target else -_excess(row, self.target)

    def refine(self) -> None:
        """More slots carry more until TPOT binds: look where it starts to, around the best, and how far that goes."""
        if self.load.max_batches:
            return
        _last(self.rates, self.rate, self.free)
        _climb(self.rates, self.rate)
        _last(self.rates, self.rate, lambda slots: self.rates[slots] * (1.0 + TIE) >= max(self.rates.values()))

    def free(self, slots: int) -> bool:
        """Whether TPOT allows all that the slots carry."""
        if self.load.concurrency is not None:
            return self.rates[slots] > 0.0
        return self.rates[slots] >= (1.0 - 1e-9) * top_rate(self.way.with_slots(slots).replica)

    def reached(self) -> dict[int, float]:
        """The rates at which TTFT meets its limit as well."""
        if self.load.concurrency is not None or self.target.ttft_s is None:
            return self.rates

        reached: dict[int, float] = {}

        def both(slots: int) -> float:
            """0 where the best so far is out of reach, which one state tells."""
            replica = self.way.with_slots(slots).replica
            bound = self.rates[slots] if slots in self.rates else self.rate(slots)
            least = max(reached.values(), default=0.0) / (1.0 + TIE)
            if bound <= least or (least > 0.0 and not meets(replica, self.target, least)):
                return 0.0
            return highest_rate(replica, self.target, bound, least)

        for slots in sorted(self.rates, key=lambda slots: -self.rates[slots]):
            reached[slots] = both(slots)
        if not self.load.max_batches:
            _climb(reached, both)
        return reached


def _last(rates: dict[int, float], rate: Callable[[int], float], good: Callable[[int], bool]) -> None:
    """Add counts by halving up to the last that is good."""
    known = sorted(rates)
    low = max((slots for slots in known if good(slots)), default=known[-1])
    high = min((slots for slots in known if slots > low), default=low)
    while high - low > 1:
        middle = (low + high) // 2
        rates[middle] = rate(middle)
        low, high = (middle, high) if good(middle) else (low, middle)


def _climb(rates: dict[int, float], rate: Callable[[int], float]) -> None:
    """Add counts between the best and its neighbours until they are adjacent."""
    while True:
        known = sorted(rates)
        at = known.index(max(known, key=lambda slots: (rates[slots], slots)))
        around = known[max(at - 1, 0) : at + 2]
        new = {(low + high) // 2 for low, high in pairwise(around)} - set(rates)
        if not new:
            return
        rates.update((slots, rate(slots)) for slots in new)


def _best(options: list[tuple[float, Way]], load: Load, row_of: Row) -> tuple[float, Way, LoadRow] | None:
    """The highest rate, among those close to it the one that carries most."""
    tie = TIE if load.request_rate is None else SAME
    met: list[tuple[float, Way, LoadRow]] = []
    for rate, way in sorted(options, key=lambda item: -item[0]):
        if rate <= 0.0 or (met and rate < met[0][0] / (1.0 + tie)):
            break
        row = row_of(way, load, None if _asked(load) else rate)
        if row.meets_target:
            met.append((max(rate, row.request_rate), way, row))
    return max(met, key=lambda item: item[2].saturation_rate) if met else None


def _nearest(options: list[tuple[float, Way]], load: Load, target: Target, row_of: Row) -> SloAnswer:
    asked = _asked(load)
    rows = [
        (_excess(row, target), row_index, row, way)
        for row_index, (_, way) in enumerate(options)
        for row in [row_of(way, load, None if asked else lowest_rate(way.replica))]
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


def _asked(load: Load) -> bool:
    return load.request_rate is not None or load.concurrency is not None


def _powers(room: int) -> list[int]:
    return [*(1 << power for power in range(room.bit_length()) if 1 << power < room), room]


def _name(way: Way) -> str:
    return f"{way.label}, at most {way.replica.max_batch} sequences, TP {way.tp}"


def _met(way: Way, row: LoadRow, rate: float, load: Load) -> str:
    if load.concurrency is not None:
        text = f"{_name(way)} meets the target with {rate:.2f} requests/s"
    else:
        text = f"{_name(way)} meets the target up to {rate:.2f} requests/s"
    if load.request_rate is not None:
        text += f"; {load.request_rate:g} are asked"
    wait = wait_of(row)
    return f"{text}, but {wait}" if wait else text
