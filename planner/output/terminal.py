"""The same pictures in a terminal, drawn with characters that also tell their series apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from specplan.planner.answer.pareto import ParetoAnswer
from specplan.planner.answer.pictures import AcceptancePicture, MapPicture, SpeedupPicture, StepPicture
from specplan.planner.answer.roofline import RooflinePicture

FILLS = "█▓▒░#+=:."
MARKS = "o*x+#@%&"
BAR, WIDE, HIGH = 60, 72, 18
Series = Mapping[str, Sequence[tuple[float, float]]]


def show_step(picture: StepPicture, out: Console) -> None:
    """Stacked bars, one line per D; ^ where the kernel takes a larger attention tile, or one more, > the chosen D."""
    out.print(f"[bold]{escape(picture.title)}[/]")
    totals = [sum(part[row] for part in picture.parts_s.values()) for row in range(len(picture.draft_lens))]
    scale = BAR / max(*totals, picture.off_s)
    for row, draft_len in enumerate(picture.draft_lens):
        ends, done, bar = 0.0, 0, ""
        for fill, part in zip(FILLS, picture.parts_s.values(), strict=False):
            ends += part[row] * scale
            bar += fill * (round(ends) - done)
            done = max(done, round(ends))
        sign = ">" if draft_len == picture.chosen else " "
        edge = "^" if draft_len in picture.tile_edges else " "
        out.print(f"{sign}{edge}D {draft_len:>2} {bar:<{BAR}} {totals[row] * 1e3:8.3f} ms", markup=False)
    out.print(f"  off  {'-' * round(picture.off_s * scale):<{BAR}} {picture.off_s * 1e3:8.3f} ms", markup=False)
    keys = ", ".join(f"{fill} {name}" for fill, name in zip(FILLS, picture.parts_s, strict=False))
    out.print(f"{keys}; > chosen, ^ the attention kernel takes a larger tile, or one more", markup=False)
    out.print(f"{picture.drafter}, batch {picture.batch}, context {picture.context_tokens}", markup=False)


def show_speedup(picture: SpeedupPicture, out: Console) -> None:
    """Gain over D, a mark per batch."""
    series = {
        f"batch {batch}": [
            (float(d), gain) for d, gain in zip(picture.draft_lens, gains, strict=True) if gain is not None
        ]
        for batch, gains in picture.by_batch.items()
    }
    plot(picture.title, series, "draft length D (tokens)", f"speedup ({picture.metric})", out)


def show_roofline(picture: RooflinePicture, out: Console) -> None:
    """Points of each part as a share of the roof above them."""
    out.print(f"[bold]{escape(picture.title)}[/]")
    out.print(
        f"{picture.gpu}: ridge at {picture.ridge:.0f} FLOP/byte ({picture.flop_per_s / 1e12:.0f} TFLOP/s "
        f"{picture.dtype}, {picture.bytes_per_s / 1e12:.2f} TB/s, datasheet)", markup=False,
    )
    for point in picture.points:
        roof = min(point.flop_per_byte * picture.bytes_per_s, picture.flop_per_s)
        share = min(point.flop_per_s / roof, 1.0)
        out.print(
            f"{point.part:<9} D {point.draft_len:>2} {point.flop_per_byte:8.1f} FLOP/byte "
            f"{'█' * round(share * 30):<30} {share:4.0%} of the roof", markup=False,
        )


def show_map(picture: MapPicture, out: Console) -> None:
    """Chosen D in each cell."""
    out.print(f"[bold]{escape(picture.title)}[/]")
    out.print("batch \\ context " + "".join(f"{context:>9}" for context in picture.contexts), markup=False)
    for batch, line in zip(picture.batches, picture.draft_lens, strict=True):
        cells = ("-" if d is None else "off" if d == 0 else f"D {d}" for d in line)
        out.print(f"{batch:>15} " + "".join(f"{text:>9}" for text in cells), markup=False)


def show_pareto(answer: ParetoAnswer, out: Console) -> None:
    """Operating points of the first context."""
    context = answer.points[0].context_tokens
    series: dict[str, list[tuple[float, float]]] = {}
    for point in answer.points:
        if point.context_tokens == context:
            series.setdefault(point.option, []).append((point.tokens_per_s_per_user, point.tokens_per_s_per_gpu))
    plot(answer.finding, series, "tokens/s/user", "tokens/s/GPU", out)


def show_acceptance(picture: AcceptancePicture, out: Console) -> None:
    """AL over D: the mark is the mean, bars its 90 % interval."""
    out.print(f"[bold]{escape(picture.title)}[/]")
    top = max(max(high) for _, _, high in picture.curves.values())
    for name, (mean, low, high) in picture.curves.items():
        out.print(f"{name} (- 90 % interval, # AL, : extrapolated)", markup=False)
        for draft_len, (at, bottom, end) in enumerate(zip(mean, low, high, strict=True)):
            line = [" "] * (BAR + 1)
            for place in range(_place(bottom, 1.0, top), _place(end, 1.0, top) + 1):
                line[place] = "-"
            line[_place(at, 1.0, top)] = "#" if draft_len <= picture.known[name] else ":"
            out.print(f"D {draft_len:>2} |{''.join(line)}| {at:.2f} ({bottom:.2f} to {end:.2f})", markup=False)


def plot(title: str, series: Series, xlabel: str, ylabel: str, out: Console) -> None:
    """Points on a grid of characters; later series lie above earlier ones."""
    out.print(f"[bold]{escape(title)}[/]")
    points = [point for found in series.values() for point in found]
    if not points:
        return
    right = max(x for x, _ in points) or 1.0
    bottom, top = min(0.0, *(y for _, y in points)), max(y for _, y in points) or 1.0
    grid = [[" "] * (WIDE + 1) for _ in range(HIGH + 1)]
    for mark, found in zip(MARKS * (1 + len(series) // len(MARKS)), series.values(), strict=False):
        for x, y in found:
            grid[HIGH - round((y - bottom) / (top - bottom) * HIGH)][round(x / right * WIDE)] = mark
    for row, line in enumerate(grid):
        value = top - (top - bottom) * row / HIGH
        label = f"{value:8.4g}" if row % 6 == 0 else " " * 8
        out.print(f"{label} |{''.join(line).rstrip()}", markup=False)
    out.print(" " * 9 + "+" + "-" * WIDE, markup=False)
    out.print(" " * 9 + f"0{f'{right:.4g}':>{WIDE}}", markup=False)
    keys = ", ".join(f"{mark} {name}" for mark, name in zip(MARKS * 8, series, strict=False))
    out.print(f"{ylabel} over {xlabel}: {keys}", markup=False)


def _place(value: float, low: float, high: float) -> int:
    return round((min(max(value, low), high) - low) / max(high - low, 1e-9) * BAR)
