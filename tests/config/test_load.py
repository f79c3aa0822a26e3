"""From files, mappings and options to a checked configuration; sizes; the template; the local GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from specplan.planner.config import local_gpu as local
from specplan.planner.config.editor_schema import json_schema
from specplan.planner.config.load import LoadedConfig, Overrides, config_from_mapping, load_config, read_config
from specplan.planner.config.local_gpu import LocalGpu
from specplan.planner.config.schema import Acceptance, Config, DrafterConfig
from specplan.planner.config.sizes import size, sizes
from specplan.planner.config.template import template
from specplan.planner.config.yaml_reader import parse_yaml
from specplan.planner.messages import Fault, InputError

BASE: dict[str, Any] = {
    "target": "llama-3.1-8b", "gpu": "h200-sxm", "workload": {"batch": 8, "context_tokens": "32k"},
}


def drafter(acceptance: dict[str, Any] | float | None = None, **keys: Any) -> dict[str, Any]:
    found = {"mechanism": "eagle3", **keys}
    return {**BASE, "drafters": [{**found, "acceptance": acceptance} if acceptance is not None else found]}


def complaint(mapping: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        config_from_mapping(mapping)
    return str(caught.value)


def test_defaults_are_those_of_the_documentation() -> None:
    config = config_from_mapping(BASE).config
    assert (config.parallel.tp, config.parallel.ep, config.parallel.dp_attention, config.parallel.pp) == (1, 1, 1, 1)
    assert (config.engine.name, config.engine.version) == ("vllm", None)
    assert (config.objective, config.max_draft_len, config.drafters) == ("latency", 16, ())
    assert config.workload.context_tokens == (32000,)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        config_from_mapping(BASE).config.gpu = "other"


@pytest.mark.parametrize(
    ("written", "read"),
    [("vllm", ("vllm", None)), ("vllm:0.24.0", ("vllm", "0.24.0")), ({"name": "sglang"}, ("sglang", None)),
     ({"name": "sglang", "version": "0.5.6"}, ("sglang", "0.5.6"))],
)
def test_engine(written: Any, read: tuple[str, str | None]) -> None:
    engine = config_from_mapping({**BASE, "engine": written}).config.engine
    assert (engine.name, engine.version) == read


@pytest.mark.parametrize(
    ("form", "acceptance"),
    [
        ("per_position", {"per_position": [0.7, 0.5], "steps": 1000}),
        ("alpha", {"alpha": 0.72, "temperature": 0.0}),
        ("acceptance_length", {"acceptance_length": {1: 1.7, 3: 2.6}}),
        ("acceptance_length", {"acceptance_length": {"1": 1.7, "3": 2.6}}),     # keys of a JSON object
        ("acceptance_length", {"acceptance_length": 2, "draft_len": 3}),
        ("rate", {"rate": 0.5, "draft_len": 3, "source": "our logs"}),
        ("histogram", {"histogram": [10, 5, 1]}),
        ("histogram", {"histogram": {0: 10, 2: 1}}),
        ("file", {"file": "server.log", "draft_len": 3}),
        ("library", {"library": "sdbench-llama31-8b-eagle-gsm8k"}),
        ("domain", {"domain": "coding"}),
    ],
)
def test_acceptance_forms(form: str, acceptance: dict[str, Any]) -> None:
    found = config_from_mapping(drafter(acceptance)).config.drafters[0].acceptance
    assert found is not None
    assert found.form == form
    if isinstance(acceptance.get("histogram"), dict):
        assert found.histogram == (10, 0, 1)
    if isinstance(acceptance.get("acceptance_length"), dict):
        assert found.acceptance_length == {1: 1.7, 3: 2.6}


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({**BASE, "target": 5}, "target: must be a name, a path, or a mapping of config.json fields, not 5"),
        ({**BASE, "target": ""}, "target: must be a name"),
        ({**BASE, "target": {}}, "target: must be a name"),
        ({**BASE, "gpu": ""}, "gpu: "),
        ({**BASE, "drafters": "eagle3"}, "drafters: must be a list, not 'eagle3'"),
        ({**BASE, "drafters": [3]}, "drafters[0]: must be a mapping, not 3"),
        ({**BASE, "dtypes": {"weights": "fp9"}}, "dtypes.weights: must be "),
        ({**BASE, "dtypes": {"kvv": "fp8"}}, "dtypes.kvv: unknown key; did you mean 'kv'?"),
        ({**BASE, "engine": {"name": "vllm", "verson": "1"}}, "engine.verson: unknown key; did you mean 'version'?"),
        ({**BASE, "engine": ":1"}, "engine.name: "),
        (drafter({"alpha": "high"}), "drafters[0].acceptance.alpha: must be a number, not 'high'"),
        (drafter({"alpha": True}), "must be a number, not true"),
        ({**BASE, "tp": 2}, "tp: unknown key; did you mean `parallel: {tp: 2}`?"),
        ({**BASE, "concurrency": 8}, "concurrency: unknown key; did you mean `workload: {concurrency: 8}`?"),
        (drafter(0.7), "drafters[0].acceptance: must be a mapping that says what the number is, such as {alpha: 0.7}"),
        (drafter(2.4), "such as {acceptance_length: 2.4, draft_len: 3}, not 2.4"),
        (drafter({"alph": 0.7}), "drafters[0].acceptance.alph: unknown key; did you mean 'alpha'?"),
        (drafter({"per_position": []}), "drafters[0].acceptance.per_position: "),
        (drafter({"per_position": 0.7}), "must be a list, not 0.7"),
        (drafter({"acceptance_length": {0: 1.0}}), "a draft length must be a whole number from 1 to 64, not 0"),
        (drafter({"acceptance_length": {3: None}}), "AL at draft length 3 must be a finite number, not nothing"),
        (drafter({"acceptance_length": [1.7]}), "a mapping of draft lengths to numbers, not a list"),
        (drafter({"acceptance_length": float("nan"), "draft_len": 1}), "AL must be a finite number, not nan"),
        (drafter({"acceptance_length": 10**400, "draft_len": 1}), "AL must be a finite number"),
        (drafter({"alpha": 10**400}), "drafters[0].acceptance.alpha: must be a"),
        ({**BASE, "max_draft_len": 10**400}, "max_draft_len: must be at most 64"),
        ({**BASE, "workload": {"batch": "9" * 5000, "context_tokens": 1}}, "workload.batch: must be between 1 and"),
        (drafter({"histogram": [1, -1]}), "step counts must be whole numbers of at least 0, not -1"),
        (drafter({"histogram": []}), "must be a list of step counts"),
        (drafter({"histogram": {99: 1}}), "from 0 to 64, not 99"),
        (drafter({"rate": 0.5}), "rate needs draft_len"),
        (drafter({"alpha": 0.5, "draft_len": 3}), "draft_len belongs to"),
        (drafter({"alpha": 0.5, "steps": 0}), "steps: must be at least 1, not 0"),
        (drafter(draft_fraction=0), "draft_fraction: must be above 0, not 0"),
        (drafter(draft_fraction=1.5), "draft_fraction: must be at most 1, not 1.5"),
        (drafter(draft_len="1-7"), "a draft length must be a whole number from 1 to 64, not '1-7'"),
        (drafter(block=1), "block: must be at least 2, not 1"),
    ],
)
def test_faults(mapping: dict[str, Any], expected: str) -> None:
    assert expected in complaint(mapping)


def test_draft_lens_are_listed() -> None:
    for written in ([3, 1], "1,3", (1, 3)):
        assert config_from_mapping(drafter(draft_len=written)).config.drafters[0].draft_len == (1, 3)


def test_a_later_fault_finds_its_line_or_its_option(tmp_path: Path) -> None:
    path = tmp_path / "cfg.yaml"
    path.write_text("target:\n  hidden_size: 1\ngpu: h200-sxm\nworkload: {batch: 1, context_tokens: 1}\n")
    loaded = read_config(path, Overrides(tp=3))
    placed = loaded.place(Fault(("target", "hidden_size"), "too small"))
    assert str(placed) == f"{path}:2: target.hidden_size: too small"
    assert str(loaded.place(Fault(("parallel", "tp"), "does not divide"))) == "--tp: does not divide"
    assert str(loaded.place(Fault(("a",), "bad", file="other.json"))) == "other.json: a: bad"
    assert loaded.base == tmp_path


def test_options_fill_what_the_file_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "cfg.yaml"
    path.write_text("target: llama-3.1-8b\n")
    loaded = read_config(path, Overrides(gpu="h200-sxm", batch="1,8", context="2k"))
    assert loaded.config.workload.batch == (1, 8)
    assert loaded.config.gpu == "h200-sxm"


def test_load_config_takes_what_a_caller_has(tmp_path: Path) -> None:
    path = tmp_path / "cfg.yaml"
    path.write_text("target: a\ngpu: b\nworkload: {batch: 8, context_tokens: 32k}\n")
    loaded = load_config(path)
    assert isinstance(loaded, LoadedConfig)
    assert load_config(loaded) is loaded
    assert load_config(str(path)).config == loaded.config
    assert load_config({**BASE, "target": "a", "gpu": "b"}).config == loaded.config


@pytest.mark.parametrize("text", ["- a\n", "just words\n", "~\n", "5\n"])
def test_a_document_must_be_a_mapping(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cfg.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cfg\.yaml:1: must be a mapping"):
        read_config(path)


@pytest.mark.parametrize(
    ("written", "read"),
    [("32k", (32000,)), ("32K", (32000,)), ("32ki", (32768,)), ("1.5k", (1500,)), ("1m", (1_000_000,)), (8, (8,)),
     ("8,1,8", (8, 1)), ([1, "2k", "4-16"], (1, 2000, 4, 8, 16)), ("1-100", (1, 2, 4, 8, 16, 32, 64, 100)),
     ("5-5", (5,)), ("1k-4k", (1000, 1024, 2048, 4000))],
)
def test_sizes(written: Any, read: tuple[int, ...]) -> None:
    assert sizes(written) == read


@pytest.mark.parametrize(
    "written",
    ["", "k", "1.5", 1.5, True, None, [], 0, -1, "-4", "8-1", "1-2-3", "1,,2", "1e3", "1_000", 10**30, [[1]], {},
     float("nan"), "0.0001k"],
    ids=repr,
)
def test_what_is_no_size(written: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        sizes(written)


@given(st.integers(1, 10**9))
def test_a_count_reads_as_itself(count: int) -> None:
    assert size(count) == size(str(count)) == count


outer_keys = st.sampled_from([*Config.model_fields, "oops"])
inner_keys = st.sampled_from([*DrafterConfig.model_fields, *Acceptance.model_fields, "batch"]) | st.integers(0, 3)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["eagle3", "1-8", "32k", "", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(inner_keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(outer_keys, anything))
def test_any_mapping_is_a_configuration_or_faults_with_places(mapping: dict[str, Any]) -> None:
    try:
        config_from_mapping(mapping)
    except InputError as error:
        assert all(fault.message and "\n" not in fault.message for fault in error.faults)   # noqa: PT017
        assert "validation error" not in str(error).lower()     # noqa: PT017


def test_every_key_is_explained_in_the_schema() -> None:
    schema = json_schema()
    for part in [schema, *schema["$defs"].values()]:
        for key, entry in part["properties"].items():
            assert entry.get("description"), key


@pytest.mark.parametrize(
    ("found", "gpu", "tp"),
    [(None, "h200-sxm", 4), (LocalGpu("NVIDIA H100 80GB HBM3", 8, "h100-sxm"), "h100-sxm", 8),
     (LocalGpu("NVIDIA L4", 3, "l4"), "l4", 2), (LocalGpu("Some GPU", 1, None), "h200-sxm", 1)],
)
def test_template_is_a_configuration(found: LocalGpu | None, gpu: str, tp: int) -> None:
    text = template(found)
    config = config_from_mapping(parse_yaml(text).value).config
    assert (config.gpu, config.parallel.tp) == (gpu, tp)
    assert all(not drafter.acceptance for drafter in config.drafters)
    if found is not None:
        assert found.device in text


def test_local_gpu_reads_nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert local.local_gpu() is None

    program.write_text("#!/bin/sh\necho 'NVIDIA H200'\necho 'NVIDIA H200'\n")
    program.chmod(0o755)
    assert local.local_gpu() == LocalGpu("NVIDIA H200", 2, "h200-sxm")

    program.write_text("#!/bin/sh\necho 'No devices were found' >&2\nexit 6\n")
    assert local.local_gpu() is None

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(subprocess.TimeoutExpired("x", 1)))
    assert local.local_gpu() is None


@pytest.mark.parametrize(("source", "named"), [(None, "nothing"), (3, "3"), (["cfg.yaml"], "a list")])
def test_what_is_no_configuration_is_refused_with_what_is_one(source: object, named: str) -> None:
    with pytest.raises(InputError, match=rf"path of a cfg\.yaml or config\.json, or a mapping .*, not {named}$"):
        load_config(source)
