"""Rules about CUDA graphs: switched off, too small for the batch, captured at useless sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specplan.planner.engines.facts import draft_len, is_speculative, mechanism, names, schedule
from specplan.planner.engines.launch import SPEC, Launch, Setting
from specplan.planner.engines.rule import Context, Edit, Hit, Rule, at, at_name, replace
from specplan.planner.engines.rule_examples import NGRAM, SGLANG_EAGLE3, example
from specplan.planner.engines.rule_examples import vllm as vllm_command
from specplan.planner.engines.vllm import configuration as vllm

MOST_PADDING = 0.2
FREE_ROWS = 32          # fewer rows more do not lengthen a step that reads its weights


def captured(launch: Launch) -> tuple[int, Setting] | None:
    """Largest batch whose step is captured as a CUDA graph, and the setting that limits it."""
    if launch.engine == "sglang":
        for name in ("--cuda-graph-bs", "--cuda-graph-max-bs"):
            value = launch.get(name)
            given = value if isinstance(value, list) else [value]
            if given and all(isinstance(size, int) and not isinstance(size, bool) for size in given):
                return max(given), launch.settings[name]
    if launch.engine == "vllm":
        rows = (draft_len(launch) or 0) + 1
        sizes = vllm.capture_sizes(launch)
        if sizes:
            place = next(name for name in ("compilation_config.cudagraph_capture_sizes", "--cudagraph-capture-sizes")
                         if name in launch.settings)
            return max(sizes) // rows, launch.settings[place]
        for name in ("compilation_config.max_cudagraph_capture_size", "--max-cudagraph-capture-size"):
            size = launch.number(name)
            if size is not None:
                return size // rows, launch.settings[name]
    if launch.engine == "tensorrt_llm":
        graphs = launch.settings.get("cuda_graph_config")
        section = graphs.value if graphs is not None and isinstance(graphs.value, dict) else {}
        batches = section.get("batch_sizes")
        if graphs is not None and isinstance(batches, list) and batches and all(isinstance(b, int) for b in batches):
            return max(batches), graphs
        if graphs is not None and isinstance(section.get("max_batch_size"), int):
            return int(section["max_batch_size"]), graphs
    return None


def _graphs_off(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if not is_speculative(launch) or mechanism(launch) is None:
        return
    for name in ("--enforce-eager", "--disable-cuda-graph", "--eager-mode"):
        if launch.flag(name):
            yield at_name(launch.settings[name], "CUDA graphs are off: a speculative step launches the drafter D "
                                                 "times, so launch time dominates (graphs alone gave +37 % in "
                                                 "sglang#4247)")
    graphs = launch.settings.get("cuda_graph_config")
    if launch.engine == "tensorrt_llm" and graphs is not None and graphs.value is None:
        yield at_name(graphs, "cuda_graph_config is null: CUDA graphs are off, launch time dominates a speculative "
                              "step")
    mode = launch.get("compilation_config.cudagraph_mode")
    if launch.engine == "vllm" and mode in {"NONE", "PIECEWISE"}:
        yield at(launch.settings["compilation_config.cudagraph_mode"],
                 f"cudagraph_mode {mode}: verify steps do not replay a full graph")


def _graphs_small(launch: Launch, context: Context) -> Iterator[Hit]:
    found = captured(launch)
    if found is None or not is_speculative(launch):
        return
    largest, setting = found
    admitted, batch, source = launch.number(names(launch).admitted), context.batch, context.batch_source
    if batch is None and admitted is not None:
        batch, source = admitted, launch.settings[names(launch).admitted].written.value
    if batch is not None and largest < batch:
        rows = f" ({(draft_len(launch) or 0) + 1} rows each)" if launch.engine == "vllm" else ""
        yield at(setting, f"CUDA graphs reach batch {largest}{rows}, but {batch} sequences are served ({source}): "
                          "larger steps run without graphs")


def _capture_multiple(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    sizes, length = vllm.capture_sizes(launch) if launch.engine == "vllm" else None, draft_len(launch)
    if not sizes or not length or launch.has(SPEC + "num_speculative_tokens_per_batch_size"):
        return
    rows = length + 1
    bad = [size for size in sizes if size % rows]
    if bad:
        place = next(launch.settings[name] for name in ("compilation_config.cudagraph_capture_sizes",
                                                        "--cudagraph-capture-sizes") if name in launch.settings)
        good = sorted({max(rows, round(size / rows) * rows) for size in sizes})
        yield at(place, f"capture sizes {', '.join(map(str, bad))} are not multiples of D + 1 = {rows}: a verify step "
                        f"has batch x {rows} rows; take {', '.join(map(str, good))}", *_sizes_edit(place, good))


def _graph_sizes(launch: Launch) -> tuple[list[int], Setting] | None:
    """Listed graph sizes and where they stand: rows of a step in vLLM, sequences in TensorRT-LLM.

    SGLang's batch schedule is in a file of its own, so its list has no tiers to be held against.
    """
    sizes: Any = None
    place = None
    if launch.engine == "vllm":
        sizes = vllm.capture_sizes(launch)
        place = next((launch.settings[name] for name in ("compilation_config.cudagraph_capture_sizes",
                                                         "--cudagraph-capture-sizes") if launch.has(name)), None)
    elif launch.engine == "tensorrt_llm":
        section, place = launch.get("cuda_graph_config"), launch.settings.get("cuda_graph_config")
        sizes = section.get("batch_sizes") if isinstance(section, dict) else None
    if place is None or not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
        return None
    return sorted(sizes), place


def _graph_padding(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    """The largest batch of each tier is where its D was chosen for; a few rows more cost nothing."""
    listed = _graph_sizes(launch)
    if listed is None:
        return
    sizes, place = listed
    largest = launch.number(names(launch).admitted)
    worst: tuple[float, int, int, int] | None = None
    for tier in schedule(launch):
        batch, width = tier.last if largest is None else min(tier.last, largest), 1 + tier.draft_len
        unit = 1 if launch.engine == "vllm" else width
        graph = next((size * unit for size in sizes if size * unit >= batch * width), None)
        if batch < tier.first or graph is None:
            continue
        share = graph / (batch * width) - 1
        if share > MOST_PADDING and graph - batch * width >= FREE_ROWS:
            worst = max(worst or (0.0, 0, 0, 0), (share, batch, width, graph))
    if worst is not None:
        share, batch, width, graph = worst
        yield at(place, f"batch {batch} at D = {width - 1} has {batch * width} rows and replays the graph of {graph}: "
                        f"{share:.0%} more; the schedule's gain is lost there")


def _sizes_edit(place: Setting, good: list[int]) -> tuple[Edit, ...]:
    inside_json = place.name.startswith("compilation_config.")
    return (replace(place.node, "[" + ", ".join(map(str, good)) + "]"),) if inside_json else ()



_TIERS = ('{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 6, '
          '"num_speculative_tokens_per_batch_size": [[1, 96, 6], [97, 128, 3]]}')
_CAPTURE = ' --compilation-config \'{"cudagraph_capture_sizes": %s}\''
RULES = (
    Rule(
        code="SP021", name="graphs-off", severity="warning",
        summary="CUDA graphs are switched off (or reduced) with speculation on.",
        why="A speculative step is many small launches: D draft passes and a verify pass.",
        fix="Leave graphs on; where memory is short, capture fewer batches instead.",
        source="sgl-project/sglang#4247 (graphs alone +37 %); vllm-project/vllm#49548, #52087",
        bad=example("serve.sh", SGLANG_EAGLE3 + "--disable-cuda-graph\n"),
        good=example("serve.sh", SGLANG_EAGLE3 + "\n"),
        check=_graphs_off,
    ),
    Rule(
        code="SP022", name="graphs-below-batch", severity="warning",
        summary="CUDA graphs end below the batch that is served.",
        why="Larger batches fall back to eager steps, and speculation loses most of its gain.",
        fix="Capture up to the served batch (vLLM counts rows: batch x (D + 1)).",
        source="SGLang docs_new speculative_decoding.mdx (--cuda-graph-max-bs-decode); sgl-project/sglang#5274; "
               "SafeAILab/EAGLE#298; vllm-project/vllm#50065",
        bad=example("serve.sh", SGLANG_EAGLE3 + "--max-running-requests 20 --cuda-graph-max-bs 2\n"),
        good=example("serve.sh", SGLANG_EAGLE3 + "--max-running-requests 20 --cuda-graph-max-bs 20\n"),
        check=_graphs_small,
    ),
    Rule(
        code="SP023", name="capture-multiple", severity="warning",
        summary="vLLM's capture sizes are not multiples of D + 1.",
        why="A verify step has batch x (D + 1) rows. Other sizes are padded at best; with piecewise graphs they "
            "crashed (cudaErrorIllegalAddress on partial acceptance).",
        fix="Use multiples of D + 1; --fix does it in the JSON form.",
        source="vllm-project/vllm#46324 and #50065",
        bad=vllm_command(NGRAM, then=_CAPTURE % "[1, 2, 4, 8]"),
        good=vllm_command(NGRAM, then=_CAPTURE % "[4, 8, 16]"),
        check=_capture_multiple,
    ),
    Rule(
        code="SP028", name="graph-padding", severity="warning",
        summary="The listed CUDA graphs pad the largest batch of a tier by more than 20 %.",
        why="A step replays the next larger graph and computes its rows. A short tier for large batches gains nothing "
            "where the next graph is that of a long tier.",
        fix="Leave the engine's own list, which is dense, and raise its end where needed (vLLM: "
            "max_cudagraph_capture_size), or list the sizes of each tier: vLLM counts batch x (D + 1) rows, "
            "TensorRT-LLM sequences.",
        source="vLLM, vllm/config/compilation.py and vllm/v1/cudagraph_dispatcher.py (steps are padded to the next "
               "captured size)",
        bad=vllm_command(_TIERS, then=_CAPTURE % "[7, 56, 224, 896]"),
        good=vllm_command(_TIERS, then=_CAPTURE % "[7, 56, 112, 224, 336, 448, 518, 672]"),
        check=_graph_padding,
    ),
)
