"""AIPerf: run summary, per-request records, scraped server metrics, and the speed-bench report.

profile_export_aiperf.json holds two lengths: the mean of requests, and the token-weighted 1 + sum accepted / sum
steps, which is the one to use; the pooled histogram tells the positions. Rates are percent there.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from specplan.planner.acceptance.reading import NAN, Reading, Tally, reading_of
from specplan.planner.acceptance.records import CountedRecord, count_steps
from specplan.planner.engines.streams import number, whole
from specplan.planner.messages import InputError, Note

ENGINE = "aiperf"
NEEDLES: tuple[bytes, ...] = ()
CATEGORIES = ("coding", "humanities", "math", "multilingual", "qa", "rag", "reasoning", "roleplay", "stem",
              "summarization", "writing", "gsm8k", "math500", "mtbench", "humaneval", "mbpp", "low_entropy", "mixed",
              "high_entropy")
SERVER = {"drafts": "spec_decode_num_drafts", "drafted": "spec_decode_num_draft_tokens",
          "accepted": "spec_decode_num_accepted_tokens"}


PLAIN_MEAN = Note("mean_of_categories", "overall is the plain mean of the categories; choose that of your traffic with "
                  "--select")


class Reader:
    """Collects what the JSON objects of one file say."""

    def __init__(self) -> None:
        self.summary: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.records: defaultdict[int | None, Tally] = defaultdict(Tally)
        self.server = Tally()
        self.server_positions = 0
        self.notes: list[Note] = []
        self.without_speculation = False

    def line(self, text: str) -> None:
        """AIPerf writes no lines of its own."""

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take one JSON object, if it is one of AIPerf's."""
        if "spec_decode_token_weighted_acceptance_length" in node or "total_spec_decode_steps" in node:
            self._summary(node)
        elif isinstance(node.get("spec_decode_acceptance"), dict):
            self._record(node, node["spec_decode_acceptance"])
        elif isinstance(node.get("metrics"), dict) and any("spec_decode_num_drafts" in name or name.startswith(
                "sglang:spec_accept") for name in node["metrics"]):
            self._server(node["metrics"])
        elif "output_token_throughput" in node and "input_config" in node:
            self.without_speculation = True
            return False
        else:
            return False
        return True

    def _summary(self, node: Mapping[str, Any]) -> None:
        def average(name: str) -> float | None:
            entry = node.get(name)
            return number(entry.get("avg")) if isinstance(entry, dict) else None

        histogram = _histogram(node.get("pooled_spec_decode_acceptance_histogram"))
        steps, drafted = average("total_spec_decode_steps"), average("total_draft_tokens")
        length = average("spec_decode_token_weighted_acceptance_length")
        rate = average("spec_decode_overall_draft_acceptance_rate")
        if steps is None and histogram:
            steps = sum(histogram)
        d = int(drafted / steps) if drafted and steps and drafted % steps == 0 else None
        macro = average("spec_decode_acceptance_length")
        if steps is None:
            if length is not None:
                self.summary[d].add_length(length)
            return
        count_steps(self.summary[d], CountedRecord(
            steps=steps, accepted=average("total_accepted_draft_tokens"), drafted=drafted, length=length,
            rate=None if rate is None else rate / 100.0, histogram=histogram, draft_len=d))
        if macro is not None and length is not None and abs(macro - length) > 0.05 * length:
            self.notes.append(Note("macro_mean", (
                f"the mean over requests is {macro:.2f}, over steps {length:.2f}: requests differ; the second one was "
                "taken, as throughput needs it")))

    def _record(self, node: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        metadata = node.get("metadata")
        if isinstance(metadata, dict) and "warmup" in (metadata.get("benchmark_phase"), metadata.get("phase_kind")):
            return
        d = whole(spec.get("num_spec_tokens"))
        rate = number(spec.get("draft_acceptance_rate"))
        count_steps(self.records[d], CountedRecord(
            steps=number(spec.get("num_spec_steps")), accepted=number(spec.get("num_accepted_draft_tokens")),
            drafted=number(spec.get("num_draft_tokens")), length=number(spec.get("mean_acceptance_length")), rate=rate,
            histogram=_histogram(spec.get("acceptance_histogram")), draft_len=d))

    def _server(self, metrics: Mapping[str, Any]) -> None:
        """Scraped during the run: counters by their growth, gauges by their mean."""
        def growth(name: str) -> float | None:
            found = [metric for full, metric in metrics.items() if full.split(":")[-1].removesuffix("_total") == name]
            totals = [_stat(series, "total") for metric in found for series in _series(metric)]
            known = [total for total in totals if total is not None]
            return sum(known) if known else None

        steps = growth(SERVER["drafts"])
        if steps is not None:
            positions: dict[int, float] = {}
            for full, metric in metrics.items():
                if full.split(":")[-1].removesuffix("_total") == "spec_decode_num_accepted_tokens_per_pos":
                    for series in _series(metric):
                        place, total = whole((series.get("labels") or {}).get("position")), _stat(series, "total")
                        if place is not None and total is not None and 0 <= place < 1024:
                            positions[place] = positions.get(place, 0.0) + total
            width = max(positions, default=-1) + 1 if steps else 0
            rates = [positions.get(place, NAN) / steps for place in range(width)]
            self.server_positions = len(rates)
            count_steps(self.server, CountedRecord(steps=steps, accepted=growth(SERVER["accepted"]),
                                                   drafted=growth(SERVER["drafted"]), per_position=rates))
            return
        for full, metric in metrics.items():
            if full == "sglang:spec_accept_length":
                for value in (_stat(series, "avg") for series in _series(metric)[:1]):
                    if value is not None and value >= 1.0:
                        self.server.add_length(value)
                        self.notes.append(Note("gauges", "a gauge averaged over scrapes is biased by idle periods"))

    def readings(self, draft_len: int | None) -> Iterator[Reading]:     # noqa: ARG002 - AIPerf tells D itself
        """What was found: records before the summary before the scraped server."""
        for d, tally in self.records.items():
            yield reading_of(tally, source_format="aiperf-records", engine=ENGINE, draft_len=d,
                             definition="per request, warm-up left out: accepted drafts per step plus the bonus token")
        for d, tally in self.summary.items():
            yield reading_of(tally, source_format="aiperf-summary", engine=ENGINE, draft_len=d, warnings=self.notes,
                             definition="token-weighted acceptance length: 1 + sum of accepted / sum of steps")
        if self.server.records or self.server.damaged or self.server.idle:
            yield reading_of(self.server, source_format="aiperf-server-metrics", engine=ENGINE, warnings=self.notes,
                             draft_len=self.server_positions or None,
                             definition="server counters over the run: AL = 1 + accepted / drafts")


def read_report(text: str) -> list[Reading] | None:
    """The CSV of `aiperf speed-bench-report`: one row per model, one column per category; None if it is none."""
    rows = list(csv.reader(io.StringIO(text)))
    header = [cell.strip() for cell in rows[0]] if rows else []
    columns = [i for i, name in enumerate(header) if name.lower() in CATEGORIES]
    if not columns or header[0].lower() != "model":
        return None
    readings = []
    for row in filter(None, rows[1:]):
        if len(row) != len(header):
            raise InputError(f"row {row[0].strip()}: {len(row)} cells under {len(header)} columns")
        values = {header[i].lower(): number(row[i]) for i in range(1, len(row)) if row[i].strip()}
        if None in values.values():
            raise InputError(f"row {row[0].strip()}: a cell is not a number")
        known = {name: value for name, value in values.items() if value is not None and name in CATEGORIES}
        if not known:
            continue
        if max(known.values()) < 1.0 or min(known.values()) < 1.0:
            raise InputError("the report holds values below 1: acceptance rates? run speed-bench-report with "
                             "--metric accept_length")
        if max(known.values()) > 65:
            raise InputError("the report holds values above 65: throughput? run speed-bench-report with "
                             "--metric accept_length")
        for name, value in (*known.items(), ("overall", sum(known.values()) / len(known))):
            tally = Tally()
            tally.add_length(value)
            readings.append(reading_of(
                tally, source_format="speed-bench-csv", engine=ENGINE, draft_len=None,
                definition="acceptance length by SPEED-Bench category, bonus token included",
                labels={"target": row[0].strip(), "domain": name, "selection": f"{row[0].strip()}/{name}"},
                warnings=[*_overall_check(values, known), *([PLAIN_MEAN] if name == "overall" else [])]))
    return readings or None


def _overall_check(values: Mapping[str, float | None], known: Mapping[str, float]) -> list[Note]:
    overall, mean = values.get("overall"), sum(known.values()) / len(known)
    if overall is not None and abs(overall - mean) > 0.005 * mean:
        return [Note("identity_broken", f"Overall is {overall}, the mean of the categories {mean:.3f}: one is damaged")]
    return []


def _series(metric: Any) -> list[Mapping[str, Any]]:
    series = metric.get("series") if isinstance(metric, dict) else None
    return [one for one in series if isinstance(one, dict)] if isinstance(series, list) else []


def _stat(series: Mapping[str, Any], name: str) -> float | None:
    stats = series.get("stats")
    return number(stats.get(name)) if isinstance(stats, dict) else None


def _histogram(value: Any) -> list[float]:
    """{accepted drafts: steps} as a list; empty where it is none."""
    if isinstance(value, list):
        counts = [number(item) for item in value]
    elif isinstance(value, dict):
        keys = {whole(key): number(count) for key, count in value.items()}
        if any(key is None or not 0 <= key < 1024 for key in keys):
            return []
        top = max((key for key in keys if key is not None), default=-1)
        counts = [keys.get(j, 0.0) for j in range(top + 1)]
    else:
        return []
    return [] if any(count is None for count in counts) else [count for count in counts if count is not None]
