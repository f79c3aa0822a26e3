"""NVIDIA Model-Optimizer's specdec_bench: acceptance_rate.json, a list with one entry per run.

Its histogram counts tokens per step with the bonus token, so key 1 is "no draft accepted". Its conditional rates are
keyed alike: key 1 is 1.0 (the bonus token), key 2 the first draft. `Average_AL` (called AR before version 1.0.0) is a
length, and a plain mean over turns; the histogram weights by steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specplan.planner.acceptance.reading import Reading, Tally, reading_of, unconditional
from specplan.planner.engines.streams import number, whole
from specplan.planner.messages import Note

ENGINE = "specdec_bench"
NEEDLES: tuple[bytes, ...] = ()
KEYS = {"Acceptance_Length_Histogram", "Conditional_Acceptance_Rate", "Joint_Acceptance_Rate"}


class Reader:
    """Collects the runs of one file."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.rates: list[tuple[float, ...]] = []
        self.categories: dict[str, float] = {}
        self.averages: list[float] = []
        self.runs = 0
        self.without_speculation = False

    def line(self, text: str) -> None:
        """specdec_bench writes no lines that are read here."""

    def node(self, node: Mapping[str, Any]) -> bool:
        """Take one run."""
        if not KEYS & node.keys():
            return False
        self.runs += 1
        average = number(node.get("Average_AL", node.get("Average_AR")))
        if average is not None:
            self.averages.append(average)
        categories = node.get("Category_AL", node.get("Category_AR"))
        if isinstance(categories, dict):
            self.categories |= {str(name): value for name, one in categories.items()
                                if (value := number(one)) is not None and value >= 1.0}
        histogram = _by_length(node.get("Acceptance_Length_Histogram"))
        conditional = _by_length(node.get("Conditional_Acceptance_Rate"))
        joint = _by_length(node.get("Joint_Acceptance_Rate"))
        rates = unconditional([conditional.get(k, 0.0) for k in range(2, max(conditional) + 1)]) if conditional else ()
        if not rates and joint:
            rates = tuple(joint.get(k, 0.0) for k in range(2, max(joint) + 1))
        if histogram:
            self._histogram(histogram, rates)
        elif rates or (conditional and max(conditional) == 1):
            self.rates.append(rates)
        return True

    def _histogram(self, histogram: Mapping[int, float], rates: tuple[float, ...]) -> None:
        if min(histogram) < 0 or min(histogram.values()) < 0:
            self.tally.damaged["negative lengths or counts"] += 1
            return
        zero = histogram.get(0, 0.0)            # chunks without a token are no steps
        counts = [histogram.get(j, 0.0) for j in range(1, max(histogram) + 1)]
        steps = sum(counts)
        if steps <= 0:
            self.tally.idle += 1
            return
        accepted = sum(j * n for j, n in enumerate(counts))
        if rates and abs(sum(rates) - accepted / (steps + zero)) > 0.02 * max(sum(rates), 1.0):
            self.tally.damaged["histogram and conditional rates contradict each other"] += 1
            return
        self.tally.add(steps=steps, accepted=accepted, histogram=counts)

    def readings(self, draft_len: int | None) -> Iterator[Reading]:
        """What was found."""
        if not self.runs:
            return
        notes = [Note("runs_added", f"{self.runs} runs were added up")] if self.runs > 1 else []
        definition = "tokens per step with the bonus token; conditional rates shifted by one, key 1 dropped"
        if self.tally.records == 0 and self.rates:
            longest = max(self.rates, key=len)
            tally = Tally()
            tally.add_length(1.0 + sum(longest))
            tally.position_steps, tally.positions = 1.0, list(longest)      # rates without counts
            notes.append(Note("no_histogram", "conditional rates only: no step counts, so no interval from counts"))
            yield reading_of(tally, source_format="specdec_bench", engine=ENGINE, definition=definition, warnings=notes,
                             draft_len=max(len(longest), draft_len or 0) or None)
            return
        d = max(len(self.tally.histogram) - 1, draft_len or 0) or None
        length = 1.0 + self.tally.accepted / self.tally.steps if self.tally.steps else 0.0
        average = sum(self.averages) / len(self.averages) if self.averages else length
        if abs(average - length) > 0.02 * max(length, 1.0) and self.tally.steps:
            notes.append(Note("macro_mean", f"Average_AL {average:.3f} is a plain mean over turns; weighted by steps "
                              f"AL is {length:.3f}, which was taken"))
        if self.categories:
            listed = ", ".join(f"{name} {value:.2f}" for name, value in sorted(self.categories.items()))
            notes.append(Note("categories", f"by category: {listed}"))
        yield reading_of(self.tally, source_format="specdec_bench", engine=ENGINE, definition=definition, draft_len=d,
                         warnings=notes)


def _by_length(value: Any) -> dict[int, float]:
    """{tokens: value} with whole keys; empty where it is none."""
    if not isinstance(value, dict):
        return {}
    result = {whole(key): number(one) for key, one in value.items()}
    if any(key is None or not -1 < key < 1025 or one is None for key, one in result.items()):
        return {}
    return {key: one for key, one in result.items() if key is not None and one is not None}
