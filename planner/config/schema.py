"""cfg.yaml: what may be asked. Field descriptions are what editors show (`specplan schema`).

A configuration holds references only: names of presets and profiles and paths of files are resolved by answer/.
Rules that compare numbers (AL <= 1 + D, alpha within [0, 1]) belong to acceptance/.
"""

# No `from __future__ import annotations`: pydantic would compile each annotation from its text.

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from specplan.planner.config import values
from specplan.planner.config.sizes import size, sizes

MechanismName: TypeAlias = Literal[
    "draft_model", "eagle", "eagle3", "p_eagle", "pard", "mtp", "dflash", "dspark", "ngram", "suffix"
]
WeightDtype: TypeAlias = Literal[
    "fp32", "bf16", "fp16", "fp8", "fp8_block", "int8", "w8a16", "nvfp4", "nvfp4_w4a16", "mxfp4", "w4a16", "w4a16_g32",
    "iq2_xxs", "q2_k", "iq3_xxs", "q3_k_m", "iq4_xs", "q4_0", "q4_k_s", "q4_k_m", "q4_k_xl", "q5_k_m", "q5_k_xl",
    "q6_k", "q6_k_xl", "q8_0", "q8_k_xl",
]
KvDtype: TypeAlias = Literal["fp32", "bf16", "fp16", "fp8", "int8", "nvfp4", "q8_0", "q4_0"]
ActivationDtype: TypeAlias = Literal["fp32", "bf16", "fp16"]
ACCEPTANCE_FORMS = (
    "per_position", "alpha", "acceptance_length", "rate", "histogram", "file", "library", "domain",
)

OBSERVED = ("step_s", "tpot_s", "tokens_per_s", "speedup")

Reference: TypeAlias = Annotated[
    str | Mapping[str, Any], PlainValidator(values.name_or_mapping, json_schema_input_type=str | dict[str, Any])
]
Size: TypeAlias = Annotated[int, BeforeValidator(size, json_schema_input_type=int | str)]
Sizes: TypeAlias = Annotated[
    tuple[int, ...], BeforeValidator(sizes, json_schema_input_type=int | str | list[int | str])
]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Gpus: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
Temperature: TypeAlias = Annotated[float, Field(ge=0)]
Variation: TypeAlias = Annotated[float, Field(ge=0, le=5)]


class Part(BaseModel):
    """A part of the configuration: unknown keys and wrong types are faults, nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class Parallel(Part):
    """How one replica of the model is spread over GPUs."""

    tp: Gpus = 1
    """Tensor parallelism: GPUs that share each matrix."""
    ep: Gpus = 1
    """Expert parallelism: GPUs that share the routed experts."""
    dp_attention: Gpus = 1
    """Data-parallel attention groups beside expert parallelism."""
    pp: Gpus = 1
    """Pipeline stages."""


class Dtypes(Part):
    """Number formats; what is left out is what the checkpoint asks for."""

    weights: WeightDtype | None = None
    """Format of attention and feed-forward weights (the LM head stays at 16 bits)."""
    kv: KvDtype | None = None
    """Format of the KV cache."""
    activations: ActivationDtype | None = None
    """Format between the layers."""
    activation_scales: Literal["static", "dynamic"] | None = None
    """Whether quantised activations use scales of the checkpoint or are measured at run time."""


class Engine(Part):
    """The serving engine: chooses kernels and fixed costs."""

    name: Name
    """vllm, sglang, trtllm, ..."""
    version: str | None = None
    """Release, such as '0.24.0'; without it the newest known is taken."""


class Lengths(Part):
    """How request lengths differ: by their variation, or as a trace of requests."""

    input_variation: Variation | None = None
    """Standard deviation / mean of prompt tokens (0 if left out)."""
    output_variation: Variation | None = None
    """Standard deviation / mean of generated tokens (1, as exponential lengths have, if left out)."""
    trace: Name | None = None
    """CSV file with columns input_tokens and output_tokens, one request a line; gives means and variations."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.trace is not None and (self.input_variation is not None or self.output_variation is not None):
            raise ValueError("a trace gives the variations itself: leave out input_variation and output_variation")
        return self


