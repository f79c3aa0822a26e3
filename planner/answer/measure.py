"""`specplan measure`: which runs settle the most, as commands whose saved results `--observe` reads.

Plain decoding first, then a middle D, then the two ends: of one row the middle one says most about the others
(docs/accuracy.md, anchored).
"""

from __future__ import annotations

from specplan.planner.answer.deploy import drafter_weights
from specplan.planner.answer.options import Option
from specplan.planner.answer.resolve import resolve
from specplan.planner.config.load import LoadedConfig
from specplan.planner.engines.benchmarks import benchmark_command, plain_server, result_name
from specplan.planner.engines.dialects import engine_name, write_configuration
from specplan.planner.engines.plan import DraftPlan
from specplan.planner.engines.snippet import command, heredoc, remarks
from specplan.planner.messages import InputError, Note

BENCHMARKED = ("vllm", "sglang", "tensorrt_llm")
PROMPTS_PER_SEQUENCE, LEAST_PROMPTS = 10, 80
_HEAD = (
    "Runs that tell the most, in this order. Put the saved results in one folder and give it to specplan:",
    "specplan recommend --model CFG --observe FOLDER",
    "The prompts are general chat: use your own where you have them, the same ones in every run.",
)


def measure_commands(loaded: LoadedConfig, engine: str | None = None) -> str:
    """Shell commands for off, a middle D and the two ends of each drafter, at the first batch asked for."""
    question = resolve(loaded, allow_preliminary=True)
    name, _, version = (engine or loaded.config.engine.name).partition(":")
    name = engine_name(name)
    if name not in BENCHMARKED:
        raise InputError(f"no serving benchmark known for {name}: measure with your own tool and give `observations:`")
    target = question.target.weights_name or question.target.name
    batch, tp = question.batch[0], question.deployment.tp
    prompts = max(LEAST_PROMPTS, PROMPTS_PER_SEQUENCE * batch)
    lines = name == "sglang"
    plain = DraftPlan(mechanism=None, draft_len=0, target_model=target, tp=tp, max_batch=batch)
    runs: list[tuple[str, int, DraftPlan]] = [("off", 0, plain)]
    for option in question.options:
        lengths = order(option)
        runs += [(option.drafter.mechanism, length, _plan(option, length, target, tp, batch)) for length in lengths]
    text = remarks((*_HEAD, f"Batch {batch}; start the server, then run the benchmark in another shell."))
    for kind, length, plan in runs:
        notes: tuple[Note, ...] = ()
        if plan.mechanism is None:
            title, server = "plain decoding", plain_server(name, model=target, tp=tp, batch=batch)
        else:
            title = f"{kind}, D = {length}"
            written = write_configuration(plan, name, version or None)
            notes, server = written.notes, _started(name, written.text, target, f"{kind}-d{length}.yaml")
        text += "\n" + remarks([title, *notes]) + server
        saved = result_name(kind, length, batch, lines=lines)
        text += benchmark_command(name, model=target, name=saved, batch=batch, prompts=prompts)
    return text


def _started(engine: str, written: str, target: str, file: str) -> str:
    """A command that starts the server: TensorRT-LLM takes its settings from a file."""
    if engine != "tensorrt_llm":
        return written.rstrip() + "\n"
    return heredoc(file, written) + command(["trtllm-serve", target], [["--config", file]])


def order(option: Option) -> tuple[int, ...]:
    """Draft lengths to measure: a middle one, then the two ends."""
    able = [length for length in option.draft_lens if length > 0]
    if not able:
        return ()
    return tuple(dict.fromkeys((able[(len(able) - 1) // 2], able[0], able[-1])))


def _plan(option: Option, length: int, target: str, tp: int, batch: int) -> DraftPlan:
    return DraftPlan(
        mechanism=option.drafter.mechanism, draft_len=length, drafter_model=drafter_weights(option),
        target_model=target, max_batch=batch, tp=tp, drafter_tp=option.drafter_tp, block=option.drafter.block,
    )
