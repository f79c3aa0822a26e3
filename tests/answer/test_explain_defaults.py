"""`explain` and `compare` take what is recommended for what is not given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.answer import explain, recommend
from specplan.planner.messages import InputError


def config(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "target": "llama-3.3-70b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "dtypes": {"weights": "fp8", "kv": "fp8"},
        "engine": "vllm:0.24.0", "workload": {"batch": [4, 32], "context_tokens": [2000, 32000]},
        "drafters": [
            {"mechanism": "ngram", "acceptance": {"alpha": 0.3}, "draft_fraction": 0.4},
            {"mechanism": "eagle3", "acceptance": {"per_position": [0.78, 0.55, 0.38, 0.26, 0.18]}},
        ],
    }
    return base | changes


def test_what_is_not_given_is_the_headline_of_recommend() -> None:
    best, found = recommend(config()).recommendation, explain(config())
    assert best.mechanism == "eagle3"   # not the first that is listed
    assert (found.mechanism, found.draft_len) == (best.mechanism, best.draft_len)
    assert (found.batch, found.context_tokens) == (4, 2000)
    assert found.step_s == best.step_s


def test_what_is_given_stays() -> None:
    found = explain(config(), mechanism="ngram", batch=32)
    assert (found.mechanism, found.batch, found.context_tokens) == ("ngram", 32, 2000)
    mine = [item for item in recommend(config()).cells[2].candidates if item.mechanism == "ngram" and item.draft_len]
    top = max(item.tokens_per_s_per_user or 0 for item in mine)
    chosen = next(item for item in mine if item.draft_len == found.draft_len)
    assert chosen.tokens_per_s_per_user == pytest.approx(top, rel=0.01)
    assert explain(config(), draft_len=2).mechanism == "eagle3"


def test_off_explains_the_plain_step_in_full() -> None:
    found = explain(config(), mechanism="off", batch=32, context_tokens=32000)
    off = recommend(config()).cells[3].off
    assert (found.mechanism, found.draft_len, found.sweep) == ("off", 0, ())
    assert found.step_s == off.step_s == found.off_step_s
    assert sum(line.time_s for line in found.ops) == pytest.approx(off.step_s, rel=1e-9)
    assert {line.stage for line in found.ops} == {"decode", "fixed"}


def test_where_off_wins_the_plain_step_is_explained() -> None:
    loses = config(drafters=[{"mechanism": "eagle3", "acceptance": {"per_position": [0.02]}}])
    assert explain(loses).mechanism == "off"
    assert explain(loses, draft_len=1).mechanism == "eagle3"
    assert explain(loses, mechanism="eagle3").draft_len == 1


def test_without_acceptance_it_says_what_to_give() -> None:
    unknown = config(drafters=[{"mechanism": "eagle3"}, {"mechanism": "ngram"}])
    with pytest.raises(InputError, match="give --mechanism and --draft-len: acceptance is not known"):
        explain(unknown)
    with pytest.raises(InputError, match="draft_len: give --draft-len"):
        explain(unknown, mechanism="eagle3")
    with pytest.raises(InputError, match="drafts nothing"):
        explain(config(), mechanism="off", draft_len=3)
    with pytest.raises(InputError, match="there are eagle3, ngram, off"):
        explain(config(), mechanism="medusa")


def test_on_the_command_line(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(json.dumps(config()), encoding="utf-8")
    run = CliRunner().invoke
    shown = run(app, ["explain", "-m", str(cfg)])
    assert shown.exit_code == 0, shown.output
    assert ": eagle3, D = " in shown.stdout
    plain = run(app, ["explain", "-m", str(cfg), "--mechanism", "off"])
    assert "plain decoding, batch 4, context 2000" in plain.stdout
    assert "over D" not in plain.stdout
    compared = json.loads(run(app, ["compare", "-m", str(cfg), "--draft-len", "3,5", "--json"]).stdout)
    assert [compared[side]["drafter"] for side in "ab"] == ["eagle3", "eagle3"]
