"""llama.cpp and ik_llama.cpp: server log in all its forms, timings of responses, counters, the benchmark table.

Forms of the line at the end of a request, oldest first: `draft acceptance rate = R (A accepted / G generated)`;
`draft acceptance = R (...), mean acceptance length = L, acceptance rate per position = (...)` (June 2026); `draft
acceptance = R (...), mean len = L` (today). G is what was drafted: with --spec-draft-p-min (0.75 by default until
b9235) a drafter stops early, so G is not D times steps and R says little. `statistics` lines hold sums since the
start: calls (begin, generate, accept), drafts and tokens per implementation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.acceptance.records import CountedRecord, count_steps
from specplan.planner.engines.counters import Growth
from specplan.planner.engines.streams import number
from specplan.planner.messages import Note

ENGINE = "llama_cpp"
PREFIX = "llamacpp"
NEEDLES = (b"draft acceptance", b"#gen tokens", b"eval time =", b"llamacpp:spec_decode_num_", b"% |")

SLOT = re.compile(r"draft acceptance(?: rate)? = (\d\.\d+) \(\s*(\d+) accepted /\s*(\d+) generated\)(.*)")
LENGTH = re.compile(r"mean (?:len|acceptance length) =\s*(\d+\.\d\d)(?!\d)")
RATES = re.compile(r"(?:acceptance rate per position|#acc rate/pos) = \(((?:\d\.\d{3}, )*\d\.\d{3})\)")
EVAL = re.compile(r"(prompt )?eval time =\s*[\d.]+ ms /\s*(\d+) tokens")
STATISTICS = re.compile(
    r"statistics\s+([\w-]+):\s+#calls(?:\(b,g,a\))? =\s*(\d+)(?:\s+(\d+)\s+(\d+))?,\s+#gen drafts =\s*(\d+),\s+"
    r"#acc drafts =\s*(\d+),\s+#gen tokens =\s*(\d+),\s+#acc tokens =\s*(\d+)(.*)")
STATISTICS_LENGTH = re.compile(r"#mean acc len =\s*(\d+\.\d+)")
TABLE = re.compile(
    r"^\s*\|\s*([\w.-]+)\s*\|\s*(\d+)\s*\|\s*([\w.:+-]+)\s*\|\s*(\d+)\s*\|\s*\w+\s*\|\s*[\d.]+\s*\|\s*[\d.]+\s*\|\s*"
    r"(\d+)\s*\|\s*(\d+)/(\d+)\s*\|\s*(\d+\.\d+)%\s*\|\s*(\d+\.\d+)\s*\|\s*((?:\d+\.\d%\s+)*\d+\.\d%)\s*\|\s*$")
OVER_STEPS = "accepted drafts per verify step plus the bonus token; the rate is over drafted tokens (p-min cuts them)"


@dataclass(slots=True)
class Statistics:
    """Sums of one implementation since the server started."""

    calls: float
    drafts: float
    drafted: float
    accepted: float
    rates: tuple[float, ...]


class Reader:
    """Collects what the lines and JSON objects of one file say."""

    def __init__(self) -> None:
        self.slots: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.plain: list[tuple[float, float, float]] = []      # oldest form: accepted, generated, tokens or 0
        self.damaged = Tally()
        self.tokens = 0.0                   # generated tokens of the request, from its eval-time line
        self.statistics: dict[str, Statistics] = {}
        self.closed: dict[str, list[Statistics]] = defaultdict(list)
        self.growth = Growth()
        self.timings: list[tuple[float, float, float]] = []
        self.table: defaultdict[int | None, Tally] = defaultdict(Tally)

    def line(self, text: str) -> None:
        """Take one line of a log, a scrape or a table."""
        if "draft acceptance" in text:
            self._slot(text)
        elif "#gen tokens" in text:
            self._statistics(text)
        elif "llamacpp:spec_decode_num_" in text:
            self.growth.take(PREFIX, text)
        elif (match := EVAL.search(text)) is not None:
            self.tokens = self.tokens if match[1] else float(match[2])
        elif (match := TABLE.match(text)) is not None:
            rates = [float(rate.rstrip("%")) / 100.0 for rate in match[10].split()]
            count_steps(self.table[len(rates)], CountedRecord(
                steps=float(match[5]), accepted=float(match[6]), drafted=float(match[7]), rate=float(match[8]) / 100.0,
                length=float(match[9]), per_position=rates, draft_len=len(rates)))

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take the `timings` of one response."""
        if "draft_n" not in node or "draft_n_accepted" not in node:
            return False
        drafted, accepted = number(node["draft_n"]), number(node["draft_n_accepted"])
        if drafted is None or accepted is None or not 0 <= accepted <= drafted:
            self.damaged.damaged["draft_n and draft_n_accepted cannot be"] += 1
        else:
            self.timings.append((accepted, drafted, number(node.get("predicted_n")) or 0.0))
        return True

    def _slot(self, text: str) -> None:
        match = SLOT.search(text)
        if match is None:
            self.damaged.damaged["the line is cut or damaged"] += 1
            return
        rate, accepted, drafted = float(match[1]), float(match[2]), float(match[3])
        if drafted == 0 or accepted > drafted or abs(accepted / drafted - rate) > 0.0051:
            self.damaged.damaged["its numbers contradict each other"] += 1
            return
        length, tokens = LENGTH.search(match[4]), self.tokens
        self.tokens = 0.0
        if length is None:
            if "mean" in match[4]:
                self.damaged.damaged["the line is cut or damaged"] += 1
            else:
                self.plain.append((accepted, drafted, tokens))
            return
        self._with_length(accepted, drafted, float(length[1]), _rates(match[4]), tokens)

    def _with_length(self, accepted: float, drafted: float, length: float, rates: tuple[float, ...],
                     tokens: float) -> None:
        """The printed length tells the steps that drafted; the tokens of the request tell all steps."""
        tally = self.slots[len(rates) or None]
        if accepted == 0 or length <= 1.0:
            if accepted > 0:
                tally.damaged["its numbers contradict each other"] += 1
            elif tokens > 1:
                tally.add(steps=tokens - 1, accepted=0.0, drafted=drafted)
            else:
                tally.idle += 1
            return
        steps = accepted / (length - 1.0)
        low, high = accepted / (length - 0.9949), accepted / max(length - 1.0051, 1e-9)
        if rates:
            by_rates = accepted / sum(rates) if sum(rates) else 0.0
            if not low * 0.995 - 1 <= by_rates <= high * 1.005 + 1:
                tally.damaged["its numbers contradict each other"] += 1
                return
        if steps > drafted or ((round(steps) < low or round(steps) > high) and high - low > 1):
            tally.damaged["its numbers contradict each other"] += 1
            return
        steps = round(steps) if low <= round(steps) <= high else steps
        all_steps = tokens - accepted - 1 if tokens else steps
        if all_steps < low - 2:                 # the tokens are of another request
            all_steps = steps
        silent = all_steps > 1.05 * steps + 2
        tally.add(steps=all_steps if silent else steps, accepted=accepted, drafted=drafted, drafting_steps=steps,
                  positions=[rate * steps for rate in rates])

    def _statistics(self, text: str) -> None:
        match = STATISTICS.search(text)
        if match is None:
            if "#gen drafts" in text:
                self.damaged.damaged["the line is cut or damaged"] += 1
            return
        name, calls = match[1], float(match[3] or match[2])
        drafts, drafted, accepted = float(match[5]), float(match[7]), float(match[8])
        length = STATISTICS_LENGTH.search(match[9])
        rates = _rates(match[9])
        wrong = accepted > drafted or drafts > calls or float(match[6]) > min(drafts, accepted) or (
            "acc rate/pos" in match[9] and not rates)
        wrong = wrong or (length is not None and drafts > 0 and abs(1 + accepted / drafts - float(length[1])) > 0.0051
                          and abs(1 + accepted / max(float(match[4] or 0), 1) - float(length[1])) > 0.0051)
        if wrong or (rates and drafts and abs(sum(rates) - accepted / drafts) > 0.0006 * len(rates) + 0.01):
            self.damaged.damaged["its numbers contradict each other"] += 1
            return
        before = self.statistics.get(name)
        if before is not None and (calls < before.calls or drafted < before.drafted):
            self.closed[name].append(before)
        self.statistics[name] = Statistics(calls, drafts, drafted, accepted, rates)

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found, one reading per format and D."""
        sums = self._statistics_tally()
        if self.plain:
            yield from self._plain_readings(self.plain, "llama_cpp-log-old", draft_len, has_sums=sums is not None)
        if self.slots or (self.damaged.damaged and not (self.plain or sums)):
            for tally in self.slots.values() or [self.slots[None]]:
                tally.merge(self.damaged)
                self.damaged = Tally()
            for d, tally in self.slots.items():
                yield reading_of(tally, source_format="llama_cpp-log", engine=ENGINE, draft_len=d or draft_len,
                                 definition=OVER_STEPS, warnings=_silent(tally))
        if sums is not None:
            d, tally = sums
            tally.merge(self.damaged)
            yield reading_of(tally, source_format="llama_cpp-statistics", engine=ENGINE, draft_len=d or draft_len,
                             definition=OVER_STEPS, warnings=_silent(tally))
        if self.timings:
            yield from self._plain_readings(self.timings, "llama_cpp-timings", draft_len, has_sums=False)
        for d, tally in self.table.items():
            yield reading_of(tally, source_format="ik_llama-table", engine=ENGINE, draft_len=d,
                             definition="a.len = 1 + accepted / rounds; positions unconditional, over rounds")

    def _plain_readings(self, records: list[tuple[float, float, float]], name: str, draft_len: int | None, *,
                        has_sums: bool) -> Iterator[Reading]:
        """Accepted and drafted tokens alone do not tell the steps; generated tokens do: steps = tokens - accepted - 1.

        The first token of a request comes from its prompt.
        """
        tally, unknown = Tally(), 0
        tally.merge(self.damaged)
        for accepted, drafted, tokens in records:
            steps = tokens - accepted - 1
            if tokens and steps > 0:
                tally.add(steps=steps, accepted=accepted, drafted=drafted)
            elif not tokens and draft_len and not has_sums:
                tally.add(steps=drafted / draft_len, accepted=accepted, drafted=drafted)
                unknown += 1
            else:
                tally.idle += 1 if tokens else 0
                unknown += 0 if tokens else 1
        notes = []
        if unknown and draft_len and not has_sums:
            notes.append(Note("ungated_assumed", f"{unknown} records give no generated tokens: steps = drafted / "
                              f"{draft_len}, which is too few (AL too high) where p-min stops drafts early"))
        elif unknown and not has_sums:
            notes.append(Note("draft_len_needed", "accepted and drafted tokens alone do not tell AL; add --draft-len N "
                              "(right only without p-min), or keep the eval-time lines in the log"))
        yield reading_of(tally, source_format=name, engine=ENGINE, draft_len=draft_len, warnings=notes,
                         definition="accepted drafts; steps = generated tokens - accepted - 1")

    def _statistics_tally(self) -> tuple[int | None, Tally] | None:
        runs = [*self.closed.items(), *((name, [one]) for name, one in self.statistics.items())]
        if not runs:
            return None
        tally, widths = Tally(), set()
        everything = [one for _, ones in runs for one in ones]
        calls = max(sum(one.calls for name, ones in runs if name == impl for one in ones) for impl, _ in runs)
        positions: list[float] = []
        for one in everything:
            widths.add(len(one.rates))
            positions += [0.0] * (len(one.rates) - len(positions))
            for k, rate in enumerate(one.rates):
                positions[k] += rate * one.drafts
        drafts = sum(one.drafts for one in everything)
        if calls <= 0 or drafts <= 0:
            tally.idle += 1
        else:
            tally.add(steps=max(calls, drafts), accepted=sum(one.accepted for one in everything), drafting_steps=drafts,
                      drafted=sum(one.drafted for one in everything), positions=positions)
        return (max(widths) or None), tally


def _rates(text: str) -> tuple[float, ...]:
    match = RATES.search(text)
    return () if match is None else tuple(float(rate) for rate in match[1].split(", "))


def _silent(tally: Tally) -> list[Note]:
    if tally.steps <= 0 or tally.drafting_steps >= tally.steps:
        return []
    over_drafts = 1.0 + tally.accepted / tally.drafting_steps if tally.drafting_steps else 1.0
    return [Note("steps_without_draft", (
        f"{tally.drafting_steps / tally.steps:.0%} of steps had a draft (lookup or gated drafter): AL is over all "
        f"steps; over the drafting ones it is {over_drafts:.2f}"))]
