"""InferenceX golden acceptance lengths: one YAML per model and drafter, AL by number of speculative tokens.

`model: {thinking_on: {1: 1.93, 2: 2.73, ...}, thinking_off: {...}}`: SPEED-Bench coding on vLLM, each D a server run
of its own, the bonus token counted.
"""

from __future__ import annotations

from typing import Any

from specplan.planner.acceptance.reading import Reading
from specplan.planner.engines.plain import lengths_of

ENGINE = "inferencex"
DEFINITION = "AL by num_speculative_tokens, bonus token included, each D a run of its own (SPEED-Bench coding)"


def read_golden(document: Any) -> list[Reading] | None:
    """One reading per model and mode; None if the document is something else."""
    readings = []
    for model, modes in document.items() if isinstance(document, dict) else ():
        for mode, curve in modes.items() if isinstance(modes, dict) else ((None, None),):
            lengths = lengths_of(curve) if isinstance(curve, dict) else {}
            if not lengths:
                return None
            readings.append(Reading(
                source_format="inferencex-golden", engine=ENGINE, lengths=lengths, draft_len=max(lengths),
                acceptance_length=lengths[max(lengths)], definition=DEFINITION,
                labels={"target": str(model), "thinking": str(mode), "domain": "coding",
                        "selection": f"{model}/{mode}"}))
    return readings or None
