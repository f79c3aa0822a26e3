"""What can be wrong with a genai_config.json that speculates. Source: microsoft/onnxruntime-genai, src/config.cpp and
src/python/py/models/README.md (2026).
"""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch, whole
from specplan.planner.engines.onnxruntime_genai.configuration import DEFAULT_DRAFT_TOKENS, DRAFTERS
from specplan.planner.engines.rule import Context, Hit, Rule, at

_LENGTH = "speculative.max_draft_tokens"


def _exported(launch: Launch) -> int | None:
    """Tokens that the exported drafter proposes per step."""
    for name in DRAFTERS:
        section = launch.get("model." + name)
        if isinstance(section, dict) and whole(section.get("num_draft_tokens")) is not None:
            return whole(section["num_draft_tokens"])
    return None


def _width(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    exported, used = _exported(launch), launch.number(_LENGTH)
    if exported is None:
        return
    if used is None and not launch.has(_LENGTH):
        place = next(launch.settings["model." + name] for name in DRAFTERS if launch.has("model." + name))
        yield at(place, f"the exported drafter proposes {exported}, but max_draft_tokens is unset: "
                        f"{DEFAULT_DRAFT_TOKENS} of them are verified, a width that nobody measured")
    elif used is not None and used > exported:
        yield at(launch.settings[_LENGTH], f"the exported drafter proposes {exported} tokens, {used} cannot be "
                                           "verified")


def _sampling(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.flag("search.do_sample") and launch.has("model.dflash2", "model.dspark"):
        yield at(launch.settings["search.do_sample"], "a block drafter drafts for greedy turns only: with do_sample "
                                                      "true there are silently no drafts")


def _config(drafter: str, speculative: str, search: str = '"do_sample": false') -> tuple[str, str]:
    return "genai_config.json", ('{"model": {"dflash2": ' + drafter + '}, "search": {' + search + "}" +
                                 (', "speculative": {' + speculative + "}" if speculative else "") + "}\n")


_DRAFTER = '{"filename": "dflash2.onnx", "num_draft_tokens": 7}'
_README = "microsoft/onnxruntime-genai, src/python/py/models/README.md, Build a DFlash 2 Block Drafter"
RULES = (
    Rule(code="SP511", name="ort-width", severity="warning",
         summary="The verified width is not the one the drafter was exported for.",
         why="num_draft_tokens fixes the exported block; max_draft_tokens is what is verified, 4 when unset.",
         fix="Set max_draft_tokens, at most num_draft_tokens.",
         source=_README + "; microsoft/onnxruntime-genai#2559; src/config.cpp",
         bad=_config(_DRAFTER, ""), good=_config(_DRAFTER, '"max_draft_tokens": 7'), check=_width),
    Rule(code="SP512", name="ort-sampling", severity="warning",
         summary="Sampling with a block drafter.",
         why="The engine asks the drafter only in greedy turns.", fix="do_sample: false.",
         source="microsoft/olive-recipes, Qwen3.8-27B ('forces search.do_sample=false')",
         bad=_config(_DRAFTER, '"max_draft_tokens": 7', '"do_sample": true'),
         good=_config(_DRAFTER, '"max_draft_tokens": 7'), check=_sampling),
)
