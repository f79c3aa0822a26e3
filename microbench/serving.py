"""TPOT of measured servers against the closed form: `silicon_sample.csv` of the wheel aiconfigurator-core (NVIDIA).

Each row is a server without speculation at a constant number of users (InferenceX and others): model, GPU, engine,
precision, TP, prompt and answer tokens, measured TPOT. Rows whose parallelism, precision or model the presets here do
not say are counted, not scored. `python -m specplan.microbench.serving` scores them anew (needs the wheel), keeps the
scores and writes the section of docs/accuracy.md; with `--page` it only writes it, from the scores that are kept.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specplan.microbench.silicon import SYSTEMS, VERSION, WHEEL, tables_root
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.ways import ways_of
from specplan.planner.config.load import config_from_mapping
from specplan.planner.decide.load import closed_loop
from specplan.planner.messages import SpecplanError
from specplan.planner.validate.page import put_section

FILE = "silicon_sample.csv"
PRESETS = {
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b", "openai/gpt-oss-120b": "gpt-oss-120b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b", "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "Qwen/Qwen3-32B": "qwen3-32b",
}
WEIGHTS = {"fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "": "bf16", "bfloat16": "bf16"}
STATIC_SCALES = {"fp8"}    # per tensor: ModelOpt's checkpoints (nvidia/*-FP8), whose scales are in the checkpoint
Row = Mapping[str, str]
ROOT = Path(__file__).resolve().parents[1]
SCORES = ROOT / "tests" / "data" / "silicon" / "serving.json"
PAGE = ROOT / "docs" / "accuracy.md"
SECTION = "serving points"
WORST = (
    "Its rows are long prompts with short answers: predicted / measured is 3 at 100 output tokens and 1.05 to 1.15 at "
    "2,000. Requests of one length from a fixed number of users may stay in step, so that prompts are processed "
    "together and show in TTFT; the closed form spreads them over decoding.\n"
    "NVFP4 under TensorRT-LLM is predicted too slow: its tables time a kernel that quantises activations, and the "
    "engine can fuse that into the norm before (RESIDUAL_RMS_NORM_QUANT_NVFP4). GPT-OSS is too slow nearly everywhere: "
    "most of its step is starts of small kernels, which are priced one after the other."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of one slice: |predicted / measured - 1| in percent, and the median of predicted / measured."""

    model: str
    gpu: str
    engine: str
    precision: str
    rows: int
    median_pct: float
    p90_pct: float
    ratio: float


