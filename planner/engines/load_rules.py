"""Rules about the load: how many sequences are admitted, pipeline stages, spilled weights, benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines import checkpoints
from specplan.planner.engines.facts import is_speculative, mechanism, names, target_name
from specplan.planner.engines.graph_rules import captured
from specplan.planner.engines.launch import SPEC, Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name
from specplan.planner.engines.rule_examples import MTP, NGRAM, SGLANG_EAGLE3, example
from specplan.planner.engines.rule_examples import vllm as vllm_command
from specplan.planner.engines.sglang import configuration as sglang

SGLANG_ADMITTED = 48        # --max-running-requests when it is unset and speculation is on; 32 in early 2025


def _admitted(launch: Launch, context: Context) -> Iterator[Hit]:
    if not is_speculative(launch) or launch.fragment:
        return
    setting, limit = launch.settings.get(names(launch).admitted), launch.number(names(launch).admitted)
    batch, source = context.batch, context.batch_source
    if launch.engine == "sglang" and not launch.has("--max-running-requests") and launch.complete:
        graphs = captured(launch)
        if batch is None and graphs is not None and graphs[0] > SGLANG_ADMITTED:
            batch, source = graphs[0], f"{graphs[1].written.value} {graphs[0]}"
        if batch is not None and batch > SGLANG_ADMITTED:
            yield Hit(launch.place.start, launch.place.end,
                      f"--max-running-requests is unset: with speculation SGLang admits {SGLANG_ADMITTED} sequences "
                      f"(32 before 2026), {batch} are meant ({source})")
    elif setting is not None and limit is not None and batch is not None and batch > limit:
        yield at(setting, f"{limit} sequences are admitted, {batch} are meant ({source}): the effective batch is "
                          f"{limit}")


def _pipeline(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    setting = launch.settings.get(names(launch).pp) if names(launch).pp else None
    kind = mechanism(launch)
    if setting is None or (launch.number(setting.name) or 1) < 2 or kind is None or not is_speculative(launch):
        return
    refused = launch.engine == "sglang" and sglang.algorithm(launch) in {"DFLASH", "DSPARK"}
    what = "SGLang refuses it for this drafter" if refused else "each draft pass crosses all stages, if it is supported"
    yield at(setting, f"{launch.number(setting.name)} pipeline stages with {kind}: {what}")


def _spilled(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if not is_speculative(launch):
        return
    for name in ("--cpu-moe", "--n-cpu-moe", "--cpu-offload-gb", "--override-tensor"):
        setting, value = launch.settings.get(name), launch.get(name)
        to_host = name != "--override-tensor" or "=CPU" in str(value).upper()
        if setting is not None and value not in {0, None} and to_host:
            yield at_name(setting, f"{setting.written.value}: weights are left in host memory; a verify step of D + 1 "
                                   "rows reads more of them than plain decoding, and spilling to make room for the "
                                   "drafter loses")
    if launch.engine == "llama_cpp":
        layers, given = checkpoints.layers(target_name(launch)), launch.number("--n-gpu-layers")
        if layers is not None and given is not None and 0 < given < layers:
            yield at(launch.settings["--n-gpu-layers"],
                     f"{given} of {layers} layers are on the GPU; spilling to make room for the drafter loses")


def _greedy_drafts(launch: Launch, context: Context) -> Iterator[Hit]:
    temperature = context.temperature
    generation = launch.get("--override-generation-config")
    if launch.engine != "vllm" or mechanism(launch) in {None, "ngram", "suffix"}:
        return
    if temperature is None and isinstance(generation, str) and '"temperature"' in generation:
        tail = generation.split('"temperature"', 1)[1].lstrip(" :")
        number = tail.split(",")[0].split("}")[0].strip()
        temperature = float(number) if number.replace(".", "", 1).isdigit() else None
    if temperature and launch.get(SPEC + "draft_sample_method", "greedy") == "greedy":
        place = launch.settings.get(SPEC + "draft_sample_method") or launch.settings.get(SPEC + "method")
        if place is not None and not launch.flag(SPEC + "use_heterogeneous_vocab"):
            yield at(place, f"greedy drafts against a target that samples at temperature {temperature:g}: most "
                            "acceptance is lost (AL 1.21 against 1.99 in vllm#41044); set draft_sample_method to "
                            "probabilistic")


def _random_prompts(launch: Launch, context: Context) -> Iterator[Hit]:
    if context.random_prompts and is_speculative(launch):
        yield Hit(launch.place.start, launch.place.end,
                  "a benchmark beside it sends random tokens: acceptance on them says nothing about real prompts")



_AT_TEMPERATURE = " &\nvllm bench serve --dataset-name sharegpt --temperature 1.0"
_AT_CONCURRENCY = "&\npython3 -m sglang.bench_serving --dataset-name sharegpt --max-concurrency 128\n"
RULES = (
    Rule(
        code="SP020", name="admitted-batch", severity="warning",
        summary="The server admits fewer sequences than the load that is meant.",
        why="The rest queues: throughput and time to first token look like a fault of speculation. SGLang "
            "resets --max-running-requests to 48 when speculation is on and the flag is unset.",
        fix="Set the limit to the planned batch, or plan for the limit.",
        source="SGLang 0.5.23 speculative_hook.py: 'Max running requests is reset to 48 for speculative decoding'; "
               "sgl-project/sglang#4759, #3986; SemiAnalysisAI/InferenceX#1697",
        bad=example("bench.sh", SGLANG_EAGLE3 + _AT_CONCURRENCY),
        good=example("bench.sh", SGLANG_EAGLE3 + "--max-running-requests 128 " + _AT_CONCURRENCY),
        check=_admitted,
    ),
    Rule(
        code="SP024", name="pipeline-stages", severity="warning",
        summary="Pipeline parallelism together with speculation.",
        why="Draft passes are serial: each crosses every stage. Several drafters refuse it.",
        fix="Use tensor parallelism, or leave speculation out.",
        source="vLLM docs/features/speculative_decoding/README.md (known incompatibility to 0.15) and "
               "vllm-project/vllm#50098; SGLang 0.5.23 speculative_hook.py (pp_size == 1 for DFLASH, DSPARK)",
        bad=vllm_command(MTP, target="zai-org/GLM-4.6-FP8", flags="-pp 2 "),
        good=vllm_command(MTP, target="zai-org/GLM-4.6-FP8", flags="-tp 4 "),
        check=_pipeline,
    ),
    Rule(
        code="SP025", name="spilled-weights", severity="warning",
        summary="Weights are left in host memory while speculation is on.",
        why="Verifying D + 1 rows reads more experts and layers over the slow link; making room for the drafter by "
            "spilling the target is a net loss (RTX 5060 Ti, 4 layers on the CPU: 20.3 tok/s, 25.2 without a drafter).",
        fix="Take a smaller quantisation or no drafter.",
        source="sudoingX/qwen38-mtp sweeps/rtx-5060-ti.md and rtx-3090.md; ggml-org/llama.cpp#18039",
        bad=example("serve.sh", "llama-server -m qwen3.gguf --spec-type draft-mtp --spec-draft-n-max 3 --n-cpu-moe "
                                "12\n"),
        good=example("serve.sh", "llama-server -m qwen3.gguf --spec-type draft-mtp --spec-draft-n-max 3\n"),
        check=_spilled,
    ),
    Rule(
        code="SP026", name="greedy-drafts", severity="warning",
        summary="The target samples (temperature above 0), the drafter takes its best token.",
        why="A greedy draft is accepted only with the probability that the target gives exactly this token: "
            "acceptance was 10 % against 49 % in one report.",
        fix="draft_sample_method: probabilistic (it takes some memory), or measure at the serving temperature.",
        source="vllm-project/vllm#41044; vLLM 0.33.0 speculative.py, draft_sample_method",
        bad=vllm_command(MTP, target="deepseek-ai/DeepSeek-V3", then=_AT_TEMPERATURE),
        good=vllm_command(MTP[:-1] + ', "draft_sample_method": "probabilistic"}', target="deepseek-ai/DeepSeek-V3",
                          then=_AT_TEMPERATURE),
        check=_greedy_drafts,
    ),
    Rule(
        code="SP027", name="random-prompts", severity="warning",
        summary="Speculation is benchmarked with random tokens.",
        why="Random tokens are neither predictable nor real: acceptance measured on them must not choose D.",
        fix="Benchmark with real prompts in the chat template, at the serving temperature.",
        source="sgl-project/sglang#5274; vllm-project/vllm#53906, #51454",
        bad=vllm_command(NGRAM, then=" &\nvllm bench serve --dataset-name random"),
        good=vllm_command(NGRAM, then=" &\nvllm bench serve --dataset-name sharegpt"),
        check=_random_prompts,
    ),
)
