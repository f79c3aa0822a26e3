"""Shapes that no fit saw: one warning, last, about what the answer rests on and not about all that was weighed."""

from __future__ import annotations

from pathlib import Path

import specplan
from specplan.planner.answer import explain
from specplan.planner.answer.types import Answer
from specplan.planner.messages import Note


def answer(tmp_path: Path, target: str, gpu: str, workload: str, extra: str = "") -> Answer:
    text = f"""
target: {target}
gpu: {gpu}
engine: vllm
workload: {workload}
drafters:
- {{mechanism: eagle3, acceptance: {{alpha: 0.8}}}}
{extra}"""
    (tmp_path / "cfg.yaml").write_text(text)
    return specplan.recommend(str(tmp_path / "cfg.yaml"))


def outside(found: Answer) -> list[Note]:
    return [note for note in found.warnings if note.code == "outside-fitted-range"]


def test_kernels_share_one_warning_which_is_the_last(tmp_path: Path) -> None:
    found = answer(tmp_path, "llama-3.3-70b", "h200-sxm", "{batch: [512], context_tokens: [1000]}",
                   "parallel: {tp: 8}\ndtypes: {weights: fp8}\n")
    (note,) = outside(found)
    assert found.warnings[-1] == note
    for part in ("vllm-cutlass rows 512 to ", "; vllm-cublas rows 512 to ", "(fitted 1 to 1024)"):
        assert part in note.message


def test_draft_lengths_that_nobody_picks_do_not_warn(tmp_path: Path) -> None:
    """128 sequences: with 16 drafts 2176 rows, beyond the fit; what is recommended stays inside."""
    found = answer(tmp_path, "llama-3.1-8b", "h200-sxm", "{batch: [128], context_tokens: [1000]}")
    chosen = found.recommendation.draft_len or 0
    assert 128 * (1 + chosen) <= 1024
    assert not [note for note in outside(found) if "rows" in note.message]


def test_an_explained_draft_length_warns_even_if_nobody_would_pick_it(tmp_path: Path) -> None:
    answer(tmp_path, "llama-3.1-8b", "h200-sxm", "{batch: [128], context_tokens: [1000]}")
    said = [explain(str(tmp_path / "cfg.yaml"), mechanism="eagle3", draft_len=draft_len).warnings
            for draft_len in (3, 12)]
    assert ["rows 128 to 1664" in " ".join(note.message for note in notes) for notes in said] == [False, True]


def test_experts_of_a_shape_that_no_table_holds_are_named(tmp_path: Path) -> None:
    found = answer(tmp_path, "gpt-oss-120b", "b200-sxm", "{batch: [1], context_tokens: [2000]}", "parallel: {tp: 4}\n")
    messages = " ".join(note.message for note in outside(found))
    assert "n 128 to" in messages       # the router's side of the dense kernels' fit


def test_one_token_on_measured_experts_says_what_tables_show(tmp_path: Path) -> None:
    few, many = (answer(tmp_path, "gpt-oss-120b", "b200-sxm", f"{{batch: [{batch}], context_tokens: [2000]}}")
                 for batch in (1, 64))
    assert [("moe-few-tokens" in [note.code for note in found.warnings]) for found in (few, many)] == [True, False]
