"""Answers under a load: rates, users, targets, traces, and every bad input in words with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.answer import recommend
from specplan.planner.answer.load_answer import row_of
from specplan.planner.answer.load_types import LoadAnswer
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.ways import ways_of
from specplan.planner.config.load import load_config
from specplan.planner.decide.slo import tpot_limit
from specplan.planner.messages import InputError, SpecplanError

VECTOR = {"per_position": [0.75, 0.5, 0.3]}


def config(workload: dict[str, Any], **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "target": "llama-3.3-70b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "dtypes": {"weights": "fp8", "kv": "fp8"},
        "engine": "vllm", "drafters": [{"mechanism": "eagle3", "acceptance": VECTOR}],
        "workload": {"input_tokens": 3000, "output_tokens": 400} | workload,
    }
    return fields | changes


def load_of(workload: dict[str, Any], **changes: Any) -> LoadAnswer:
    found = recommend(config(workload, **changes)).load
    assert found is not None
    return found


def test_a_rate_needs_no_batch_and_says_what_the_deployment_carries() -> None:
    load = load_of({"request_rate": 3.0})
    assert load.context_tokens == pytest.approx(3000 + 400)     # exponential answers: the running ones are long
    best, off = load.rows
    assert (best.mechanism, off.mechanism) == ("eagle3", None)
    assert best.tpot_s < off.tpot_s
    assert f"carries {best.saturation_rate:.2f} requests/s" in load.finding
    assert best.mean_batch == pytest.approx(3.0 * best.tpot_s * 399, rel=1e-6)      # Little's law


def test_off_may_carry_more_than_speculation() -> None:
    poor = [{"mechanism": "eagle3", "acceptance": {"per_position": [0.35, 0.1]}}]
    load = load_of({"request_rate": 2.0}, drafters=poor)
    speculating, off = sorted(load.rows, key=lambda row: row.saturation_rate)
    assert off.mechanism is None
    if load.rows[0] is speculating:
        assert f"above that off carries {off.saturation_rate:.2f}" in load.finding


def test_prefix_hits_raise_what_is_carried() -> None:
    cold, warm = load_of({"request_rate": 2.0}), load_of({"request_rate": 2.0, "prefix_hit": 0.8})
    assert warm.prefill_s < cold.prefill_s / 2
    assert warm.rows[0].saturation_rate > cold.rows[0].saturation_rate


def test_users_in_a_closed_loop() -> None:
    load = load_of({"concurrency": 16})
    row = load.rows[0]
    assert row.request_s is not None
    assert row.request_rate * row.request_s == pytest.approx(16, rel=0.1)           # Little's law
    assert load.finding.startswith("16 users get ")


def test_disaggregated_decode_carries_no_prefill() -> None:
    load = load_of({"request_rate": 2.0, "disaggregated": True})
    assert load.prefill_s == 0.0
    assert load.rows[0].ttft_s is None
    assert load.rows[0].saturation_rate > load_of({"request_rate": 2.0}).rows[0].saturation_rate


def test_a_first_token_target_belongs_to_other_gpus_under_disaggregation() -> None:
    answer = recommend(config({"request_rate": 2.0, "disaggregated": True, "slo": {"ttft_ms": 500}}))
    assert "ttft-elsewhere" in {note.code for note in answer.warnings}
    assert answer.load is not None
    assert answer.load.slo is None


def test_too_much_is_said() -> None:
    load = load_of({"request_rate": 500.0})
    assert not any(row.carries for row in load.rows)
    assert load.rows[0].ttft_s is None
    assert load.finding.startswith("500 requests/s are more than any option carries: the most is ")


def test_a_target_is_planned_over_slots_and_tp_and_priced() -> None:
    load = load_of({
        "request_rate": 2.0, "price_per_gpu_hour": 3.6,
        "slo": {"tpot_ms": 30, "ttft_ms": 900, "percentile": 95, "tp": [4, 8], "max_batch": [16, 64]},
    })
    assert load.slo is not None
    choice = load.slo.choice
    assert choice is not None
    assert load.slo.met
    assert choice.meets_target
    assert choice.tp == 4                           # fewest GPUs first
    assert choice.max_batch in {16, 64}
    assert choice.tpot_top_s <= 0.030
    assert choice.ttft_top_s is not None
    assert choice.ttft_top_s <= 0.9
    assert load.slo.highest_rate is not None
    assert load.slo.highest_rate >= 2.0
    # 3.6 an hour is 0.001 a second and GPU
    assert choice.cost_per_million_tokens == pytest.approx(1e6 * 0.001 / choice.tokens_per_s_per_gpu)


def test_a_target_that_nothing_meets_ends_with_1_and_the_nearest(tmp_path: Path) -> None:
    asked = config({"request_rate": 2.0, "slo": {"tpot_ms": 1.0}})
    (tmp_path / "cfg.yaml").write_text(json.dumps(asked), encoding="utf-8")
    result = CliRunner().invoke(app, ["recommend", "-m", str(tmp_path / "cfg.yaml"), "--json"])
    assert result.exit_code == 1
    slo = json.loads(result.stdout)["load"]["slo"]
    assert slo["choice"] is None
    assert slo["binds"] == "tpot"
    assert slo["nearest"]["tpot_top_s"] > 0.001
    assert "tpot binds; nearest is" in slo["finding"]


def test_simulation_stands_beside_the_closed_form(tmp_path: Path) -> None:
    asked = config({"request_rate": 4.0, "output_tokens": 150, "lengths": {"output_variation": 0.0}})
    (tmp_path / "cfg.yaml").write_text(json.dumps(asked), encoding="utf-8")
    command = ["recommend", "-m", str(tmp_path / "cfg.yaml"), "--json", "--simulate", "--seed", "3"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    checks = json.loads(result.stdout)["load"]["simulation"]
    assert [check["seed"] for check in checks] == [3, 3]
    for check in checks:
        assert check["tpot_closed_s"] == pytest.approx(check["tpot_s"], rel=0.05)
        assert check["tokens_per_s_closed"] == pytest.approx(check["tokens_per_s"], rel=0.05)
    assert "simulating off: 50%" in result.stderr


def test_simulation_without_a_load_is_refused(tmp_path: Path) -> None:
    asked = config({"batch": 8, "context_tokens": 2000})
    with pytest.raises(InputError, match="--simulate needs a load"):
        recommend(asked, simulate_seed=1)


def test_a_trace_gives_means_and_variations(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("id,output_tokens,input_tokens\na,100,1000\nb,300,3000\n", encoding="utf-8")
    asked = config({"request_rate": 1.0, "lengths": {"trace": str(tmp_path / "trace.csv")}})
    del asked["workload"]["input_tokens"], asked["workload"]["output_tokens"]
    load = recommend(asked).load
    assert load is not None
    assert (load.input_tokens, load.output_tokens) == (2000, 200)
    assert (load.input_variation, load.output_variation) == (0.5, 0.5)
    # sequences run as long as their answers: (100 * 1050 + 300 * 3150) / 400
    assert load.context_tokens == pytest.approx((100 * 1050 + 300 * 3150) / 400)


def test_a_trace_is_simulated_with_its_own_requests(tmp_path: Path) -> None:
    lines = "".join(f"{500 + 40 * k},{20 + 4 * k}\n" for k in range(40))
    (tmp_path / "trace.csv").write_text(f"input_tokens,output_tokens\n{lines}", encoding="utf-8")
    asked = config({"request_rate": 4.0, "lengths": {"trace": str(tmp_path / "trace.csv")}})
    load = recommend(asked, simulate_seed=2).load
    assert load is not None
    for check in load.simulation:
        assert check.tpot_closed_s == pytest.approx(check.tpot_s, rel=0.08)
        assert check.tokens_per_s_closed == pytest.approx(check.tokens_per_s, rel=0.05)


@pytest.mark.parametrize(("text", "wanted"), [
    ("", "trace.csv:1: the first line must name the columns input_tokens and output_tokens; it holds nothing"),
    ("input_tokens,output_tokens\n", "trace.csv: holds no requests"),
    ("input_tokens,output_token\n1,2\n", "did you mean 'output_token'"),
    ("input_tokens,output_tokens\n5,x\n7,8\n9\n0,4\n", "trace.csv:2: output_tokens must be a whole number"),
    ("input_tokens,output_tokens\n5,x\n7,8\n9\n0,4\n", "trace.csv:4: output_tokens is missing: the line has 1 values"),
    ("input_tokens,output_tokens\n5,x\n7,8\n9\n0,4\n", "trace.csv:5: input_tokens must be a whole number"),
])
def test_bad_traces(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "trace.csv").write_text(text, encoding="utf-8")
    asked = config({"request_rate": 1.0, "lengths": {"trace": str(tmp_path / "trace.csv")}})
    with pytest.raises(InputError) as error:
        recommend(asked)
    assert wanted in str(error.value)


@pytest.mark.parametrize(("workload", "wanted"), [
    ({"request_rate": 0}, "workload.request_rate: must be above 0"),
    ({"request_rate": 1.0, "concurrency": 4}, "give request_rate or concurrency, not both"),
    ({"request_rate": 1.0, "output_tokens": 2}, "workload.output_tokens: 2 is fewer than the 2.55 tokens"),
    ({"request_rate": 1.0, "input_tokens": None}, "need input_tokens and output_tokens, or lengths.trace"),
    ({"request_rate": 1.0, "slo": {}}, "workload.slo: needs tpot_ms, ttft_ms or both"),
    ({"request_rate": 1.0, "slo": {"tpot_ms": 20, "percentile": 100}}, "workload.slo.percentile: must be below 100"),
    ({"request_rate": 1.0, "slo": {"tpot_ms": 20, "tp": [4, 3]}}, "workload.slo.tp: 3 GPUs cannot share the 64 query"),
    ({"request_rate": 1.0, "prefix_hit": 1.0}, "workload.prefix_hit: must be below 1"),
    ({"request_rate": 1.0, "lengths": {"trace": "none.csv"}}, "none.csv: no such file"),
    ({"request_rate": 1.0, "lengths": {"trace": "a.csv", "output_variation": 1.0}}, "leave out input_variation"),
])
def test_bad_loads(workload: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InputError) as error:
        recommend(config(workload))
    assert wanted in str(error.value)


SHORT = {"gpu": "h100-sxm", "dtypes": {"weights": "fp8"}}
MOE = {
    "target": "qwen3-30b-a3b", "gpu": "l40s", "parallel": {"tp": 1}, "dtypes": {"weights": "fp8"}, "engine": "sglang",
}


@pytest.mark.parametrize(("rate", "input_tokens", "output_tokens"), [(3.8, 4000, 20), (29.5, 10, 10)])
def test_a_target_is_met_only_where_the_row_says_so(
    tmp_path: Path, rate: float, input_tokens: int, output_tokens: int
) -> None:
    workload = {"input_tokens": input_tokens, "output_tokens": output_tokens, "request_rate": rate}
    asked = config(workload | {"slo": {"tpot_ms": 25}}, **SHORT)
    (tmp_path / "cfg.yaml").write_text(json.dumps(asked), encoding="utf-8")
    result = CliRunner().invoke(app, ["recommend", "-m", str(tmp_path / "cfg.yaml"), "--json"])
    assert result.exit_code == 1
    load = json.loads(result.stdout)["load"]
    assert (load["slo"]["met"], load["slo"]["choice"], load["slo"]["binds"]) == (False, None, "tpot")
    for row in (load["slo"]["nearest"], *load["rows"]):
        assert not row["meets_target"]
        assert row["tpot_p50_s"] <= row["tpot_top_s"]
        assert row["tpot_top_s"] >= row["tpot_s"]


@pytest.mark.parametrize("tpot_ms", [18.0, 25.0, 40.0])
@pytest.mark.parametrize("users", [8, 32])
def test_every_count_of_sequences_is_weighed_for_users(users: int, tpot_ms: float) -> None:
    workload = {"concurrency": users, "input_tokens": 2000, "output_tokens": 500, "slo": {"tpot_ms": tpot_ms}}
    asked = config(workload, **MOE)
    question = resolve(load_config(asked))
    assert question.load is not None
    rows = [
        row_of(way.with_slots(slots), question.load)
        for way in ways_of(question, question.load) for slots in range(1, way.replica.max_batch + 1)
    ]
    most = max(row.request_rate for row in rows if row.meets_target)
    found = recommend(asked).load
    assert found is not None
    assert found.slo is not None
    assert found.slo.choice is not None
    assert found.slo.choice.meets_target
    assert found.slo.choice.request_rate >= most / 1.01


@pytest.mark.parametrize("tpot_ms", [30.0, 40.0])
def test_every_count_of_sequences_is_weighed_for_the_highest_rate(tpot_ms: float) -> None:
    asked = config({"output_tokens": 800, "slo": {"tpot_ms": tpot_ms}}, gpu="h100-sxm")
    question = resolve(load_config(asked))
    assert question.load is not None
    assert question.load.target is not None
    limits = [
        tpot_limit(way.with_slots(slots).replica, question.load.target)
        for way in ways_of(question, question.load) if way.draft_len == 3
        for slots in range(1, way.replica.max_batch + 1)
    ]
    load = recommend(asked).load
    assert load is not None
    assert load.slo is not None
    assert load.slo.highest_rate is not None
    assert load.slo.highest_rate >= max(limits) / 1.01


@pytest.mark.parametrize("acceptance", [{"alpha": 0.7}, {"per_position": [0.8, 0.65, 0.5, 0.4, 0.3]}])
def test_no_other_way_carries_more_and_is_faster_than_the_choice(acceptance: dict[str, Any]) -> None:
    workload = {"request_rate": 2.0, "output_tokens": 800, "slo": {"tpot_ms": 30, "tp": [2, 4, 8]}}
    load = load_of(workload, gpu="h100-sxm", drafters=[{"mechanism": "eagle3", "acceptance": acceptance}])
    assert load.slo is not None
    choice = load.slo.choice
    assert choice is not None
    for row in load.rows:
        assert row.saturation_rate <= choice.saturation_rate or row.tpot_top_s >= choice.tpot_top_s


def test_a_long_wait_for_a_slot_is_said() -> None:
    crowd = load_of({"concurrency": 32, "input_tokens": 2000, "output_tokens": 500, "slo": {"tpot_ms": 25}}, **MOE)
    assert crowd.slo is not None
    assert crowd.slo.choice is not None
    assert crowd.slo.choice.ttft_s is not None
    assert crowd.slo.choice.ttft_s > 10
    assert f"for a slot (TTFT {crowd.slo.choice.ttft_s:.3g} s on average)" in crowd.slo.finding
    assert "for a slot" in load_of({"concurrency": 300, "max_batch": 16}).finding
    few = load_of({"concurrency": 8, "slo": {"tpot_ms": 100}})
    assert few.slo is not None
    assert "for a slot" not in few.finding + few.slo.finding


def test_each_way_is_listed_once(tmp_path: Path) -> None:
    asked = config({"concurrency": 8, "slo": {"tpot_ms": 100}})
    load = recommend(asked).load
    assert load is not None
    assert load.slo is not None
    assert load.slo.choice in load.rows
    assert load.listed[0] == load.slo.choice
    assert len(load.listed) == len(load.rows)
    (tmp_path / "cfg.yaml").write_text(json.dumps(asked), encoding="utf-8")
    printed = CliRunner().invoke(app, ["recommend", "-m", str(tmp_path / "cfg.yaml")]).stdout
    table = printed[printed.index("steady state") : printed.index("Batch by batch")]
    assert table.count("eagle3 D =") == 1


def test_unknown_acceptance_is_no_verdict(tmp_path: Path) -> None:
    asked = config({"request_rate": 1.0}, drafters=[{"mechanism": "eagle3"}])
    (tmp_path / "cfg.yaml").write_text(json.dumps(asked), encoding="utf-8")
    printed = CliRunner().invoke(app, ["recommend", "-m", str(tmp_path / "cfg.yaml")]).stdout
    assert printed.startswith("Acceptance unknown: no recommendation; without speculation under this load")
    assert "Do not speculate" not in printed
    load = recommend(asked).load
    assert load is not None
    assert load.finding.startswith("acceptance of eagle3 unknown; ")


def test_nothing_fits() -> None:
    with pytest.raises(SpecplanError, match="nothing is feasible: not one sequence") as error:
        recommend(config({"request_rate": 1.0}, parallel={"tp": 1}, dtypes={"weights": "bf16"}))
    # 70.6e9 parameters at 2 bytes
    assert "weights 141.1 GB" in str(error.value)
    assert str(error.value).endswith("; tp 2 fits; fp8 weights fit")
