"""From a configuration's references to facts: presets, files and profiles are opened here, and nowhere later.

Every room reports faults with a key path of its own; here they get their place in the configuration, and all faults
that can be found together are reported together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.answer.acceptances import library_estimate, resolve_acceptance
from specplan.planner.config.load import LoadedConfig
from specplan.planner.config.schema import Config, DrafterConfig, Reference
from specplan.planner.decide.choose import Objective
from specplan.planner.kernels.profile import load_gpu
from specplan.planner.messages import Fault, InputError, KeyPath, Note
from specplan.planner.models.architecture import CompressedAttention, LatentAttention, Model, SoftmaxAttention
from specplan.planner.models.counts import with_dtypes
from specplan.planner.models.drafter import Drafter
from specplan.planner.models.drafters import candidate_draft_lens, known_drafters, load_drafter, position_note
from specplan.planner.models.reader import load_model, model_names
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.engine_paths import engine_path, shared_constant

ASSUMED_DOMAIN = "chat"     # the hardest common kind of text: gains on others are larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One drafter to weigh, with the draft lengths that it may run (0 = loaded but idle)."""

    drafter: Drafter
    acceptance: Acceptance | None
    draft_lens: tuple[int, ...]
    drafter_tp: int | None = None
    weights_name: str | None = None     # where the drafter's weights are, as stated or published
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
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


class Faults:
    """Faults found so far; `at` turns a room's error into faults at a key path and goes on."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self.loaded = loaded
        self.found: list[Fault] = []

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Collect what the block raises."""
        try:
            yield
        except InputError as error:
            self.found += [self._placed(path, fault) for fault in error.faults]

    def add(self, path: KeyPath, message: str) -> None:
        """One fault of our own."""
        self.found.append(self._placed(path, Fault((), message)))

    def stop(self) -> None:
        """Raise all faults found, if any."""
        if self.found:
            raise InputError(self.found)

    def _placed(self, path: KeyPath, fault: Fault) -> Fault:
        return self.loaded.place(replace(fault, path=(*path, *fault.path)))


def resolve(loaded: LoadedConfig, *, allow_preliminary: bool = False) -> Question:
    """Look up everything that the configuration names; raises one InputError with all faults."""
    config, faults = loaded.config, Faults(loaded)
    found: list[Model] = []
    with faults.at("target"):
        found.append(_dtyped(load_model(_reference(config.target, loaded.base)), config))
    with faults.at("gpu"):
        gpu = load_gpu(_profile(config.gpu, loaded.base), allow_preliminary=allow_preliminary)
    if not found or faults.found:
        raise InputError(faults.found)
    target = found[0]
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
    )
    _check_parallel(config, target, faults)
    options = _options(loaded, target, faults)
    faults.stop()
    notes = [*loaded.notes, *target.notes, *_position_notes(config, target)]
    return Question(
        target=target,
        deployment=deployment,
        options=options,
        batch=config.workload.batch,
        context_tokens=config.workload.context_tokens,
        input_tokens=config.workload.input_tokens,
        output_tokens=config.workload.output_tokens,
        objective=config.objective,
        dtypes={
            "weights": target.weights.ffn if target.weights.experts == target.weights.ffn else target.weights.experts,
            "kv": deployment.kv_dtype,
            "activations": deployment.activation_dtype,
        },
        temperature=config.workload.temperature,
        domain=config.workload.domain,
        notes=tuple(notes),
    )


def _reference(reference: Reference, base: Path) -> Reference:
    """A path is relative to the configuration's folder; a preset name or a mapping stays."""
    if isinstance(reference, str) and reference not in model_names() and _looks_like_path(reference):
        return str(base / Path(reference).expanduser())
    return reference


def _profile(reference: str, base: Path) -> str:
    return str(base / Path(reference).expanduser()) if _looks_like_path(reference) else reference


def _looks_like_path(text: str) -> bool:
    return "/" in text or text.endswith((".json", ".yaml", ".yml")) or text.startswith(("~", "."))


def _dtyped(target: Model, config: Config) -> Model:
    scales = config.dtypes.activation_scales
    static = None if scales is None else scales == "static"
    return with_dtypes(target, config.dtypes.weights, kv=config.dtypes.kv, static_scales=static)


