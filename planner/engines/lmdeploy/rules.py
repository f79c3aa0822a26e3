"""What can be wrong with an LMDeploy command. Source: LMDeploy 0.18.0, lmdeploy/cli/utils.py and messages.py."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at, at_name
from specplan.planner.engines.rule_examples import example

_WIDTH, _BLOCK = "--speculative-num-draft-tokens", "--speculative-dflash-block-size"


def _width(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    steps, width = launch.number("--speculative-num-steps"), launch.number(_WIDTH)
    if steps is not None and width is not None and width == steps + 1:
        yield at(launch.settings[_WIDTH], f"counts drafts in LMDeploy, not verify rows as in SGLang: for D = {steps} "
                                          f"it is {steps}, here it drafts {width}")


def _backend(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    if launch.text("--backend") == "turbomind" and launch.has("--speculative-algorithm"):
        yield at(launch.settings["--backend"], "speculation is implemented in the pytorch backend")


def _no_drafter(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    kind = launch.text("--speculative-algorithm")
    if kind in {"eagle", "eagle3", "dflash"} and launch.complete and not launch.has("--speculative-draft-model"):
        yield at(launch.settings["--speculative-algorithm"], f"{kind} needs --speculative-draft-model")
    if launch.has(_WIDTH) and not launch.has("--speculative-algorithm") and launch.complete:
        yield at_name(launch.settings[_WIDTH], "has no effect without --speculative-algorithm")


def _block(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    block, width = launch.number(_BLOCK), launch.number(_WIDTH)
    kind = launch.text("--speculative-algorithm")
    if block is None:
        return
    if (kind is not None and kind != "dflash") or (kind is None and launch.complete):
        yield at_name(launch.settings[_BLOCK], "is refused without --speculative-algorithm dflash")
    elif block < 2:
        yield at(launch.settings[_BLOCK], f"counts the anchor: at least 2, not {block}")
    elif width is not None and width != block - 1:
        yield at(launch.settings[_WIDTH], f"{_BLOCK} {block} goes before: {block - 1} tokens are drafted, not {width}")


def _serve(flags: str) -> tuple[str, str]:
    return "serve.sh", f"lmdeploy serve api_server org/target --backend pytorch {flags}\n"


_EAGLE = "--speculative-algorithm eagle3 --speculative-draft-model org/eagle3 "
_DOCS = "LMDeploy 0.18.0, docs/en/advance/spec_decoding.md"
RULES = (
    Rule(code="SP501", name="lmdeploy-width", severity="warning",
         summary="SGLang's numbers on LMDeploy.",
         why="Both have --speculative-num-draft-tokens: SGLang counts the root, LMDeploy does not.",
         fix="Give D.", source="LMDeploy 0.18.0, cli/utils.py (maps to num_speculative_tokens)",
         bad=_serve(_EAGLE + "--speculative-num-steps 3 --speculative-num-draft-tokens 4"),
         good=_serve(_EAGLE + "--speculative-num-draft-tokens 3"), check=_width),
    Rule(code="SP502", name="lmdeploy-backend", severity="error",
         summary="Speculation with the TurboMind backend.",
         why="It is implemented in the PyTorch backend.", fix="--backend pytorch.", source=_DOCS,
         bad=example("serve.sh", "lmdeploy serve api_server org/target --backend turbomind " + _EAGLE + "\n"),
         good=_serve(_EAGLE), check=_backend),
    Rule(code="SP503", name="lmdeploy-no-drafter", severity="error",
         summary="An algorithm without its drafter, or a length without an algorithm.",
         why="eagle, eagle3 and dflash load a drafter; without an algorithm nothing drafts.",
         fix="Add the missing flag.", source=_DOCS,
         bad=_serve("--speculative-algorithm eagle3 --speculative-num-draft-tokens 3"),
         good=_serve(_EAGLE + "--speculative-num-draft-tokens 3"), check=_no_drafter),
    Rule(code="SP504", name="lmdeploy-dflash-block", severity="error",
         summary="A DFlash block size for another algorithm, too small, or against the number of drafts.",
         why="It counts the anchor and goes before --speculative-num-draft-tokens; other algorithms refuse it.",
         fix="Give one of the two; the block size is D + 1.",
         source="LMDeploy 0.18.0, messages.py, SpeculativeConfig.__post_init__; cli/utils.py",
         bad=_serve("--speculative-algorithm dflash --speculative-draft-model org/dflash "
                    "--speculative-dflash-block-size 8 --speculative-num-draft-tokens 8"),
         good=_serve("--speculative-algorithm dflash --speculative-draft-model org/dflash "
                     "--speculative-dflash-block-size 8"), check=_block),
)
