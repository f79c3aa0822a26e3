"""The command line: answers, exit codes, and a sentence with a place for every bad input of the issue."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from specplan import __version__
from specplan.cli import app
from specplan.planner.config.sizes import sizes

ROOT = Path(__file__).parents[1]
GOOD = """\
target: llama-3.1-8b
gpu: h200-sxm
parallel: {tp: 1}
dtypes: {weights: fp8, kv: bf16}
engine: vllm
workload: {batch: [1, 8], context_tokens: [2000]}
objective: latency
drafters:
  - {mechanism: eagle3, acceptance: {per_position: [0.7, 0.5, 0.3]}}
max_draft_len: 4
"""
INLINE = ("{model_type: llama, hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32, "
          "num_key_value_heads: 8, intermediate_size: 14336, vocab_size: 128256}")
VECTOR = "{per_position: [0.7, 0.5, 0.3]}"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(folder: Path, text: str, name: str = "cfg.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def test_json_is_all_of_stdout(tmp_path: Path) -> None:
    result = run("recommend", "--model", write(tmp_path, GOOD), "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["specplan"] == __version__
    assert [cell["batch"] for cell in answer["cells"]] == [1, 8]


def test_options_stand_above_the_file(tmp_path: Path) -> None:
    result = run("recommend", "-m", write(tmp_path, GOOD), "--gpu", "h100-sxm", "--tp", "2", "--batch", "1-4",
                 "--context", "1k,4ki", "--objective", "throughput", "--engine", "sglang",
                 "--max-draft-len", "2", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["gpu"]["name"] == "h100-sxm"
    assert (answer["workload"]["tp"], answer["workload"]["engine"]) == (2, "sglang")
    assert answer["workload"]["objective"] == "throughput"
    cells = [(cell["batch"], cell["context_tokens"]) for cell in answer["cells"]]
    assert cells == [(batch, context) for batch in (1, 2, 4) for context in (1000, 4096)]
    assert max(candidate["draft_len"] for candidate in answer["candidates"]) == 2


def test_a_bare_config_json_needs_a_gpu_and_says_what_it_assumes(tmp_path: Path) -> None:
    config = write(tmp_path, (ROOT / "planner/models/presets/llama-3.1-8b.json").read_text(), "config.json")
    assert "config.json: is a model's config.json" in refused("recommend", "--model", config)
    result = run("recommend", "--model", config, "--gpu", "h200-sxm", "--batch", "8", "--context", "16k", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert [(cell["batch"], cell["context_tokens"]) for cell in answer["cells"]] == [(8, 16000)]
    assert any("--engine" in warning["message"] for warning in answer["warnings"])


def test_nothing_feasible_is_exit_1(tmp_path: Path) -> None:
    text = GOOD.replace("llama-3.1-8b", "llama-3.1-405b").replace("[1, 8]", "8")
    assert run("recommend", "--model", write(tmp_path, text)).exit_code == 1


BOMB = "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 9))
BAD: dict[str, tuple[str, str, str]] = {
    "unknown key": ("context_tokens:", "contxt_tokens:",
                    "cfg.yaml:6: workload.contxt_tokens: unknown key; did you mean 'context_tokens'"),
    "unknown top key": ("objective:", "objectiv:", "cfg.yaml:7: objectiv: unknown key; did you mean 'objective'"),
    "wrong type": ("{tp: 1}", "{tp: one}", "cfg.yaml:3: parallel.tp: must be a whole number, not 'one'"),
    "boolean": ("{tp: 1}", "{tp: true}", "cfg.yaml:3: parallel.tp: must be a whole number, not true"),
    "list for mapping": ("{tp: 1}", "[1]", "cfg.yaml:3: parallel: must be a mapping, not a list"),
    "nothing": ("gpu: h200-sxm", "gpu:", "cfg.yaml:2: gpu: must be text, not nothing"),
    "duplicate key": ("objective: latency", "gpu: h100-sxm", "cfg.yaml:7: gpu: duplicate key; first on line 2"),
    "nan": ("0.5, 0.3", ".nan, 0.3", "cfg.yaml:9: drafters[0].acceptance.per_position[1]: must be a finite number"),
    "inf": ("0.5, 0.3", ".inf, 0.3", "cfg.yaml:9: drafters[0].acceptance.per_position[1]: must be a finite number"),
    "negative size": ("[1, 8]", "[1, -8]", "cfg.yaml:6: workload.batch: must be between 1 and 1000000000, not -8"),
    "zero size": ("[2000]", "0", "cfg.yaml:6: workload.context_tokens: must be between 1"),
    "zero tp": ("{tp: 1}", "{tp: 0}", "cfg.yaml:3: parallel.tp: must be at least 1, not 0"),
    "not a size": ("[2000]", "32q", "cfg.yaml:6: workload.context_tokens: must be a whole number such as 8, 32k"),
    "long draft": ("max_draft_len: 4", "max_draft_len: 65", "cfg.yaml:10: max_draft_len: must be at most 64, not 65"),
    "misspelt value": ("latency", "latncy",
                       "cfg.yaml:7: objective: must be latency or throughput, not 'latncy'; did you mean 'latency'?"),
    "unknown mechanism": ("eagle3", "eagle4", "cfg.yaml:9: drafters[0].mechanism: must be draft_model, eagle,"),
    "version as a number": ("engine: vllm", "engine: {name: vllm, version: 0.10}",
                            "cfg.yaml:5: engine: version must be in quotes"),
    "two forms": ("{per_position:", "{alpha: 0.7, per_position:",
                  "cfg.yaml:9: drafters[0].acceptance: must hold exactly one of per_position, alpha,"),
    "no form": (VECTOR, "{steps: 100}", "found nothing"),
    "AL without its D": (VECTOR, "{acceptance_length: 2.5}", "acceptance_length needs draft_len"),
    "AL above 1 + D": (VECTOR, "{acceptance_length: {1: 2.5}}",
                       "cfg.yaml:9: drafters[0].acceptance.acceptance_length"),
    "rising": ("[0.7, 0.5, 0.3]", "[0.5, 0.7, 0.3]", "cfg.yaml:9: drafters[0].acceptance.per_position"),
    "alpha above 1": (VECTOR, "{alpha: 1.5}", "cfg.yaml:9: drafters[0].acceptance.alpha"),
    "alpha below 0": (VECTOR, "{alpha: -0.1}", "cfg.yaml:9: drafters[0].acceptance.alpha"),
    "KV heads": ("llama-3.1-8b", INLINE.replace("num_key_value_heads: 8", "num_key_value_heads: 5"),
                 "cfg.yaml:1: target"),
    "not a model": ("target: llama-3.1-8b", "target: {hello: world}", "cfg.yaml:1: target"),
    "tp and heads": ("{tp: 1}", "{tp: 3}", "cfg.yaml:3: parallel.tp"),
    "unknown GPU": ("h200-sxm", "h200-smx", "cfg.yaml:2: gpu: "),
    "unknown preset": ("llama-3.1-8b", "lama-3.1-8b", "cfg.yaml:1: target: "),
    "mtp without MTP layers": ("eagle3", "mtp", "cfg.yaml:9: drafters[0]"),
    "alias bomb": ("drafters:", BOMB + "drafters:", "aliases stand for more than"),
    "python object": ("llama-3.1-8b", "!!python/object/apply:os.getcwd []",
                      "cfg.yaml:1: target: tag 'tag:yaml.org,2002:python"),
    "syntax": ("[1, 8]", "[1, 8", "is not valid YAML"),
    "two documents": ("max_draft_len: 4", "---\nmax_draft_len: 4", "cfg.yaml:10: holds several documents"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_configuration(case: str, tmp_path: Path) -> None:
    old, new, expected = BAD[case]
    assert GOOD.count(old) >= 1
    assert expected in refused("recommend", "--model", write(tmp_path, GOOD.replace(old, new, 1)))


def test_names_near_an_unknown_one_are_shown(tmp_path: Path) -> None:
    text = GOOD.replace("h200-sxm", "h200-smx").replace("llama-3.1-8b", "lama-3.1-8b")
    message = refused("recommend", "--model", write(tmp_path, text))
    assert "h200-sxm" in message
    assert "llama-3.1-8b" in message


def test_all_structural_faults_come_at_once_in_order(tmp_path: Path) -> None:
    text = (GOOD.replace("{tp: 1}", "{tp: 0, tq: 2}").replace("[1, 8]", "none").replace("latency", "speed")
            .replace("eagle3", "eagle4").replace("max_draft_len", "max_draft_length"))
    lines = refused("recommend", "--model", write(tmp_path, text)).strip().splitlines()
    places = [line.split("cfg.yaml:")[1].split(": ")[:2] for line in lines]
    assert places == [["3", "parallel.tp"], ["3", "parallel.tq"], ["6", "workload.batch"], ["7", "objective"],
                      ["9", "drafters[0].mechanism"], ["10", "max_draft_length"]]


def test_all_semantic_faults_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("{tp: 1}", "{tp: 3}").replace("[0.7, 0.5, 0.3]", "[0.5, 0.9]")
    message = refused("recommend", "--model", write(tmp_path, text))
    assert "parallel.tp" in message
    assert "per_position" in message


def test_faults_of_options_name_the_option(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    message = refused("recommend", "--model", path, "--batch", "0", "--context", "x", "--max-draft-len", "99",
                      "--objective", "speed")
    places = [line.split(":")[0] for line in message.splitlines()]
    assert places == ["--batch", "--context", "--objective", "--max-draft-len"]


def test_bad_files(tmp_path: Path) -> None:
    write(tmp_path, "", "empty.yaml")
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    with (tmp_path / "big.yaml").open("wb") as stream:
        stream.truncate(50_000_000)
    write(tmp_path, '{"model_type": "llama"}', "config.json")
    write(tmp_path, '{"name": "left-pad", "version": "1.3.0"}', "package.json")
    assert "no such file; did you mean 'empty.yaml'" in refused("recommend", "-m", tmp_path / "emty.yaml")
    assert "empty.yaml: is empty" in refused("recommend", "-m", tmp_path / "empty.yaml")
    assert "is a directory" in refused("recommend", "-m", tmp_path)
    assert "binary file" in refused("recommend", "-m", tmp_path / "binary.yaml")
    assert "is 50.0 MB" in refused("recommend", "-m", tmp_path / "big.yaml")
    assert "package.json" in refused("recommend", "-m", tmp_path / "package.json", "--gpu", "h200-sxm")
    assert "config.json" in refused("models", "show", tmp_path / "config.json")


@pytest.mark.parametrize(
    "arguments", [("recommend",), ("recommend", "-m", "x", "--tp", "two"), ("nonsense",), ("op", "gemm")]
)
def test_usage_faults_are_exit_2(arguments: tuple[str, ...]) -> None:
    assert refused(*arguments)


OPS = {
    "attention": "--batch 1,8 --context 4k --query-heads 8 --kv-heads 1 --query-len 1,2,4",
    "gemm": "--m 1,64,128 --n 8192 --k 8192 --dtype fp8",
    "allreduce": "--bytes 64k,1mi --gpus 2,4",
    "moe": "--tokens 1,8 --hidden 4096 --intermediate 1536 --experts 128 --top-k 8 --dtype fp8",
    "mla": "--batch 8 --context 32k --heads 16 --query-len 1,2",
    "recurrent": "--batch 8 --heads 32 --key-dim 128 --value-dim 128 --query-len 1,4",
    "sparse": "--batch 8 --context 64k --heads 64 --top-k 2048",
}


@pytest.mark.parametrize("family", OPS)
def test_op_prices_the_product_of_its_lists(family: str) -> None:
    rows = json.loads(run("op", family, "--gpu", "b200-sxm", *OPS[family].split(), "--json").stdout)
    words = OPS[family].split()
    lists = {name.removeprefix("--").replace("-", "_"): list(sizes(value))
             for name, value in zip(words[::2], words[1::2], strict=True) if not value.startswith("fp")}
    asked = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    assert [{key: row["inputs"][key] for key in lists} for row in rows] == asked    # the last list changes fastest
    assert all(row["time_s"] > 0 and row["bound"] in row["parts"] for row in rows)
    table = run("op", family, "--gpu", "b200-sxm", *words).stdout.splitlines()
    assert len(table) == 1 + len(rows)


def test_op_faults_name_their_options() -> None:
    message = refused("op", "gemm", "--gpu", "h200-sxm", "--m", "0", "--n", "x", "--k", "1")
    assert [line.split(":")[0] for line in message.splitlines()] == ["--m", "--n"]
    assert "h200-sxm" in refused("op", "gemm", "--gpu", "h200-smx", "--m", "1", "--n", "1", "--k", "1")


@pytest.mark.parametrize(("group", "name"), [("profiles", "h200-sxm"), ("models", "llama-3.3-70b")])
def test_what_ships_is_listed_and_shown(group: str, name: str) -> None:
    listed = json.loads(run(group, "list", "--json").stdout)
    assert name in [row["name"] for row in listed]
    assert len(run(group, "list").stdout.splitlines()) == 1 + len(listed)
    assert json.loads(run(group, "show", name, "--json").stdout)["name"] == name
    assert run(group, "show", name).stdout.startswith(f"name: {name}\n")
    assert name in refused(group, "show", name[:-2])


def test_the_profiles_of_the_reference_and_of_community_sweeps_ship() -> None:
    names = {row["name"] for row in json.loads(run("profiles", "list", "--json").stdout)}
    assert {"h200-sxm", "b200-sxm", "mi355x", "rtx-3090", "v100-sxm2-32", "m3-ultra", "gaudi3", "arc-pro-b70"} <= names
    assert len(names) >= 50


@pytest.mark.parametrize(("example", "starred"), [("gpt-oss-120b-b200.yaml", True), ("llama-3.1-8b-h100.yaml", False)])
def test_explain_speaks_of_stars_where_there_are_some(example: str, starred: bool) -> None:
    """trtllm-gen changes to larger tiles at 8, 16, 32 and 64 rows; FA3 has one of 128."""
    text = run("explain", "-m", str(ROOT / "examples" / example), "--batch", "8", "--context", "8k").stdout
    table = text.partition("over D")[2]
    assert ("takes a larger tile, or one more" in table) == (" 1* " in table) == starred


def test_explain_shows_each_op_of_one_step() -> None:
    example = ROOT / "examples" / "llama-3.3-70b-h200.yaml"
    cell = ("--mechanism", "eagle3", "--draft-len", "3", "--batch", "8", "--context", "4k")
    found = json.loads(run("explain", "-m", example, *cell, "--json").stdout)
    assert found
    assert run("explain", "-m", example, *cell).exit_code == 0
    assert "medusa" in refused("explain", "-m", example, "--mechanism", "medusa", *cell[2:])
    assert refused("explain", "-m", example, *cell[:4], "--batch", "0", "--context", "x").count("must be") == 2


def test_init_writes_an_answerable_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init").exit_code == 0
    assert run("recommend", "--model", "cfg.yaml").exit_code == 0
    assert refused("init") == "cfg.yaml: exists; --force replaces it\n"
    assert run("init", "--force").exit_code == 0
    assert "cannot be written" in refused("init", tmp_path / "no" / "cfg.yaml")


def test_schema_accepts_what_the_reader_accepts() -> None:
    import jsonschema

    from specplan.planner.config.yaml_reader import read_yaml

    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in (ROOT / "examples").glob("*.yaml"):
        jsonschema.validate(read_yaml(path).value, schema)
    assert schema["properties"]["gpu"]["description"].startswith("Profile name")
    assert schema["$defs"]["Acceptance"]["properties"]["alpha"]["description"]


def commands(group: Any = None, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    from typer.main import get_command

    found: list[tuple[str, ...]] = []
    root: Any = group or get_command(app)
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        found += commands(command, (*words, name)) if hasattr(command, "commands") else [(*words, name)]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_of_each_command_has_an_example(words: tuple[str, ...]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert f"Example: specplan {' '.join(words)}" in " ".join(result.stdout.split())


def test_shell_completion_knows_presets_and_profiles() -> None:
    typed = {"_SPECPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "specplan profiles show h20", "COMP_CWORD": "3"}
    environment = {**os.environ, **typed}
    found = subprocess.run([console_script()], env=environment, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["h20", "h200-sxm"]


def console_script() -> str:
    return str(Path(sys.executable).with_name("specplan"))


def test_the_three_ways_to_start(tmp_path: Path) -> None:
    for command in ([console_script()], [sys.executable, "-m", "specplan"], [sys.executable, str(ROOT / "cli.py")]):
        found = subprocess.run([*command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert found.stdout == f"specplan {__version__}\n"


def test_a_users_mistake_in_a_real_process(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("gpu:", "gqu:"))
    command = [console_script(), "recommend", "-m", path.name]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr == "cfg.yaml:1: gpu: is required\ncfg.yaml:2: gqu: unknown key; did you mean 'gpu'?\n"


def test_recommend_never_imports_torch(tmp_path: Path) -> None:
    for name in ("torch", "triton", "matplotlib"):
        write(tmp_path, f"raise SystemExit('{name} was imported')", f"{name}.py")
    found = subprocess.run([sys.executable, "-m", "specplan", "recommend", "--json", "-m", write(tmp_path, GOOD)],
                           env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{console_script()} schema | head -1; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.stderr == ""
    assert found.stdout == "{\n"
    assert found.returncode in (0, 141)


def test_control_c_is_exit_130(tmp_path: Path) -> None:
    fifo = tmp_path / "cfg.yaml"
    os.mkfifo(fifo)
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "     # some runners ignore it
    command = [sys.executable, "-c", start + "from specplan.cli import app; app()", "recommend", "-m", str(fifo)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    with fifo.open("wb"):       # returns once the command waits in the file
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in error
