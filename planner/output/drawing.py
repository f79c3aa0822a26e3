"""One picture of a plan by name: into a file by matplotlib, or into the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specplan.planner.answer.pareto import pareto_of
from specplan.planner.answer.pictures import acceptance_picture, map_picture, speedup_picture, step_picture
from specplan.planner.answer.plan import Plan
from specplan.planner.answer.roofline import roofline_picture
from specplan.planner.messages import SpecplanError
from specplan.planner.output.tables import console

FACTS: dict[str, Callable[[Plan], Any]] = {
    "step": lambda plan: step_picture(plan, 0, 0),
    "speedup": lambda plan: speedup_picture(plan, 0),
    "roofline": lambda plan: roofline_picture(plan, 0, 0),
    "map": map_picture,
    "pareto": lambda plan: pareto_of(plan.question),
    "acceptance": acceptance_picture,
}


def draw(kind: str, plan: Plan, file: Path | None) -> None:
    """Draw `kind`; a plan that lacks what the picture shows is said to lack it."""
    facts = FACTS[kind](plan)
    if facts is None:
        raise SpecplanError(f"nothing to draw: the picture {kind} needs a drafter with known acceptance")
    if file is None:
        from specplan.planner.output import terminal  # noqa: PLC0415 - one of the two

        getattr(terminal, f"show_{kind}")(facts, console())
        return
    from specplan.planner.output import figures  # noqa: PLC0415 - needs the extra
    from specplan.planner.output.pictures import save  # noqa: PLC0415

    save(getattr(figures, f"{kind}_figure")(facts), file)
