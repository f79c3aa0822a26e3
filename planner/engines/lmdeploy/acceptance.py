"""LMDeploy: the log line and counters that it took over from vLLM (lmdeploy/metrics/loggers.py).

The line follows LMDeploy's own load line and prints the rate with two decimals, which is how the two are told apart.
Definitions are vLLM's of today.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specplan.planner.acceptance.reading import Reading
from specplan.planner.engines.counters import Growth
from specplan.planner.engines.vllm.log import LogLines, is_lmdeploy

ENGINE = "lmdeploy"
PREFIX = "lmdeploy"
NEEDLES = (b"SpecDecoding metrics: Draft", b"lmdeploy:spec_decode_num_")


class Reader:
    """Collects what the lines of one file say."""

    def __init__(self) -> None:
        self.log = LogLines(ENGINE)
        self.growth = Growth()

    def line(self, text: str) -> None:
        """Take one line of a log or a scrape."""
        if "lmdeploy:spec_decode_num_" in text:
            self.growth.take(PREFIX, text)
        elif is_lmdeploy(text):
            self.log.line(text)

    def node(self, node: Mapping[str, Any]) -> bool:    # noqa: ARG002 - LMDeploy reports nothing in JSON
        """Take one JSON object."""
        return False

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found."""
        yield from self.log.readings(draft_len)
