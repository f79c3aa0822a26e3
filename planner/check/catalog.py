"""All rules, in the order of their codes, and the page that documents them."""

from __future__ import annotations

import importlib
from functools import cache

from specplan.planner.engines.dialects import ENGINES
from specplan.planner.engines.rule import Rule
from specplan.planner.messages import InputError, nearest

_SHARED = tuple("specplan.planner.engines." + name for name in (
    "spelling_rules", "value_rules", "length_rules", "drafter_rules", "load_rules", "graph_rules"))
_WHOLE = ("specplan.planner.check.plan_rules", "specplan.planner.check.file_rules")
_HEADINGS = (("SP0", "All engines"), ("SP1", "vLLM"), ("SP2", "SGLang"), ("SP3", "TensorRT-LLM"), ("SP4", "llama.cpp"),
             ("SP50", "LMDeploy"), ("SP51", "ONNX Runtime GenAI"), ("SP52", "aiconfigurator"),
             ("SP6", "Against a plan or a model"), ("SP7", "Server logs"), ("SP8", "specplan's own configuration"))


@cache
def shared_rules() -> tuple[Rule, ...]:
    """Rules that look at the launches of every engine."""
    return tuple(rule for module in _SHARED for rule in importlib.import_module(module).RULES)


@cache
def engine_rules(engine: str) -> tuple[Rule, ...]:
    """Rules of one engine."""
    return tuple(importlib.import_module(f"specplan.planner.engines.{engine}.rules").RULES)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    rules = [*shared_rules(), *(rule for engine in ENGINES for rule in engine_rules(engine)),
             *(rule for module in _WHOLE for rule in importlib.import_module(module).RULES)]
    return tuple(sorted(rules, key=lambda rule: rule.code))


def rule_named(name: str) -> Rule:
    """The rule with this code or name; InputError with the nearest one."""
    for rule in all_rules():
        if name.upper() == rule.code or name.lower() == rule.name:
            return rule
    known = [rule.code for rule in all_rules()] + [rule.name for rule in all_rules()]
    raise InputError(f"'{name}' is not a rule{nearest(name, known)}; docs/check.md lists them")


def explain(name: str) -> str:
    """A page about one rule: what it finds, why it matters, what to do, what it rests on, and examples."""
    rule = rule_named(name)
    return (f"{rule.code} {rule.name} ({rule.severity})\n\n{rule.summary}\n\nWhy: {rule.why}\n\nFix: {rule.fix}\n\n"
            f"Source: {rule.source}\n\nFound in {rule.bad[0]}:\n{_indented(rule.bad[1])}\n"
            f"Clean:\n{_indented(rule.good[1])}")


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))


def anchor(rule: Rule) -> str:
    """Where the rule is documented."""
    return f"docs/check.md#{rule.code.lower()}-{rule.name}"


def page() -> str:
    """docs/check.md."""
    lines = [_INTRODUCTION, "## Rules\n"]
    done: set[str] = set()
    for prefix, heading in _HEADINGS:
        rules = [rule for rule in all_rules() if rule.code.startswith(prefix) and rule.code not in done]
        done |= {rule.code for rule in rules}
        if not rules:
            continue
        lines += [f"### {heading}\n", "| code | name | severity | finds |", "|---|---|---|---|"]
        lines += [f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.name} | {rule.severity} | "
                  f"{rule.summary} |"
                  for rule in rules]
        lines.append("")
    lines.append("## Each rule\n")
    for rule in all_rules():
        lines += [f"### {rule.code} {rule.name}\n", f"{rule.summary} ({rule.severity})\n", f"{rule.why}\n",
                  f"**Fix.** {rule.fix}\n", f"**Source.** {rule.source}.\n",
                  f"Found, in `{rule.bad[0]}`:\n", _fenced(rule.bad), "Clean:\n", _fenced(rule.good)]
    return "\n".join(lines).rstrip() + "\n"


def _fenced(example: tuple[str, str]) -> str:
    language = example[0].rsplit(".", 1)[-1].replace("log", "text")
    return f"```{language}\n{example[1].rstrip()}\n```\n"


_INTRODUCTION = """\
# specplan check

`specplan check PATHS...` reads configurations of vLLM, SGLang, TensorRT-LLM, llama.cpp, LMDeploy, ONNX Runtime GenAI
and aiconfigurator, wherever they stand: shell scripts, Dockerfiles, systemd units, docker-compose, Kubernetes
manifests, Helm values and templates, engine YAML and JSON, environment files. It starts no server and needs no GPU.

This page is generated from the rules: `python -m specplan.planner.check.catalog > docs/check.md`.

- **Exit codes**: 0 clean (notes alone are clean), 1 findings, 2 a named path that cannot be read.
- **Silence a finding** with its reason, on the line, on a line of its own above the configuration, or for a file:
  `# specplan: ignore[SP019] measured: the tree wins for this drafter`, `# specplan: ignore-file[SP110] benchmark only`.
- **Settings** in `[tool.specplan]` of pyproject.toml or in specplan.toml: `select`, `ignore`, `exclude`,
  `per-file-ignores`, `fail-on`, `max-loss`, `batch`, `temperature`, `engines` (`{vllm = "0.33"}`). A code may be cut
  short: `SP1` is all of vLLM's rules.
- **Templates**: what `{{ ... }}`, `${VAR}`, `$(VAR)` or `{name}` fills in is unknown, neither checked nor guessed
  (SP005 names it). Lines of templates that YAML cannot read are masked.
- **With a model**: `--model cfg.yaml` adds what the planner says about the draft length at that load (SP601 to SP603;
  `--max-loss 5%` lets smaller losses pass), `--baseline plan.json` what a stored plan says (SP604). CI: [ci.md](ci.md).
- **--fix** mends what has one meaning only, shows the difference, and replaces each file in one step or not at all.
- **Releases**: rules speak for the newest release, or for the one that an image tag (`vllm/vllm-openai:v0.33.0`), a pin
  (`vllm==0.33.0`) or `engines` names.
"""


if __name__ == "__main__":
    print(page(), end="")       # noqa: T201
