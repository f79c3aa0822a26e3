"""TensorRT-LLM: iteration rows of /metrics, trtllm-bench as text and JSON, and the payload of a response.

SpecDecodingStats (executor/types.h): acceptanceLength is tokens per step of the requests with a draft, bonus token
included; iterLatencyMS there is drafting alone and draftOverhead its share of the iteration. trtllm-bench
(bench/dataclasses/reporting.py) divides output tokens by decoding iterations + 1: the context step is inside, so its
AL and rate are a little low; per request drafts = max_draft_len * (iterations + 1).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specplan.planner.acceptance.reading import Reading, Tally, reading_of
from specplan.planner.acceptance.records import CountedRecord, count_steps
from specplan.planner.engines.streams import number, numbers, whole
from specplan.planner.messages import Note

ENGINE = "tensorrt_llm"
NEEDLES = (b"] AVERAGE", b"Number of requests:")
TEXT = re.compile(r"\[(DT|ADT|DAR|AL)\]\s+AVERAGE\s*:\s*(\d[\d.]*)(?![\d.])")
REQUESTS = re.compile(r"Number of requests:\s+(\d+)\s*$")
PERCENTILES = {"DT": "num_draft_tokens_percentiles", "ADT": "num_accepted_draft_tokens_percentiles",
               "DAR": "draft_acceptance_rate_percentiles", "AL": "acceptance_length_percentiles"}
BENCH = ("output tokens / decoding iterations with the context step counted as one: AL and rate are a little low; "
         "drafts are max_draft_len times iterations")


@dataclass(slots=True)
class DraftTimes:
    """Sums over timed iterations of one D."""

    draft_ms: float = 0.0
    step_ms: float = 0.0
    iterations: int = 0

    def add(self, draft_ms: float, step_ms: float) -> None:
        """Count one iteration."""
        self.draft_ms += draft_ms
        self.step_ms += step_ms
        self.iterations += 1

    @property
    def mean_draft_s(self) -> float | None:
        """Seconds of drafting in one iteration."""
        return self.draft_ms / self.iterations / 1e3 if self.iterations else None

    @property
    def mean_step_s(self) -> float | None:
        """Seconds of one iteration."""
        return self.step_ms / self.iterations / 1e3 if self.iterations else None


class Reader:
    """Collects what the lines and JSON objects of one file say."""

    def __init__(self) -> None:
        self.rows: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.seen_rows: set[tuple[Any, ...]] = set()
        self.repeated = 0
        self.times: defaultdict[int | None, DraftTimes] = defaultdict(DraftTimes)
        self.bench: dict[str, float] = {}
        self.bench_requests: float | None = None
        self.payloads: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.all_zero = 0
        self.decoded_per_iter: list[float] = []
        self.without_speculation = False

    def line(self, text: str) -> None:
        """Take one line of trtllm-bench."""
        for name, value in TEXT.findall(text):
            self._average(name, number(value))
        if (match := REQUESTS.search(text)) is not None:
            self.bench_requests = float(match[1])

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take one JSON object, if it is one of TensorRT-LLM's."""
        stats = node.get("specDecodingStats", node.get("spec_decoding_stats"))
        if isinstance(stats, dict):
            self._row(node, stats)
            return True
        if "request_info" in node and "performance" in node and "engine" in node:
            self.without_speculation = self.without_speculation or "decoding_stats" not in node
            request_info = node["request_info"]
            if isinstance(request_info, dict):
                self.bench_requests = number(request_info.get("num_requests"))
        decoding = node.get("decoding_stats")
        if isinstance(decoding, dict):
            for short, name in PERCENTILES.items():
                percentiles = decoding.get(name)
                if isinstance(percentiles, dict):
                    self._average(short, number(percentiles.get("average")))
            return True
        payload = node.get("speculative_decoding")
        if isinstance(payload, dict) and "total_accepted_draft_tokens" in payload:
            self._payload(node, payload)
            return True
        return False

    def _average(self, name: str, value: float | None) -> None:
        if value is not None:
            self.bench[name] = value

    def _row(self, row: Mapping[str, Any], stats: Mapping[str, Any]) -> None:
        drafted, accepted = number(stats.get("numDraftTokens")), number(stats.get("numAcceptedTokens"))
        requests = number(stats.get("numRequestsWithDraftTokens"))
        identity = (row.get("iter"), row.get("timestamp"), drafted, accepted, requests, row.get("iterLatencyMS"))
        if row.get("iter") is not None:
            if identity in self.seen_rows:      # rank-0 rows are repeated under attention DP
                self.repeated += 1
                return
            self.seen_rows.add(identity)
            if len(self.seen_rows) > 200_000:
                self.seen_rows.clear()
        d = int(drafted / requests) if drafted and requests and drafted % requests == 0 else None
        used = count_steps(self.rows[d], CountedRecord(steps=requests, accepted=accepted, drafted=drafted, draft_len=d,
                                                       length=number(stats.get("acceptanceLength"))))
        draft_ms, step_ms = number(stats.get("iterLatencyMS")), number(row.get("iterLatencyMS"))
        if used and draft_ms and step_ms and 0 < draft_ms < step_ms:
            self.times[d].add(draft_ms, step_ms)

    def _payload(self, node: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        accepted = number(payload.get("total_accepted_draft_tokens"))
        drafted = number(payload.get("total_draft_tokens"))
        decoded = number(node.get("avg_decoded_tokens_per_iter"))
        if decoded is not None and decoded >= 1.0:
            self.decoded_per_iter.append(decoded)
        if not accepted and not drafted:
            self.all_zero += 1
            return
        d = whole(payload.get("num_spec_tokens"))
        count_steps(self.payloads[d], CountedRecord(
            steps=number(payload.get("num_spec_steps")), accepted=accepted, drafted=drafted, draft_len=d,
            histogram=numbers(payload.get("acceptance_histogram")), rate=number(payload.get("acceptance_rate"))))

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found, one reading per format and D."""
        notes = [Note("repeated_rows", f"{self.repeated} repeated iteration rows were dropped (attention DP)")] if (
            self.repeated) else []
        for d, tally in self.rows.items():
            yield reading_of(tally, source_format="tensorrt_llm-iterations", engine=ENGINE, draft_len=d, warnings=notes,
                             definition="acceptanceLength: tokens per step of requests with a draft, bonus included",
                             draft_s=self.times[d].mean_draft_s, step_s=self.times[d].mean_step_s)
        yield from self._bench_reading(draft_len)
        for d, tally in self.payloads.items():
            yield reading_of(tally, source_format="tensorrt_llm-requests", engine=ENGINE, draft_len=d,
                             definition="per request: accepted drafts per spec step; AL = 1 + accepted / steps")
        if self.all_zero and not self.payloads:
            tally = Tally(idle=self.all_zero)
            for value in self.decoded_per_iter:
                tally.add_length(value)
            yield reading_of(tally, source_format="tensorrt_llm-requests", engine=ENGINE, draft_len=None,
                             definition="avg_decoded_tokens_per_iter: tokens per iteration, bonus included", warnings=[
                                 Note("all_zero", "the speculative counts are all zero, as in the PyTorch flow until "
                                      "July 2026: avg_decoded_tokens_per_iter was used where given")])

    def _bench_reading(self, draft_len: int | None) -> Iterator[Reading]:
        length, rate = self.bench.get("AL"), self.bench.get("DAR")
        if length is None:
            return
        d, notes = _bench_draft_len(length, rate, draft_len)
        tally = Tally()
        if length < 1.0:
            tally.damaged["acceptance length below 1"] += 1
        else:
            tally.add_length(length)
        drafted, accepted = self.bench.get("DT"), self.bench.get("ADT")
        if drafted and accepted is not None and d:
            iterations = drafted / d
            exact = 1.0 + accepted / max(iterations - 1.0, 1e-9)
            if abs(accepted / drafted * d + 1.0 - length) > 0.25 * (length - 1.0) + 0.05:
                notes.append(Note("macro_mean", (
                    f"the mean over requests ({length:.2f}) is far from the ratio of the sums "
                    f"({accepted / drafted * d + 1:.2f}): requests differ, or a number is damaged")))
            notes.append(Note("context_step", (
                f"the context step is counted: without it AL is about {exact:.2f} ({iterations:.0f} iterations per "
                "request)")))
        yield reading_of(tally, source_format="tensorrt_llm-bench", engine=ENGINE, definition=BENCH, draft_len=d,
                         warnings=notes)


def _bench_draft_len(length: float, rate: float | None, draft_len: int | None) -> tuple[int | None, list[Note]]:
    """DAR = (AL - 1) / D holds for each request, and so for the means: it tells D."""
    if rate is None:
        return draft_len, []
    fitting = [d for d in range(1, 64) if abs(rate * d - (length - 1.0)) <= 0.0051 * (1 + d)]
    if draft_len is not None:
        return draft_len, [] if draft_len in fitting else [Note("identity_broken", (
            f"AL {length} and rate {rate} do not fit D = {draft_len}: one of them is damaged, or the means are "
            "weighted differently"))]
    if len(fitting) == 1:
        return fitting[0], []
    if not fitting:
        return None, [Note("identity_broken", f"AL {length} and rate {rate} fit no D: one of them is damaged")]
    return None, [Note("draft_len_needed", (
        f"AL and rate fit D = {', '.join(map(str, fitting))}; add --draft-len N"))]
