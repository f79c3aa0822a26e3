"""A validated step told to a person and as JSON."""

from __future__ import annotations

from typing import Any

from specplan.microbench.validate_step import Choice, StepRow, StepValidation


def validation_json(result: StepValidation) -> dict[str, Any]:
    """Rows, choices and scores; times in seconds."""
    return {
        "rows": [{"batch": row.batch, "context_tokens": row.context_tokens, "draft_len": row.draft_len,
                  "measured_s": row.measured_s, "predicted_s": row.predicted_s} for row in result.rows],
        "choices": [{"batch": choice.batch, "context_tokens": choice.context_tokens, "chosen": choice.chosen,
                     "best": choice.best, "regret": choice.regret} for choice in result.choices],
        "layers": result.layers, "model_layers": result.model_layers, "mean_error_pct": result.mean_error_pct,
        "pace": result.pace, "mean_error_at_pace_pct": result.mean_error_at_pace_pct,
        "mean_regret": result.mean_regret, "reference_spread": result.reference_spread,
        "notes": [note.message for note in result.notes],
    }


def validation_text(result: StepValidation) -> str:
    """One line per step, one per choice of D, then the scores."""
    lines = [f"{'batch':>6} {'context':>8} {'D':>4} {'measured ms':>12} {'predicted ms':>13} {'error %':>8}"]
    lines += [_row(row) for row in sorted(result.rows, key=_order)]
    lines.append("")
    lines += [_choice(choice) for choice in sorted(result.choices, key=lambda item: (item.batch, item.context_tokens))]
    lines.append(f"mean error of the step {result.mean_error_pct:.1f} %")
    if result.mean_regret is not None:
        lines.append(f"mean regret of the chosen D {100 * result.mean_regret:.1f} %")
    lines.append(f"{result.layers} of {result.model_layers} layers; plain decoding repeated within "
                 f"{100 * result.reference_spread:.0f} %")
    if result.pace is not None:
        lines.append(f"the sweep's reference point takes {result.pace:.2f} times as long as during the sweep; "
                     f"mean error with that taken out {result.mean_error_at_pace_pct:.1f} %")
    lines += [f"note: {note.message}" for note in result.notes]
    return "\n".join(lines) + "\n"


def _order(row: StepRow) -> tuple[int, int, int]:
    return row.batch, row.context_tokens, -1 if row.draft_len is None else row.draft_len


def _row(row: StepRow) -> str:
    return (f"{row.batch:>6} {row.context_tokens:>8} {_name(row.draft_len):>4} {row.measured_s * 1e3:>12.3f} "
            f"{row.predicted_s * 1e3:>13.3f} {row.error_pct:>+8.1f}")


def _choice(choice: Choice) -> str:
    return (f"batch {choice.batch}, context {choice.context_tokens}: chosen D {_name(choice.chosen)}, best "
            f"{_name(choice.best)}, regret {100 * choice.regret:.1f} %")


def _name(draft_len: int | None) -> str:
    return "off" if draft_len is None else str(draft_len)