class Slo(Part):
    """A latency target, and the options among which one that meets it is looked for."""

    tpot_ms: Annotated[float, Field(gt=0)] | None = None
    """Time per output token after the first."""
    ttft_ms: Annotated[float, Field(gt=0)] | None = None
    """Time to the first token."""
    percentile: Annotated[float, Field(ge=50, lt=100)] = 99.0
    """Share of requests that must meet it."""
    max_batch: Sizes = ()
    """Slots of a replica to choose among; powers of two up to what fits if left out."""
    tp: Sizes = ()
    """Tensor parallelism to choose among; parallel.tp if left out."""

    @model_validator(mode="after")
    def _a_target(self) -> Self:
        if self.tpot_ms is None and self.ttft_ms is None:
            raise ValueError("needs tpot_ms, ttft_ms or both")
        return self


class Workload(Part):
    """The load: batches and contexts to answer for, lengths for the end-to-end figures, or a rate of requests."""

    batch: Sizes
    """Sequences decoded together on one replica: 8, [1, 8, 32], '1,8,32', or '1-256' for powers of two."""
    context_tokens: Sizes
    """Tokens in the KV cache of a sequence: 2000, [2000, 32000], '2k,32k' (32ki is 32768)."""
    request_rate: Annotated[float, Field(gt=0)] | None = None
    """Requests per second that one replica gets, at random times; batch and context_tokens may then be left out."""
    concurrency: Annotated[int, Field(ge=1)] | None = None
    """Users who ask again as soon as they are answered, in place of request_rate."""
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of prompt tokens whose cache is already there."""
    lengths: Lengths | None = None
    """How request lengths differ."""
    slo: Slo | None = None
    """Latency target to plan for."""
    max_batch: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Sequences that the engine admits at most; 256 or what fits if left out."""
    chunk_tokens: Annotated[int, Field(ge=64)] = 8192
    """Prompt tokens that a step takes at most (vLLM max_num_batched_tokens, SGLang chunked_prefill_size)."""
    price_per_gpu_hour: Annotated[float, Field(gt=0)] | None = None
    """Price of one GPU for an hour, in any currency; gives cost per million tokens."""
    disaggregated: bool = False
    """Prompts are processed on other GPUs: these only decode."""
    input_tokens: Size | None = None
    """Prompt tokens of a request; with output_tokens it adds end-to-end figures."""
    output_tokens: Size | None = None
    """Generated tokens of a request."""
    domain: Name | None = None
    """What is generated (coding, chat, math, ...), to match acceptance measurements."""
    temperature: Temperature | None = None
    """Sampling temperature, to match acceptance measurements."""

    @model_validator(mode="before")
    @classmethod
    def _from_the_load(cls, given: Any) -> Any:
        """A rate or a number of users says which batches and contexts to show, where they are left out."""
        return values.filled_by_load(given)

    @model_validator(mode="after")
    def _load_is_whole(self) -> Self:
        if self.request_rate is not None and self.concurrency is not None:
            raise ValueError("give request_rate or concurrency, not both")
        loaded = self.request_rate is not None or self.concurrency is not None or self.slo is not None
        traced = self.lengths is not None and self.lengths.trace is not None
        if loaded and not traced and (self.input_tokens is None or self.output_tokens is None):
            raise ValueError("request_rate, concurrency and slo need input_tokens and output_tokens, or lengths.trace")
        return self


