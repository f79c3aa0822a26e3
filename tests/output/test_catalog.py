"""What ships with specplan is listed within a terminal, and whole on request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from specplan.cli import app
from specplan.planner.kernels.profile import gpu_names
from specplan.planner.output.catalog import ranges


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


@pytest.fixture(scope="module")
def curves() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("acceptance", "list", "--json").stdout)
    return found


def test_the_overview_of_curves_counts_them_all(curves: Sequence[dict[str, Any]]) -> None:
    text = run("acceptance", "list").stdout
    assert widest(text) <= 100
    head, *lines = text.split("\n\n")[0].splitlines()
    assert sum(int(line[head.index("target"):head.index("AL")].split()[-1]) for line in lines) == len(curves)
    assert len(lines) == len({(curve["mechanism"], curve["target"].lower()) for curve in curves})


@pytest.mark.parametrize("options", [["--all"], ["--mechanism", "eagle3"], ["--domain", "coding"]])
def test_curves_asked_for_come_with_their_ids(options: list[str]) -> None:
    text = run("acceptance", "list", *options).stdout
    wanted = [] if options == ["--all"] else options
    ids = [curve["id"] for curve in json.loads(run("acceptance", "list", *wanted, "--json").stdout)]
    assert ids
    ends = [line.rpartition("  ")[2].strip() for line in text.splitlines()]
    assert sorted(end for end in ends if end in ids) == sorted(ids)
    assert all(len(line) <= 100 or line.strip() in ids for line in text.splitlines())


def test_draft_lengths_are_told_as_ranges() -> None:
    assert ranges([1, 2, 3, 4, 5, 6, 7, 8, 10, 12]) == "1-8,10,12"
    assert ranges([]) == ""


@pytest.mark.parametrize("name", gpu_names())
def test_a_profile_fits_a_terminal_and_names_every_kernel(name: str) -> None:
    text = run("profiles", "show", name).stdout
    facts = json.loads(run("profiles", "show", name, "--json").stdout)
    hardware, _, kernels = text.partition("\n\n")
    assert yaml.safe_load(hardware)["hardware"] == facts["hardware"]
    assert widest(kernels) <= 120
    assert len(text.splitlines()) < 120
    ids = {entry["id"] for entries in facts["kernels"].values() for entry in entries}
    assert ids <= {line.split()[0] for line in kernels.splitlines() if line}


def test_a_kernel_is_shown_whole_and_all_is_the_json() -> None:
    facts = json.loads(run("profiles", "show", "h200-sxm", "--json").stdout)
    assert yaml.safe_load(run("profiles", "show", "h200-sxm", "--all").stdout) == facts
    mine = [entry for entry in facts["kernels"]["attention"] if entry["id"] == "vllm-fa3"]
    shown = yaml.safe_load(run("profiles", "show", "h200-sxm", "--kernel", "vllm-fa3").stdout)
    assert shown == {"kernels": {"attention": mine}} == json.loads(
        run("profiles", "show", "h200-sxm", "--kernel", "VLLM-FA3", "--json").stdout)
    design = yaml.safe_load(run("profiles", "show", "h200-sxm", "--kernel", "nvidia-128").stdout)
    assert design == {"attention_designs": {"nvidia-128": facts["attention_designs"]["nvidia-128"]}}
    refused = run("profiles", "show", "h200-sxm", "--kernel", "vllm-fa33")
    assert refused.exit_code == 2
    assert "no kernel 'vllm-fa33'; did you mean 'vllm-fa3'" in refused.stderr


def test_the_line_of_a_kernel_has_the_errors_of_its_worst_fit() -> None:
    """Line of FlashAttention-3 in vLLM on H200: its fits by head width and cache format, the worst mean error."""
    entries = json.loads(run("profiles", "show", "h200-sxm", "--json").stdout)["kernels"]["attention"]
    worst = max((entry for entry in entries if entry["id"] == "vllm-fa3"), key=lambda entry: entry["error_mean_pct"])
    line = next(line for line in run("profiles", "show", "h200-sxm").stdout.splitlines() if line.startswith("vllm-fa3"))
    assert line.endswith(f"{worst['error_mean_pct']:.0f} / {worst['error_p90_pct']:.0f}")
    assert "head_dim 64-256; bf16 fp8" in line
