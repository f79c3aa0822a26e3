"""docs/accuracy.md and the README's table from scores. `make accuracy` runs this as a module.

`python -m specplan.microbench.accuracy` scores all systems anew (needs the wheel; minutes) and writes the pages; with
`--page` it only writes them, from the scores that are kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from specplan.microbench import silicon
from specplan.microbench.accuracy_scores import EXTRAPOLATIONS, Record, records
from specplan.microbench.fit_profile import fit_all
from specplan.microbench.fit_rows import SPLITS
from specplan.planner.kernels.profile import PROFILES, read_profile

ROOT = Path(__file__).resolve().parents[1]
SCORES = ROOT / "tests" / "data" / "silicon" / "scores.json"
PAGE = ROOT / "docs" / "accuracy.md"
README = ROOT / "README.md"
SECTION = "kernel accuracy"     # between `<!-- begin: ... -->` and `<!-- end: ... -->`

HOPPER, BLACKWELL = ("h100-sxm", "h200-sxm"), ("b200-sxm", "b300-sxm", "gb200", "gb300")
DATA_CENTRE = ("a100-80-sxm", *HOPPER, *BLACKWELL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A group of slices, the mean error aimed at, and which of a slice's scores counts."""

    name: str
    limit: float | None
    belongs: Callable[[Record], bool]
    few_tokens: bool = False

    def score(self, record: Record) -> float:
        """Mean absolute error in percent."""
        return float(record["few_tokens"]["mean"] if self.few_tokens else record["mean"])


def _is(family: str, *, gpus: Sequence[str] = tuple(silicon.SYSTEMS), ends: Sequence[str] = ("",),
        **key: str | Sequence[str]) -> Callable[[Record], bool]:
    def belongs(record: Record) -> bool:
        return (record["family"] == family and record["gpu"] in gpus
                and any(record["id"].endswith(end) for end in ends)
                and all(record["key"].get(name) in ((want,) if isinstance(want, str) else want)
                        for name, want in key.items()))
    return belongs


QUANTISED = ("fp8", "fp8_block", "nvfp4")
GOALS: tuple[Goal, ...] = (
    Goal(name="attention, FA3 on H100 and H200", limit=5.5, belongs=_is("attention", ends=("-fa3",))),
    Goal(name="attention, trtllm-gen on Blackwell", limit=6.0, belongs=_is("attention", ends=("-trtllm-gen",))),
    Goal(name="attention, FA2 and FlashInfer", limit=9.0, belongs=_is("attention", ends=("-fa2", "-flashinfer"))),
    Goal(name="attention, XQA on H100 and H200", limit=10.0, belongs=_is("attention", ends=("-xqa",))),
    Goal(name="attention, XQA on A100", limit=None, belongs=_is("attention", ends=("-xqa-ampere",))),
    Goal(name="GEMM bf16, H100 and H200", limit=5.5, belongs=_is("gemm", gpus=HOPPER, weight_dtype="bf16")),
    Goal(name="GEMM bf16, A100", limit=8.0, belongs=_is("gemm", gpus=("a100-80-sxm",), weight_dtype="bf16")),
    Goal(name="GEMM bf16, Blackwell", limit=7.5, belongs=_is("gemm", gpus=BLACKWELL, weight_dtype="bf16")),
    Goal(name="GEMM fp8, block fp8, nvfp4, data centre", limit=8.5,
         belongs=_is("gemm", gpus=DATA_CENTRE, weight_dtype=QUANTISED)),
    Goal(name="GEMM, L40S and RTX PRO 6000", limit=None, belongs=_is("gemm", gpus=("l40s", "rtx-pro-6000-server"))),
    Goal(name="experts", limit=12.0, belongs=_is("moe")),
    Goal(name="experts at 1 and 2 tokens", limit=12.0, belongs=_is("moe"), few_tokens=True),
    Goal(name="all-reduce in a graph, three bands", limit=6.0, belongs=_is("allreduce")),
    Goal(name="MLA decode, Hopper", limit=7.0, belongs=_is("mla", gpus=HOPPER)),
    Goal(name="MLA decode, Blackwell", limit=10.0, belongs=_is("mla", gpus=BLACKWELL)),
    Goal(name="GatedDeltaNet and KDA decode", limit=5.5, belongs=_is("recurrent", phase="decode")),
    Goal(name="KDA verify (q = 2, 4, 8)", limit=8.0, belongs=_is("recurrent", phase="verify")),
    Goal(name="DSA sparse attention (q = 4 to 64)", limit=7.0, belongs=_is("sparse", kind="dsa")),
    Goal(name="DSA sparse attention, one token", limit=None, belongs=_is("sparse", kind="dsa-decode")),
    Goal(name="HCA sparse attention (q = 4 to 64)", limit=None, belongs=_is("sparse", kind="hca")),
    Goal(name="HCA sparse attention, decode", limit=None, belongs=_is("sparse", kind="hca-decode")),
)


