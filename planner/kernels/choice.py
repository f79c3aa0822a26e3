"""How an entry is chosen: the engine's own before another engine's, measured before carried over, default first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from specplan.planner.kernels.entries import Entry, GpuProfile
from specplan.planner.kernels.prior import prior_evidence
from specplan.planner.kernels.timing import Evidence
from specplan.planner.messages import Fault, InputError, Note, nearest
from specplan.planner.models.dtypes import BYTES_PER_WEIGHT, MATH_OF_WEIGHT

ENGINES = ("vllm", "sglang", "trtllm")
ANY = "any"     # entries of the library that all engines call


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """An entry, and what had to be assumed to use it here."""

    entry: Entry
    notes: tuple[Note, ...]
    evidence: Evidence

    def number(self, name: str, default: float = 0.0) -> float:
        """A parameter of the entry."""
        return self.entry.parameters.get(name, default)


def choose(
    gpu: GpuProfile, family: str, engine: str, what: str, fits: Callable[[Entry], Any], *, override: str | None = None,
    own_engine: bool = False,
) -> Choice | None:
    """The best entry that `fits`, or None. `what` names the need in the note when another engine's stands in."""
    entries: Iterable[Entry] = gpu.entries(family)
    if override is not None:
        entries = named(gpu, family, override)
    found = [entry for entry in entries if fits(entry) and (override is not None or not entry.only_by_name)]
    if own_engine:
        found = [entry for entry in found if entry.engine in (engine, ANY)]
    if not found:
        return None
    entry = min(found, key=lambda entry: _rank(entry, engine))
    evidence = evidence_of(gpu, entry)
    if entry.engine in (engine, ANY) or override is not None:
        return Choice(entry, _carried_over(gpu, evidence), evidence)
    note = Note("kernel-of-other-engine", f"no {what} measured for {engine} on {gpu.name}: {entry.id} stands in")
    return Choice(entry, (note, *_carried_over(gpu, evidence)), prior_evidence(evidence, f"stands in for {engine}"))


def named(gpu: GpuProfile, family: str, name: str) -> list[Entry]:
    """Entries whose id, or id without the engine, is `name`; an error with the nearest ids where there is none."""
    found = [entry for entry in gpu.entries(family) if name in (entry.id, entry.kernel)]
    if not found:
        known = tuple(dict.fromkeys(entry.id for entry in gpu.entries(family)))
        raise InputError(f"{family} kernel: no '{name}' on {gpu.name}{nearest(name, known)}; known: {', '.join(known)}")
    return found


def evidence_of(gpu: GpuProfile, entry: Entry) -> Evidence:
    """The entry's evidence with its source spelt out."""
    source = gpu.sources.get(entry.evidence.source, entry.evidence.source)
    if entry.evidence.level == "measured" and entry.version:
        source += f"; {entry.measured_as or entry.id} of {entry.engine} {entry.version} on {gpu.name}"
    return dataclasses.replace(entry.evidence, source=source)


def with_notes(choice: Choice, *notes: Note) -> Choice:
    """The choice with further assumptions; each makes it a prior."""
    evidence = choice.evidence
    for note in notes:
        evidence = prior_evidence(evidence, note.message)
    return Choice(choice.entry, (*notes, *choice.notes), evidence)


def _rank(entry: Entry, engine: str) -> tuple[bool, bool, bool, int, bool]:
    evidence = entry.evidence
    other = entry.engine not in (engine, ANY)
    rough_shared = entry.engine == ANY and evidence.quality != "ok"
    order = ENGINES.index(entry.engine) if entry.engine in ENGINES else len(ENGINES)
    return other or rough_shared, evidence.level != "measured", evidence.quality != "ok", order, not entry.default


def _carried_over(gpu: GpuProfile, evidence: Evidence) -> tuple[Note, ...]:
    if evidence.level == "measured":
        return ()
    return (Note("gpu-prior", f"{gpu.name} was not measured: {evidence.source}"),)


def of_datasheet(gpu: GpuProfile, kernel_id: str, form: str, parameters: Mapping[str, float]) -> Choice:
    """A stand-in where no entry exists at all: typical shares of the datasheet, and a note that says so."""
    source = f"no {kernel_id.partition('-')[2]} kernel measured near {gpu.name}: typical shares of its datasheet rates"
    evidence = Evidence(level="prior", quality="rough", source=source)
    entry = Entry(id=kernel_id, engine=kernel_id.partition("-")[0], version="", form=form, key={},
                  parameters=parameters, evidence=evidence)
    return Choice(entry, (Note("datasheet-prior", source),), evidence)


def math_format_of(gpu: GpuProfile, weight_dtype: str) -> str:
    """Number format that a weight format computes in here; bf16 where its tensor cores are absent or slower."""
    if weight_dtype not in BYTES_PER_WEIGHT:
        message = f"no format '{weight_dtype}'{nearest(weight_dtype, BYTES_PER_WEIGHT)}"
        raise InputError([Fault(("dtypes", "weights"), message)])
    native = MATH_OF_WEIGHT[weight_dtype]
    return native if gpu.hardware.dense(native) >= gpu.hardware.dense("bf16") else "bf16"
