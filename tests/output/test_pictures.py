"""Pictures in files and terminals: every kind, titles with findings, units, and what goes wrong in words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from specplan.cli import app
from specplan.planner.answer.pictures import map_picture, step_picture
from specplan.planner.answer.plan import Plan, evaluate
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.roofline import roofline_picture
from specplan.planner.config.load import load_config
from specplan.planner.output import figures
from specplan.planner.output.drawing import FACTS

KINDS = ("step", "speedup", "roofline", "map", "pareto", "acceptance")
CONFIG: dict[str, Any] = {
    "target": "llama-3.3-70b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "dtypes": {"weights": "fp8", "kv": "fp8"},
    "engine": "vllm", "workload": {"batch": [1, 32, 256], "context_tokens": [2000, 32000]},
    "drafters": [
        {"mechanism": "eagle3", "acceptance": {"alpha": 0.75}}, {"mechanism": "ngram", "acceptance": {"alpha": 0.3}},
    ],
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return evaluate(resolve(load_config(CONFIG)))


def run(folder: Path, *arguments: str, config: dict[str, Any] = CONFIG) -> Result:
    (folder / "cfg.yaml").write_text(json.dumps(config), encoding="utf-8")
    return CliRunner().invoke(app, [*arguments, "-m", str(folder / "cfg.yaml")])


def test_parts_of_a_step_add_up_to_the_step(plan: Plan) -> None:
    picture = step_picture(plan, 1, 1)
    assert picture is not None
    total = np.sum(list(picture.parts_s.values()), axis=0)
    choice = plan.choice(1, 1)
    assert choice.drafter is not None
    step = plan.values[choice.drafter].step.step_s[:, 1, 1]
    assert total == pytest.approx(step)
    assert picture.chosen == choice.draft_len
    assert list(picture.tile_edges) == [16]     # 8 query heads per KV head: 128 rows are 16 tokens, D = 15


def test_map_is_the_choice_of_every_cell(plan: Plan) -> None:
    picture = map_picture(plan)
    assert picture is not None
    assert picture.draft_lens[0][0] == plan.choice(0, 0).draft_len
    assert picture.draft_lens[2][1] is None     # 256 sequences of 32000 tokens do not fit
    assert [len(line) for line in picture.draft_lens] == [2, 2, 2]


def test_roofline_by_hand(plan: Plan) -> None:
    # one sequence, D = 0: a matrix of 1-byte weights does 2 FLOP per weight; bytes are the weights and few activations
    picture = roofline_picture(plan, 0, 0)
    assert picture is not None
    gemm, attention = (next(p for p in picture.points if p.part == part) for part in ("GEMMs", "attention"))
    assert gemm.flop_per_byte == pytest.approx(2.0, rel=0.01)
    # fp8 cache: 4 FLOP per cached element and query head, 8 query heads share the 2 bytes of key and value
    assert attention.flop_per_byte == pytest.approx(4 * 8 / 2, rel=0.01)
    assert {point.draft_len for point in picture.points} == set(range(17))
    assert all(p.flop_per_s <= min(p.flop_per_byte * picture.bytes_per_s, picture.flop_per_s) for p in picture.points)


@pytest.mark.parametrize(("kind", "suffix"), [*((kind, "svg") for kind in KINDS), ("step", "png"), ("map", "pdf")])
def test_files_of_every_kind(tmp_path: Path, kind: str, suffix: str) -> None:
    file = tmp_path / f"picture.{suffix}"
    result = run(tmp_path, "plot", kind, "-o", str(file))
    assert result.exit_code == 0, result.output
    assert (result.stdout, result.stderr) == ("", f"Wrote {file}\n")
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
    content = file.read_bytes()
    assert content.startswith(start)
    run(tmp_path, "plot", kind, "-o", str(file))
    assert file.read_bytes() == content     # equal input, equal file


@pytest.mark.parametrize("kind", KINDS)
def test_axes_have_units_and_titles_a_finding(plan: Plan, kind: str) -> None:
    facts = FACTS[kind](plan)
    axes = getattr(figures, f"{kind}_figure")(facts).axes[0]
    assert "(" in axes.get_xlabel()
    assert "(" in axes.get_ylabel()
    assert len(axes.get_title(loc="left").split()) >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_versions(tmp_path: Path, kind: str) -> None:
    result = run(tmp_path, "plot", kind)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) >= 4
    assert max(len(line) for line in lines) <= 120
    assert "\x1b" not in result.stdout


def test_pareto_plots_beside_its_csv(tmp_path: Path) -> None:
    result = run(tmp_path, "pareto", "--csv", "--plot", str(tmp_path / "p.svg"))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("context_tokens,option,")
    assert (tmp_path / "p.svg").exists()


def test_pareto_plots_beside_its_table(tmp_path: Path) -> None:
    plain, drawn = run(tmp_path, "pareto"), run(tmp_path, "pareto", "--plot", str(tmp_path / "p.svg"))
    assert drawn.exit_code == 0, drawn.output
    assert "tokens/s/user and tokens/s/GPU" in drawn.stdout
    assert drawn.stdout == plain.stdout
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_matplotlib_missing_ends_with_3_and_the_line_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for command in (("plot", "step", "-o"), ("pareto", "--plot")):
        result = run(tmp_path, *command, str(tmp_path / "x.svg"))
        assert result.exit_code == 3
        assert result.stderr == "pictures need matplotlib: pip install '.[plot]' in the checkout of specplan\n"
    assert run(tmp_path, "plot", "step").exit_code == 0     # terminals need no extra
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize(("arguments", "code", "wanted"), [
    (("plot", "stp"), 2, "KIND: no picture 'stp': there are step, speedup, roofline, map, pareto, acceptance; did you"),
    (("plot", "step", "-o", "a.jpeg"), 2, "a.jpeg: must end in .svg, .png, .pdf, not '.jpeg'"),
    (("plot", "step", "-o", "none/a.svg"), 2, "none/a.svg: cannot be written: No such file or directory"),
    (("pareto", "--plot", "none/a.svg"), 2, "none/a.svg: cannot be written: No such file or directory"),
])
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(tmp_path, *arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert wanted in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cfg.yaml"]


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    unknown = CONFIG | {"drafters": [{"mechanism": "eagle3"}]}
    result = run(tmp_path, "plot", "acceptance", config=unknown)
    assert result.exit_code == 1
    assert "needs a drafter with known acceptance" in result.stderr
    assert run(tmp_path, "plot", "step", config=unknown).exit_code == 0