def _check_parallel(config: Config, target: Model, faults: Faults) -> None:
    """Engines refuse groups that do not divide the heads; KV heads may be repeated, but only evenly."""
    parallel = config.parallel
    for name in ("ep", "dp_attention"):
        value = getattr(parallel, name)
        if parallel.tp % value:
            faults.add(("parallel", name), f"{value} must divide tp = {parallel.tp}: these GPUs are among them")
    tp = max(1, parallel.tp // parallel.dp_attention)
    for mixer in {group.layer.mixer for group in target.groups}:
        if not isinstance(mixer, SoftmaxAttention | LatentAttention | CompressedAttention):
            continue
        if mixer.query_heads % tp:
            message = f"{tp} GPUs cannot share the {mixer.query_heads} query heads of {target.name} evenly"
            faults.add(("parallel", "tp"), message)
        elif isinstance(mixer, SoftmaxAttention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
            message = f"{tp} GPUs can neither share nor repeat the {mixer.kv_heads} KV heads of {target.name} evenly"
            faults.add(("parallel", "tp"), message)
    if parallel.pp > target.layers:
        faults.add(("parallel", "pp"), f"{parallel.pp} stages for {target.layers} layers")


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
    return notes


def _options(loaded: LoadedConfig, target: Model, faults: Faults) -> tuple[Option, ...]:
    config = loaded.config
    if not config.drafters:
        return _named_apart([_proposed(drafter, target, config) for drafter in known_drafters(target)])
    found = []
    for index, drafter in enumerate(config.drafters):
        option = _option(loaded, target, drafter, index, faults)
        if option is not None:
            found.append(option)
    return _named_apart(found)


def _option(
    loaded: LoadedConfig, target: Model, stated: DrafterConfig, index: int, faults: Faults
) -> Option | None:
    config, place, before = loaded.config, ("drafters", index), len(faults.found)
    drafters: list[Drafter] = []
    curves: list[Acceptance] = []
    with faults.at(*place):
        drafters.append(
            load_drafter(
                stated.mechanism,
                target,
                model=None if stated.model is None else _reference(stated.model, loaded.base),
                block=stated.block,
                draft_fraction=stated.draft_fraction,
                name=stated.name or (None if stated.model is not None else stated.mechanism),
                weights=stated.weights,
            )
        )
    if stated.acceptance is not None:
        with faults.at(*place, "acceptance"):
            curves.append(resolve_acceptance(stated.acceptance, stated.mechanism, target.name, loaded.base))
    if stated.tp is not None and config.parallel.tp % stated.tp:
        faults.add((*place, "tp"), f"{stated.tp} must divide tp = {config.parallel.tp}: the drafter runs on its GPUs")
    if len(faults.found) > before:
        return None
    drafter, acceptance = drafters[0], curves[0] if curves else None
    options: list[Option] = []
    with faults.at(*place, "draft_len"):
        extrapolate = stated.acceptance is not None and stated.acceptance.extrapolate
        draft_lens, notes = _draft_lens(drafter, acceptance, config, stated.draft_len, extrapolate=extrapolate)
        note = position_note(drafter, max(config.workload.context_tokens))
        notes += [] if note is None else [note]
        options.append(
            Option(
                drafter=drafter,
                acceptance=acceptance,
                draft_lens=draft_lens,
                drafter_tp=stated.tp,
                weights_name=_weights_name(stated.model, drafter),
                notes=tuple(notes),
            )
        )
    return options[0] if options else None


def _draft_lens(
    drafter: Drafter,
    acceptance: Acceptance | None,
    config: Config,
    stated: tuple[int, ...] | None,
    *,
    extrapolate: bool = False,
) -> tuple[tuple[int, ...], list[Note]]:
    """Draft lengths to weigh: what the drafter can do, up to the last D whose acceptance is known."""
    notes: list[Note] = []
    engine = config.engine.name
    allowed = list(candidate_draft_lens(drafter, config.max_draft_len, engine=engine))
    if stated is not None:
        able = candidate_draft_lens(drafter, max(stated), engine=engine)
        outside = [d for d in stated if d not in able]
        if outside:
            raise InputError(f"{drafter.name} cannot draft {', '.join(map(str, outside))} tokens on {engine}")
        allowed = list(stated)
    if acceptance is not None and not extrapolate and allowed and max(allowed) > acceptance.known_draft_len:
        known = acceptance.known_draft_len
        kept = [d for d in allowed if d <= known]
        if not kept:
            raise InputError(f"acceptance is known up to D = {known}, below every draft length that can run")
        if stated is not None or drafter.max_draft_len is None or drafter.max_draft_len > known:
            text = f"{drafter.name}: acceptance is known up to D = {known}; longer drafts are not weighed"
            text += " (`extrapolate: true` weighs them)"
            notes.append(Note("acceptance-cut", text))
        allowed = kept
    return (0, *sorted(set(allowed))), notes


def _proposed(drafter: Drafter, target: Model, config: Config) -> Option:
    """A drafter that the target is known to have, with acceptance from the library where it has any."""
    domain = config.workload.domain or ASSUMED_DOMAIN
    acceptance, notes = None, []
    try:
        acceptance = library_estimate(drafter.mechanism, domain, target.name)
        if config.workload.domain is None:
            text = f"no drafter and no domain given: acceptance as published for {ASSUMED_DOMAIN}; set workload.domain"
            notes.append(Note("domain-assumed", text))
    except InputError as error:
        notes.append(Note("acceptance-unknown", f"{drafter.name}: {error}"))
    draft_lens, cut = _draft_lens(drafter, acceptance, config, None)
    published = drafter.name if "/" in drafter.name and "*" not in drafter.name else _weights_name(None, drafter)
    return Option(
        drafter=drafter, acceptance=acceptance, draft_lens=draft_lens, weights_name=published, notes=(*notes, *cut)
    )


def _weights_name(stated: Reference | None, drafter: Drafter) -> str | None:
    """What an engine would be told to load: a published name, or the name or path that was stated."""
    if drafter.network is not None and drafter.network.weights_name is not None:
        return drafter.network.weights_name
    return stated if isinstance(stated, str) else None


def _named_apart(options: list[Option]) -> tuple[Option, ...]:
    """Give drafters of the same name their mechanism, then a number, so that an answer can point at one of them."""
    found: list[Option] = []
    for option in options:
        name, taken = option.drafter.name, {known.drafter.name for known in found}
        if name in taken:
            name = f"{option.drafter.mechanism} {name}" if option.drafter.mechanism not in name else name
        number, base = 2, name
        while name in taken:
            name, number = f"{base} #{number}", number + 1
        found.append(option if name == option.drafter.name else _renamed(option, name))
    return tuple(found)


def _renamed(option: Option, name: str) -> Option:
    return replace(option, drafter=replace(option.drafter, name=name))
