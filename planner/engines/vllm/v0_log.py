"""vLLM V0 (2024): `Speculative metrics: ...`, sums since the server started."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.messages import Note

LINE = re.compile(
    r"Speculative metrics: Draft acceptance rate: (\d\.\d+), System efficiency: (\d\.\d+), Number of speculative "
    r"tokens: (\d+), Number of accepted tokens: (\d+), Number of draft tokens: (\d+), Number of emitted tokens: (\d+)")
STEP = 0.0006               # half of the last digit of a ratio printed with three


class Reader:
    """The last line before the end, or before a restart, holds the sums."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.last: tuple[int, float, float] | None = None       # D, drafted, emitted
        self.draft_lens: set[int] = set()
        self.restarts = 0
        self.seen = False

    def line(self, text: str) -> None:
        """Take one line."""
        self.seen = True
        match = LINE.search(text)
        if match is None:
            if "nan" not in text:
                self.tally.damaged["the line is cut or damaged"] += 1
            return
        rate, efficiency = float(match[1]), float(match[2])
        d, matched, drafted, emitted = (int(match[i]) for i in range(3, 7))
        if drafted == 0 or d == 0:
            self.tally.idle += 1
            return
        steps = drafted / d
        if abs(emitted / (steps * (d + 1)) - efficiency) > STEP or abs(matched / drafted - rate) > STEP:
            self.tally.damaged["its numbers contradict each other"] += 1
            return
        if self.last is not None and (drafted < self.last[1] or d != self.last[0]):
            self.restarts += 1
            self._close()
        self.last = (d, drafted, emitted)

    def _close(self) -> None:
        if self.last is not None:
            d, drafted, emitted = self.last
            self.draft_lens.add(d)
            self.tally.add(steps=drafted / d, accepted=max(emitted - drafted / d, 0.0), drafted=drafted)
        self.last = None

    def readings(self) -> Iterator[Reading]:
        """What was found."""
        self._close()
        if self.seen:
            notes = [Note("counter_reset", f"the log holds {self.restarts + 1} runs of the server; they were added")]
            yield reading_of(
                self.tally, source_format="vllm-v0-log", engine="vllm",
                draft_len=next(iter(self.draft_lens)) if len(self.draft_lens) == 1 else None,
                definition="system efficiency = emitted / (steps * (D + 1)), so AL = efficiency * (D + 1); the "
                           "acceptance rate of V0 also counts matches after the first miss and is not used",
                warnings=notes if self.restarts else [])
