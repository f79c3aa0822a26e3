"""vLLM: what its logs, counters, responses and benchmarks say of acceptance.

Read from vllm/v1/spec_decode/metrics.py (log line and counters, one interval each) and vllm/benchmarks/serve.py.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from specplan.planner.acceptance.reading import NAN, Reading, Tally, reading_of
from specplan.planner.acceptance.records import CountedRecord, count_steps
from specplan.planner.engines.counters import Growth
from specplan.planner.engines.streams import number, numbers, whole
from specplan.planner.engines.vllm import v0_log
from specplan.planner.engines.vllm.log import NEEDLE, PER_STEP, LogLines, is_lmdeploy

ENGINE = "vllm"
NEEDLES = (NEEDLE, b"Speculative metrics:", b"Avg generation throughput:", b"vllm:spec_decode_num_")
WINDOWS = {b"Acceptance length:": (300, 5000)}      # the printed benchmark: a line before, positions after
BENCH = re.compile(r"^\s*(Acceptance rate \(%\)|Acceptance length|Drafts|Draft tokens|Accepted tokens|Position \d+):\s+"
                   r"(\d[\d.]*)\s*$")


class Reader:
    """Collects what the lines and JSON objects of one file say; formats are kept apart."""

    def __init__(self) -> None:
        self.log = LogLines(ENGINE)
        self.v0 = v0_log.Reader()
        self.growth = Growth()
        self.requests: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.benches: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.bench_text: dict[str, float] = {}

    def line(self, text: str) -> None:
        """Take one line of a log, a scrape or a printed benchmark."""
        if "SpecDecoding metrics:" in text:
            if not is_lmdeploy(text):
                self.log.line(text)
        elif "Speculative metrics:" in text:
            self.v0.line(text)
        elif "vllm:spec_decode_num_" in text:
            self.growth.take("vllm", text)
        elif (match := BENCH.match(text)) is not None:
            self._bench_line(match[1], match[2])

    def block(self, block: bytes) -> tuple[tuple[bytes, ...], bool]:
        """Take the log lines of a whole block; gives back the needles still to search for, and if any was taken."""
        return (b"Speculative metrics:", b"vllm:spec_decode_num_"), self.log.block(block)

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take one JSON object, if it is one of vLLM's."""
        summary = node.get("speculative_decoding")
        if isinstance(summary, dict) and "mean_acceptance_length" in summary:
            d = whole(summary.get("num_spec_tokens"))
            count_steps(self.requests[d], CountedRecord(
                steps=number(summary.get("num_spec_steps")), accepted=number(summary.get("num_accepted_draft_tokens")),
                drafted=number(summary.get("num_draft_tokens")), draft_len=d,
                histogram=numbers(summary.get("acceptance_histogram")),
                length=number(summary.get("mean_acceptance_length")),
                rate=number(summary.get("draft_acceptance_rate"))))
            return True
        if "spec_decode_acceptance_length" in node and "spec_decode_num_drafts" in node:
            self._bench(number(node.get("spec_decode_num_drafts")), number(node.get("spec_decode_draft_tokens")),
                        number(node.get("spec_decode_accepted_tokens")), number(node["spec_decode_acceptance_length"]),
                        numbers(node.get("spec_decode_per_position_acceptance_rates")))
            return True
        return False

    def _bench_line(self, name: str, value: str) -> None:
        if name == "Acceptance rate (%)" and self.bench_text:
            self._close_bench_text()
        try:
            self.bench_text[name] = float(value)
        except ValueError:
            self.benches[None].damaged["a line of the printed benchmark is damaged"] += 1

    def _close_bench_text(self) -> None:
        text, self.bench_text = self.bench_text, {}
        if not {"Acceptance length", "Drafts"} & text.keys():
            return
        rates = [text.get(f"Position {place}", NAN) / 100.0 for place in range(sum("Position" in key for key in text))]
        self._bench(text.get("Drafts"), text.get("Draft tokens"), text.get("Accepted tokens"),
                    text.get("Acceptance length"), [] if any(map(math.isnan, rates)) else rates)

    def _bench(self, drafts: float | None, drafted: float | None, accepted: float | None, length: float | None,
               rates: list[float]) -> None:
        d = len(rates) or (int(drafted / drafts) if drafts and drafted and drafted % drafts == 0 else None)
        count_steps(self.benches[d], CountedRecord(steps=drafts, accepted=accepted, drafted=drafted, length=length,
                                                   per_position=rates, draft_len=d))

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found, one reading per format and D."""
        yield from self.log.readings(draft_len)
        yield from self.v0.readings()
        for d, tally in self.requests.items():
            yield reading_of(tally, source_format="vllm-requests", engine=ENGINE, draft_len=d,
                             definition="per request: accepted drafts per verify step plus the bonus token")
        self._close_bench_text()
        for d, tally in self.benches.items():
            yield reading_of(tally, source_format="vllm-bench", engine=ENGINE, draft_len=d, definition=PER_STEP)
