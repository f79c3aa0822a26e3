"""Operating points over batch: frontier, best D, schedule, disaggregation, CSV, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from specplan.cli import app
from specplan.planner.answer.pareto import ParetoAnswer, pareto_of
from specplan.planner.answer.resolve import resolve
from specplan.planner.config.load import load_config
from specplan.planner.decide.pareto import nondominated

CONFIG: dict[str, Any] = {
    "target": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm", "max_draft_len": 6,
    "workload": {"batch": "1-256", "context_tokens": "2k,200k", "input_tokens": 1000, "output_tokens": 500},
    "drafters": [
        {"mechanism": "eagle3", "acceptance": {"per_position": [0.8, 0.6, 0.45, 0.3]}},
        {"mechanism": "ngram", "acceptance": {"alpha": 0.3}},
    ],
}


def run(folder: Path, *options: str, config: dict[str, Any] = CONFIG) -> Result:
    (folder / "cfg.yaml").write_text(json.dumps(config), encoding="utf-8")
    return CliRunner().invoke(app, ["pareto", "-m", str(folder / "cfg.yaml"), *options])


def answer(**workload: Any) -> ParetoAnswer:
    return pareto_of(resolve(load_config(CONFIG | {"workload": CONFIG["workload"] | workload})))


def test_no_frontier_point_is_beaten() -> None:
    found = answer()
    here = [point for point in found.points if point.context_tokens == 2000 and point.option != "schedule"]
    for point in here:
        better = [
            other for other in here
            if other.tokens_per_s_per_user > point.tokens_per_s_per_user
            and other.tokens_per_s_per_gpu > point.tokens_per_s_per_gpu
        ]
        assert point.frontier == (not better)


@pytest.mark.parametrize("seed", range(3))
def test_frontier_equals_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(0, 12, (2, 60)).astype(float)
    better = ((x >= x[:, None]) & (y >= y[:, None]) & ((x > x[:, None]) | (y > y[:, None]))).any(axis=1)
    assert {(a, b) for a, b in zip(x[~better], y[~better], strict=True)} == {
        (a, b) for a, b in zip(x[nondominated(x, y)], y[nondominated(x, y)], strict=True)
    }


def test_rates_hang_together_and_schedule_stays_close_to_the_best() -> None:
    found = answer()
    for point in found.points:
        assert point.tokens_per_s_per_gpu == pytest.approx(point.tokens_per_s_per_user * point.batch / found.gpus)
    at = {(point.option, point.batch): point for point in found.points if point.context_tokens == 2000}
    for batch in (1, 8, 64):
        assert at["schedule", batch].tokens_per_s_per_user >= 0.9 * at["eagle3", batch].tokens_per_s_per_user


def test_what_does_not_fit_is_left_out() -> None:
    batches = [point.batch for point in answer().points if point.context_tokens == 200_000]
    assert batches
    assert max(batches) < 256


def test_disaggregated_decode_is_faster_and_says_so() -> None:
    with_prefill, without = answer(), answer(disaggregated=True)
    assert (with_prefill.metric, without.metric) == ("end_to_end", "decode")
    assert without.points[0].tokens_per_s_per_user > with_prefill.points[0].tokens_per_s_per_user


def test_csv_and_json_hold_the_same_points(tmp_path: Path) -> None:
    table, data = run(tmp_path, "--csv"), run(tmp_path, "--json")
    assert table.exit_code == data.exit_code == 0
    rows, points = list(csv.DictReader(io.StringIO(table.stdout))), json.loads(data.stdout)["points"]
    assert len(rows) == len(points)
    for row, point in zip(rows, points, strict=True):
        assert float(row["tokens_per_s_per_gpu"]) == point["tokens_per_s_per_gpu"]
        assert row["draft_len"] == ("" if point["draft_len"] is None else str(point["draft_len"]))


def test_table_starts_with_the_finding(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "is best at every point" in result.stdout.splitlines()[0] or "best: " in result.stdout.splitlines()[0]
    assert "too large" in result.stdout


def test_csv_and_json_together_are_refused(tmp_path: Path) -> None:
    result = run(tmp_path, "--csv", "--json")
    assert (result.exit_code, result.stderr) == (2, "--csv: goes without --json\n")


def test_nothing_fits(tmp_path: Path) -> None:
    result = run(tmp_path, config=CONFIG | {"target": "llama-3.3-70b"})
    assert result.exit_code == 1
    assert "nothing is feasible" in result.stderr
    assert result.stderr.endswith("; tp 2 fits; fp8 weights fit\n")        # 141 GB of weights, 80 GB a GPU


def test_unknown_acceptance_is_no_verdict(tmp_path: Path) -> None:
    said = run(tmp_path, config=CONFIG | {"drafters": [{"mechanism": "eagle3"}]}).stdout.splitlines()[0]
    assert "acceptance of eagle3 unknown; off alone is priced" in said
    assert "best" not in said
