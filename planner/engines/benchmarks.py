"""Saved results of serving benchmarks as observations: vLLM, TensorRT-LLM and SGLang write nearly the same keys.

Mechanism, D and batch come from the file's name, as `specplan measure` chooses it
(`specplan-eagle3-d3-b8.json`), or from metadata of the same names in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specplan.planner.engines.snippet import command
from specplan.planner.messages import InputError

NAME = re.compile(r"specplan-(?P<mechanism>[a-z0-9_]+?)-d(?P<draft_len>\d+)-b(?P<batch>\d+)\.jsonl?\Z")
LENGTHS = ("spec_decode_acceptance_length", "accept_length", "acceptance_length")


def result_name(mechanism: str, draft_len: int, batch: int, *, lines: bool = False) -> str:
    """Name of a saved result, which says what ran."""
    return f"specplan-{mechanism}-d{draft_len}-b{batch}.json{'l' if lines else ''}"


def is_result(value: Any) -> bool:
    """Whether a JSON value is a saved result."""
    return isinstance(value, Mapping) and "mean_tpot_ms" in value and "output_throughput" in value


def read_results(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """Observations of one file: a JSON object, or one per line of which the last counts (SGLang appends)."""
    found = _results(text)
    if not found:
        raise InputError(f"{path}: no benchmark result in it (mean_tpot_ms, output_throughput)")
    named = NAME.search(path.name)
    yield observation(found[-1], {} if named is None else named.groupdict(), str(path))


def observation(result: Mapping[str, Any], named: Mapping[str, str], file: str) -> dict[str, Any]:
    """A result as the keys of an observation."""
    mechanism = result.get("mechanism") or named.get("mechanism")
    drafted = result.get("draft_len") or named.get("draft_len")
    batch = result.get("max_concurrency") or result.get("batch") or named.get("batch")
    if mechanism is None or batch is None:
        raise InputError(
            f"{file}: does not say which mechanism and batch ran; name it as `specplan measure` does, such as "
            f"{result_name('eagle3', 3, 8)}"
        )
    requests = float(result.get("completed") or 0)
    if requests <= 0:
        raise InputError(f"{file}: no request was completed")
    prompt = float(result.get("total_input_tokens") or 0) / requests
    answer = float(result.get("total_output_tokens") or 0) / requests
    found: dict[str, Any] = {
        "mechanism": str(mechanism), "batch": float(batch), "context_tokens": max(1, round(prompt + answer / 2)),
        "tpot_s": float(result["mean_tpot_ms"]) / 1e3,
    }
    if str(mechanism) != "off":
        found["draft_len"] = int(drafted or 0)
        length = next((result[key] for key in LENGTHS if isinstance(result.get(key), int | float)), None)
        if length:
            found["acceptance_length"] = float(length)
    return found


def _results(text: str) -> list[Mapping[str, Any]]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        whole = None
    if whole is not None:
        return [item for item in (whole if isinstance(whole, list) else [whole]) if is_result(item)]
    found = []
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except json.JSONDecodeError:
            continue
        if is_result(item):
            found.append(item)
    return found


def plain_server(engine: str, *, model: str, tp: int, batch: int) -> str:
    """The engine's server without speculation."""
    if engine == "vllm":
        return command(
            ["vllm", "serve", model], [["--tensor-parallel-size", str(tp)], ["--max-num-seqs", str(batch)]]
        )
    if engine == "sglang":
        return command(
            ["python3", "-m", "sglang.launch_server", "--model-path", model],
            [["--tp-size", str(tp)], ["--max-running-requests", str(batch)]],
        )
    return command(["trtllm-serve", model], [["--tp_size", str(tp)], ["--max_batch_size", str(batch)]])


def benchmark_command(engine: str, *, model: str, name: str, batch: int, prompts: int) -> str:
    """The engine's own serving benchmark on real text, its result saved under `name`.

    Flags: vLLM 0.33.0 (vllm/benchmarks/serve.py), SGLang (sglang.bench_serving), TensorRT-LLM
    (tensorrt_llm.serve.scripts.benchmark_serving). Never on random tokens: nobody can draft those.
    """
    if engine == "vllm":
        return command(
            ["vllm", "bench", "serve"],
            [["--model", model], ["--dataset-name", "hf"], ["--dataset-path", "philschmid/mt-bench"],
             ["--num-prompts", str(prompts)], ["--max-concurrency", str(batch)], ["--num-warmups", str(batch)],
             ["--temperature", "0"], ["--save-result"], ["--result-filename", name]],
        )
    if engine == "sglang":
        return command(
            ["python3", "-m", "sglang.bench_serving"],
            [["--backend", "sglang"], ["--model", model], ["--dataset-name", "sharegpt"],
             ["--num-prompts", str(prompts)], ["--max-concurrency", str(batch)], ["--output-file", name]],
        )
    return command(
        ["python3", "-m", "tensorrt_llm.serve.scripts.benchmark_serving"],
        [["--backend", "openai"], ["--model", model], ["--dataset-name", "sharegpt"],
         ["--dataset-path", "ShareGPT_V3_unfiltered_cleaned_split.json"], ["--num-prompts", str(prompts)],
         ["--max-concurrency", str(batch)], ["--save-result"], ["--result-filename", name]],
    )
