"""`specplan fit`: measurements in, a GPU profile out. `make profiles` runs this as a module.

`python -m specplan.microbench.fit_profile [SYSTEM ...]` regenerates shipped profiles, of all measured GPUs or of some.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specplan.microbench import silicon
from specplan.microbench.fit_rows import Slice
from specplan.microbench.fit_system import Fitted, Unfitted, fit_and_score, source_texts
from specplan.planner.kernels.entries import FAMILIES, Entry, GpuProfile, Hardware
from specplan.planner.kernels.profile import PROFILES, dump_profile, read_profile
from specplan.planner.messages import Fault, InputError

WORKERS = 2     # a fit is many small array operations: more processes than cores only wait

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """A fitted profile, and what became of each slice of rows."""

    profile: GpuProfile
    fitted: tuple[Fitted, ...]
    unfitted: tuple[Unfitted, ...]
    faults: tuple[Fault, ...] = ()      # lines of the file that could not be read

    @property
    def text(self) -> str:
        """The profile as a file: the same rows give the same bytes."""
        return dump_profile(self.profile)

    @property
    def rejected(self) -> dict[str, int]:
        """Rows left out, by reason, over all slices."""
        counts: Counter[str] = Counter()
        for rows in (*(item.rows for item in self.fitted), *(item.rows for item in self.unfitted)):
            counts.update(rows.rejected)
        return dict(sorted(counts.items()))

    def lines(self) -> list[str]:
        """The report for people: each entry with its error, then what was left out and why."""
        told = []
        for item in self.fitted:
            evidence, entry = item.entry.evidence, item.entry
            key = " ".join(f"{name}={value}" for name, value in entry.key.items())
            error = "" if evidence.error_mean_pct is None else (
                f": {evidence.error_mean_pct:g} % mean, {evidence.error_p90_pct:g} % p90 "
                f"on {evidence.held_out_rows} held out")
            held = f"; held at prior: {', '.join(item.held)}" if item.held else ""
            told.append(f"{entry.id} {key} [{evidence.quality}] {evidence.rows} rows{error}{held}")
        told += [f"not fitted: {item.rows.name} ({len(item.rows)} rows): {item.reason}" for item in self.unfitted]
        told += [f"left out: {count} rows: {reason}" for reason, count in self.rejected.items()]
        return [*told, *(str(fault) for fault in self.faults)]


def fit_silicon(
    system: str, engine: str | None = None, *, out: Path | None = None, root: Path | None = None,
    workers: int = WORKERS, progress: Progress | None = None,
) -> FitReport:
    """Profile of a measured system, from the tables of the installed wheel; hardware facts are the shipped ones.

    Raises
    ------
    MissingError
        The wheel or pyarrow is not installed.
    InputError
        An unknown system or engine, tables that cannot be read, or nothing that can be fitted.
    """
    slices = silicon.read_silicon(system, engine, root=root)
    base = read_profile((PROFILES / f"{system}.yaml").read_text(encoding="utf-8"))
    results = fit_all(slices, base.hardware, workers=workers, progress=progress)
    report = as_profile(base, results, f"{silicon.WHEEL} {silicon.VERSION} tables ({silicon.LICENCE})")
    if not report.fitted:
        told = f" of {engine}" if engine is not None else ""
        faults = [Fault((), f"{item.rows.name}: {item.reason}") for item in report.unfitted]
        why = "" if faults else ": no table has rows enough"
        raise InputError([Fault((), f"{system}: nothing fitted{told}{why}"), *faults])
    if out is not None:
        write_profile(report, out)
    return report


def fit_all(
    slices: Sequence[Slice], hardware: Hardware, *, workers: int = WORKERS, progress: Progress | None = None
) -> list[Fitted | Unfitted]:
    """Results in the order of the slices, whatever the number of processes."""
    tell = progress or (lambda _: None)
    if workers <= 1 or len(slices) < 2 or (os.cpu_count() or 1) < 2:
        results = []
        for rows in slices:
            tell(rows.name)
            results.append(fit_and_score(rows, hardware))
        return results
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - only where it pays

    # the largest first, so that no process is left with a long one at the end
    order = sorted(range(len(slices)), key=lambda index: -len(slices[index]))
    with ProcessPoolExecutor(max_workers=workers) as pool:
        waiting = {index: pool.submit(fit_and_score, slices[index], hardware) for index in order}
        done: dict[int, Fitted | Unfitted] = {}
        for index, future in waiting.items():
            tell(slices[index].name)
            done[index] = future.result()
    return [done[index] for index in range(len(slices))]


def as_profile(base: GpuProfile, results: Iterable[Fitted | Unfitted], origin: str) -> FitReport:
    """The base with its kernels replaced by the fitted ones."""
    fitted, unfitted = _told_apart(results)
    by_family: dict[str, list[Entry]] = {family: [] for family in FAMILIES}
    for item in fitted:
        by_family[item.rows.family].append(item.entry)
    kernels = {family: tuple(entries) for family, entries in by_family.items() if entries}
    used = source_texts((item.entry for item in fitted), origin)
    kept = {name: text for name, text in base.sources.items() if name in base.hardware.sources}
    profile = dataclasses.replace(base, kernels=kernels, sources={**kept, **used})
    return FitReport(profile=profile, fitted=tuple(fitted), unfitted=tuple(unfitted))


def _told_apart(results: Iterable[Fitted | Unfitted]) -> tuple[list[Fitted], list[Unfitted]]:
    """Of two kernels with one name and key, the one that is described better."""
    best: dict[tuple[object, ...], Fitted] = {}
    unfitted = []
    for item in results:
        if isinstance(item, Unfitted):
            unfitted.append(item)
            continue
        name = (item.rows.family, item.entry.id, *item.entry.key.items())
        other = best.get(name)
        if other is None or (item.entry.evidence.error_mean_pct or 0) < (other.entry.evidence.error_mean_pct or 0):
            best[name], item = item, other  # type: ignore[assignment] # noqa: PLW2901
        if item is not None:
            unfitted.append(Unfitted(rows=item.rows, target=item.target, reason="a better known kernel has this name"))
    return list(best.values()), unfitted


def write_profile(report: FitReport, out: Path) -> None:
    """Write the profile where it is asked for."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None


def main(systems: Sequence[str]) -> None:
    """Regenerate shipped profiles in place: all measured systems, or those named."""
    for system in systems or tuple(silicon.SYSTEMS):
        report = fit_silicon(system, out=PROFILES / f"{system}.yaml")
        print(f"{system}: {len(report.fitted)} entries, {len(report.unfitted)} slices not fitted", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
