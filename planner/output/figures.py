"""Pictures by matplotlib: told apart without colour (hatches, markers, dashes), units on the axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from specplan.planner.answer.pareto import SCHEDULE, ParetoAnswer
from specplan.planner.answer.pictures import AcceptancePicture, MapPicture, SpeedupPicture, StepPicture
from specplan.planner.answer.roofline import RooflinePicture
from specplan.planner.output.pictures import DASHES, HATCHES, LINES, MARKERS, PALETTE, new_figure

SMALL = 8
CELL_LIMIT = 400    # cells of a map that still get a number each


def step_figure(picture: StepPicture) -> Any:
    """Stacked parts of a step over D; dotted lines where a larger attention tile, or another one, starts."""
    figure, axes = new_figure(picture.title, xlabel="draft length D (tokens)", ylabel="time of one step (ms)")
    base = np.zeros(len(picture.draft_lens))
    for index, (name, seconds) in enumerate(picture.parts_s.items()):
        height = np.asarray(seconds) * 1e3
        color = PALETTE[1:][index % (len(PALETTE) - 1)]
        axes.bar(
            picture.draft_lens, height, bottom=base, label=name, color=color, hatch=HATCHES[index % len(HATCHES)],
            edgecolor="black", linewidth=0.5, width=0.8,
        )
        base = base + height
    axes.axhline(picture.off_s * 1e3, color="black", linestyle="--", linewidth=1.2, label="off (plain decoding)")
    top = float(base.max()) * 1.12
    axes.set_ylim(0, top)
    if picture.chosen is not None:
        at = picture.draft_lens.index(picture.chosen)
        axes.annotate(
            "▼", (picture.chosen, base[at]), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=SMALL,
        )
    for number, edge in enumerate(picture.tile_edges):
        axes.axvline(
            edge - 0.5, color="black", linestyle=":", linewidth=1,
            label="a larger attention tile, or another" if number == 0 else None,
        )
    axes.set_xticks(picture.draft_lens)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], names[::-1], fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5)
    )
    place = f"{picture.drafter}, batch {picture.batch}, context {picture.context_tokens} tokens"
    _note(axes, place if picture.chosen is None else f"{place}; ▼ recommended D")
    return figure


def speedup_figure(picture: SpeedupPicture) -> Any:
    """Gain over D, one line per batch, its best point filled."""
    figure, axes = new_figure(
        picture.title, xlabel="draft length D (tokens)", ylabel=f"speedup over off ({picture.metric})"
    )
    for index, (batch, gains) in enumerate(picture.by_batch.items()):
        values = np.array([np.nan if gain is None else gain for gain in gains])
        if np.isnan(values).all():
            continue
        style = index % len(LINES)
        axes.plot(
            picture.draft_lens, values, color=LINES[style], linestyle=DASHES[style % len(DASHES)], linewidth=1.4,
            marker=MARKERS[style % len(MARKERS)], markersize=4, markerfacecolor="white", label=f"batch {batch}",
        )
        best = int(np.nanargmax(values))
        axes.plot(
            picture.draft_lens[best], values[best], color=LINES[style], marker=MARKERS[style % len(MARKERS)],
            markersize=8, linestyle="none",
        )
    axes.axhline(1.0, color="black", linewidth=1)
    axes.annotate("off", (picture.draft_lens[-1], 1.0), xytext=(0, 3), textcoords="offset points", fontsize=SMALL)
    axes.set_xticks(picture.draft_lens)
    axes.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _note(axes, f"{picture.drafter}, context {picture.context_tokens} tokens; large marks: best D of a batch")
    return figure


def roofline_figure(picture: RooflinePicture) -> Any:
    """Datasheet roof, and the verify pass's GEMMs and attention for each D below it."""
    figure, axes = new_figure(
        picture.title, xlabel="work per byte from memory (FLOP/byte)", ylabel="rate on one GPU (TFLOP/s)"
    )
    reach = [point.flop_per_byte for point in picture.points] or [picture.ridge]
    low, high = min(min(reach) / 2, picture.ridge / 20), max(max(reach) * 2, picture.ridge * 4)
    work = np.array([low, picture.ridge, high])
    roof = np.minimum(work * picture.bytes_per_s, picture.flop_per_s) / 1e12
    axes.loglog(work, roof, color="black", linewidth=1.8)
    axes.annotate(
        f"{picture.flop_per_s / 1e12:.0f} TFLOP/s {picture.dtype}", (high, picture.flop_per_s / 1e12), xytext=(0, 4),
        textcoords="offset points", ha="right", fontsize=SMALL,
    )
    axes.annotate(
        f"{picture.bytes_per_s / 1e12:.2f} TB/s", (work[0] * 1.6, work[0] * 1.6 * picture.bytes_per_s / 1e12),
        xytext=(-4, 8), textcoords="offset points", fontsize=SMALL, rotation=35, ha="left",
    )
    for index, part in enumerate(dict.fromkeys(point.part for point in picture.points)):
        mine = [point for point in picture.points if point.part == part]
        axes.plot(
            [point.flop_per_byte for point in mine], [point.flop_per_s / 1e12 for point in mine],
            color=PALETTE[(5, 4)[index % 2]], marker=MARKERS[index], markersize=5, linestyle=DASHES[index],
            linewidth=0.8, label=f"verify {part}",
        )
        for point in (mine[0], mine[-1]):
            axes.annotate(
                f"D = {point.draft_len}", (point.flop_per_byte, point.flop_per_s / 1e12), xytext=(4, -11),
                textcoords="offset points", fontsize=SMALL,
            )
    lowest = min((point.flop_per_s for point in picture.points), default=picture.flop_per_s / 100) / 1e12
    axes.set_ylim(bottom=lowest / 2.5)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left")
    axes.grid(visible=True, which="major", linewidth=0.3)
    _note(axes, f"{picture.gpu}, batch {picture.batch}, context {picture.context_tokens} tokens; roof by datasheet")
    return figure