def read_points(path: Path) -> list[Row]:
    """All rows of the file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def scores(rows: Iterable[Row]) -> tuple[list[Score], dict[str, int]]:
    """Scores by model, GPU, engine and precision, and how many rows were left out for which reason."""
    left_out: dict[str, int] = {}
    slices: dict[tuple[str, str, str, str], list[tuple[Row, float]]] = {}
    predicted: dict[tuple[str, ...], Mapping[int, float]] = {}
    kept: dict[tuple[str, ...], list[Row]] = {}
    names = {folder: name for name, folder in SYSTEMS.items()}
    for row in rows:
        reason = _unfit(row, names)
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        kept.setdefault(_setting(row), []).append(row)
    for setting, mine in kept.items():
        users = sorted({int(row["batch_size"]) for row in mine})
        try:
            predicted[setting] = _predict(mine[0], names[mine[0]["system"]], users)
        except SpecplanError:
            left_out["does not fit or has no kernel entry"] = left_out.get(
                "does not fit or has no kernel entry", 0) + len(mine)
            continue
        for row in mine:
            key = (PRESETS[row["model_path"]], names[row["system"]], row["backend"], row["precision"] or "bf16")
            slices.setdefault(key, []).append((row, predicted[setting][int(row["batch_size"])]))
    found = []
    for key, pairs in sorted(slices.items()):
        ratio = np.array([seconds * 1e3 / float(row["silicon_tpot_ms"]) for row, seconds in pairs])
        error = np.abs(ratio - 1.0) * 100.0
        model, gpu, engine, precision = key
        found.append(Score(
            model=model, gpu=gpu, engine=engine, precision=precision, rows=len(pairs),
            median_pct=round(float(np.median(error)), 1), p90_pct=round(float(np.quantile(error, 0.9)), 1),
            ratio=round(float(np.median(ratio)), 2),
        ))
    return found, left_out


def _unfit(row: Row, names: Mapping[str, str]) -> str | None:
    """Why a row is not scored."""
    if row["mode"] != "agg":
        return "prompts processed on other GPUs"
    if row["model_path"] not in PRESETS:
        return "model without a preset of the same precision"
    if row["system"] not in names:
        return "GPU without a profile"
    if (row["attention_dp_size"] or "1") != "1" or (row["pp_size"] or "1") != "1":
        return "data or pipeline parallelism"
    if row["gemm_quant_mode"] not in WEIGHTS:
        return "precision"
    if not row["silicon_tpot_ms"] or float(row["silicon_tpot_ms"]) <= 0:
        return "no measured TPOT"
    return None


def _setting(row: Row) -> tuple[str, ...]:
    columns = ("model_path", "system", "backend", "backend_version", "precision", "gemm_quant_mode", "tp_size", "isl",
               "osl", "moe_ep_size")
    return tuple(row[name] for name in columns)


def _predict(row: Row, gpu: str, users: list[int]) -> dict[int, float]:
    """TPOT in seconds by number of users."""
    model = PRESETS[row["model_path"]]
    quantised = row["gemm_quant_mode"] not in {"", "bfloat16"}
    version = row["backend_version"] if row["backend_version"][:1].isdigit() else ""     # some name a branch
    fields: dict[str, Any] = {
        "target": model, "gpu": gpu, "parallel": {"tp": int(row["tp_size"]), "ep": int(row["moe_ep_size"] or 1)},
        "dtypes": {"kv": "fp8" if quantised else "bf16"}, "drafters": [{"mechanism": "ngram"}],
        "engine": {"name": row["backend"], "version": version or None},
        "workload": {
            "concurrency": max(users), "input_tokens": int(row["isl"]), "output_tokens": int(row["osl"]),
            "max_batch": max(users), "lengths": {"output_variation": 0.0},
        },
    }
    if model != "gpt-oss-120b":     # a checkpoint with formats of its own
        fields["dtypes"] = {**fields["dtypes"], "weights": WEIGHTS[row["gemm_quant_mode"]]}
        if row["gemm_quant_mode"] in STATIC_SCALES:
            fields["dtypes"]["activation_scales"] = "static"
    question = resolve(config_from_mapping(fields), allow_preliminary=True)
    assert question.load is not None
    ways = ways_of(question, question.load)
    if not ways:
        raise SpecplanError("does not fit")
    return {count: float(closed_loop(ways[0].replica, count).tpot_s[0]) for count in users}


def section(kept: Mapping[str, Any]) -> str:
    """The section of the page."""
    lines = [
        "| model | GPU | engine | precision | rows | median error | p90 | predicted / measured |",
        "|---|---|---|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {item['model']} | {item['gpu']} | {item['engine']} | {item['precision']} | {item['rows']} "
        f"| {item['median_pct']:.1f} % | {item['p90_pct']:.1f} % | {item['ratio']:.2f} |"
        for item in kept["scores"]
    ]
    total = sum(item["rows"] for item in kept["scores"])
    left = "; ".join(f"{count} {reason}" for reason, count in sorted(kept["left_out"].items(), key=lambda x: -x[1]))
    worst = max(kept["scores"], key=lambda item: item["median_pct"])
    return (
        f"{total} rows of `{FILE}` ({WHEEL} {VERSION}): servers without speculation at a constant number of users.\n"
        "Their TPOT is predicted by the closed form of [load.md](load.md); nothing is fitted to them.\n"
        f"Goal: a median of 12 % on Llama-70B and GPT-OSS.\nLeft out: {left}.\n\n" + "\n".join(lines)
        + f"\n\nWorst: {worst['model']} on {worst['gpu']} under {worst['engine']}. {WORST}\n"
    )


def main() -> None:
    """Score (unless `--page`), keep, write."""
    if "--page" not in sys.argv[1:]:
        found, left_out = scores(read_points(tables_root().parent / FILE))
        kept = {"scores": [asdict(score) for score in found], "left_out": left_out}
        SCORES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(SCORES.read_text(encoding="utf-8"))
    PAGE.write_text(put_section(PAGE.read_text(encoding="utf-8"), SECTION, section(kept)), encoding="utf-8")


if __name__ == "__main__":
    main()
