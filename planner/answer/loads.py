"""The load that a configuration states: how often requests come, how long they are, what they must meet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from specplan.planner.acceptance.curve import acceptance_length
from specplan.planner.answer.options import Option
from specplan.planner.answer.places import Faults
from specplan.planner.arrays import Array
from specplan.planner.config.schema import Config, Workload
from specplan.planner.fact import fact

if TYPE_CHECKING:
    from specplan.planner.decide.slo import Target

SLOTS = 256     # max_num_seqs of vLLM and max_batch_size of common TensorRT-LLM recipes, where none is stated


@fact
class Load:
    """Requests of one replica. `trace` holds rows of (input, output) tokens where one was given."""

    request_rate: float | None
    concurrency: int | None
    input_tokens: float
    output_tokens: float
    input_variation: float
    output_variation: float
    prefix_hit: float
    disaggregated: bool
    chunk_tokens: int
    slots: int
    price_per_gpu_hour: float | None
    target: Target | None
    max_batches: tuple[int, ...]
    tps: tuple[int, ...]
    trace: Array | None = None

    @property
    def context_tokens(self) -> float:
        """Mean context of a decoding sequence: long answers run longer, so they count by their length."""
        if self.trace is None:
            return self.input_tokens + self.output_tokens * (1.0 + self.output_variation**2) / 2.0
        inputs, outputs = self.trace
        return float((outputs * (inputs + outputs / 2.0)).sum() / outputs.sum())


def load_of(config: Config, base: Path, options: tuple[Option, ...], faults: Faults) -> Load | None:
    """The load of a configuration, checked against what its drafters emit; faults go to `faults`."""
    found: list[Load | None] = []
    with faults.at():       # a trace names its own lines
        found.append(read_load(config.workload, base))
    load = found[0] if found else None
    output_tokens = config.workload.output_tokens if load is None else load.output_tokens
    for option in options:
        if output_tokens is None or option.acceptance is None:
            continue
        longest = float(acceptance_length(option.acceptance, float(max(option.draft_lens))))
        if output_tokens < longest:     # no steady decoding to plan
            message = (
                f"{output_tokens:g} is fewer than the {longest:.2f} tokens that one step of {option.drafter.name} "
                f"emits at D = {max(option.draft_lens)}: lower max_draft_len, or leave the lengths out"
            )
            faults.add(("workload", "output_tokens"), message)
            break
    return load


def read_load(workload: Workload, base: Path) -> Load | None:
    """The load of a workload; None where only batches were asked. Faults of a trace name its lines."""
    if workload.request_rate is None and workload.concurrency is None and workload.slo is None:
        return None
    from specplan.planner.answer.trace import read_trace  # noqa: PLC0415 - a question without a load never pays for it
    from specplan.planner.decide.slo import Target  # noqa: PLC0415 - the same

    lengths, slo = workload.lengths, workload.slo
    trace = None
    if lengths is not None and lengths.trace is not None:
        found = read_trace(base / Path(lengths.trace).expanduser())
        trace = np.stack([found.input_tokens, found.output_tokens])
        inputs, outputs = found.input_tokens, found.output_tokens
        means = float(inputs.mean()), float(outputs.mean())
        variations = float(inputs.std() / means[0]), float(outputs.std() / means[1])
    else:
        assert workload.input_tokens is not None
        assert workload.output_tokens is not None
        means = float(workload.input_tokens), float(workload.output_tokens)
        variations = _stated(lengths.input_variation if lengths else None, 0.0), _stated(
            lengths.output_variation if lengths else None, 1.0
        )
    target = None
    if slo is not None:
        target = Target(
            tpot_s=None if slo.tpot_ms is None else slo.tpot_ms / 1e3,
            ttft_s=None if slo.ttft_ms is None or workload.disaggregated else slo.ttft_ms / 1e3,
            percentile=slo.percentile,
        )
        if target.tpot_s is None and target.ttft_s is None:
            target = None       # only a first-token target, and another pool of GPUs answers for it
    return Load(
        request_rate=workload.request_rate,
        concurrency=workload.concurrency,
        input_tokens=means[0],
        output_tokens=means[1],
        input_variation=variations[0],
        output_variation=variations[1],
        prefix_hit=workload.prefix_hit,
        disaggregated=workload.disaggregated,
        chunk_tokens=workload.chunk_tokens,
        slots=workload.max_batch or SLOTS,
        price_per_gpu_hour=workload.price_per_gpu_hour,
        target=target,
        max_batches=() if slo is None else slo.max_batch,
        tps=() if slo is None else slo.tp,
        trace=trace,
    )


def _stated(value: float | None, usual: float) -> float:
    return usual if value is None else value