def map_figure(picture: MapPicture) -> Any:
    """Chosen D in each (batch, context): darker is longer, the number is D."""
    figure, axes = new_figure(picture.title, xlabel="context (tokens)", ylabel="batch (sequences)")
    values = np.array([[np.nan if d is None else float(d) for d in row] for row in picture.draft_lens])
    top = max(float(np.nanmax(values)) if np.isfinite(values).any() else 1.0, 1.0)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis_r", vmin=0, vmax=top)
    if values.size <= CELL_LIMIT:
        for row, line in enumerate(picture.draft_lens):
            for column, draft_len in enumerate(line):
                text = "too\nlarge" if draft_len is None else "off" if draft_len == 0 else str(draft_len)
                dark = draft_len is not None and draft_len > 0.55 * top
                axes.text(column, row, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    axes.set_xticks(range(len(picture.contexts)), [f"{context:,}" for context in picture.contexts])
    axes.set_yticks(range(len(picture.batches)), [str(batch) for batch in picture.batches])
    axes.spines[:].set_visible(False)
    figure.colorbar(image, label="draft length D (tokens); 0 is off", ax=axes)
    return figure


def pareto_figure(answer: ParetoAnswer) -> Any:
    """Tokens/s/GPU against tokens/s/user of the first context, one line per option; filled marks are the frontier."""
    metric = "decode only" if answer.metric == "decode" else "prefill included"
    figure, axes = new_figure(
        answer.finding, xlabel=f"speed of a user (tokens/s, {metric})", ylabel="throughput (tokens/s/GPU)"
    )
    context = answer.points[0].context_tokens
    here = [point for point in answer.points if point.context_tokens == context]
    for index, option in enumerate(dict.fromkeys(point.option for point in here)):
        mine = [point for point in here if point.option == option]
        marked = [point for point in mine if (point.batch & (point.batch - 1)) == 0]
        style, only_line = index % len(LINES), option == SCHEDULE
        axes.plot(
            [point.tokens_per_s_per_user for point in mine], [point.tokens_per_s_per_gpu for point in mine],
            color="#777777" if only_line else LINES[style], linestyle=DASHES[style], label=option,
            linewidth=3 if only_line else 1.2, alpha=0.6 if only_line else 1.0, zorder=1 if only_line else 2,
        )
        for frontier in (False, True) if not only_line else ():
            points = [point for point in marked if point.frontier == frontier]
            axes.plot(
                [point.tokens_per_s_per_user for point in points], [point.tokens_per_s_per_gpu for point in points],
                color=LINES[style], marker=MARKERS[style], markersize=6, linestyle="none",
                markerfacecolor=LINES[style] if frontier else "white", zorder=3,
            )
        for point in marked:
            if option == "off" and point.batch in {1, 8, 64}:
                axes.annotate(
                    f"batch {point.batch}", (point.tokens_per_s_per_user, point.tokens_per_s_per_gpu), xytext=(-7, 3),
                    textcoords="offset points", fontsize=SMALL - 1, ha="right",
                )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper right")
    place = f"{answer.target} on {answer.gpus} x {answer.gpu}, context {context} tokens"
    _note(axes, f"{place}; filled: no option beats it")
    return figure


def acceptance_figure(picture: AcceptancePicture) -> Any:
    """AL over D with its 90 % interval; dashed beyond the last measured D, the diagonal is full acceptance."""
    figure, axes = new_figure(
        picture.title, xlabel="draft length D (tokens)", ylabel="acceptance length AL (tokens per step)"
    )
    top = max(max(high) for _, _, high in picture.curves.values())
    for index, (name, (mean, low, high)) in enumerate(picture.curves.items()):
        lens, known = np.arange(len(mean)), picture.known[name]
        color = PALETTE[(5, 4, 3, 6, 1, 2, 0)[index % 7]]
        axes.fill_between(
            lens, low, high, facecolor=color, alpha=0.22, edgecolor=color, linewidth=0.8, hatch=HATCHES[index % 5]
        )
        axes.plot(
            lens[: known + 1], mean[: known + 1], color=color, marker=MARKERS[index % len(MARKERS)], markersize=5,
            linestyle=DASHES[index % len(DASHES)], label=f"{name} (band: 90 %)",
        )
        if known < len(mean) - 1:
            axes.plot(lens[known:], mean[known:], color=color, linestyle=":", label=f"{name}, extrapolated")
    axes.plot(picture.draft_lens, np.asarray(picture.draft_lens) + 1.0, color="black", linewidth=0.8)
    axes.annotate(
        "all accepted", (top - 1.0, top), xytext=(-6, -4), textcoords="offset points", ha="right", fontsize=SMALL
    )
    axes.set_ylim(1, top * 1.08)
    axes.set_xticks(picture.draft_lens)
    axes.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _note(axes: Any, text: str) -> None:
    """A line of small print below the axes."""
    axes.annotate(
        text, (0, 0), xycoords="axes fraction", xytext=(0, -42), textcoords="offset points", fontsize=SMALL,
        annotation_clip=False,
    )
