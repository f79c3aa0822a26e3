"""Every rule speaks about its bad example and is silent on the good one; the documentation page is made of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specplan.planner.check.catalog import all_rules, anchor, explain, page, rule_named
from specplan.planner.check.options import Options
from specplan.planner.check.plan_rules import Baseline, Planner
from specplan.planner.check.report import Report
from specplan.planner.check.run import check_paths
from specplan.planner.engines.rule import Rule
from specplan.planner.messages import InputError

ROOT = Path(__file__).parents[2]
LOSES = {3: 0.002, 16: 0.2}
WITH_A_PLAN = {     # what rules about plans need besides the file
    "SP601": Options(planner=Planner(loss_of=lambda d, _kind, _batch: LOSES.get(d, 0.5))),
    "SP602": Options(planner=Planner(loss_of=lambda d, _kind, _batch: 0.0 if d == 0 else LOSES[d])),
    "SP603": Options(planner=Planner(loss_of=lambda _d, _kind, _batch: 0.0, tile=(8, 64))),
    "SP604": Options(baseline=Baseline(speculate=True, mechanism="ngram", draft_len=3, draft_lens=None, tiers=(),
                                       file="plan.json")),
}


def check_example(tmp_path: Path, rule: Rule, example: tuple[str, str]) -> Report:
    name, content = example
    (tmp_path / name).write_text(content, encoding="utf-8")
    return check_paths([tmp_path / name], WITH_A_PLAN.get(rule.code))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_rule_finds_its_bad_example(tmp_path: Path, rule: Rule) -> None:
    report = check_example(tmp_path, rule, rule.bad)
    found = [finding for finding in report.findings if finding.code == rule.code]
    assert found
    assert not report.unreadable
    assert found[0].severity == rule.severity
    assert report.exit_code == (0 if rule.severity == "note" else 1)
    assert {finding.code for finding in report.findings} <= {rule.code, "SP002"}, "other rules speak too"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_no_rule_finds_the_good_example(tmp_path: Path, rule: Rule) -> None:
    report = check_example(tmp_path, rule, rule.good)
    assert report.findings == []
    assert report.exit_code == 0


def test_rules_have_unique_codes_and_names_and_a_source() -> None:
    rules = all_rules()
    for values in ([rule.code for rule in rules], [rule.name for rule in rules]):
        assert len(set(values)) == len(values)
    assert all(rule.source and rule.fix and rule.why for rule in rules)
    labels = [found for rule in rules for found in re.findall(r"\b[A-Z]\d\d\b", f"{rule.why} {rule.fix} {rule.source}")]
    assert set(labels) == set(), "a source is something that a reader can open"


def test_page_in_the_documentation_is_that_of_the_rules() -> None:
    assert (ROOT / "docs" / "check.md").read_text(encoding="utf-8") == page(), (
        "run: python -m specplan.planner.check.catalog > docs/check.md")


def test_every_rule_has_an_anchor_on_the_page() -> None:
    headings = {_anchor_of(line) for line in page().splitlines() if line.startswith("### ")}
    assert {anchor(rule).split("#")[1] for rule in all_rules()} <= headings


def _anchor_of(heading: str) -> str:
    """As GitHub makes it: lower case, blanks to hyphens, no other punctuation."""
    text = heading.removeprefix("### ").lower().replace(" ", "-")
    return "".join(char for char in text if char.isalnum() or char in "-_")


@pytest.mark.parametrize("name", ["SP012", "sp012", "beyond-trained-block"])
def test_explain_takes_codes_and_names(name: str) -> None:
    text = explain(name)
    rule = rule_named("SP012")
    assert text.startswith("SP012 beyond-trained-block (warning)\n")
    for part in (rule.summary, rule.why, rule.fix, rule.source, "Found in", "Clean"):
        assert part in text


@pytest.mark.parametrize(("name", "nearest"), [("SP0112", "SP012"), ("beyond-traind-block", "beyond-trained-block")])
def test_explain_names_the_nearest_rule(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=nearest):
        explain(name)

