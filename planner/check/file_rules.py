"""Rules about whole files: server logs with the signature of a fault, and specplan's own configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from specplan.planner.engines.rule import Rule
from specplan.planner.engines.rule_examples import example
from specplan.planner.messages import InputError

# Lines of a log that carry acceptance; a log without them is not read further
ACCEPTANCE = re.compile(r"SpecDecoding metrics|Speculative metrics|accept len:|draft acceptance|\[AL\] "
                        r"|spec_decode_num_drafts"
                        r"|accept_length|acceptance_histogram")
_OWN = re.compile(r"^target[ \t]*:", re.MULTILINE)
_OWN_TOO = re.compile(r"^(?:gpu|workload|drafters)[ \t]*:", re.MULTILINE)


def in_log(path: Path) -> Iterator[tuple[Rule, str]]:
    """Findings about the acceptance numbers in a log."""
    from specplan.planner.engines.acceptance import read_files  # noqa: PLC0415  (numpy waits until there is a log)

    try:
        reading = read_files([str(path)])
    except InputError as error:
        if "no acceptance numbers" not in str(error):
            yield _IMPOSSIBLE, "; ".join(fault.message for fault in error.faults)
        return
    for note in reading.warnings:
        if note.code == "looks_like_a_fault":
            yield _FAULT, note.message
        elif note.code in {"identity_broken", "files_differ"}:
            yield _IMPOSSIBLE, note.message


def is_own_configuration(source: str) -> bool:
    """True for a cfg.yaml of specplan."""
    return bool(_OWN.search(source) and _OWN_TOO.search(source))


def in_own_configuration(path: Path) -> Iterator[tuple[Rule, int, str]]:
    """Structural faults of a cfg.yaml, with their lines."""
    from specplan.planner.config.load import read_config  # noqa: PLC0415  (pydantic waits until there is a cfg.yaml)

    try:
        read_config(path)
    except InputError as error:
        for fault in error.faults:
            key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.path).lstrip(".")
            yield OWN, fault.line or 1, f"{key}: {fault.message}" if key else fault.message


_LINE = (
    "INFO 11-02 10:00:0%d SpecDecoding metrics: Mean acceptance length: %s, Accepted throughput: %s tokens/s, Drafted "
    "throughput: %s tokens/s, Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s, Avg Draft "
    "acceptance rate: %s%%\n"
)
_BAD_LOG = _LINE % (1, "1.03", "2.50", "365.14", 25, 3651, "0.027, 0.000, 0.000, 0.000", "0.7")
_GOOD_LOG = _LINE % (1, "2.49", "149.00", "400.00", 1490, 4000, "0.700, 0.420, 0.250, 0.120", "37.2")

_FAULT = Rule(
    code="SP701", name="acceptance-fault", severity="warning",
    summary="A server log shows acceptance that looks like a fault, not like a workload.",
    why="0 % after a thousand drafts, a first position under 0.3, acceptance length exactly 1 or exactly D + 1 have "
        "been wrong drafters, missing hidden states, bad scales and NaN logits in public reports: tuning D hides the "
        "fault.",
    fix="Check drafter, target, quantisation and template; repeat with repeated text, which should reach D + 1.",
    source="vllm-project/vllm#41789, #55605, #6768; vllm-project/vllm-ascend#15346; NVIDIA/TensorRT-LLM#5146; "
           "sgl-project/sglang#21272",
    bad=example("server.log", _BAD_LOG), good=("server.log", _GOOD_LOG))
_IMPOSSIBLE = Rule(
    code="SP702", name="acceptance-impossible", severity="warning",
    summary="Acceptance numbers in a server log contradict each other.",
    why="Acceptance length, per-position rates and counts are tied by identities; numbers that break them have "
        "another definition than they seem to have.",
    fix="See docs on acceptance definitions; read the file with specplan acceptance read.",
    source="vLLM 0.33.0, vllm/v1/spec_decode/metrics.py (how the numbers of a line hang together)",
    bad=example("server.log", _LINE % (1, "3.90", "149.00", "400.00", 1490, 4000, "0.700, 0.420, 0.250, 0.120",
                                       "37.2")),
    good=example("server.log", _GOOD_LOG))
OWN = Rule(
    code="SP801", name="own-configuration", severity="error",
    summary="A cfg.yaml of specplan that specplan refuses.",
    why="recommend stops with the same message.", fix="Do what the message says.",
    source="planner/config",
    bad=example("cfg.yaml", "target: llama-3.1-8b\ngpu: h200-sxm\nworkload:\n  batch: [1, 8]\n  contxt_tokens: 8k\n"),
    good=example("cfg.yaml", "target: llama-3.1-8b\ngpu: h200-sxm\nworkload:\n  batch: [1, 8]\n  context_tokens: 8k\n"))
RULES = (_FAULT, _IMPOSSIBLE, OWN)
