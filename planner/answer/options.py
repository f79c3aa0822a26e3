"""The drafters of a question: those that are configured, or those that the target is known to have."""

from __future__ import annotations

from dataclasses import replace

from specplan.planner.acceptance.curve import Acceptance
from specplan.planner.answer.acceptances import DraftTime, library_estimate, resolve_acceptance
from specplan.planner.answer.draft_times import with_draft_time
from specplan.planner.answer.places import Faults, model_reference
from specplan.planner.config.load import LoadedConfig
from specplan.planner.config.schema import Config, DrafterConfig, Reference
from specplan.planner.fact import fact
from specplan.planner.messages import InputError, Note
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafter import Drafter, Tree
from specplan.planner.models.drafters import candidate_draft_lens, known_drafters, load_drafter, position_note

ASSUMED_DOMAIN = "chat"     # the hardest common kind of text: gains on others are larger


@fact
class Option:
    """One drafter to weigh, with the draft lengths that it may run (0 = loaded but idle)."""

    drafter: Drafter
    acceptance: Acceptance | None
    draft_lens: tuple[int, ...]
    drafter_tp: int | None = None
    weights_name: str | None = None     # where the drafter's weights are, as stated or published
    notes: tuple[Note, ...] = ()


def options_of(loaded: LoadedConfig, target: Model, faults: Faults) -> tuple[Option, ...]:
    """All drafters to weigh, with names that tell them apart; what cannot be used goes to `faults`."""
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
    curves: list[tuple[Acceptance, DraftTime | None]] = []
    with faults.at(*place):
        drafters.append(
            load_drafter(
                stated.mechanism,
                target,
                model=None if stated.model is None else model_reference(stated.model, loaded.base),
                block=stated.block,
                draft_fraction=stated.draft_fraction,
                name=stated.name or (None if stated.model is not None else stated.mechanism),
                weights=stated.weights,
                tree=None if stated.tree is None else Tree(branches=stated.tree.branches, nodes=stated.tree.nodes),
                adaptive=stated.adaptive,
            )
        )
    if stated.acceptance is not None:
        with faults.at(*place, "acceptance"):
            curves.append(resolve_acceptance(stated.acceptance, stated.mechanism, target.name, loaded.base))
    if stated.tp is not None and config.parallel.tp % stated.tp:
        faults.add((*place, "tp"), f"{stated.tp} must divide tp = {config.parallel.tp}: the drafter runs on its GPUs")
    if len(faults.found) > before:
        return None
    acceptance, found = curves[0] if curves else (None, None)
    options: list[Option] = []
    drafter = drafters[0]
    measured: tuple[Note, ...] = ()
    with faults.at(*place):
        drafter, measured = with_draft_time(drafter, stated.measured_draft_s, found, config.engine.name)
    with faults.at(*place, "draft_len"):
        extrapolate = stated.acceptance is not None and stated.acceptance.extrapolate
        draft_lens, notes = _draft_lens(drafter, acceptance, config, stated.draft_len, extrapolate=extrapolate)
        note = position_note(drafter, max(config.workload.context_tokens))
        notes += [*measured, *([] if note is None else [note])]
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
