"""vLLM's `SpecDecoding metrics` log lines (V1), which LMDeploy took over: one log interval each.

AL has counted the bonus token since PR 17908 (May 2025); before it the line printed accepted drafts per step under
the same name, which the line's own counts give away.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from specplan.planner.acceptance.checks import by_batch
from specplan.planner.acceptance.reading import NAN, Reading, Tally, reading_of
from specplan.planner.acceptance.records import LENGTH_STEP, Record, count
from specplan.planner.arrays import Array
from specplan.planner.engines.streams import text_of
from specplan.planner.messages import Note

NEEDLE = b"SpecDecoding metrics:"
PER_STEP = "accepted drafts per verify step plus the bonus token; positions unconditional, over drafting steps"
NO_BONUS = "accepted drafts per verify step without the bonus token (before PR 17908); 1 was added"

TODAY = re.compile(
    r"SpecDecoding metrics: Mean acceptance length: (\d+\.\d\d), Accepted throughput: (\d+\.\d\d) tokens/s, "
    r"Drafted throughput: \d+\.\d\d tokens/s, Accepted: (\d+) tokens, Drafted: (\d+) tokens, "
    r"Per-position acceptance rate: ((?:\d\.\d{3}, )*\d\.\d{3}), Avg Draft acceptance rate: (\d+\.\d)%")
TODAY_BYTES = re.compile(TODAY.pattern.encode())
NUMBER = r"([-+\d.naif]+)"
FIELDS = {
    "length": re.compile(rf"Mean acceptance length: {NUMBER}"),
    "accepted": re.compile(rf"Accepted: {NUMBER} tokens"),
    "drafted": re.compile(rf"Drafted: {NUMBER} tokens"),
    "rate": re.compile(rf"raft acceptance rate: {NUMBER}%"),
    "accepted_per_s": re.compile(rf"Accepted throughput: {NUMBER} tokens/s"),
}
GROUPS, START = re.Match.groups, re.Match.start
LMDEPLOY_RATE = re.compile(r"Draft acceptance rate: \d+\.\d\d%")
POSITIONS = re.compile(r"Per-position acceptance rate: ((?:[-+\d.naif]+, )*[-+\d.naif]+)")
LOAD = re.compile(r"Avg generation throughput: (\d+\.\d+) tokens/s[^\n]*?Running: (\d+) reqs")
LOAD_BYTES = re.compile(LOAD.pattern.encode())
MOST_RUNNING = 1e9      # requests: more is a damaged line


def is_lmdeploy(text: str) -> bool:
    """LMDeploy prints the words of vLLM 0.9 behind its own line, and the rate with two decimals."""
    return "SpecDecoding metrics: Draft" in text and (
        "lmdeploy" in text or "Unfinished:" in text or LMDEPLOY_RATE.search(text) is not None)


class Values(dict[bytes, float]):
    """Numbers of printed texts, which repeat: a look-up is several times faster than parsing."""

    def __missing__(self, text: bytes) -> float:
        if len(self) > 200_000:
            self.clear()
        value = self[text] = float(text)
        return value

    def array(self, texts: Sequence[bytes]) -> Array:
        """The numbers as an array."""
        return np.fromiter(map(self.__getitem__, texts), dtype=float, count=len(texts))


class LogLines:
    """The `SpecDecoding metrics` lines of V1 (and of LMDeploy, which took them over), each one log interval."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.values = Values()
        self.tallies: defaultdict[int | None, Tally] = defaultdict(Tally)      # by D
        self.damaged = Tally()
        self.batches: dict[bool, Tally] = {}
        self.without_bonus = False
        self.running: int | None = None     # of the line before
        self.emitted_per_s = NAN
        self.emitted = 0.0                  # tokens of the intervals below, drafted or not
        self.explained = Tally()
        self.bare: list[Record] = []        # first V1 releases: no length, no positions

    def line(self, text: str) -> None:
        """Take one line."""
        record, accepted_per_s = self._parse(text)
        if record is None:
            self.damaged.damaged["the line is cut or damaged"] += 1
        elif record.drafted == 0:
            self.damaged.idle += 1
        elif not record.per_position and record.length is None:
            self.bare = [*self.bare, record][-100_000:]
        else:
            record.draft_len = len(record.per_position) or None
            self._old_definition(record)
            self._take(record, accepted_per_s)

    def block(self, block: bytes) -> bool:
        """Take all lines of a block: those of today's form whose numbers agree at once, the others one by one."""
        lines = block.count(NEEDLE)
        loads = list(LOAD_BYTES.finditer(block))
        load = np.full((len(loads) + 1, 2), (self.emitted_per_s, -1.0 if self.running is None else self.running))
        for i, column in enumerate(zip(*map(GROUPS, loads), strict=True)):      # map, not loops: the hot path
            load[1:, i] = self.values.array(column)
        load_at = np.array(list(map(START, loads)), dtype=np.int64)
        matches = list(TODAY_BYTES.finditer(block))
        at = np.array(list(map(START, matches)), dtype=np.int64)
        agreed = self._agreeing(matches, load[np.searchsorted(load_at, at)]) if matches else at.astype(bool)
        if len(matches) < lines or not agreed.all():
            taken = set(at[agreed].tolist())
            place = block.find(NEEDLE)
            while place >= 0:
                if place not in taken:
                    self._load(load[np.searchsorted(load_at, place)])
                    text = text_of(block[block.rfind(b"\n", 0, place) + 1:(block + b"\n").find(b"\n", place)])
                    if not is_lmdeploy(text):
                        self.line(text)
                place = block.find(NEEDLE, place + 1)
        self._load(load[-1])
        return lines > 0

    def _load(self, load: Array) -> None:
        if 0 <= load[1] < MOST_RUNNING:
            self.emitted_per_s, self.running = float(load[0]), int(load[1])

    def _agreeing(self, matches: list[re.Match[bytes]], load: Array) -> npt.NDArray[np.bool_]:
        """Add the lines whose numbers agree; says which they are."""
        columns = list(zip(*map(GROUPS, matches), strict=True))
        length, per_s, accepted, drafted, rate = (self.values.array(columns[i]) for i in (0, 1, 2, 3, 5))
        width = np.array(list(map(bytes.count, columns[4], itertools.repeat(b",")))) + 1
        agreed = np.zeros(len(matches), dtype=bool)
        for d in np.unique(width):
            here = np.flatnonzero(width == d)
            texts = columns[4] if len(here) == len(matches) else [columns[4][i] for i in here]
            rates = self.values.array(b", ".join(texts).split(b", ")).reshape(len(here), d)
            n = np.where(drafted[here] > 0, drafted[here], np.nan)
            per_step = accepted[here] * d / n
            good = ((np.abs(1.0 + per_step - length[here]) <= LENGTH_STEP) & (accepted[here] <= n)
                    & (np.abs(rates.sum(axis=1) - per_step) <= 0.0005 * d + 1e-9)
                    & (np.abs(100.0 * accepted[here] / n - rate[here]) <= 0.051))
            agreed[here] = good
            rows = here[good]
            steps = drafted[rows] / d
            self._count(self.tallies[int(d)], rows.size, steps, accepted[rows], drafted[rows], rates[good])
            for many in (False, True):
                same = (load[rows, 1] >= 0) & ((load[rows, 1] > 1) == many)
                if same.any():
                    self._count(self.batches.setdefault(many, Tally()), int(same.sum()), steps[same],
                                accepted[rows][same], drafted[rows][same], rates[good][same])
            timed = (accepted[rows] > 0) & (per_s[rows] > 0) & (load[rows, 0] > 0)
            if timed.any():
                self.emitted += float((load[rows, 0] * accepted[rows] / np.where(timed, per_s[rows], 1.0))[timed].sum())
                self.explained.add(steps=float(steps[timed].sum()), accepted=float(accepted[rows][timed].sum()))
        return agreed

    @staticmethod
    def _count(tally: Tally, records: int, steps: Array, accepted: Array, drafted: Array, rates: Array) -> None:
        if records:
            tally.add(steps=float(steps.sum()), accepted=float(accepted.sum()), drafted=float(drafted.sum()),
                      positions=(steps @ rates).tolist())
            tally.records += records - 1

    @staticmethod
    def _parse(text: str) -> tuple[Record | None, float]:
        match = TODAY.search(text)
        if match is not None:
            return Record(length=float(match[1]), accepted=float(match[3]), drafted=float(match[4]),
                          per_position=[float(rate) for rate in match[5].split(", ")],
                          rate=float(match[6]) / 100.0), float(match[2])
        matches = {name: pattern.search(text) for name, pattern in FIELDS.items()}
        found = {name: None if match is None else _float(match[1]) for name, match in matches.items()}
        positions = POSITIONS.search(text)
        rates = [] if positions is None else [_float(rate) for rate in positions[1].split(", ")]
        if found["accepted"] is None or found["drafted"] is None or None in rates:
            return None, NAN
        rate = found["rate"]
        return Record(length=found["length"], accepted=found["accepted"], drafted=found["drafted"],
                      per_position=[NAN if one is None else one for one in rates],
                      rate=None if rate is None or math.isnan(rate) else rate / 100.0), found["accepted_per_s"] or NAN

    def _old_definition(self, record: Record) -> None:
        if record.length is None or not record.draft_len or not record.drafted or record.accepted is None:
            return
        drafts_per_step = record.accepted * record.draft_len / record.drafted
        total = sum(record.per_position)
        if max(abs(drafts_per_step - record.length), abs(total - record.length) - 0.01) <= LENGTH_STEP:
            record.length += 1.0
            self.without_bonus = True

    def _take(self, record: Record, accepted_per_s: float) -> None:
        tally = self.tallies[record.draft_len]
        steps, accepted = tally.steps, tally.accepted
        if not count(tally, record):
            return
        steps, accepted = tally.steps - steps, tally.accepted - accepted
        if self.running is not None:
            self.batches.setdefault(self.running > 1, Tally()).add(
                steps=steps, accepted=accepted, positions=[rate * steps for rate in record.per_position])
        if accepted > 0 and accepted_per_s > 0 and self.emitted_per_s > 0:
            self.emitted += self.emitted_per_s * accepted / accepted_per_s
            self.explained.add(steps=steps, accepted=accepted)

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found, one reading per D."""
        known = next(iter(self.tallies)) if len(self.tallies) == 1 else draft_len
        notes = [*by_batch(self.batches), *self._steps_without_draft()]
        if self.bare and known is None:
            notes.append(Note("draft_len_needed", "lines of the first V1 releases give accepted and drafted tokens "
                              "only; add --draft-len N to read them"))
        for record in self.bare if known is not None else ():
            record.draft_len = known
            count(self.tallies[known], record)
        if not self.tallies and (self.damaged.damaged or self.damaged.idle or self.bare):
            self.tallies[None] = Tally()
        for d, tally in self.tallies.items():
            tally.merge(self.damaged)
            self.damaged = Tally()
            yield reading_of(tally, source_format=f"{self.engine}-log", engine=self.engine, draft_len=d,
                             warnings=notes, definition=NO_BONUS if self.without_bonus else PER_STEP)
            notes = []

    def _steps_without_draft(self) -> Iterator[Note]:
        """A server emits more than its drafting steps explain where most steps find nothing to draft."""
        silent = self.emitted - self.explained.accepted     # tokens that a step gave anyway = all steps
        if self.explained.steps > 0 and silent > 1.5 * self.explained.steps:
            yield Note("steps_without_draft", (
                f"only about {self.explained.steps / silent:.0%} of steps had a draft (n-gram, suffix or a schedule): "
                f"AL here is over those steps; over all steps it is about {self.emitted / silent:.2f}"))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
