"""Acceptance numbers from files: find out whose they are, read them, merge them by steps, prove or refuse them.

Every reader sees every file; the one that understands something in it is the source. Two engines in one question are
an error, and a format can be named to settle it.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from specplan.planner.acceptance.reading import Reading
from specplan.planner.config.yaml_reader import parse_yaml
from specplan.planner.engines import counters, tools_aiperf, tools_inferencex, tools_specdec_bench
from specplan.planner.engines.acceptance_merge import conclude
from specplan.planner.engines.llama_cpp import acceptance as llama_cpp
from specplan.planner.engines.lmdeploy import acceptance as lmdeploy
from specplan.planner.engines.plain import read_plain
from specplan.planner.engines.plain_csv import read_csv
from specplan.planner.engines.sglang import acceptance as sglang
from specplan.planner.engines.streams import (
    DOCUMENT_BYTES,
    blocks,
    json_document,
    json_in_line,
    lines_with,
    nodes,
    open_bytes,
    read_block,
    text_of,
)
from specplan.planner.engines.tensorrt_llm import acceptance as tensorrt_llm
from specplan.planner.engines.vllm import acceptance as vllm
from specplan.planner.messages import Fault, InputError, Note, nearest

READERS: Mapping[str, Any] = {
    "vllm": vllm, "sglang": sglang, "tensorrt_llm": tensorrt_llm, "llama_cpp": llama_cpp, "lmdeploy": lmdeploy,
    "aiperf": tools_aiperf, "specdec_bench": tools_specdec_bench,
}
FORMATS = (*READERS, "inferencex", "stated")
ALIASES = {"trtllm": "tensorrt_llm", "tensorrt-llm": "tensorrt_llm", "llama.cpp": "llama_cpp", "llamacpp": "llama_cpp",
           "ik_llama": "llama_cpp", "plain": "stated", "csv": "stated", "yaml": "stated", "speed_bench": "aiperf",
           "golden": "inferencex"}
JSON_NEEDLES = (b'"spec', b'"draft_n_accepted"', b'"accept_length"')     # roots of the keys that readers know
SMALL_BYTES = 16 << 20      # a table or a YAML file is no larger
OTHERS_EVERY = 4            # once an engine is found in a large log, other engines are looked for in each 4th block


OWN = re.compile(rb"^source_format: ", re.MULTILINE)     # specplan's own YAML: it quotes engines' words and is no log


def read_files(paths: Sequence[str], *, format: str = "auto", draft_len: int | None = None,     # noqa: A002
               select: str | None = None) -> Reading:
    """Read acceptance from one or more files (`-` is standard input), merged by step counts.

    `format` names an engine or tool where detection is not wanted; `draft_len` gives D where the source does not;
    `select` picks one of several curves in a file.
    """
    engine = _format(format)
    if draft_len is not None and not 1 <= draft_len <= 1024:
        raise InputError([Fault(("draft_len",), f"{draft_len} is not a draft length: a whole number from 1 to 1024")])
    if not paths:
        raise InputError("no file given")
    if len(set(paths)) < len(paths):
        raise InputError("the same file is given twice: its steps would count twice")
    scrapes: dict[str, Any] = {}
    found: list[Reading] = []
    for path in paths:
        found += [dataclasses.replace(one, files=(path,)) for one in _read_one(path, engine, scrapes, draft_len)]
    for name in ("vllm", "llama_cpp", "lmdeploy"):
        if name in scrapes:
            found += [dataclasses.replace(one, files=tuple(paths)) for one in counters.readings_of(scrapes[name], name)]
    if "sglang" in scrapes:
        found += [dataclasses.replace(one, files=tuple(paths)) for one in scrapes["sglang"].readings(draft_len)]
    return conclude(found, paths, draft_len, select)


def _format(name: str) -> str | None:
    if name == "auto":
        return None
    engine = ALIASES.get(name.lower(), name.lower())
    if engine not in FORMATS:
        close = nearest(name, [*FORMATS, *ALIASES])
        raise InputError(f"unknown format '{name}'{close}; known: auto, {', '.join(FORMATS)}")
    return engine


def _read_one(path: str, engine: str | None, scrapes: dict[str, Any], draft_len: int | None) -> list[Reading]:
    """Readings of one file; counters go on in `scrapes`, because two files may be two scrapes."""
    readers: dict[str, Any] = {name: module.Reader() for name, module in READERS.items() if engine in (None, name)}
    for name, reader in readers.items():
        for attribute in ("growth", "gauges"):
            if hasattr(reader, attribute):
                setattr(reader, attribute, scrapes.setdefault(name, getattr(reader, attribute)))
    seen = [_seen(scrape) for scrape in scrapes.values()]
    damaged = [0]
    with open_bytes(path) as stream:
        head, whole_file = _head(stream)
        document = json_document(head) if whole_file and head.lstrip()[:1] in (b"{", b"[") else None
        if isinstance(document, dict | list):
            _offer(document, readers)
        elif not (whole_file and OWN.search(head)):
            speaking: set[str] = set()
            for number, block in enumerate([head] if whole_file else blocks(stream, head)):
                some = speaking and number % OTHERS_EVERY
                speaking |= _search(block, {name: readers[name] for name in speaking} if some else readers, damaged)
    found: list[Reading] = [one for reader in readers.values() for one in reader.readings(draft_len)]
    if damaged[0]:
        note = Note("records_damaged", f"{damaged[0]} JSON records are cut or damaged and were left out")
        found = [dataclasses.replace(one, warnings=(*one.warnings, note)) for one in found]
    scraped = [_seen(scrape) for scrape in scrapes.values()] != seen
    if not found and not scraped and whole_file:
        found = _tables(path, head, document, engine)
    if found or scraped:
        return found
    if not head.strip():
        raise InputError(f"{path}: is empty")
    if any(getattr(reader, "without_speculation", False) for reader in readers.values()):
        raise InputError(f"{path}: a benchmark without speculation: it holds no acceptance numbers")
    raise InputError(f"{path}: no acceptance numbers found; known are the logs, metrics, responses and benchmarks of "
                     + ", ".join(READERS) + ", golden curves and plain YAML or CSV (docs/measure.md)")


def _seen(scrape: Any) -> int:
    return len(scrape.lengths) if isinstance(scrape, sglang.Gauges) else scrape.takes + scrape.damaged


def _head(stream: Any) -> tuple[bytes, bool]:
    """The start of a file, all of it where it is small or one JSON document; and whether it is all."""
    head = read_block(stream, SMALL_BYTES)
    if len(head) < SMALL_BYTES:
        return head, True
    if head.lstrip()[:1] in (b"{", b"[") and json_document(head.split(b"\n", 1)[0]) is None:
        head += read_block(stream, DOCUMENT_BYTES)
        return head, len(head) < DOCUMENT_BYTES
    return head, False


def _search(block: bytes, readers: Mapping[str, Any], damaged: list[int]) -> set[str]:
    """Offer the lines of a block that may matter to each reader; says which readers were spoken to.

    Lines that look like JSON with a known key and are none are counted in `damaged`.
    """
    speaking = set()
    for name, reader in readers.items():
        module = READERS[name]
        needles, taken = reader.block(block) if hasattr(reader, "block") else (module.NEEDLES, False)
        lines = lines_with(block, needles)
        for line in lines:
            reader.line(text_of(line))
        for needle, window in getattr(module, "WINDOWS", {}).items():
            for line in lines_with(block, [needle], window):
                reader.line(text_of(line))
        if lines or taken:
            speaking.add(name)
    for line in lines_with(block, JSON_NEEDLES):
        document = json_in_line(text_of(line))
        if document is None:
            damaged[0] += 1
        else:
            _offer(document, readers)
    return speaking


def _offer(document: Any, readers: Mapping[str, Any]) -> None:
    for node in nodes(document):
        for reader in readers.values():
            reader.node(node)


def _tables(path: str, head: bytes, document: Any, engine: str | None) -> list[Reading]:
    """Golden curves, category tables, plain YAML, JSON and CSV: files without an engine's words."""
    text = head.decode("utf-8-sig", "replace")
    try:
        for read in (tools_aiperf.read_report, read_csv):
            if document is None and "," in text and (readings := read(text)):
                return readings
        named = path.lower().endswith((".yaml", ".yml", ".json")) or engine in ("stated", "inferencex")
        if document is None and named:
            document = parse_yaml(text).value
        return read_plain(document) or tools_inferencex.read_golden(document) or []
    except InputError as error:
        raise InputError(dataclasses.replace(fault, file=fault.file or path) for fault in error.faults) from None
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from None
