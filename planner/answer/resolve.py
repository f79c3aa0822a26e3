"""From a configuration's references to facts: presets, files and profiles are opened here, and nowhere later.

Every room reports faults with a key path of its own; here they get their place in the configuration, and all faults
that can be found together are reported together.
"""

from __future__ import annotations

from specplan.planner.answer.loads import Load, load_of
from specplan.planner.answer.observations import observe
from specplan.planner.answer.options import Option, options_of
from specplan.planner.answer.places import Faults, model_reference, profile_reference
from specplan.planner.config.load import LoadedConfig
from specplan.planner.config.schema import Config
from specplan.planner.decide.anchor import Anchoring
from specplan.planner.decide.choose import Objective
from specplan.planner.fact import fact
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import InputError, Note, nearest
from specplan.planner.models.architecture import CompressedAttention, LatentAttention, Model, SoftmaxAttention
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import (
    ENGINE_ALIASES,
    engine_names,
    engine_path,
    path_names,
    shared_constant,
)
from specplan.planner.step.kernels_used import kernels_used


@fact
class Question:
    """A configuration with everything looked up."""

    target: Model
    deployment: Deployment
    options: tuple[Option, ...]
    batch: tuple[int, ...]
    context_tokens: tuple[int, ...]
    input_tokens: int | None
    output_tokens: int | None
    objective: Objective
    dtypes: dict[str, str]
    temperature: float | None = None
    domain: str | None = None
    notes: tuple[Note, ...] = ()
    anchoring: Anchoring | None = None      # multipliers from the user's own measurements
    prefix_hit: float = 0.0
    disaggregated: bool = False     # prompts are processed on other GPUs
    load: Load | None = None
    checkpoint_dtypes: tuple[str, str | None] = ("bf16", None)     # weights and KV cache, before `dtypes` changes them
    engine_named: tuple[str, str | None] = ("vllm", None)       # as asked: name and release; the path may be generic


def resolve(loaded: LoadedConfig, *, allow_preliminary: bool = False) -> Question:
    """Look up everything that the configuration names; raises one InputError with all faults."""
    config, faults = loaded.config, Faults(loaded)
    found: list[Model] = []
    with faults.at("target"):
        checkpoint = load_model(model_reference(config.target, loaded.base))
        found.append(_dtyped(checkpoint, config))
    with faults.at("gpu"):
        gpu = load_gpu(profile_reference(config.gpu, loaded.base), allow_preliminary=allow_preliminary)
    if not found or faults.found:
        raise InputError(faults.found)
    target = found[0]
    notes: list[Note] = []
    with faults.at("engine"):
        notes += _engine_notes(config.engine.name, config.engine.version)
    if config.workload.domain is not None:
        from specplan.planner.acceptance.library import check_domain  # noqa: PLC0415 - only where one is given

        with faults.at("workload", "domain"):
            check_domain(config.workload.domain)
    path = engine_path(config.engine.name, config.engine.version)
    deployment = Deployment(
        gpu=gpu,
        path=path,
        tp=config.parallel.tp,
        ep=config.parallel.ep,
        dp_attention=config.parallel.dp_attention,
        pp=config.parallel.pp,
        kv_dtype=config.dtypes.kv or target.kv_dtype or "bf16",
        activation_dtype=config.dtypes.activations or "bf16",
        attention_kernel=config.attention_kernel,
        moe_skew=shared_constant("moe_skew").value,
        power_limit_w=config.power_limit_w,
    )
    _check_parallel(config, target, faults)
    with faults.at():
        kernels_used(target, deployment)    # kernels that this engine lacks on this GPU are refused here
    options = options_of(loaded, target, faults)
    faults.stop()
    observed = observe(config, target, deployment, options, faults)
    options = observed.options
    load = load_of(config, loaded.base, options, faults)
    faults.stop()
    notes += [*loaded.notes, *target.notes, *_position_notes(config, target)]
    return Question(
        target=target,
        deployment=deployment,
        options=options,
        batch=config.workload.batch,
        context_tokens=config.workload.context_tokens,
        input_tokens=config.workload.input_tokens if load is None else round(load.input_tokens),
        output_tokens=config.workload.output_tokens if load is None else round(load.output_tokens),
        objective=config.objective,
        checkpoint_dtypes=(_main_format(checkpoint), checkpoint.kv_dtype),
        dtypes={
            "weights": _main_format(target),
            "kv": deployment.kv_dtype,
            "activations": deployment.activation_dtype,
        },
        temperature=config.workload.temperature,
        domain=config.workload.domain,
        notes=(*observed.notes, *notes),
        anchoring=observed.anchoring,
        prefix_hit=config.workload.prefix_hit,
        disaggregated=config.workload.disaggregated,
        load=load,
        engine_named=(config.engine.name, config.engine.version),
    )


