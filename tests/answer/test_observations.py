"""Observations in a configuration or a file move an answer, and bad ones are named with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.answer import recommend
from specplan.planner.answer.measure import measure_commands
from specplan.planner.answer.observe import read_observations
from specplan.planner.config.load import config_from_mapping
from specplan.planner.engines.benchmarks import result_name
from specplan.planner.messages import InputError

CFG: dict[str, Any] = {
    "target": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm:0.24.0",
    "workload": {"batch": [1, 8], "context_tokens": 2000},
    "drafters": [{"mechanism": "eagle3", "acceptance": {"per_position": [0.75, 0.55, 0.4, 0.3, 0.2]}}],
}
OFF = {"mechanism": "off", "batch": 1, "context_tokens": 2000, "step_s": 0.0080}
ROW = {"mechanism": "eagle3", "draft_len": 3, "batch": 1, "context_tokens": 2000, "tpot_s": 0.0045}


def asked(*observations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**CFG, **more, "observations": list(observations)}


def test_the_answer_is_that_of_the_measured_rows() -> None:
    answer = recommend(asked(OFF, ROW))
    assert answer.off.step_s == pytest.approx(0.0080, rel=0.02)
    row = next(item for item in answer.candidates if item.draft_len == 3)
    assert row.step_s / (row.acceptance_length or 0.0) == pytest.approx(0.0045, rel=0.03)
    assert answer.anchoring is not None
    assert {item.label for item in answer.anchoring.residuals} == {
        "off batch 1 context 2000", "eagle3 D=3 batch 1 context 2000",
    }
    assert any(note.code == "anchored" for note in answer.warnings)


def test_a_slow_drafter_shortens_the_draft_and_narrows_the_range() -> None:
    plain, moved = recommend(CFG), recommend(asked(OFF, {**ROW, "tpot_s": 0.0060}))
    assert (moved.recommendation.draft_len or 0) < (plain.recommendation.draft_len or 0)
    wide, narrow = plain.recommendation.speedup_range, moved.recommendation.speedup_range
    assert wide is not None
    assert narrow is not None
    assert narrow[1] / narrow[0] < wide[1] / wide[0]


def test_rates_count_all_sequences() -> None:
    """8 sequences at 2000 tokens/s in all are 4 ms a token each."""
    one = recommend(asked(OFF, {**ROW, "batch": 8, "tpot_s": 0.004}))
    other = {**ROW, "batch": 8, "tokens_per_s": 2000.0}
    del other["tpot_s"]
    two = recommend(asked(OFF, other))
    assert one.anchoring == two.anchoring


def test_tpot_holds_the_prompts_of_others_alone() -> None:
    """TPOT counts from the first token on: at concurrency 1 it is the decode step, however long the prompt."""
    long = {"batch": [1, 8], "context_tokens": 20100, "input_tokens": 20000, "output_tokens": 200}
    seen = {"mechanism": "off", "batch": 1, "context_tokens": 20100, "tpot_s": 0.009}

    def step_s(**changes: Any) -> float:
        row = {**seen, **changes}
        if "tokens_per_s" in changes:
            del row["tpot_s"]
        answer = recommend(asked(row, workload=long))
        return next(cell for cell in answer.cells if cell.batch == row["batch"]).off.step_s

    assert step_s() == step_s(metric="decode") == pytest.approx(0.009, rel=0.02)
    among = step_s(batch=8, tpot_s=0.09)        # seven prompts of others in between
    assert among < step_s(batch=8, tpot_s=0.09, metric="decode")
    assert among > step_s(batch=8, tokens_per_s=8 / 0.09)       # a rate holds all eight
    assert step_s(tokens_per_s=1 / 0.009) < 0.8 * step_s()      # a rate holds the own prompt too


def test_measured_al_decides_without_a_curve() -> None:
    bare = {**CFG, "drafters": [{"mechanism": "eagle3"}]}
    answer = recommend({**bare, "observations": [OFF, {**ROW, "acceptance_length": 2.5}]})
    assert answer.recommendation.speculate
    assert answer.recommendation.draft_len in (1, 2, 3)
    assert max(item.draft_len for item in answer.candidates) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "acceptance_length": 4.5}, "impossible at draft_len 3"),
        ({**ROW, "speedup": 2.0}, "exactly one of"),
        ({k: v for k, v in ROW.items() if k != "tpot_s"}, "exactly one of"),
        ({**ROW, "draft_len": 0}, "needs draft_len"),
        ({**OFF, "draft_len": 2}, "off drafts nothing"),
        ({"mechanism": "off", "batch": 1, "context_tokens": 2000, "speedup": 1.0}, "what speedup is measured against"),
        ({**ROW, "tpot_s": -1.0}, "above 0"),
        ({**ROW, "mechanism": "medusa"}, "mechanism"),
        ({**ROW, "mechanism": "mtp"}, "no mtp drafter is configured"),
        ({**ROW, "drafter": "mine"}, "named 'mine'"),
    ],
)
def test_bad_observations_are_named(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        recommend(asked(OFF, row))
    assert "observations" in str(error.value)


def test_contradictions_are_warnings() -> None:
    answer = recommend(asked(OFF, ROW, {**ROW, "tpot_s": 0.0075}))
    assert any(note.code == "observation-contradicts" for note in answer.warnings)


def test_one_observation_moves_the_scale_only() -> None:
    plain, moved = recommend(CFG), recommend(asked({**OFF, "step_s": 0.0080}))
    assert moved.recommendation.speedup == pytest.approx(plain.recommendation.speedup, rel=1e-6)
    assert moved.off.step_s > plain.off.step_s
    assert moved.anchoring is not None
    assert moved.anchoring.moved == ("scale",)


def test_files_say_the_same_as_the_configuration(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(
        "mechanism, draft_len, batch, context_tokens, step_s, tpot_s\noff, , 1, 2000, 0.0080,\n"
        "eagle3, 3, 1, 2k, , 0.0045\n", encoding="utf-8",
    )
    listed = tmp_path / "rows.yaml"
    listed.write_text(
        "observations:\n- {mechanism: off, batch: 1, context_tokens: 2000, step_s: 0.0080}\n"
        "- {mechanism: eagle3, draft_len: 3, batch: 1, context_tokens: 2k, tpot_s: 0.0045}\n", encoding="utf-8",
    )
    wanted = config_from_mapping(asked(OFF, ROW)).config.observations
    assert read_observations(table) == read_observations(listed) == wanted


def test_names_and_units_that_engines_print(tmp_path: Path) -> None:
    wanted = config_from_mapping(asked(
        {"mechanism": "off", "batch": 1, "context_tokens": 2000, "tpot_s": 0.008}, {**ROW, "context_tokens": 2100},
    )).config.observations
    table = tmp_path / "rows.csv"
    table.write_text(
        "mechanism,draft_len,batch,context,input_tokens,output_tokens,tpot_ms,itl_ms\n"
        "off,,1,2k,,,,8.0\neagle3,3,1,,2k,200,4.5,\n", encoding="utf-8",
    )
    listed = tmp_path / "rows.yaml"
    listed.write_text(
        "- {mechanism: off, batch: 1, context: 2k, itl_ms: 8}\n"
        "- {mechanism: eagle3, draft_len: 3, batch: 1, input_tokens: 2k, output_tokens: 200, tpot_ms: 4.5}\n",
        encoding="utf-8",
    )
    for file in (table, listed):
        found = read_observations(file)
        assert [item.context_tokens for item in found] == [item.context_tokens for item in wanted]
        assert [item.tpot_s for item in found] == pytest.approx([item.tpot_s for item in wanted])


def test_rows_on_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    rows = [line.strip() for line in page.splitlines() if line.startswith("    ") and line.count(",") == 5]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    plain, drafted = read_observations(table)
    assert plain.tpot_s == pytest.approx(0.009)
    assert plain.context_tokens == 2000
    assert (drafted.mechanism, drafted.draft_len, drafted.acceptance_length) == ("eagle3", 3, 2.4)


def test_saved_benchmarks_are_read_from_a_folder(tmp_path: Path) -> None:
    """Keys of vLLM's and SGLang's saved results; mechanism, D and batch from the names that `measure` gives."""
    result = {"completed": 80, "total_input_tokens": 8000, "total_output_tokens": 16000, "mean_tpot_ms": 8.0,
              "output_throughput": 120.0, "max_concurrency": 1}
    (tmp_path / result_name("off", 0, 1)).write_text(json.dumps(result), encoding="utf-8")
    drafted = {**result, "mean_tpot_ms": 4.5, "spec_decode_acceptance_length": 2.6}
    (tmp_path / result_name("eagle3", 3, 1)).write_text(json.dumps(drafted), encoding="utf-8")
    lines = [{**result, "mean_tpot_ms": 9.9}, {**result, "mean_tpot_ms": 4.0, "accept_length": 3.0}]
    (tmp_path / result_name("eagle3", 5, 1, lines=True)).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = {(item.mechanism, item.draft_len): item for item in read_observations(tmp_path)}
    assert found["off", 0].tpot_s == pytest.approx(0.008)
    assert found["off", 0].context_tokens == 200        # 100 prompt tokens and half of 200 answer tokens
    assert found["eagle3", 3].acceptance_length == 2.6
    assert found["eagle3", 5].tpot_s == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "mechanism,batch\noff,many\n", "must be a number"),
        ("x.csv", "mechanism,batch,context_tokens,step_s\noff,1,2000,0.01,7\n", "more cells than columns"),
        ("x.csv", "mechanism,batch,context_tokens,stepp_s\noff,1,2000,0.01\n", "unknown key"),
        ("x.csv", "mechanism,batch,context,tpot_ms\noff,1,2000,fast\n", "must be a number"),
        ("x.csv", "mechanism,batch,context,tpot_ms,tpot_s\noff,1,2000,9,0.009\n", "keep one of them"),
        ("x.csv", "mechanism,batch,context,draft_len,itl_ms\neagle3,1,2000,3,9\n", "give tpot_ms, or step_ms"),
        ("x.csv", "mechanism,batch,output_tokens,tpot_ms\noff,1,200,9\n", "only beside input_tokens"),
        ("x.csv", "mechanism,batch,input_tokens,output_tokens,tpot_ms\noff,1,2k,-2,9\n", "output_tokens: must be"),
        ("x.yaml", "- {mechanism: off, batch: 1, context: 2k, tpot_ms: fast}\n", "tpot_ms: must be a number"),
        ("x.yaml", "observations: 3\n", "needs a list"),
        ("x.yaml", "- 3\n", "is a mapping"),
        ("x.json", "{}", "no benchmark result"),
        ("x.json", '{"mean_tpot_ms": 4, "output_throughput": 3, "completed": 2}', "which mechanism"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_observations(file)
    with pytest.raises(InputError):
        read_observations(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("engine", "server", "bench"),
    [
        ("vllm", "vllm serve", "vllm bench serve"), ("sglang", "sglang.launch_server", "sglang.bench_serving"),
        ("trtllm", "trtllm-serve", "tensorrt_llm.serve.scripts.benchmark_serving"),
    ],
)
def test_measure_prints_off_a_middle_length_and_the_ends(engine: str, server: str, bench: str) -> None:
    text = measure_commands(config_from_mapping(CFG), engine)
    assert text.count(bench) == 4
    assert text.count(server) >= 4
    places = [text.index(f"specplan-{name}-b1") for name in ("off-d0", "eagle3-d3", "eagle3-d1", "eagle3-d5")]
    assert places == sorted(places)


def test_measure_knows_no_benchmark_of_llama_cpp() -> None:
    with pytest.raises(InputError, match="no serving benchmark"):
        measure_commands(config_from_mapping(CFG), "llama_cpp")


def test_observe_on_the_command_line(tmp_path: Path) -> None:
    cfg, rows = tmp_path / "cfg.yaml", tmp_path / "rows.csv"
    cfg.write_text(json.dumps(CFG), encoding="utf-8")
    rows.write_text("mechanism,batch,context_tokens,step_s\noff,1,2000,0.0080\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["recommend", "-m", str(cfg), "--observe", str(rows), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["anchoring"]["moved"] == ["scale"]
    shown = CliRunner().invoke(app, ["recommend", "-m", str(cfg), "--observe", str(rows)])
    assert "your measurements" in shown.stdout


def test_decide_from_times_on_the_command_line() -> None:
    words = ["decide", "--off", "7.2", "--step", "3:9.1", "--step", "5:10.4", "--al", "3:2.6", "--al", "5:3", "--json"]
    assert json.loads(CliRunner().invoke(app, words).stdout)["draft_len"] == 3
    assert CliRunner().invoke(app, ["decide", "--off", "7.2", "--al", "three"]).exit_code == 2
