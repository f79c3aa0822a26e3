"""Commands beyond recommend and explain: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specplan.cli import app

ROOT = Path(__file__).parents[1]
EXAMPLE = str(ROOT / "examples" / "llama-3.3-70b-h200.yaml")
DATA = ROOT / "tests" / "data"


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llama_cpp", "lmdeploy", "onnxruntime-genai"])
def test_emit_prints_a_snippet_that_reads_back_as_the_same_length(engine: str) -> None:
    from specplan.planner.engines.dialects import parse

    result = run("recommend", "--model", EXAMPLE, "--emit", engine)
    assert result.exit_code == 0, result.output
    answer = json.loads(run("recommend", "--model", EXAMPLE, "--json").stdout)
    longest = max(tier["draft_len"] for tier in answer["schedule"]["tiers"])
    assert parse(result.stdout, engine.replace("-", "_")).draft_len == longest


@pytest.mark.parametrize(("target", "dtypes", "flags", "not_flags"), [
    ("llama-3.1-8b", "{weights: fp8, kv: fp8}", ["--quantization fp8", "--kv-cache-dtype fp8"], []),
    ("llama-3.1-8b", "{weights: bf16}", [], ["--quantization", "--kv-cache-dtype"]),
    ("llama-3.1-8b", "{weights: nvfp4}", ["assumes NVFP4 weights"], ["--quantization"]),
    ("deepseek-v3", "{}", ["--enable-expert-parallel"], ["--quantization", "weights"]),     # FP8 as it is published
])
def test_emit_keeps_number_formats_and_groups(
    target: str, dtypes: str, flags: list[str], not_flags: list[str], tmp_path: Path
) -> None:
    cfg = tmp_path / "cfg.yaml"
    gpus = 8 if target == "deepseek-v3" else 1
    cfg.write_text(
        f"target: {target}\ngpu: b200-sxm\ndtypes: {dtypes}\nparallel: {{tp: {gpus}, ep: {gpus}}}\n"
        "workload: {batch: 1, context_tokens: 2k}\ndrafters: [{mechanism: eagle3, acceptance: {alpha: 0.8}}]\n",
        encoding="utf-8",
    )
    text = run("recommend", "--model", str(cfg), "--emit", "vllm").stdout
    assert [flag for flag in flags if flag not in text] == []
    assert [flag for flag in not_flags if flag in text] == []


@pytest.mark.parametrize(("engine", "release"), [
    ("vllm", "0.11.0"), ("sglang", "0.5.0"), ("trtllm", "1.2.0"), ("llama.cpp", "b9300"), ("lmdeploy", "0.10.0"),
])
def test_emit_writes_for_the_release_that_was_planned_for(engine: str, release: str, tmp_path: Path) -> None:
    """The one in cfg.yaml, or of --engine; a version beside --emit comes first, and another engine has its own."""
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(
        f"target: llama-3.1-8b\ngpu: h100-sxm\nengine: {engine}:{release}\n"
        "workload: {batch: 1, context_tokens: 2k}\ndrafters: [{mechanism: eagle3, acceptance: {alpha: 0.8}}]\n",
        encoding="utf-8",
    )
    planned = run("recommend", "--model", str(cfg), "--emit", engine).stdout
    assert f" {release}, written by specplan" in planned
    assert planned == run("recommend", "--model", str(cfg), "--emit", f"{engine}:{release}").stdout
    given = {"trtllm": "1.3.0", "llama.cpp": "b9400"}.get(engine, "0.9.9")
    assert f" {given}, written" in run("recommend", "--model", str(cfg), "--emit", f"{engine}:{given}").stdout
    other = "sglang" if engine == "vllm" else "vllm"
    assert f" {release}, written" not in run("recommend", "--model", str(cfg), "--emit", other).stdout


def test_a_schedule_that_rises_names_the_one_that_only_falls() -> None:
    """gpt-oss-120b on one H200: graph sizes make D rise again; the answer and the file say what to take instead."""
    model = str(ROOT / "planner" / "models" / "presets" / "gpt-oss-120b.json")
    question = ("--model", model, "--gpu", "h200-sxm", "--batch", "1-256", "--context", "2k", "--engine", "sglang")
    schedule = json.loads(run("recommend", *question, "--json").stdout)["schedule"]
    lengths = [tier["draft_len"] for tier in schedule["tiers"]]
    assert lengths != sorted(lengths, reverse=True)
    smoother = [tier["draft_len"] for tier in schedule["smoother"]["tiers"]]
    assert smoother == sorted(smoother, reverse=True)
    assert 0 < schedule["smoother"]["worst_cost"] <= 0.08
    for options in ((), ("--emit", "vllm")):
        said = " ".join(run("recommend", *question, *options).stdout.replace("#", "").split())
        assert " ".join(schedule["smoother"]["finding"].split()) in said


def test_emit_for_another_engine_says_whose_costs_were_planned_with() -> None:
    other = run("recommend", "--model", EXAMPLE, "--emit", "sglang")
    assert "kernels and fixed costs of vllm" in other.stderr
    assert "# planned with the kernels and fixed costs of vllm" in other.stdout
    for same in ("vllm", "vLLM"):
        assert "fixed costs" not in run("recommend", "--model", EXAMPLE, "--emit", same).output
    for word in ("trtllm", "tensorrt-llm"):
        own = run("recommend", "--model", EXAMPLE, "--engine", "trtllm", "--emit", word)
        assert (own.exit_code, "fixed costs of" in own.output) == (0, False)


def test_emit_for_llama_cpp_leaves_the_files_to_fill_in() -> None:
    text = run("recommend", "--model", EXAMPLE, "--emit", "llama.cpp").stdout
    assert "--model YOUR-MODEL.gguf" in text
    assert "--spec-draft-model YOUR-DRAFTER.gguf" in text
    assert "put the path of meta-llama/Llama-3.3-70B-Instruct" in text.replace("\n#   ", " ")


@pytest.mark.parametrize(("engine", "newest"), [("vllm:9.9", "0.33.0"), ("sglang:1.0", "0.5.23"),
                                                ("trtllm:2.0", "1.4.0rc4")])
def test_a_version_newer_than_all_known_is_said(engine: str, newest: str) -> None:
    said = f"newest version known is {newest}"
    assert said in run("recommend", "--model", EXAMPLE, "--engine", engine).stderr.replace("\n", " ")
    emitted = run("recommend", "--model", EXAMPLE, "--emit", engine)
    assert said in emitted.stderr.replace("\n", " ")
    assert said in emitted.stdout.replace("\n#   ", " ")


@pytest.mark.parametrize("engine", ["vllm:0.33.0", "vllm:0.24.0", "sglang:0.5.9", "vllm-async", "vllm"])
def test_a_known_version_passes_without_a_word(engine: str) -> None:
    assert "newest version" not in run("recommend", "--model", EXAMPLE, "--engine", engine).output


LOADED = str(ROOT / "examples" / "load-llama-3.3-70b-h200.yaml")


@pytest.mark.parametrize(("engine", "admitted"), [
    ("vllm", "--max-num-seqs"), ("sglang", "--max-running-requests"), ("trtllm", "max_batch_size:"),
])
def test_emit_writes_what_the_load_chose_and_the_summary_leads_with_it(engine: str, admitted: str) -> None:
    from specplan.planner.engines.dialects import parse

    answer = json.loads(run("recommend", "--model", LOADED, "--json").stdout)
    chosen, by_batch = answer["load"]["slo"]["choice"], answer["recommendation"]
    assert answer["schedule"] is not None, "the batch answer stays"
    emitted = run("recommend", "--model", LOADED, "--emit", engine).stdout
    plan = parse(emitted, engine)
    assert (plan.draft_len, plan.max_batch, plan.tp) == (chosen["draft_len"], chosen["max_batch"], chosen["tp"])
    assert plan.schedule is None
    assert f"{admitted} {chosen['max_batch']}" in emitted
    lines = run("recommend", "--model", LOADED).stdout.splitlines()
    assert lines[0].startswith(f"Run eagle3 with D = {chosen['draft_len']} under this load")
    assert any(line.startswith(f"Run eagle3 with D = {by_batch['draft_len']} at batch 1,") for line in lines[1:])


def test_emit_for_a_target_that_nothing_meets_says_so(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    text = Path(LOADED).read_text(encoding="utf-8").replace("tpot_ms: 25", "tpot_ms: 0.1")
    cfg.write_text(text, encoding="utf-8")
    result = run("recommend", "--model", str(cfg), "--emit", "vllm")
    assert result.exit_code == 1
    assert "no option meets the target" in result.stderr
    nearest = json.loads(run("recommend", "--model", str(cfg), "--json").stdout)["load"]["slo"]["nearest"]
    assert f'"num_speculative_tokens": {nearest["draft_len"]}}}' in result.stdout


def test_a_snippet_made_for_a_load_is_clean_under_its_own_plan(tmp_path: Path) -> None:
    script, plan = tmp_path / "serve.sh", tmp_path / "plan.json"
    script.write_text(run("recommend", "--model", LOADED, "--emit", "vllm").stdout, encoding="utf-8")
    plan.write_text(run("recommend", "--model", LOADED, "--json").stdout, encoding="utf-8")
    length = json.loads(plan.read_text(encoding="utf-8"))["load"]["slo"]["choice"]["draft_len"]
    kept = run("check", str(script), "--baseline", str(plan))
    assert kept.exit_code == 0, kept.output
    priced = run("check", str(script), "--model", LOADED)
    assert priced.exit_code == 0, priced.output
    short = script.read_text(encoding="utf-8").replace(f'_tokens": {length}', '_tokens": 1')
    (tmp_path / "short.sh").write_text(short, encoding="utf-8")
    assert f"D = {length} is best" in run("check", str(tmp_path / "short.sh"), "--model", LOADED).output
    changed = script.read_text(encoding="utf-8").replace(f'_tokens": {length}', f'_tokens": {length - 1}')
    script.write_text(changed, encoding="utf-8")
    assert f"recommends D = {length}" in run("check", str(script), "--baseline", str(plan)).output


def test_emit_writes_a_file_whole_and_says_when_it_cannot(tmp_path: Path) -> None:
    wanted = tmp_path / "serve.sh"
    assert run("recommend", "--model", EXAMPLE, "--emit", "vllm", "-o", str(wanted)).exit_code == 0
    assert "--speculative-config" in wanted.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["serve.sh"]
    refused = run("recommend", "--model", EXAMPLE, "--emit", "vllm", "-o", str(tmp_path / "no" / "serve.sh"))
    assert refused.exit_code == 2
    assert "cannot be written" in refused.output
    unknown = run("recommend", "--model", EXAMPLE, "--emit", "vlmm")
    assert (unknown.exit_code, "did you mean 'vllm'" in unknown.output) == (2, True)
    assert run("recommend", "--model", EXAMPLE, "-o", str(wanted)).exit_code == 2


def test_emit_without_acceptance_is_refused(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(
        "target: llama-3.1-8b\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 2k}\n"
        "drafters: [{mechanism: eagle3}]\n", encoding="utf-8",
    )
    result = run("recommend", "--model", str(cfg), "--emit", "vllm")
    assert result.exit_code == 2
    assert "acceptance is not known" in result.output


def test_check_exits_1_on_findings_and_0_when_clean(tmp_path: Path) -> None:
    bad = tmp_path / "serve.sh"
    config = '{"method": "eagle3", "model": "x", "num_speculative_tokens": 6}'
    bad.write_text(f"vllm serve meta-llama/Llama-3.3-70B-Instruct --speculative-config '{config}' "
                   "--tensor-parallel-size 4 --max-num-seqs 32\n", encoding="utf-8")
    clean = run("check", str(bad), "--model", EXAMPLE, "--batch", "32", "--max-loss", "90%", "--select", "SP6")
    assert clean.exit_code == 0, clean.output
    strict = run("check", str(bad), "--model", EXAMPLE, "--batch", "128", "--max-loss", "1%", "--select", "SP6",
                 "--format", "json")
    assert strict.exit_code == 1, strict.output
    assert "SP601" in strict.stdout
    assert run("check", str(tmp_path / "absent.sh")).exit_code == 2
    assert run("check").exit_code == 2
    assert "SP601" in run("check", "--explain", "SP601").stdout


def test_check_fails_on_drift_from_a_stored_plan(tmp_path: Path) -> None:
    plan, script = tmp_path / "plan.json", tmp_path / "serve.sh"
    plan.write_text(run("recommend", "--model", EXAMPLE, "--json").stdout, encoding="utf-8")
    script.write_text("vllm serve m --speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 2}'\n",
                      encoding="utf-8")
    result = run("check", str(script), "--baseline", str(plan), "--select", "SP604")
    assert result.exit_code == 1
    assert "recommends eagle3" in result.stdout


def test_compare_two_draft_lengths_and_their_reasons() -> None:
    result = run("compare", "--model", EXAMPLE, "--mechanism", "eagle3", "--draft-len", "3,0", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["b"]["drafter"] is None
    assert found["ratio"] == pytest.approx(
        found["b"]["tokens_per_s_per_user"] / found["a"]["tokens_per_s_per_user"]
    )
    assert found["reasons"]
    assert run("compare", EXAMPLE, EXAMPLE).exit_code == 0
    for words in (["compare"], ["compare", EXAMPLE], ["compare", "--model", EXAMPLE, "--draft-len", "3"]):
        assert run(*words).exit_code == 2
    assert run("compare", "--model", EXAMPLE, "--mechanism", "eagle3", "--draft-len", "3,40").exit_code == 2


def test_acceptance_read_prints_the_canonical_form_and_writes_what_cfg_takes(tmp_path: Path) -> None:
    written = tmp_path / "acceptance.json"
    log = str(DATA / "acceptance" / "vllm-log.log")
    result = run("acceptance", "read", log, "--json", "-o", str(written))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["source_format"].startswith("vllm")
    assert found["acceptance_length"] == pytest.approx(1 + sum(found["per_position"]), abs=0.02)
    cfg = tmp_path / "cfg.yaml"
    for file in (log, str(written)):
        cfg.write_text(
            "target: llama-3.1-8b\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 2k}\n"
            f"drafters: [{{mechanism: eagle3, acceptance: {{file: {file}}}}}]\n", encoding="utf-8",
        )
        answer = json.loads(run("recommend", "--model", str(cfg), "--json").stdout)
        assert answer["recommendation"]["acceptance_length"] is not None


@pytest.mark.parametrize(("file", "choice", "length"), [
    ("inferencex-qwen3.5_mtp.yaml", "thinking_off", 4.71), ("inferencex-qwen3.5_mtp.yaml", "thinking_on", 5.21),
    ("speed-bench.csv", "coding", 2.84),
])
def test_acceptance_read_selects_one_of_several_curves(file: str, choice: str, length: float) -> None:
    path = str(DATA / "acceptance" / file)
    found = run("acceptance", "read", path, "--select", choice, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["acceptance_length"] == length
    wrong = run("acceptance", "read", path, "--select", choice[:-1])
    assert wrong.exit_code == 2
    assert f"--select {choice[:-1]} names no curve" in wrong.output


def test_acceptance_read_lists_the_curves_to_select_from() -> None:
    asked = run("acceptance", "read", str(DATA / "acceptance" / "inferencex-qwen3.5_mtp.yaml"))
    assert asked.exit_code == 2
    assert "choose one with --select" in asked.output


def test_acceptance_faults_of_a_file_name_the_key(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(
        "target: llama-3.1-8b\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 2k}\n"
        "drafters:\n  - mechanism: eagle3\n    acceptance: {file: absent.log}\n", encoding="utf-8",
    )
    result = run("recommend", "--model", str(cfg))
    assert result.exit_code == 2
    assert "cfg.yaml:6: drafters[0].acceptance.file" in result.output


def test_acceptance_list_show_and_needed() -> None:
    listed = json.loads(run("acceptance", "list", "--mechanism", "mtp", "--json").stdout)
    assert listed
    assert {row["mechanism"] for row in listed} == {"mtp"}
    shown = json.loads(run("acceptance", "show", listed[0]["id"], "--json").stdout)
    assert shown["id"] == listed[0]["id"]
    assert "did you mean" in run("acceptance", "show", listed[0]["id"][:-1]).output
    rows = json.loads(run("acceptance", "needed", "--model", EXAMPLE, "--batch", "1", "--json").stdout)
    assert {row["drafter"] for row in rows} >= {"eagle3"}
    for row in rows:
        even, gain = row["break_even_acceptance_length"], row["acceptance_length_for_gain"]
        assert even is None or 1 < even <= 1 + row["draft_len"]
        assert gain is None or gain == pytest.approx(1.2 * even)


def test_library_acceptance_says_what_was_assumed(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(
        "target: qwen3-8b\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 2k}\n"
        "drafters:\n  - {mechanism: eagle3, acceptance: {domain: {coding: 0.7, chat: 0.3}}}\n", encoding="utf-8",
    )
    answer = json.loads(run("recommend", "--model", str(cfg), "--json").stdout)
    assert answer["recommendation"]["acceptance_length"] > 1
    assert answer["candidates"][1]["acceptance_source"]


def test_extrapolation_is_asked_for_and_said(tmp_path: Path) -> None:
    cfg = tmp_path / "cfg.yaml"
    text = (
        "target: qwen3-8b\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 2k}\nmax_draft_len: 8\n"
        "drafters:\n  - {mechanism: eagle3, acceptance: {per_position: [0.8, 0.7, 0.6]%s}}\n"
    )
    for extra, longest in (("", 3), (", extrapolate: true", 8)):
        cfg.write_text(text % extra, encoding="utf-8")
        answer = json.loads(run("recommend", "--model", str(cfg), "--json").stdout)
        assert max(item["draft_len"] for item in answer["candidates"]) == longest
        codes = {note["code"] for note in answer["warnings"]}
        assert ("acceptance_extrapolated" in codes) == bool(extra)
