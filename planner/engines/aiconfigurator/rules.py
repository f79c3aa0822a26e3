"""What can be wrong with aiconfigurator's speculation settings. Source: aiconfigurator 0.12.0, cli/main.py."""

from __future__ import annotations

from collections.abc import Iterator

from specplan.planner.engines.launch import Launch
from specplan.planner.engines.rule import Context, Hit, Rule, at
from specplan.planner.engines.rule_examples import example


def _accepted(launch: Launch, context: Context) -> Iterator[Hit]:  # noqa: ARG001
    length, accepted = launch.number("nextn"), launch.get("nextn_accepted")
    if length is not None and length < 0:
        yield at(launch.settings["nextn"], f"nextn is 0 or more, or auto; not {length}")
    if length and not launch.has("nextn_accepted", "nextn_accept_rates") and launch.complete:
        yield at(launch.settings["nextn"], "nextn_accepted is required with it: the accepted drafts per step, AL - 1")
    if isinstance(accepted, int | float) and length is not None:
        if accepted < 0:
            yield at(launch.settings["nextn_accepted"], "accepted drafts are 0 or more")
        elif accepted > length:
            hint = f"; an acceptance length of {accepted:g} is {accepted - 1:g} here" if accepted <= length + 1 else ""
            yield at(launch.settings["nextn_accepted"], f"at most nextn = {length} drafts can be accepted, not "
                                                        f"{accepted:g}{hint}")


RULES = (
    Rule(code="SP521", name="aic-accepted", severity="error",
         summary="nextn_accepted is missing, or is an acceptance length.",
         why="It counts accepted drafts only (0 to nextn); the acceptance length counts the bonus token too.",
         fix="nextn_accepted = AL - 1.",
         source="aiconfigurator 0.12.0, cli/main.py (--nextn-accepted); ai-dynamo/dynamo#10197",
         bad=example("search.sh", "aiconfigurator cli default --model-path deepseek-ai/DeepSeek-V3 --nextn 3 "
                                  "--nextn-accepted 3.4\n"),
         good=example("search.sh", "aiconfigurator cli default --model-path deepseek-ai/DeepSeek-V3 --nextn 3 "
                                   "--nextn-accepted 2.4\n"), check=_accepted),
)