def _main_format(target: Model) -> str:
    """Format of most of the weights: of the experts where they differ from the dense parts."""
    return target.weights.ffn if target.weights.experts == target.weights.ffn else target.weights.experts


def _dtyped(target: Model, config: Config) -> Model:
    scales = config.dtypes.activation_scales
    static = None if scales is None else scales == "static"
    return with_dtypes(target, config.dtypes.weights, kv=config.dtypes.kv, static_scales=static)


OLLAMA = ("Ollama runs models by llama.cpp: planned with llama.cpp's costs; which drafter and draft length it lets you "
          "set is up to its release")


def _engine_notes(name: str, version: str | None) -> list[Note]:
    """An engine without constants of its own is priced by the middle of the others; a misspelt one is a fault.

    A release that is newer than all known ones is priced by the newest.
    """
    known = {*engine_names(), *ENGINE_ALIASES, *path_names()}
    if name.lower() in known:
        notes = [Note("engine-as", OLLAMA)] if name.lower() == "ollama" else []
        if version is None:
            return notes
        from specplan.planner.engines.dialects import check_version, newer_note  # noqa: PLC0415 - only with a version

        check_version(name, version)
        newer = newer_note(name, version)
        return [*notes, *([] if newer is None else [newer])]
    close = nearest(name, known)
    if close:
        raise InputError(f"no engine named '{name}'{close} (`generic` stands for any other)")
    text = f"engine {name} has no fixed costs of its own: those of a generic engine, the middle of the known ones"
    return [Note("engine-unknown", text)]


def _check_parallel(config: Config, target: Model, faults: Faults) -> None:
    """Engines refuse groups that do not divide the heads; KV heads may be repeated, but only evenly."""
    parallel, slo = config.parallel, config.workload.slo
    places = [(parallel.tp, ("parallel", "tp")), *((tp, ("workload", "slo", "tp")) for tp in (slo.tp if slo else ()))]
    for tp, place in places:
        for name in ("ep", "dp_attention"):
            value = getattr(parallel, name)
            if tp % value:
                at = ("parallel", name) if place[0] == "parallel" else place
                faults.add(at, f"{value} must divide tp = {tp}: these GPUs are among them")
        for message in head_faults(target, max(1, tp // parallel.dp_attention)):
            faults.add(place, message)
    if parallel.pp > target.layers:
        faults.add(("parallel", "pp"), f"{parallel.pp} stages for {target.layers} layers")


def head_faults(target: Model, tp: int) -> list[str]:
    """Why `tp` GPUs cannot share the attention heads: they must divide; KV heads may be repeated, but only evenly."""
    found = []
    for mixer in {group.layer.mixer for group in target.groups}:
        if not isinstance(mixer, SoftmaxAttention | LatentAttention | CompressedAttention):
            continue
        if mixer.query_heads % tp:
            found.append(f"{tp} GPUs cannot share the {mixer.query_heads} query heads of {target.name} evenly")
        elif isinstance(mixer, SoftmaxAttention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
            text = f"{tp} GPUs can neither share nor repeat the {mixer.kv_heads} KV heads of {target.name} evenly"
            found.append(text)
    return found


def _position_notes(config: Config, target: Model) -> list[Note]:
    longest = max(config.workload.context_tokens)
    notes = []
    if target.max_positions is not None and longest > target.max_positions:
        text = f"context of {longest} tokens is beyond the {target.max_positions} positions of {target.name}"
        notes.append(Note("context-beyond-model", text))
    if config.parallel.pp > 1:
        text = (
            "pipeline stages are priced for latency (one batch in flight); engines restrict speculation under "
            "pipeline parallelism: check yours before planning on it"
        )
        notes.append(Note("pipeline-parallel", text))
    slo = config.workload.slo
    if slo is not None and slo.ttft_ms is not None and config.workload.disaggregated:
        text = "workload.slo.ttft_ms is not planned for: other GPUs process prompts and give the first token"
        notes.append(Note("ttft-elsewhere", text))
    return notes
