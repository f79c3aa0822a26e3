"""One self-contained HTML page: the answer, why, figures to explore, sources, configurations to paste. No network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from specplan.planner.answer.load_answer import label_of
from specplan.planner.answer.load_types import LoadAnswer
from specplan.planner.answer.report_facts import ReportFacts, pareto_curves
from specplan.planner.answer.types import Answer
from specplan.planner.engines.dialects import ENGINES, canonical_name, write_configuration
from specplan.planner.messages import InputError, SpecplanError
from specplan.planner.output.contract import plain
from specplan.planner.output.tables import GUIDELINE_TITLES, label, ms, times

DATA = Path(__file__).parent / "data"
MOST_BYTES = 1_500_000


def report_html(facts: ReportFacts) -> str:
    """The page. A grid that would make it too heavy is refused with what to leave out."""
    answer = facts.answer
    page = Template((DATA / "report.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"specplan: {answer.target.name} on {answer.gpu.name}"),
        style=(DATA / "report.css").read_text(encoding="utf-8"),
        script=(DATA / "report.js").read_text(encoding="utf-8"),
        headline=escape(headline(answer)),
        place=escape(_place(answer)),
        reasons=_list(_reasons(answer)),
        load="" if answer.load is None else _load(answer.load),
        cells=_cells(answer),
        guidelines=_guidelines(answer),
        configurations=_configurations(answer),
        notes=_list(note.message for note in answer.warnings) or "<p>None.</p>",
        provenance=_table(
            ("what", "value", "source"), [(item.parameter, item.value, item.source) for item in answer.provenance]
        ),
        version=escape(answer.specplan),
        facts=_json(_script_facts(facts)),
    )
    size = len(page.encode())
    if size > MOST_BYTES:
        cells = len(answer.cells)
        raise SpecplanError(
            f"a report on {cells} cells would weigh {size / 1e6:.1f} MB, above {MOST_BYTES / 1e6:g} MB: ask for fewer "
            "batches or contexts (--batch, --context)"
        )
    return page


def headline(answer: Answer) -> str:
    """The recommendation in one sentence."""
    best, place = answer.recommendation, f"batch {answer.cell.batch}, context {answer.cell.context_tokens}"
    if best.speculate is None:
        return f"Acceptance unknown: no recommendation at {place}"
    if not best.speculate:
        return f"Do not speculate at {place}"
    low, high = best.speedup_range or (1.0, 1.0)
    return f"Run {label(best)} with D = {best.draft_len} at {place}: {times(best.speedup)} ({low:.2f} to {high:.2f})"


def _place(answer: Answer) -> str:
    work = answer.workload
    dtypes = ", ".join(f"{name} {value}" for name, value in work.dtypes.items())
    return (
        f"{answer.target.name} on {work.tp} x {answer.gpu.name}, {work.engine} ({work.engine_path}), {dtypes}; "
        f"kernels {answer.gpu.evidence}; objective {work.objective}"
    )


def _reasons(answer: Answer) -> list[str]:
    found = list(answer.recommendation.reasons)
    if answer.robustness is not None:
        found.append(answer.robustness.finding)
        if answer.robustness.settle is not None:
            found.append(f"what would settle it: {answer.robustness.settle}")
    if answer.schedule is not None:
        tiers = ", ".join(f"{tier.first} to {tier.last}: D = {tier.draft_len}" for tier in answer.schedule.tiers)
        found.append(f"by batch with {answer.schedule.drafter}: {tiers}; {answer.schedule.finding}")
        if answer.schedule.smoother is not None:
            found.append(answer.schedule.smoother.finding)
    return found


def _script_facts(facts: ReportFacts) -> dict[str, Any]:
    """What the script draws: numbers of candidates as they are in `recommend --json`."""
    answer = facts.answer
    cells = [
        {
            "batch": cell.batch,
            "context_tokens": cell.context_tokens,
            "off": {
                "step_s": cell.off.step_s, "tokens_per_s_per_user": cell.off.tokens_per_s_per_user,
                "fits_memory": cell.off.fits_memory,
            },
            "recommendation": {
                name: getattr(cell.recommendation, name) for name in ("speculate", "drafter", "draft_len", "speedup")
            },
            **more,
        }
        for cell, more in zip(answer.cells, facts.cells, strict=True)
    ]
    pareto = None
    if facts.pareto is not None:
        pareto = {
            "finding": facts.pareto.finding, "findings": facts.pareto.findings, "metric": facts.pareto.metric,
            "curves": pareto_curves(facts.pareto),
        }
    return {
        "batches": list(dict.fromkeys(cell.batch for cell in answer.cells)),
        "contexts": list(dict.fromkeys(cell.context_tokens for cell in answer.cells)),
        "drafters": [item["drafter"] for item in facts.cells[0]["drafters"]],
        "headline": {"batch": answer.cell.batch, "context_tokens": answer.cell.context_tokens},
        "cells": cells,
        "tile_edges": facts.tile_edges,
        "map_title": None if facts.map is None else facts.map.title,
        "pareto": pareto,
        "acceptance": facts.acceptance,
        "roofline": facts.roofline,
    }


def _json(value: Any) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _cells(answer: Answer) -> str:
    rows = []
    for cell in answer.cells:
        best = cell.recommendation
        run = "?" if best.speculate is None else label(best) if best.speculate else "off"
        run += "" if cell.off.fits_memory or best.speculate else " (too large)"
        span = best.speedup_range
        rows.append((
            cell.batch, cell.context_tokens, run, "–" if best.draft_len is None else best.draft_len,
            "–" if best.acceptance_length is None else f"{best.acceptance_length:.2f}",
            ms(best.step_s), ms(cell.off.step_s), times(best.speedup),
            "–" if span is None else f"{span[0]:.2f} to {span[1]:.2f}",
        ))
    head = ("batch", "context", "run", "D", "AL", "step ms", "off ms", "speedup", "90 % range")
    return _table(head, rows, text=(2,))


def _guidelines(answer: Answer) -> str:
    rows = [
        (f"{rule.id} {GUIDELINE_TITLES[rule.id]}", "–" if rule.draft_len is None else rule.draft_len,
         "yes" if rule.applies else "no", rule.finding)
        for rule in answer.guidelines
    ]
    return _table(("guideline", "D", "applies", "finding"), rows, text=(0, 2, 3))


def _load(load: LoadAnswer) -> str:
    top = f"p{load.percentile:g}"
    head = ["run", "slots", "carries requests/s", "TPOT ms", f"TPOT {top} ms", f"gap {top} ms", "TTFT ms",
            f"TTFT {top} ms", "tokens/s/user", "tokens/s/GPU"]
    head += [] if load.price_per_gpu_hour is None else ["cost per million tokens"]
    rows = []
    for row in load.listed:
        cells: list[Any] = [
            label_of(row), row.max_batch, f"{row.saturation_rate:.2f}", ms(row.tpot_s), ms(row.tpot_top_s),
            ms(row.step_gap_top_s), _endless(row.ttft_s), _endless(row.ttft_top_s), f"{row.tokens_per_s_per_user:.0f}",
            f"{row.tokens_per_s_per_gpu:.0f}",
        ]
        rows.append(cells if row.cost_per_million_tokens is None else [*cells, f"{row.cost_per_million_tokens:.3f}"])
    told = [load.finding] + ([] if load.slo is None else [load.slo.finding])
    body = "".join(f"<p>{escape(text)}.</p>" for text in told)
    return (
        f'<section aria-labelledby="load"><h2 id="load">Under load</h2>{body}'
        f'<div class="scroll">{_table(head, rows, text=(0,))}</div></section>'
    )


def _endless(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.0f}"


def _configurations(answer: Answer) -> str:
    """What each engine takes, the one asked about first; an engine that cannot say it is told why."""
    if answer.recommendation.speculate is None or answer.deployment is None:
        return "<p>Acceptance is not known, so there is nothing to write yet.</p>"
    own = canonical_name(answer.workload.engine_named)
    found = []
    for number, engine in enumerate(sorted(ENGINES, key=lambda engine: engine != own)):
        try:
            release = answer.workload.engine_version if engine == own else None
            written = write_configuration(answer.deployment, engine, release)
        except InputError as error:
            found.append(f"<details><summary>{escape(engine)}</summary><p>{escape(str(error))}</p></details>")
            continue
        notes = _list(note.message for note in written.notes)
        found.append(
            f"<details{' open' if engine == own else ''}><summary>{escape(engine)}</summary>{notes}"
            f'<pre id="configuration-{number}" tabindex="0">{escape(written.text)}</pre>'
            f'<button type="button" class="copy" data-of="configuration-{number}">Copy</button></details>'
        )
    return "".join(found)


def _list(items: Iterable[str]) -> str:
    told = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{told}</ul>" if told else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, text: Sequence[int] | None = None) -> str:
    """A table; columns outside `text` hold numbers (all are text where it is None)."""
    kinds = ["" if text is None or index in text else ' class="number"' for index in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
