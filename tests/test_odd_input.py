"""Paths, options and values that nobody means: each ends in a sentence and exit code 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specplan.cli import app
from specplan.planner.decide.schedule import schedule_batches
from specplan.planner.kernels.profile import PROFILES

GOOD = """\
target: llama-3.1-8b
gpu: h200-sxm
engine: vllm
workload: {batch: [1, 8], context_tokens: 2000}
drafters:
  - {mechanism: eagle3, acceptance: {per_position: [0.7, 0.5, 0.3]}}
"""
VECTOR = "per_position: [0.7, 0.5, 0.3]"
ROOT = Path(__file__).parents[1]
LONG = "a" * 5000


def write(folder: Path, old: str = "", new: str = "") -> str:
    path = folder / "cfg.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new) if old else GOOD, encoding="utf-8")
    return str(path)


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr
    return result.stderr


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", LONG + "/x", "a\\0b/x"])
@pytest.mark.parametrize(
    ("old", "ending"),
    [("gpu: h200-sxm", ".yaml"), ("target: llama-3.1-8b", ".json"), (VECTOR, ".log"), ("eagle3,", ".json")],
)
def test_a_path_that_cannot_be(path: str, old: str, ending: str, tmp_path: Path) -> None:
    key = {"gpu: h200-sxm": "gpu: ", "target: llama-3.1-8b": "target: ", VECTOR: "file: ", "eagle3,": "eagle3, model: "}
    written = f'{key[old]}"{path}{ending}"' + ("," if old.endswith(",") else "")
    refused("recommend", "--model", write(tmp_path, old, written))


def test_a_model_from_a_name_too_long_or_an_endless_device() -> None:
    assert "unknown model" in refused("models", "show", LONG)
    assert "is larger than" in refused("models", "show", "/dev/zero")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    assert "cannot be written" in refused("init", LONG)
    assert "cannot be written" in refused("recommend", "--model", write(tmp_path), "--emit", "vllm", "-o", "")


@pytest.mark.parametrize("draft_len", ["-1", "4", "65", "1000000000"])
def test_explain_draft_lengths(draft_len: str, tmp_path: Path) -> None:
    cell = ("--mechanism", "eagle3", "--batch", "8", "--context", "4k")
    assert "draft_len" in refused("explain", "-m", write(tmp_path), *cell, "--draft-len", draft_len)


@pytest.mark.parametrize("draft_lens", ["1", "1,2,x", "1,-2", "1," + "9" * 5000])
def test_compare_draft_lengths(draft_lens: str, tmp_path: Path) -> None:
    assert "--draft-len" in refused("compare", "-m", write(tmp_path), "--draft-len", draft_lens)


@pytest.mark.parametrize("batch", ["0", "-1"])
def test_check_batch(batch: str, tmp_path: Path) -> None:
    assert "--batch" in refused("check", str(tmp_path), "--batch", batch)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("eagle3,", "eagle3, draft_len: [],", "drafters[0].draft_len: must name at least one draft length"),
        (VECTOR, "domain: {chat: 1.5e308, coding: 1.5e308}", "acceptance.domain: shares are too large to add up"),
        (VECTOR, "per_position: []", "acceptance.per_position: must hold at least 1 item"),
        (VECTOR, f"per_position: [{'0.5, ' * 65}]", "acceptance.per_position: must hold at most 64 items"),
        ("engine: vllm", "engine: ':0.24'", "engine.name: must not be empty"),
    ],
)
def test_values(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert f"cfg.yaml:{GOOD[: GOOD.index(old)].count(chr(10)) + 1}: " in refused(
        "recommend", "--model", cfg := write(tmp_path, old, new)
    )
    assert message in refused("recommend", "--model", cfg)


def test_a_version_of_many_digits_is_a_version(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["recommend", "-m", write(tmp_path), "--engine", "vllm:" + "9" * 5000, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["cells"]


def test_a_range_up_to_the_largest_batch_is_answered(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["recommend", "-m", write(tmp_path), "--batch", "1-1000000000", "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["cells"]) == 31
    assert len(schedule_batches(10**9)) < 2000
    assert schedule_batches(10**9)[-1] == 10**9
    assert schedule_batches(4096) == [*range(1, 33), *range(36, 129, 4), *range(136, 513, 8), *range(544, 4097, 32)]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("head_dim", "0", "head_dim: must be from 1"),
        ("gpus", "1", "gpus: must be from 2"),
        ("ctas_per_sm", "0", "ctas_per_sm must be from 1"),
        ("kv_block_tokens", "0", "kv_block_tokens must be from 1"),
        ("tile_rows", "1.0e-9", "tile_rows must be from 1"),
        ("overlap", "0", "overlap must be from 1"),
        ("launch_s", "1.0e+300", "launch_s: must be between"),
        ("hbm_bytes_per_s", "1.0e-300", "hbm_bytes_per_s: must be between"),
        ("boost_hz", "0", "boost_hz: must be above 0"),
    ],
)
def test_a_profile_with_numbers_that_cannot_be(key: str, value: str, message: str, tmp_path: Path) -> None:
    text = (PROFILES / "h200-sxm.yaml").read_text(encoding="utf-8")
    text, times = re.subn(rf"\b{key}: [0-9.e+-]+", f"{key}: {value}", text)
    assert times
    path = tmp_path / "gpu.yaml"
    path.write_text(text, encoding="utf-8")
    refused_text = refused("profiles", "show", str(path))
    assert message in refused_text
    assert "gpu.yaml:" in refused_text


def test_a_profile_that_states_fp8_only_prices_latent_attention(tmp_path: Path) -> None:
    text = (PROFILES / "h200-sxm.yaml").read_text(encoding="utf-8")
    path = tmp_path / "gpu.yaml"
    path.write_text(re.sub(r"\{bf16: [0-9.e+]+, fp8", "{fp8", text), encoding="utf-8")
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(
        "target: deepseek-v3\ngpu: ./gpu.yaml\nparallel: {tp: 8}\nworkload: {batch: 8, context_tokens: 2k}\n",
        encoding="utf-8",
    )
    assert CliRunner().invoke(app, ["recommend", "-m", str(cfg), "--json"]).exit_code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("target", "code"), [(">/dev/full", 2), (">&-", 0)])
def test_an_output_that_takes_nothing(target: str, code: int) -> None:
    command = f'"{sys.executable}" -m specplan profiles list {target}'
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=PROFILES.parent)
    assert (result.returncode, "Traceback" in result.stderr) == (code, False), result.stderr
    assert ("No space left" in result.stderr) == (code == 2)


ODD_SAMPLES = {
    "vllm-metrics-after.prom": ('position="0"', f'position="{"9" * 5000}"'),
    "sglang-metrics.prom": (
        "spec_num_steps{",
        'spec_num_steps{x="y"} NaN\nsglang:spec_num_draft_tokens{x="y"} +Inf\n#{',
    ),
    "vllm-0.9.log": ("Running: ", f"Running: {'9' * 400}"),
}


@pytest.mark.parametrize("name", ODD_SAMPLES)
def test_a_sample_with_a_number_that_nobody_counted(name: str, tmp_path: Path) -> None:
    old, new = ODD_SAMPLES[name]
    text = (ROOT / "tests" / "data" / "acceptance" / name).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new), encoding="utf-8")
    result = CliRunner().invoke(app, ["acceptance", "read", str(path), "--json"])
    assert result.exit_code in (0, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_explain_is_about_one_batch_and_one_context(tmp_path: Path) -> None:
    cell = ("--mechanism", "eagle3", "--draft-len", "3", "--batch", "1-8", "--context", "4k,8k")
    assert refused("explain", "-m", write(tmp_path), *cell).splitlines() == [
        "--batch: must be one number", "--context: must be one number",
    ]


def test_emit_prints_no_json(tmp_path: Path) -> None:
    assert "--json: does not go with --emit" in refused("recommend", "-m", write(tmp_path), "--emit", "vllm", "--json")


def test_an_engine_of_a_version_that_is_none(tmp_path: Path) -> None:
    cfg = write(tmp_path, "engine: vllm", "engine: vllm:banana")
    assert "engine: 'banana' is not a version of vllm: give a release such as" in refused("recommend", "--model", cfg)
    assert "'x' is not a version of trtllm" in refused("recommend", "--model", write(tmp_path), "--emit", "trtllm:x")


@pytest.mark.parametrize(("words", "said"), [
    (("--off", "nan", "--al", "3:2", "--step", "3:9"), "--off: must be a number of milliseconds above 0, not nan"),
    (("--off", "inf", "--al", "3:2", "--step", "3:9"), "--off: must be a number of milliseconds above 0, not inf"),
    (("--off", "7", "--al", "3:2", "--step", "3:nan"), "--step: must be a number above 0 at D = 3, not 'nan'"),
    (("--off", "7", "--al", "3:nan", "--step", "3:9"), "--al: must be a number above 0 at D = 3, not 'nan'"),
    (("--off", "7", "--al", "3:2", "--draft", "nan", "--verify", "3:8"), "--draft: must be a number of milliseconds"),
])
def test_decide_by_times_that_are_no_numbers(words: tuple[str, ...], said: str) -> None:
    assert said in refused("decide", *words)


@pytest.mark.parametrize(("words", "said"), [
    (("--mechanism", "nope"), "--mechanism: no curves of 'nope'; there are of dflash"),
    (("--mechanism", "eagel3"), "did you mean 'eagle3'"),
    (("--domain", "cod"), "--domain: no kind of text 'cod'; did you mean 'coding'"),
    (("--target", "lamma-3.1-8b"), "did you mean 'llama-3.1-8b'"),
])
def test_curves_of_a_name_that_none_has(words: tuple[str, ...], said: str) -> None:
    assert said in refused("acceptance", "list", *words)


@pytest.mark.parametrize("name", ["EAGLE3", "Eagle-3", "eagle3"])
def test_curves_by_a_name_as_people_write_it(name: str) -> None:
    found = CliRunner().invoke(app, ["acceptance", "list", "--mechanism", name])
    headings = [line for line in found.output.splitlines() if "minimax-m3" in line.lower() and " for " in line]
    assert (found.exit_code, headings) == (0, ["eagle3 for MiniMax-M3"])


def test_kernels_by_no_name_a_part_of_one_and_one_that_is_not_there() -> None:
    assert "--kernel: must name a kernel" in refused("profiles", "show", "h200-sxm", "--kernel", "")
    missed = refused("profiles", "show", "h200-sxm", "--kernel", "qqqqqqqq")
    assert "`specplan profiles show h200-sxm` lists its" in missed
    assert len(missed) < 200
    found = CliRunner().invoke(app, ["profiles", "show", "h200-sxm", "--kernel", "lm-fa3"])
    assert (found.exit_code, "no kernel is called 'lm-fa3'" in found.stderr) == (0, True)


def test_a_misspelt_kind_of_text_and_a_kind_of_ones_own(tmp_path: Path) -> None:
    cfg = write(tmp_path, "context_tokens: 2000", "context_tokens: 2000, domain: codng")
    assert "workload.domain: no kind of text 'codng'; did you mean 'coding'" in refused("recommend", "--model", cfg)
    write(tmp_path, "context_tokens: 2000", "context_tokens: 2000, domain: legal briefs")
    assert CliRunner().invoke(app, ["recommend", "--model", cfg]).exit_code == 0


def test_engines_by_other_names(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["recommend", "--model", write(tmp_path), "--engine", "ollama", "--json"]).stdout
    assert "engine-as" in [note["code"] for note in json.loads(told)["warnings"]]
    for name in ("llamacpp", "genai"):
        found = CliRunner().invoke(app, ["recommend", "--model", write(tmp_path), "--emit", name])
        assert (found.exit_code, found.stdout != "") == (0, True), found.output
    assert "llama_cpp" in refused("recommend", "--model", write(tmp_path), "--emit", "ollama")


@pytest.mark.parametrize(("name", "meant"), [
    ("int4", "w4a16"), ("awq", "w4a16"), ("gguf", "q4_k_m"), ("bf61", "bf16")])
def test_a_weight_format_by_the_name_of_a_method(name: str, meant: str, tmp_path: Path) -> None:
    cfg = write(tmp_path, "engine: vllm", f"engine: vllm\ndtypes: {{weights: {name}}}")
    assert meant in refused("recommend", "--model", cfg).partition(f"not '{name}'")[2]


def test_a_model_of_no_experts_has_one_fault(tmp_path: Path) -> None:
    preset = ROOT / "planner" / "models" / "presets" / "gpt-oss-120b.json"
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(preset.read_text(encoding="utf-8")), "num_local_experts": 0}))
    assert refused("models", "show", str(file)).count("\n") == 1


@pytest.mark.parametrize(("words", "said"), [
    (("--tp", "0"), "--tp: must be at least 1, not 0"), (("-o", ""), "--output: must name a folder"),
    (("--threads", "0"), "--threads: must be at least 1, not 0"),
])
def test_a_sweep_of_nothing(words: tuple[str, ...], said: str) -> None:
    assert said in refused("sweep", "--device", "cpu", *words)


@pytest.mark.parametrize(("variable", "value", "said"), [
    ("MODEL", "/nowhere.yaml", "MODEL: no such file: /nowhere.yaml"),
    ("DEVICE", "gpu", "DEVICE: cuda or cpu, not 'gpu'"),
    ("MINUTES", "three", "MINUTES: a number above 0, not 'three'"),
    ("MINUTES", "0", "MINUTES: a number above 0, not '0'"),
])
def test_the_run_on_a_gpu_checks_what_it_is_given_first(variable: str, value: str, said: str, tmp_path: Path) -> None:
    done = subprocess.run(["bash", str(ROOT / "tests" / "gpu_run.sh"), str(tmp_path / "out")], check=False,
                          capture_output=True, text=True, env={**os.environ, variable: value})
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True)
    assert not (tmp_path / "out").exists()


def observed(tmp_path: Path, text: str) -> tuple[int, str]:
    """Exit code and messages of a question with a CSV file of measurements."""
    (tmp_path / "runs.csv").write_text(text)
    result = CliRunner().invoke(app, ["recommend", "--model", write(tmp_path), "--observe", str(tmp_path / "runs.csv")])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(("text", "said"), [
    ("", "runs.csv: is empty; wanted: a header such as"),
    ("mechanism,batch,context_tokens,tpot_ms\n", "runs.csv: has a header and no row; wanted: a header such as"),
    ("mechanism,batch,context_tokens,tpot_ms\noff,1,2000,-5\n", "runs.csv:2: tpot_ms: must be above 0, not -5.0"),
    ("mechanism,batch,context_tokens,tpot_s\noff,1,2000,5.2\n", "Are these milliseconds, given as seconds?"),
    ("mechanism,batch,context_tokens,tpot_ms\noff,1,2000,0.0052\n", "Are these seconds, given as milliseconds?"),
])
def test_measurements_that_cannot_be_meant(text: str, said: str, tmp_path: Path) -> None:
    code, told = observed(tmp_path, text)
    assert (code, said in told) == (2, True), told


def test_measurements_far_from_the_model_are_warned_of(tmp_path: Path) -> None:
    code, told = observed(tmp_path, "mechanism,batch,context_tokens,tpot_ms\noff,1,2000,60\n")
    assert code == 0
    assert "Is it of this model, GPU, batch and unit" in told
    code, told = observed(tmp_path, "mechanism,batch,context_tokens,tpot_ms\noff,1,2000,8\n")
    assert (code, "Is it of this model" in told) == (0, False)
