"""`make bench`: how fast specplan itself is, against what was promised. Exit code 1 when a promise is broken.

Wall-clock figures depend on the machine and its load, so they are not in the timed tests; run this on an idle one.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specplan.planner.decide.grid import step_grid
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model, model_names
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path

ROOT = Path(__file__).parents[1]
# A package that pip copied has its bytecode; that of a checkout is written by the first run, unless this forbids it
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
EXAMPLE = "examples/llama-3.3-70b-h200.yaml"


@dataclass(frozen=True)
class Figure:
    """One measured figure and its limit; `at_least` turns the comparison round."""

    name: str
    value: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def run(arguments: list[str]) -> tuple[float, float]:
    """Wall seconds and peak memory in MB of one command."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    started = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "specplan", *arguments],
        ENVIRONMENT,
        file_actions=[(os.POSIX_SPAWN_DUP2, devnull, 1), (os.POSIX_SPAWN_DUP2, devnull, 2)],
    )
    _, status, usage = os.wait4(pid, 0)
    os.close(devnull)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def cold_start() -> list[Figure]:
    runs = [run(["recommend", "--model", EXAMPLE]) for _ in range(11)][1:]    # the first one writes bytecode
    return [
        Figure("recommend, cold, median of 10", statistics.median(wall for wall, _ in runs), 0.45, "s"),
        Figure("recommend, peak memory", max(memory for _, memory in runs), 110, "MB"),
    ]


LOAD_EXAMPLE = "examples/load-llama-3.3-70b-h200.yaml"
FOUR = """\
target: llama-3.3-70b
gpu: h200-sxm
parallel: {tp: 4}
dtypes: {weights: fp8, kv: fp8}
engine: vllm
workload: {batch: 1-512, context_tokens: [2k, 8k, 16k, 32k], input_tokens: 1500, output_tokens: 500}
drafters:
  - {mechanism: eagle3, acceptance: {alpha: 0.7}}
  - {mechanism: draft_model, model: llama-3.2-1b, acceptance: {alpha: 0.8}}
  - {mechanism: ngram, acceptance: {alpha: 0.3}}
  - {mechanism: dflash, block: 17, acceptance: {alpha: 0.75}}
"""


def trade_offs() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        config, page = Path(folder) / "cfg.yaml", Path(folder) / "report.html"
        config.write_text(FOUR, encoding="utf-8")
        pareto = [run(["pareto", "--model", str(config)])[0] for _ in range(6)][1:]
        report = [run(["report", "--model", str(config), "-o", str(page)])[0] for _ in range(4)][1:]
        size = page.stat().st_size / 1e6
        load = [run(["recommend", "--model", LOAD_EXAMPLE])[0] for _ in range(4)][1:]
    return [
        Figure("pareto, 4 mechanisms, 4 contexts, cold", statistics.median(pareto), 0.6, "s"),
        Figure("report on the same, cold", statistics.median(report), 4.0, "s"),
        Figure("its size", size, 1.5, "MB"),
        Figure("recommend with a latency target, cold", statistics.median(load), 4.0, "s"),
    ]


def grid_speed() -> list[Figure]:
    target = load_model("llama-3.3-70b")
    deployment = Deployment(gpu=load_gpu("h200-sxm"), path=engine_path("vllm", "0.24.0"), tp=4)
    drafter = load_drafter("eagle3", target)
    seconds = {}
    for contexts in (240, 2400):
        started = time.perf_counter()
        along = np.linspace(100, 130_000, contexts)
        step_grid(target, deployment, drafter, np.arange(17.0), np.arange(1.0, 257), along)
        seconds[contexts] = time.perf_counter() - started
    rate = 17 * 256 * 240 / seconds[240] / 1e6
    return [
        Figure("step grid, 1 million cells", rate, 1.0, "million cells/s", at_least=True),
        Figure("ten times the cells take", seconds[2400] / seconds[240], 13.0, "times as long"),
        Figure("memory with 10 million cells", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1000, "MB"),
    ]


def presets() -> list[Figure]:
    started = time.perf_counter()
    for name in model_names():
        load_model(name)
    return [Figure("all presets read", time.perf_counter() - started, 2.0, "s")]


def main() -> int:
    os.chdir(ROOT)
    figures = [*cold_start(), *trade_offs(), *presets(), *grid_speed()]
    for figure in figures:
        sign = ">=" if figure.at_least else "<="
        verdict = "kept" if figure.kept else "BROKEN"
        print(f"{figure.name:40s} {figure.value:9.3f} {figure.unit:16s} {sign} {figure.limit:g}  {verdict}")
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
