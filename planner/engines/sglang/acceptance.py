"""SGLang: what its log, gauges, responses, server info and benchmark say of acceptance.

AL counts the bonus token everywhere. Responses count verify steps, correct drafts and a histogram of them; the length
printed beside them is completion tokens / verify steps, which loses what lies past the end of the sequence.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.acceptance.records import CountedRecord, count_steps
from specplan.planner.engines.counters import MOST_COUNTED, parse_sample
from specplan.planner.engines.sglang.log import Log
from specplan.planner.engines.streams import number, numbers, whole
from specplan.planner.messages import Note

ENGINE = "sglang"
NEEDLES = (b"accept len", b"speculative_num_steps=", b"sglang:spec_", b"Accept length:")
BENCH = re.compile(r"^\s*Accept length:\s+(\d+\.\d+)\s*$")
GAUGE_NOTE = Note("gauges", "gauges show the last log interval only; a mean over scrapes is biased by idle periods")


class Gauges:
    """Prometheus gauges over one or more scrapes, weighted by the verify calls between them where counted."""

    def __init__(self) -> None:
        self.lengths: list[float] = []
        self.rates: list[float] = []
        self.calls: list[float] = []
        self.settings: dict[str, int] = {}
        self.damaged = 0

    def line(self, text: str) -> None:
        """Take one line of a scrape."""
        parsed = parse_sample(text)
        if parsed is None:
            self.damaged += 0 if text.lstrip().startswith("#") else 1
            return
        name, labels, value = parsed
        if labels.get("tp_rank", "0") != "0":       # every rank shows the same
            return
        if name.startswith("sglang:spec_") and not abs(value) < MOST_COUNTED:     # also what is no number
            self.damaged += 1
        elif name == "sglang:spec_accept_length" and value > 0:
            self.lengths.append(value)
        elif name == "sglang:spec_accept_rate" and value > 0:
            self.rates.append(value)
        elif name == "sglang:spec_verify_calls_total":
            self.calls.append(value)
        elif name in {"sglang:spec_num_steps", "sglang:spec_num_draft_tokens"} and value == int(value):
            self.settings[name.removeprefix("sglang:spec_")] = int(value)

    def readings(self, draft_len: int | None) -> list[Reading]:
        """What was found."""
        if not self.lengths and not self.damaged:
            return []
        tally, notes = Tally(), [GAUGE_NOTE]
        if self.damaged:
            tally.damaged["damaged lines of the scrape"] += self.damaged
        grown = [max(b - a, 0.0) for a, b in zip(self.calls, self.calls[1:], strict=False)]
        weighted = len(self.calls) == len(self.lengths) > 1 and sum(grown) > 0
        d = self.settings.get("num_draft_tokens", 0) - 1 if "num_draft_tokens" in self.settings else draft_len
        for i, length in enumerate(self.lengths):
            rate = self.rates[i] if len(self.rates) == len(self.lengths) else None
            if length < 1.0:
                tally.damaged["accept length below 1"] += 1
            elif rate and d and min(abs(rate * d - length + 1), abs(rate * (d + 1) - length)) > 0.01 * (d + 1):
                tally.damaged["accept length and accept rate contradict each other"] += 1
            else:
                tally.add_length(length, (grown[i - 1] if i else 0.0) if weighted else 1.0)
        return [reading_of(tally, source_format="sglang-gauges", engine=ENGINE, draft_len=d or None, warnings=notes,
                           definition="spec_accept_length: accepted drafts + bonus token per verify step")]


class Reader:
    """Collects what the lines and JSON objects of one file say."""

    def __init__(self) -> None:
        self.log = Log()
        self.gauges = Gauges()
        self.requests: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.past_end = 0.0
        self.lifetime: list[float] = []
        self.bench: list[float] = []
        self.without_speculation = False

    def line(self, text: str) -> None:
        """Take one line of a log, a scrape or a printed benchmark."""
        if "sglang:spec_" in text:
            self.gauges.line(text)
        elif (match := BENCH.match(text)) is not None:
            self.bench.append(float(match[1]))
        else:
            self.log.line(text)

    def block(self, block: bytes) -> tuple[tuple[bytes, ...], bool]:
        """Take the decode lines of a whole block; gives back the needles still to search for, and if any was taken."""
        taken = self.log.block(block)
        return (NEEDLES if taken is None else NEEDLES[1:]), bool(taken)

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take one JSON object, if it is one of SGLang's."""
        for name in ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"):
            if (value := whole(node.get(name))) is not None:
                key = {"speculative_num_steps": "steps", "speculative_eagle_topk": "topk"}.get(name, "nodes")
                self.log.arguments[key] = value
        if "spec_verify_ct" in node:
            self._request(node)
            return True
        if "avg_spec_accept_length" in node:
            if (length := number(node["avg_spec_accept_length"])) is not None:
                self.lifetime.append(length)
            else:
                self.without_speculation = True
            return True
        if "accept_length" in node and node.keys() & {"random_input_len", "sharegpt_output_len", "dataset_name"}:
            if (length := number(node["accept_length"])) is not None:
                self.bench.append(length)
            else:
                self.without_speculation = True
            return True
        return False

    def _request(self, node: Mapping[str, Any]) -> None:
        steps = number(node.get("spec_verify_ct"))
        accepted = number(node.get("spec_num_correct_drafts", node.get("spec_accepted_drafts")))
        proposed = number(node.get("spec_num_proposed_drafts", node.get("spec_proposed_drafts")))
        histogram = numbers(node.get("spec_correct_drafts_histogram", node.get("spec_accept_histogram")))
        tokens = number(node.get("completion_tokens"))
        if accepted is None and steps and tokens is not None:
            accepted = max(tokens - steps, 0.0)
        d = int(proposed / steps) if proposed and steps and proposed % steps == 0 else None
        # no length: completion tokens / steps, and so no identity of the others
        used = count_steps(self.requests[d], CountedRecord(
            steps=steps, accepted=accepted, drafted=proposed, histogram=histogram, draft_len=d,
            rate=number(node.get("spec_accept_rate"))))
        if used and steps and tokens is not None and accepted is not None:
            self.past_end += steps + accepted - tokens

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found, one reading per format and D."""
        yield from self.log.readings(draft_len)
        notes = []
        steps = sum(tally.steps for tally in self.requests.values())
        if steps and self.past_end > 0.02 * steps:
            notes.append(Note("past_end", (
                f"{self.past_end:.0f} accepted tokens lay past the end of a sequence: completion tokens / verify steps "
                f"is {self.past_end / steps:.2f} lower than AL; short answers gain less than AL says")))
        for d, tally in self.requests.items():
            yield reading_of(tally, source_format="sglang-requests", engine=ENGINE, draft_len=d, warnings=notes,
                             definition="per request: correct drafts per verify step plus the bonus token")
        stated = self.log.stated_draft_len()
        for values, name, what in (
                (self.lifetime, "sglang-server-info", "avg_spec_accept_length: mean since the server started"),
                (self.bench, "sglang-bench", "accept length of bench_serving: a mean since the server started")):
            if values:
                tally = Tally()
                for value in values:
                    if value >= 1.0:
                        tally.add_length(value)
                    else:
                        tally.damaged["accept length below 1"] += 1
                yield reading_of(tally, source_format=name, engine=ENGINE, definition=what, draft_len=stated, warnings=[
                    Note("server_lifetime", "the mean covers everything since the server started, warm-up included")])
