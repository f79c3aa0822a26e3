"""SGLang's `Decode batch` lines: AL of the last 40 decode iterations, without counts, and a rate with two histories.

accept rate is (AL - 1) / (num_draft - 1) today and was AL / num_draft in 0.5.3 and 0.5.4 (both read in
scheduler_metrics_mixin.py). AL is the same in both; the rate tells D, once it is known which of the two it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from specplan.planner.acceptance.checks import by_batch
from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.messages import Note

ITERATIONS = 40             # decode_log_interval: iterations behind one line
LINE = re.compile(r"#running-req: (\d+),[^\n]*?accept len: (\d+\.\d+)(?:, accept rate: (\d+\.\d+))?, ")
LINE_BYTES = re.compile(LINE.pattern.encode())
ARGUMENTS = {
    "steps": re.compile(r"speculative_num_steps=(\d+)"),
    "topk": re.compile(r"speculative_eagle_topk=(\d+)"),
    "nodes": re.compile(r"speculative_num_draft_tokens=(\d+)"),
}
NEW = "accept len counts the bonus token; accept rate = (AL - 1) / (num_draft - 1), the convention of today"
OLD = "accept len counts the bonus token; accept rate = AL / num_draft, the convention of 0.5.3"
LENGTH_ONLY = "accept len counts the bonus token"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One meaning of the rate, with the D that it implies."""

    convention: str     # "new" or "old"
    draft_len: int

    def fits(self, length: float, rate: float) -> bool:
        """Whether AL and rate of a line, as printed with two decimals, agree with it."""
        top = length - 1.0 if self.convention == "new" else length
        width = self.draft_len if self.convention == "new" else self.draft_len + 1
        return abs(rate * width - top) < 0.005 * (1.0 + width) - 1e-6


class Log:
    """Lines of one log, kept as a count per printed pair of numbers, so that memory stays small."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[str, str, bool], list[float]] = {}   # AL, rate, batch > 1 -> lines, running requests
        self.damaged = 0
        self.idle = 0
        self.arguments: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Take one `Decode batch` or start-up line."""
        match = LINE.search(text)
        if match is None:
            if "server_args" in text or "ServerArgs(" in text:
                self.argument_line(text)
            elif "accept len" in text:
                self.damaged += 1
            return
        self._take(int(match[1]), match[2], match[3] or "", 1)

    def block(self, block: bytes) -> int | None:
        """Take all decode lines of a block at once and say how many; None if some are of another form."""
        lines = block.count(b"accept len")
        found = LINE_BYTES.findall(block) if lines else []
        if len(found) != lines:
            return None
        for (running, length, rate), count in Counter(found).items():
            self._take(int(running), length.decode(), rate.decode(), count)
        return lines

    def _take(self, running: int, length: str, rate: str, count: int) -> None:
        if running == 0 or length == "0.00":
            self.idle += count
            return
        pair = self.pairs.setdefault((length, rate, running > 1), [0, 0])
        pair[0] += count
        pair[1] += running * count

    def argument_line(self, text: str) -> None:
        """Take the arguments that the server prints when it starts."""
        for name, pattern in ARGUMENTS.items():
            if (match := pattern.search(text)) is not None:
                self.arguments[name] = int(match[1])

    def stated_draft_len(self) -> int | None:
        """D as the server's arguments have it: a tree (topk > 1) is `num_steps` deep."""
        if self.arguments.get("topk", 1) > 1 or "nodes" not in self.arguments:
            return self.arguments.get("steps")
        return self.arguments["nodes"] - 1

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found."""
        if not self.pairs:
            if self.damaged or self.idle:
                tally = Tally(idle=self.idle)
                tally.damaged["the line is cut or damaged"] += self.damaged
                yield reading_of(tally, source_format="sglang-log", engine="sglang", draft_len=None,
                                 definition=LENGTH_ONLY)
            return
        known = self.stated_draft_len() or draft_len
        tree = self.arguments.get("topk", 1) > 1
        chosen, notes = (None, []) if tree else self._meaning(known)
        tally, batches = self._tally(chosen)
        if tree:
            notes.append(Note("tree", "the drafter proposes a tree (topk > 1): AL is that of its best path, and the "
                              "rate is over all nodes"))
        notes += by_batch(batches)
        notes.append(Note("no_step_counts", "the log prints no step counts: lines are weighted by running requests"))
        definition = LENGTH_ONLY if chosen is None else NEW if chosen.convention == "new" else OLD
        yield reading_of(tally, source_format="sglang-log", engine="sglang", definition=definition, warnings=notes,
                         draft_len=known or (chosen.draft_len if chosen else None))

    def _meaning(self, known: int | None) -> tuple[Hypothesis | None, list[Note]]:
        """Find which convention and D the rates of nearly all lines agree with."""
        lines = {(float(length), float(rate)): 0.0 for length, rate, _ in self.pairs if rate}
        for (length, rate, _), (number, _) in self.pairs.items():
            if rate:
                lines[float(length), float(rate)] += number
        total = sum(lines.values())
        if not total:
            return None, []
        widths = [known] if known else range(1, 64)
        fitting = [(sum(n for pair, n in lines.items() if Hypothesis(kind, d).fits(*pair)) / total, kind, d)
                   for kind in ("new", "old") for d in widths]
        good = sorted((one for one in fitting if one[0] >= 0.9), reverse=True)
        if not good:
            what = f"neither convention of the rate fits D = {known}" if known else "no D fits the rates"
            return None, [Note("identity_broken", f"{what} in nine of ten lines: AL, rate or D is wrong, or D changed "
                               "while the server ran")]
        best = [one for one in good if one[0] == good[0][0]]
        if len({(kind, d) for _, kind, d in best}) > 1:
            choices = ", ".join(sorted(f"D = {d} ({kind} convention)" for _, kind, d in best))
            return None, [Note("draft_len_needed", f"the rate fits several meanings: {choices}; add --draft-len N")]
        return Hypothesis(good[0][1], good[0][2]), []

    def _tally(self, chosen: Hypothesis | None) -> tuple[Tally, dict[bool, Tally]]:
        tally = Tally(idle=self.idle)
        batches: dict[bool, Tally] = {}
        if self.damaged:
            tally.damaged["the line is cut or damaged"] += self.damaged
        for (length, rate, many), (lines, running) in self.pairs.items():
            value = float(length)
            if value < 1.0 or (chosen and rate and not chosen.fits(value, float(rate))):
                tally.damaged["accept len and accept rate contradict each other"] += int(lines)
                continue
            tally.add_length(value, running)
            tally.records += int(lines) - 1
            steps = running * ITERATIONS
            batches.setdefault(many, Tally()).add(steps=steps, accepted=(value - 1) * steps)
        return tally, batches