def score_systems(systems: Iterable[str] = tuple(silicon.SYSTEMS)) -> list[Record]:
    """Scores of all systems, from the tables of the installed wheel."""
    found: list[Record] = []
    for system in systems:
        slices = silicon.read_silicon(system)
        hardware = read_profile((PROFILES / f"{system}.yaml").read_text(encoding="utf-8")).hardware
        found += records(fit_all(slices, hardware), hardware, {rows.name: rows for rows in slices})
        print(f"{system}: scored", file=sys.stderr)  # noqa: T201
    return found


def section(scores: Sequence[Record]) -> str:
    """The generated part of docs/accuracy.md."""
    fitted = [record for record in scores if "unfitted" not in record]
    parts = [_HEAD, _summary(fitted), "### Beyond the fitted range", _BEYOND, _beyond(fitted), "### Tile edges", _EDGES,
             _edges(fitted), "### Every kernel", _EVERY, _every(fitted), "### Not fitted", _not_fitted(scores)]
    return "\n\n".join(parts)


def readme_table(scores: Sequence[Record]) -> str:
    """The short table of the README."""
    return _summary([record for record in scores if "unfitted" not in record])


def put_section(text: str, name: str, content: str) -> str:
    """The page with what stands between its two marks replaced; both marks must be there."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no '{begin}' followed by '{end}'")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def read_scores(path: Path = SCORES) -> list[Record]:
    """The scores that are kept in the repository."""
    loaded = json.loads(path.read_text(encoding="utf-8"))
    scores: list[Record] = loaded["scores"]
    return scores


def write_scores(scores: Sequence[Record], path: Path = SCORES) -> None:
    """One line per slice, so that changes are readable."""
    lines = ",\n".join(json.dumps(record, sort_keys=True) for record in scores)
    origin = json.dumps(f"Derived from {silicon.WHEEL} {silicon.VERSION} ({silicon.LICENCE}): errors of specplan's own "
                        "fits on held-out rows. No measured time is copied.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"origin": {origin},\n"scores": [\n{lines}\n]}}\n', encoding="utf-8")


_HEAD = f"""Errors of |predicted / measured - 1| in percent on rows that no fit saw: 30 % of whole shape groups are held
out (attention: KV heads and group size; GEMM: N and K; experts: hidden, width, top-k, experts, tp, ep; MLA: heads and
batch; all-reduce: message sizes, with the band edges of all sizes; recurrent and sparse kernels: four folds). Splits
{", ".join(SPLITS)} rank the groups by a hash; each figure is the split whose mean is the median of the three.
Contexts start at 256 tokens. The tables are those of {silicon.WHEEL} {silicon.VERSION} ({silicon.LICENCE}).
Their attention and state kernels ran with operands left in L2, so they are compared with `l2_gain`; plans never use it.

