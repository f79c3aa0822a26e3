"""Prometheus counters of speculative decoding: vLLM, llama.cpp and LMDeploy count the same four things.

A counter only grows; what matters is its growth between two scrapes. A single scrape tells the sum since the server
started, warm-up included. A counter that falls was reset by a restart: what it shows then is new growth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from specplan.planner.acceptance.reading import NAN, Reading, Tally, reading_of
from specplan.planner.messages import Note

SAMPLE = re.compile(r'^\s*([A-Za-z_:][\w:]*)(\{(?:\w+="(?:[^"\\]|\\.)*",?\s*)*\})?\s+'
                    r"([-+]?[\d.]+(?:[eE][-+]?\d+)?|[-+]?Inf|NaN)(?:\s+-?\d+)?\s*$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parse_sample(text: str) -> tuple[str, dict[str, str], float] | None:
    """Name, labels and value of one line of the exposition format; None for comments and damaged lines.

    >>> parse_sample('vllm:spec_decode_num_drafts_total{engine="0"} 12.0')
    ('vllm:spec_decode_num_drafts_total', {'engine': '0'}, 12.0)
    """
    match = SAMPLE.match(text)
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    return match[1], dict(LABEL.findall(match[2] or "")), value


@dataclass(slots=True)
class Growth:
    """Growth of each series over the scrapes seen so far."""

    first: dict[tuple[str, str], float] = field(default_factory=dict)
    last: dict[tuple[str, str], float] = field(default_factory=dict)
    grown: dict[tuple[str, str], float] = field(default_factory=dict)
    position: dict[tuple[str, str], int] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    scrapes: int = 0
    takes: int = 0                  # samples seen
    resets: int = 0
    damaged: int = 0

    def take(self, prefix: str, text: str) -> bool:
        """Read one line of a scrape; says whether it was one of the counters."""
        parsed = parse_sample(text)
        if parsed is None:
            self.damaged += 0 if text.lstrip().startswith("#") else 1
            return False
        name, labels, value = parsed
        short = name.removeprefix(prefix + ":spec_decode_num_").removesuffix("_total")
        if short == name or short not in COUNTERS:
            return False
        if not 0 <= value < MOST_COUNTED or value != int(value):        # also what is no number
            self.damaged += 1
            return False
        if short == "accepted_tokens_per_pos":
            if not re.fullmatch("[0-9]{1,4}", labels.get("position", "")) or int(labels["position"]) > 1023:
                self.damaged += 1
                return False
            self.position[short, repr(sorted(labels.items()))] = int(labels["position"])
        self.takes += 1
        key = (short, repr(sorted(labels.items())))
        self.models.add(labels.get("model_name", ""))
        if key not in self.first:
            self.first[key] = self.last[key] = value
            self.grown[key] = value if self.scrapes > 1 else 0.0    # a series born between scrapes starts at 0
            return True
        self.scrapes = max(self.scrapes, 2)
        if value < self.last[key]:
            self.resets += 1
            self.grown[key] += value
        else:
            self.grown[key] += value - self.last[key]
        self.last[key] = value
        return True

    def total(self, short: str) -> float:
        """Growth of a counter over all its series; the plain value where there was only one scrape."""
        values = self.grown if self.scrapes > 1 else self.first
        found = [value for (name, _), value in values.items() if name == short]
        return sum(found) if found else NAN

    def positions(self) -> list[float]:
        """Growth per draft position, first position first."""
        values = self.grown if self.scrapes > 1 else self.first
        counts: dict[int, float] = {}
        for key, place in self.position.items():
            counts[place] = counts.get(place, 0.0) + values.get(key, 0.0)
        return [counts.get(place, 0.0) for place in range(max(counts, default=-1) + 1)]


MOST_COUNTED = 1e15
COUNTERS = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos", "emitted_tokens")


def tally_of(growth: Growth) -> tuple[Tally, list[Note]]:
    """Sums and warnings of what the counters grew by."""
    tally, notes = Tally(), []
    steps, accepted, drafted = (growth.total(name) for name in ("drafts", "accepted_tokens", "draft_tokens"))
    positions = growth.positions()
    if growth.damaged:
        tally.damaged["damaged lines of the scrape"] += growth.damaged
    if growth.resets:
        notes.append(Note("counter_reset", (
            "counters fell between two scrapes: read as a restart of the server; if the files are in the wrong order, "
            "swap them")))
    elif growth.scrapes < 2:
        notes.append(Note("single_scrape", (
            "one scrape tells the sum since the server started, warm-up included; give two scrapes to measure what "
            "lies between them")))
    if len(growth.models - {""}) > 1:
        names = ", ".join(sorted(growth.models))
        notes.append(Note("several_models", f"counters of several models were added: {names}"))
    if accepted > drafted or steps > drafted or max(positions, default=0.0) > steps:
        tally.damaged["the counters contradict each other (more accepted than drafted, or fewer drafts than steps that "
                      "accepted)"] += 1
    elif steps > 0 and accepted >= 0:
        total = sum(positions)
        if positions and abs(total - accepted) > 0.001 * accepted + 0.5:
            tally.doubts["accepted tokens and their counts per position disagree: one of them is damaged or from "
                         "another scrape; the positions were not used"] += 1
            positions = []
        tally.add(steps=steps, accepted=accepted, drafted=drafted, positions=positions)
    else:
        tally.idle += 1
    return tally, notes


def readings_of(growth: Growth, engine: str) -> list[Reading]:
    """What the counters say; nothing where none was seen."""
    if not growth.first:
        return []
    tally, notes = tally_of(growth)
    return [reading_of(tally, source_format=f"{engine}-prometheus", engine=engine, warnings=notes,
                       draft_len=len(tally.positions) or None,
                       definition="counters: AL = 1 + accepted / drafts; positions over drafts")]
