"""What ships with specplan, in at most 100 columns: acceptance curves by target, the kernels of a GPU by family."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from specplan.planner.output.rows import table_of_rows

WIDTH = 100
MOST = 30           # columns for what a kernel is for
# of a kernel: named in other columns, or only of use in full
_APART = frozenset({
    "id", "version", "form", "parameters", "parameter_error_pct", "bands", "level", "quality", "error_mean_pct",
    "error_p90_pct", "rows", "held_out_rows", "fitted_range", "source",
})


def curve_overview(curves: Sequence[Mapping[str, Any]]) -> str:
    """One line per mechanism and target: how many curves, the range of AL at their largest D, kinds of text."""
    rows = []
    for (mechanism, _), found in _groups(curves).items():
        target = min(curve["target"] for curve in found)
        lengths = [curve["acceptance_length"] for curve in found]
        domains = sorted({curve["domain"] for curve in found})
        rows.append({
            "mechanism": mechanism, "target": target, "curves": len(found),
            "AL": f"{min(lengths):.2f}-{max(lengths):.2f}" if len(found) > 1 else f"{lengths[0]:.2f}",
            "text": domains[0] if len(domains) == 1 else f"{domains[0]} and {len(domains) - 1} more",
        })
    return f"{table_of_rows(rows)}\n\n{len(curves)} curves; --mechanism, --target or --domain list theirs, --all all"


def curve_list(curves: Sequence[Mapping[str, Any]]) -> str:
    """The curves of each mechanism and target: AL at the largest D, the D that were measured, kind of text, id."""
    if not curves:
        return "nothing to list"
    lens = [ranges(curve["draft_lens"]) for curve in curves]
    wide, text = max(map(len, lens)), max(len(curve["domain"]) for curve in curves)
    lines = []
    for (mechanism, _), found in _groups(curves).items():
        target = min(curve["target"] for curve in found)    # capitals come first: Kimi-K3, not kimi-k3
        lines += ["", f"{mechanism} for {target}"]
        for curve in found:
            start = (f"  AL {curve['acceptance_length']:5.2f}  D {ranges(curve['draft_lens']):<{wide}}  "
                     f"{curve['domain']:<{text}}")
            fits = len(start) + 2 + len(curve["id"]) <= WIDTH
            lines += [f"{start}  {curve['id']}"] if fits else [start.rstrip(), f"    {curve['id']}"]
    return "\n".join(lines[1:])


def ranges(numbers: Sequence[int]) -> str:
    """'1-8,10' for 1 to 8 and 10.

    >>> ranges([1, 2, 3, 5, 8, 9])
    '1-3,5,8-9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def gpu_overview(facts: Mapping[str, Any]) -> str:
    """Hardware, then one line per kernel: what it is for and how wrong it is."""
    parts = [
        _yaml({"name": facts["name"], "hardware": facts["hardware"]}),
        *([] if facts["prior_from"] is None else [f"kernels carried over from {facts['prior_from']}"]),
    ]
    for family, entries in facts["kernels"].items():
        if entries:
            parts.append(f"{family}\n{table_of_rows(list(_kernel_lines(entries)))}")
    designs = ", ".join(facts["attention_designs"])
    parts += [
        _wrapped(f"attention kernels that can be asked for (attention_kernel): {designs}" if designs else
                 "no attention kernel that can be asked for is known to run on this device"),
        _wrapped("% error: mean / 90th percentile of the worst fit, on rows that no fit saw. --kernel ID prints a "
                 "kernel with its parameters and source, --all everything."),
    ]
    return "\n\n".join(parts)


def kernels_named(facts: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """The kernels and attention designs whose name holds `wanted`, whole; empty where none does."""
    asked = wanted.lower()
    kernels = {
        family: found for family, entries in facts["kernels"].items()
        if (found := [entry for entry in entries if asked in entry["id"].lower()])
    }
    designs = {name: design for name, design in facts["attention_designs"].items() if asked in name.lower()}
    return {name: found for name, found in (("kernels", kernels), ("attention_designs", designs)) if found}


def kernel_names(facts: Mapping[str, Any]) -> list[str]:
    """Names that `kernels_named` finds."""
    entries = (entry["id"] for found in facts["kernels"].values() for entry in found)
    return sorted({*entries, *facts["attention_designs"]})


def _kernel_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Fits of one kernel and version as one line, with the errors of the worst."""
    fits: dict[tuple[str, Any], list[Mapping[str, Any]]] = {}
    for entry in entries:
        fits.setdefault((entry["id"], entry.get("version")), []).append(entry)
    for (name, version), found in fits.items():
        keys = dict.fromkeys(key for entry in found for key in entry if key not in _APART)
        about = "; ".join(_values(key, [entry[key] for entry in found if key in entry]) for key in keys)
        levels = dict.fromkeys(str(entry[key]) for key in ("level", "quality") for entry in found if key in entry)
        errors = [(entry["error_mean_pct"], entry.get("error_p90_pct")) for entry in found if "error_mean_pct" in entry]
        mean, p90 = max(errors, default=(None, None))
        yield {
            "id": name,
            "version": version,
            "for": about if len(about) <= MOST else about[:MOST - 3] + "...",
            "evidence": ", ".join(levels),
            "% error": "-" if mean is None else f"{mean:.0f}" if p90 is None else f"{mean:.0f} / {p90:.0f}",
        }


def _values(key: str, values: Sequence[Any]) -> str:
    """'head_dim 64-256', 'bf16 fp8'."""
    if all(isinstance(value, bool) for value in values):
        return f"{key} " + " ".join(dict.fromkeys("yes" if value else "no" for value in values))
    if all(isinstance(value, int | float) for value in values):
        low, high = min(values), max(values)
        return f"{key} {low:g}" if low == high else f"{key} {low:g}-{high:g}"
    return " ".join(dict.fromkeys(map(str, values)))


def _groups(curves: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for curve in sorted(curves, key=lambda curve: (curve["mechanism"], str(curve["target"]).lower())):
        found.setdefault((curve["mechanism"], str(curve["target"]).lower()), []).append(curve)
    return found


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def _yaml(facts: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(facts), sort_keys=False, width=WIDTH, allow_unicode=True).rstrip()