Three models of the same held-out rows: the **roofline** of the datasheet, the planner's **prior** for a GPU that
nobody measured, and the **fit**. The table gives the median over slices of their mean errors."""
_BEYOND = """Fitted on a part of the rows, scored where the fit never reached: median over slices of the mean error and
of the median signed error (bias)."""
_EDGES = """Kernels that run waves of fixed tiles: t(m + 1) / t(m), median over shapes with N, K >= 2048, measured and
predicted by the fit of all rows."""
_EVERY = """`noise` is the mean spread of a GEMM's times over M = 9 to 15, where no kernel has an edge: no smooth model
gets below it. `held` numbers could not be told from the rows and are held at their priors."""


def _summary(fitted: Sequence[Record]) -> str:
    rows = [["kernels", "slices", "roofline", "prior", "fit", "worst slice", "goal", "within goal"]]
    for goal in GOALS:
        members = [record for record in fitted if goal.belongs(record)]
        if not members:
            continue
        worst = max(members, key=goal.score)
        priors = [record["prior"] for record in members if record.get("prior") is not None]
        plain = not goal.few_tokens
        rows.append([
            goal.name, str(len(members)), _number(median(r["roofline"] for r in members)) if plain else "",
            _number(median(priors)) if priors and plain else "", f"**{_number(median(map(goal.score, members)))}**",
            f"{_number(goal.score(worst))} ({worst['gpu']} {_name(worst)})",
            *(("", "") if goal.limit is None else (
                f"{goal.limit:g}", f"{sum(goal.score(r) <= goal.limit for r in members)} of {len(members)}")),
        ])
    return _table(rows)


def _beyond(fitted: Sequence[Record]) -> str:
    rows = [["fit on -> scored on", "kernels", "slices", "mean error", "bias"]]
    for test in EXTRAPOLATIONS:
        groups: dict[str, list[Record]] = {}
        for record in fitted:
            if test.name in record.get("beyond", {}):
                label = record["id"].partition("-")[2] if record["family"] == "attention" else (
                    str(record["key"].get("weight_dtype")))
                groups.setdefault(label, []).append(record["beyond"][test.name])
        rows += [[test.name, label, str(len(found)), _number(median(item["mean"] for item in found)),
                  f"{median(item['bias'] for item in found):+.1f}"] for label, found in sorted(groups.items())]
    return _table(rows)


def _edges(fitted: Sequence[Record]) -> str:
    rows = [["kernel", "edge", "measured", "predicted"]]
    rows += [[f"{r['gpu']} {_name(r)}", f"{edge}, {int(edge) + 1}", f"{measured:.2f}", f"{predicted:.2f}"]
             for r in fitted for edge, (measured, predicted) in r.get("edges", {}).items()]
    return _table(rows)


def _every(fitted: Sequence[Record]) -> str:
    rows = [["GPU", "kernel", "held out", "roofline", "prior", "median", "mean", "p90", "quality", "noise", "held"]]
    rows += [[r["gpu"], f"{_name(r)} ({r['version']})", str(r["n"]), _number(r["roofline"]), _number(r.get("prior")),
              _number(r["median"]), f"**{_number(r['mean'])}**", _number(r["p90"]), r["quality"],
              _number(r.get("noise")), ", ".join(r["held"])] for r in fitted]
    return _table(rows)


def _not_fitted(scores: Sequence[Record]) -> str:
    rows = [["GPU", "kernel in the tables", "rows", "why"]]
    rows += [[r["gpu"], f"{r['engine']} {r['version']} {r['measured_as']} {_key(r)}", str(r["rows"]), r["unfitted"]]
             for r in scores if "unfitted" in r]
    return _table(rows)


def _name(record: Record) -> str:
    return f"{record['id']} {_key(record)}"


def _key(record: Record) -> str:
    return " ".join(str(value) for name, value in record["key"].items() if name != "gated")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main(arguments: Sequence[str]) -> None:
    """Write the page (and the README's table where it has the marks) from kept or new scores."""
    if "--page" not in arguments:
        write_scores(score_systems())
    scores = read_scores()
    PAGE.write_text(put_section(PAGE.read_text(encoding="utf-8"), SECTION, section(scores)), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    if f"<!-- begin: {SECTION} -->" in readme:
        README.write_text(put_section(readme, SECTION, readme_table(scores)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