class Acceptance(Part):
    """How many draft tokens the target accepts: exactly one of the forms."""

    per_position: Annotated[tuple[float, ...], Field(strict=False, min_length=1, max_length=64)] | None = None
    """Unconditional probability that draft token 1, 2, ... is accepted; never rises."""
    alpha: float | None = None
    """One acceptance probability for every draft token, given that those before it were accepted."""
    acceptance_length: Annotated[
        float | Mapping[int, float],
        PlainValidator(values.lengths, json_schema_input_type=float | dict[int, float]),
    ] | None = None
    """Tokens emitted per step, bonus token included: by draft length {1: 1.7, 3: 2.6}, or one number with draft_len."""
    rate: float | None = None
    """Accepted / drafted tokens at draft_len."""
    histogram: Annotated[
        tuple[int, ...], PlainValidator(values.histogram, json_schema_input_type=list[int] | dict[int, int])
    ] | None = None
    """Steps that accepted 0, 1, 2, ... draft tokens."""
    file: Name | None = None
    """File with measured acceptance: engine log, metrics or a file of `specplan acceptance read`."""
    library: Name | None = None
    """Curve of the shipped library, by id."""
    domain: Annotated[
        str | Mapping[str, float], PlainValidator(values.domains, json_schema_input_type=str | dict[str, float])
    ] | None = None
    """Nearest curve of the shipped library for this kind of text; a mapping mixes kinds by weight."""
    extrapolate: bool = False
    """Weigh drafts beyond the last known acceptance too, by a fitted tail (with a wider range)."""
    draft_len: Annotated[int, Field(ge=1, le=64)] | None = None
    """Draft length at which a single acceptance_length or rate, or an unlabelled file, was measured."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Target steps measured; gives the interval."""
    temperature: Temperature | None = None
    """Sampling temperature of the measurement."""
    source: Name | None = None
    """Where the numbers come from, in your words."""

    @property
    def form(self) -> str:
        """Name of the one form that is given."""
        return next(name for name in ACCEPTANCE_FORMS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [name for name in ACCEPTANCE_FORMS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "nothing"
            raise ValueError(f"must hold exactly one of {', '.join(ACCEPTANCE_FORMS)}; found {found}")
        single = isinstance(self.acceptance_length, float) or self.rate is not None
        if single and self.draft_len is None:
            raise ValueError(f"{given[0]} needs draft_len, the draft length at which it was measured")
        if self.draft_len is not None and not single and self.file is None:
            raise ValueError(f"draft_len belongs to a single acceptance_length, rate or file, not to {given[0]}")
        return self


class MeasuredDraft(Part):
    """Time of all drafting in one step, as measured."""

    draft_len: Annotated[int, Field(ge=1, le=64)]
    """Draft length that ran."""
    seconds: Annotated[float, Field(gt=0, le=10)]
    """Seconds of drafting in one step, such as 0.0021."""


class DraftTree(Part):
    """A draft tree in place of a chain (SGLang: eagle-topk and num-draft-tokens)."""

    branches: Annotated[int, Field(ge=2, le=64)]
    """Tokens kept per level."""
    nodes: Annotated[int, Field(ge=2, le=256)]
    """Tokens verified per sequence and step, the root included."""


class DrafterConfig(Part):
    """One way to propose tokens, to compare with the others and with plain decoding."""

    mechanism: MechanismName
    """How tokens are proposed."""
    name: Name | None = None
    """Label in the answer."""
    model: Reference | None = None
    """The drafter's preset name, path of its config.json, or an inline mapping of the same fields."""
    block: Annotated[int, Field(ge=2, le=64)] | None = None
    """Trained block of DFlash or DSpark, as its checkpoint counts it."""
    acceptance: Annotated[Acceptance | None, BeforeValidator(values.acceptance)] = None
    """Measured acceptance; without it the answer says what each draft length must reach to break even."""
    draft_fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of steps in which a lookup (ngram, suffix) finds something to propose."""
    tree: DraftTree | None = None
    """Draft a tree of this shape; its acceptance is that of the tree by depth. A chain if left out."""
    adaptive: bool = False
    """Verify only what the confidence head trusts (vLLM enable_adaptive_verification; dspark)."""
    measured_draft_s: MeasuredDraft | None = None
    """Measured time of drafting in place of the predicted one: {draft_len: 4, seconds: 0.0021}."""
    draft_len: Annotated[
        tuple[int, ...], PlainValidator(values.draft_lens, json_schema_input_type=int | str | list[int])
    ] | None = None
    """Draft lengths to consider; all up to max_draft_len if left out."""
    weights: WeightDtype | None = None
    """Format of the drafter's weights."""
    tp: Gpus | None = None
    """GPUs that share the drafter; as many as share the target if left out."""


class Observation(Part):
    """Something you measured on the deployment asked about: a plain row, or a row of one drafter at one D."""

    mechanism: Literal[MechanismName, "off"]
    """How tokens were proposed; off is plain decoding without a drafter loaded."""
    drafter: Name | None = None
    """Label of the drafter, where several of one mechanism are configured."""
    draft_len: Annotated[int, Field(ge=0, le=64)] = 0
    """Draft length of the run."""
    batch: Annotated[float, Field(gt=0)]
    """Sequences decoded together on the replica."""
    context_tokens: Size
    """Mean tokens in the KV cache of a sequence during the run."""
    step_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds of a decode step."""
    tpot_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds per output token of a sequence after the first: (end - first token) / (tokens - 1), as engines print
    TPOT. The own prompt is not in it; those of other sequences are, unless `metric: decode` says otherwise."""
    tokens_per_s: Annotated[float, Field(gt=0)] | None = None
    """Output tokens per second of the replica, all sequences together."""
    speedup: Annotated[float, Field(gt=0)] | None = None
    """Rate relative to plain decoding at the same batch and context."""
    draft_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds of drafting within a step, where the engine reports it."""
    verify_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds of the target's pass within a step, where the engine reports it."""
    acceptance_length: Annotated[float, Field(ge=1)] | None = None
    """Tokens per step of this run, bonus token included."""
    metric: Literal["decode", "end_to_end"] | None = None
    """end_to_end: the figure includes prefills of new requests. Left out: tokens_per_s, tpot_s and speedup do where
    workload.input_tokens and output_tokens are given; step_s never does."""

    @property
    def kind(self) -> str:
        """Name of the figure that is given; step_s where draft_s and verify_s stand for it."""
        return next((name for name in OBSERVED if getattr(self, name) is not None), "step_s")

    @property
    def value(self) -> float:
        """The figure."""
        stated = getattr(self, self.kind)
        return float(stated if stated is not None else (self.draft_s or 0.0) + (self.verify_s or 0.0))

    @model_validator(mode="after")
    def _one_figure(self) -> Self:
        given = [name for name in OBSERVED if getattr(self, name) is not None]
        parts = self.draft_s is not None and self.verify_s is not None
        if len(given) > 1 or not (given or parts):
            found = " and ".join(given) if given else "none"
            raise ValueError(f"must hold exactly one of {', '.join(OBSERVED)}; found {found}")
        if self.mechanism == "off":
            if self.draft_len:
                raise ValueError("off drafts nothing: leave out draft_len, or name the mechanism")
            if self.speedup is not None or (self.acceptance_length or 1.0) > 1.0:
                raise ValueError("off is what speedup is measured against, and emits one token per step")
        elif self.draft_len == 0:
            raise ValueError(f"{self.mechanism} needs draft_len, the tokens drafted per step in that run")
        if self.acceptance_length is not None and self.acceptance_length > 1 + self.draft_len:
            raise ValueError(
                f"acceptance_length {self.acceptance_length:g} is impossible at draft_len {self.draft_len}: at most "
                f"{1 + self.draft_len} tokens leave a step"
            )
        return self


class Config(Part):
    """A question to specplan: which mechanism and draft length, on this GPU, for this model and this load?"""

    target: Reference
    """Preset name, path of a Hugging Face config.json, or an inline mapping of the same fields."""
    gpu: Name
    """Profile name (`specplan profiles list`) or path of a profile."""
    parallel: Parallel = Parallel()
    """How one replica is spread over GPUs."""
    dtypes: Dtypes = Dtypes()
    """Number formats."""
    engine: Annotated[Engine, BeforeValidator(values.engine, json_schema_input_type=str | Engine)] = Engine(name="vllm")
    """Serving engine: vllm, 'vllm:0.24.0', or {name, version}."""
    attention_kernel: Name | None = None
    """Attention kernel in place of the engine's default (`specplan profiles show`)."""
    workload: Workload
    """The load."""
    objective: Literal["latency", "throughput"] = "latency"
    """latency: tokens/s/user; throughput: tokens/s/GPU."""
    drafters: Annotated[tuple[DrafterConfig, ...], Field(strict=False, max_length=64)] = ()
    """Ways to propose tokens."""
    max_draft_len: Annotated[int, Field(ge=1, le=64)] = 16
    """Longest draft to consider."""
    observations: Annotated[tuple[Observation, ...], Field(strict=False, max_length=256)] = ()
    """What you measured; moves the model to your system (also --observe FILE)."""
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    """Power cap of each GPU, where it is below the board's own (llama.cpp and MLX only)."""
