"""A measured drafting time, from cfg.yaml or beside measured acceptance, in place of the predicted one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specplan.planner.acceptance.canonical import canonical
from specplan.planner.answer import explain, recommend
from specplan.planner.answer.types import Answer
from specplan.planner.config.load import config_from_mapping
from specplan.planner.engines.acceptance import read_files
from specplan.planner.engines.plain import write_plain
from specplan.planner.messages import InputError

ITERATIONS = Path(__file__).parents[1] / "data" / "acceptance" / "trtllm-metrics.json"   # 4.2 ms of drafting at D = 4
STATED = {"draft_len": 4, "seconds": 0.0021}


def question(mechanism: str = "eagle3", *, engine: str = "trtllm", acceptance: Any = None, **drafter: Any) -> Any:
    return config_from_mapping({
        "target": "llama-3.1-8b", "gpu": "h200-sxm", "engine": engine, "max_draft_len": 6,
        "workload": {"batch": [1, 8], "context_tokens": 2000},
        "drafters": [{"mechanism": mechanism, "acceptance": acceptance or {"alpha": 0.7}, **drafter}],
    })


def draft_ms(answer: Answer) -> dict[tuple[int, int], float]:
    return {(cell.batch, candidate.draft_len): candidate.draft_s * 1e3
            for cell in answer.cells for candidate in cell.candidates if candidate.draft_len}


def notes(answer: Answer) -> dict[str, str]:
    return {note.code: note.message for note in answer.warnings}


def test_stated_time_is_shared_out_over_the_passes_of_a_serial_drafter() -> None:
    answer = recommend(question(measured_draft_s=STATED))
    found = draft_ms(answer)
    assert set(found) == {(batch, d) for batch in (1, 8) for d in range(1, 7)}
    for (_, d), milliseconds in found.items():
        assert milliseconds == pytest.approx(d * 2.1 / 4)
    said = notes(answer)["draft-time-measured"]
    assert "measured, not predicted: 2.1 ms a step at D = 4 (measured_draft_s), 0.525 ms a pass" in said


def test_stated_time_is_that_of_the_one_pass_of_a_block_drafter() -> None:
    found = draft_ms(recommend(question("dflash", measured_draft_s=STATED)))
    assert len(found) == 2 * 6
    assert list(found.values()) == pytest.approx([2.1] * 12)


def test_without_a_measurement_the_prediction_stays() -> None:
    answer = recommend(question())
    assert "draft-time-measured" not in notes(answer)
    assert draft_ms(answer)[1, 4] != pytest.approx(2.1)


def test_step_is_longer_by_what_the_measurement_adds() -> None:
    def at_4(answer: Answer) -> Any:
        return next(one for one in answer.cells[0].candidates if one.draft_len == 4)

    predicted, measured = at_4(recommend(question())), at_4(recommend(question(measured_draft_s=STATED)))
    assert measured.step_s - predicted.step_s == pytest.approx(measured.draft_s - predicted.draft_s)
    assert (measured.verify_s, measured.overhead_s) == (predicted.verify_s, predicted.overhead_s)


def test_explanation_still_adds_up_to_the_step() -> None:
    found = explain(question(measured_draft_s=STATED), mechanism="eagle3", draft_len=4, batch=1, context_tokens=2000)
    assert sum(op.time_s for op in found.ops) == pytest.approx(found.step_s)
    names = {op.name for op in found.ops if op.stage == "fixed"}
    assert "measured_minus_ops" in names
    assert "pass_floor" not in names


@pytest.mark.parametrize("written", ["raw", "json", "yaml"])
def test_file_with_measured_drafting_is_used_and_said(written: str, tmp_path: Path) -> None:
    path = ITERATIONS
    if written != "raw":
        reading = read_files([str(ITERATIONS)])
        path = tmp_path / f"acceptance.{written}"
        path.write_text(write_plain(reading) if written == "yaml" else json.dumps(canonical(reading)), encoding="utf-8")
    answer = recommend(question(acceptance={"file": str(path)}))
    assert draft_ms(answer) == pytest.approx({(batch, d): d * 4.2 / 4 for batch in (1, 8) for d in range(1, 5)})
    assert "4.2 ms a step at D = 4" in notes(answer)["draft-time-measured"]
    other = recommend(question(engine="vllm", acceptance={"file": str(path)}))
    assert "measured on tensorrt_llm, not on vllm" in notes(other)["draft-time-of-another-engine"]
    assert "draft-time-measured" not in notes(other)


def test_what_cfg_states_comes_before_what_a_file_tells() -> None:
    answer = recommend(question(acceptance={"file": str(ITERATIONS)}, measured_draft_s=STATED))
    assert draft_ms(answer)[8, 4] == pytest.approx(2.1)


def test_times_of_different_draft_lengths_stay_apart(tmp_path: Path) -> None:
    rows = json.loads(ITERATIONS.read_text(encoding="utf-8"))
    short = json.loads(json.dumps(rows[0]))
    short["iter"] = 500
    short["specDecodingStats"] |= {"numDraftTokens": 16, "numAcceptedTokens": 10, "acceptanceLength": 2.25,
                                   "iterLatencyMS": 2.0, "draftOverhead": 0.1}
    path = tmp_path / "iterations.json"
    path.write_text(json.dumps([*rows, short]), encoding="utf-8")
    found = read_files([str(path)])
    assert (found.draft_len, dict(found.lengths)) == (4, {2: 2.25, 4: 2.75})
    assert found.draft_s == pytest.approx(0.0042)


@pytest.mark.parametrize(("drafter", "said"), [
    ({"measured_draft_s": {"draft_len": 4, "seconds": 0}}, "measured_draft_s.seconds: must be above 0, not 0"),
    ({"measured_draft_s": {"draft_len": 0, "seconds": 1e-3}}, "measured_draft_s.draft_len: must be at least 1, not 0"),
    ({"measured_draft_s": {"draft_len": 4, "seconds": 21}}, "measured_draft_s.seconds: must be at most 10, not 21"),
    ({"measured_draft_s": {"seconds": 1e-3}}, "measured_draft_s.draft_len: "),
    ({"measured_draft_s": {"draft_len": 4, "second": 1e-3}},
     "measured_draft_s.second: unknown key; did you mean 'seconds'"),
    ({"measured_draft_s": 0.002}, "measured_draft_s: "),
    ({"mechanism": "ngram", "measured_draft_s": STATED}, "measured_draft_s: ngram looks tokens up on the host"),
])
def test_bad_measurements_are_refused_at_their_key(drafter: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        recommend(question(**drafter))
    assert f"drafters[0].{said}" in str(caught.value)


def test_negative_time_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "acceptance.yaml"
    path.write_text("per_position: [0.8, 0.6]\ndraft_s: -0.002\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"drafters\[0\].acceptance.file.draft_s: -0.002 is not a number of 0 or more"):
        recommend(question(acceptance={"file": str(path)}))
