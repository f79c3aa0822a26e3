"""Rules that need a plan: losses under a model, drift from a stored plan, tile edges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specplan.planner.check.options import Options
from specplan.planner.check.plan_rules import Baseline, Planner, read_baseline
from specplan.planner.check.report import Finding
from specplan.planner.check.run import check_paths
from specplan.planner.messages import InputError

SCHEDULE = [[1, 8, 5], [9, 64, 2], [65, 256, 0]]


def script(folder: Path, **more: object) -> Path:
    config = {"method": "eagle3", "model": "d", "num_speculative_tokens": 5} | more
    (folder / "serve.sh").write_text(f"vllm serve m --speculative-config '{json.dumps(config)}'\n", encoding="utf-8")
    return folder / "serve.sh"


def findings(path: Path, options: Options) -> list[Finding]:
    return [finding for finding in check_paths([path], options).findings if finding.code.startswith("SP6")]


def loss_of(draft_len: int, mechanism: str, batch: int) -> float | None:
    """D = 5 is best to batch 8, 2 to 64, off above; every step away from it loses 3 %."""
    if mechanism != "eagle3":
        return None
    best = 5 if batch <= 8 else 2 if batch <= 64 else 0
    return 0.03 * abs(draft_len - best)


PLANNER = Planner(loss_of=loss_of, best_of=lambda _kind, batch: 5 if batch <= 8 else 2 if batch <= 64 else 0, batch=32)
BASELINE = Baseline(speculate=True, mechanism="eagle3", draft_len=5, draft_lens=(4, 6), tiers=(), file="plan.json")


def test_loss_is_that_of_the_planned_batch(tmp_path: Path) -> None:
    path = script(tmp_path)
    (finding,) = findings(path, Options(planner=PLANNER))
    assert finding.code == "SP601"
    assert finding.message == "D = 5 with eagle3 loses 9.0% at batch 32, D = 2 is best"
    assert findings(path, Options(planner=PLANNER, batch=8)) == []
    assert findings(path, Options(planner=PLANNER, max_loss=0.1)) == []
    assert [one.code for one in findings(path, Options(planner=PLANNER, max_loss=0.05))] == ["SP601"]


def test_off_is_said_where_off_is_best(tmp_path: Path) -> None:
    (finding,) = findings(script(tmp_path), Options(planner=PLANNER, batch=128))
    assert finding.code == "SP602"
    assert "off at batch 128: D = 5 loses 15.0%" in finding.message


def test_mean_over_batches_counts_for_a_schedule(tmp_path: Path) -> None:
    path = script(tmp_path, num_speculative_tokens_per_batch_size=SCHEDULE)
    assert findings(path, Options(planner=PLANNER, batch=256)) == []
    path = script(tmp_path, num_speculative_tokens_per_batch_size=[[1, 8, 3], [9, 256, 5]])
    (finding,) = findings(path, Options(planner=PLANNER, batch=64))
    assert finding.code == "SP601"
    # batches 1, 2, 3, 4, 5, 7 with D = 3 lose 6 %; 9, 12, 16, 21, 28, 37, 49, 64 with D = 5 lose 9 %
    assert finding.message == ("the schedule loses 7.7% on average up to batch 64, most at batch 64: 9.0% with D = 5, "
                               "D = 2 is best")
    assert findings(path, Options(planner=PLANNER, batch=64, max_loss=0.08)) == []
    assert "up to batch 8" in findings(path, Options(planner=PLANNER, batch=8))[0].message, "later tiers do not run"


def test_server_admits_no_more_than_it_says(tmp_path: Path) -> None:
    path = script(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("serve m", "serve m --max-num-seqs 4"), encoding="utf-8")
    assert findings(path, Options(planner=PLANNER)) == [], "D = 5 is right up to batch 8"


def test_planner_without_an_answer_is_silent(tmp_path: Path) -> None:
    assert findings(script(tmp_path, method="ngram"), Options(planner=PLANNER)) == []
    assert findings(script(tmp_path), Options(planner=Planner(loss_of=lambda _d, _kind, _batch: None))) == []


@pytest.mark.parametrize(("length", "group", "speaks"), [(7, 8, False), (8, 8, True), (5, 12, True), (9, 8, False)])
def test_tile_edge_is_a_group_past_a_full_tile(tmp_path: Path, length: int, group: int, *, speaks: bool) -> None:
    planner = Planner(loss_of=lambda _d, _kind, _batch: 0.0, tile=(group, 64))
    found = findings(script(tmp_path, num_speculative_tokens=length), Options(planner=planner))
    assert [one.code for one in found] == (["SP603"] if speaks else [])


def test_configuration_within_the_plans_range_does_not_drift(tmp_path: Path) -> None:
    path = script(tmp_path)
    assert findings(path, Options(baseline=BASELINE)) == []
    for baseline, says in (
        (replace(BASELINE, draft_lens=(2, 3)), "recommends D from 2 to 3, this drafts 5"),
        (replace(BASELINE, draft_lens=None, draft_len=4), "recommends D = 4, this drafts 5"),
        (replace(BASELINE, mechanism="mtp"), "recommends mtp, this is eagle3"),
        (replace(BASELINE, speculate=False), "recommends no speculation, this drafts 5 tokens"),
    ):
        (finding,) = findings(path, Options(baseline=baseline))
        assert finding.code == "SP604"
        assert says in finding.message


def stored(folder: Path, **more: object) -> Path:
    plan = {"recommendation": {"speculate": True, "mechanism": "eagle3", "draft_len": 5, "draft_len_range": [4, 6]},
            "schedule": {"mechanism": "eagle3", "tiers": [
                {"first_batch": first, "last_batch": last, "draft_len": length} for first, last, length in SCHEDULE]}}
    (folder / "plan.json").write_text(json.dumps(plan | more), encoding="utf-8")
    return folder / "plan.json"


def test_stored_schedule_is_held_against_the_configured_one(tmp_path: Path) -> None:
    baseline = read_baseline(stored(tmp_path))
    same = script(tmp_path, num_speculative_tokens_per_batch_size=SCHEDULE)
    assert findings(same, Options(baseline=baseline)) == []
    other = script(tmp_path, num_speculative_tokens_per_batch_size=[[1, 16, 5], [17, 256, 0]])
    (finding,) = findings(other, Options(baseline=baseline))
    assert "recommends D = 2 at batch 9, this drafts 5" in finding.message
    assert findings(script(tmp_path), Options(baseline=baseline)) == [], "one length, that of a tier"
    (finding,) = findings(script(tmp_path, num_speculative_tokens=7), Options(baseline=baseline))
    assert "recommends D of 0, 2, 5 by batch, this drafts 7" in finding.message


def test_plan_without_a_schedule_is_read(tmp_path: Path) -> None:
    assert read_baseline(stored(tmp_path, schedule=None)) == replace(BASELINE, file=str(tmp_path / "plan.json"))


@pytest.mark.parametrize(("content", "says"), [
    ("{", "cannot be read"), ("[]", "recommendation"), ('{"recommendation": {}}', "not the output"),
    ('{"recommendation": {"speculate": null}}', "decided nothing"),
    ('{"recommendation": {"speculate": true}, "schedule": {"tiers": [{"a": 1}]}}', "tiers"),
])
def test_files_that_are_no_plan_are_refused(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "plan.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_baseline(tmp_path / "plan.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_baseline(tmp_path / "none.json")
