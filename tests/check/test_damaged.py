"""Damaged files never end in a traceback, and findings stay inside the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.check.catalog import all_rules
from specplan.planner.check.files import kind_of
from specplan.planner.check.fix import fix_files
from specplan.planner.check.run import check_paths, check_text
from specplan.planner.engines.located import HOLE

DATA = Path(__file__).parents[1] / "data" / "check"
TEXTS = [(path.name, path.read_text(encoding="utf-8")) for folder in ("valid", "cases")
         for path in sorted((DATA / folder).rglob("*")) if path.is_file() and path.suffix != ".log"]
TEXTS += [rule.bad for rule in all_rules() if not rule.code.startswith(("SP7", "SP8"))]
SHARDS = ['"', "'", "\\", "{", "}", "[", "]", "${X}", "{{ x }}", "\n", "\t", "#", ":", "- ", "\\\n", "😀", "\r", "$(",
          "`", "<<EOF\n", "|\n", "&a ", "*a", "null", "-1", "99999999999999999999", "1e999", "\ufeff",
          "--speculative-config"]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_text_gives_findings_inside_it_or_none(data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.sampled_from(SHARDS)) + text[at + cut:]
    kind = kind_of(Path(name))
    assert kind is not None
    lines = text.split("\n")
    for finding in check_text(text, name, kind):
        assert HOLE not in finding.message
        assert 1 <= finding.line <= finding.end_line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1
        assert 1 <= finding.end_column <= len(lines[finding.end_line - 1]) + 1


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=300), name=st.sampled_from(["a.sh", "a.yaml", "a.json", ".env", "Dockerfile", "a.mk"]))
def test_any_text_is_read(name: str, text: str) -> None:
    kind = kind_of(Path(name))
    assert kind is not None
    check_text("--speculative-config " + text, name, kind)


def deep(opening: str, closing: str, count: int = 3000) -> str:
    return "speculative_config: " + opening * count + closing * count


@pytest.mark.parametrize(("name", "text"), [
    ("a.json", '{"speculative_config": ' * 3000), ("a.json", "[" * 100_000 + '"--speculative-config"'),
    ("a.yaml", deep("[", "]")), ("a.yaml", deep("{a: ", "}")), ("a.yaml", "speculative_config: &a [*a, *a]\n"),
    ("a.yaml", "a: &a [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 or ''}, *a{n - 1 or ''}]\n" for n in range(1, 40))
     + "speculative_config: *a39\n"),
    ("a.sh", "vllm serve m --speculative-config '" + '{"a":' * 5000), ("a.sh", "(" * 50_000 + "--speculative-config"),
    ("a.sh", "sh -c '" * 500 + "vllm serve --speculative-config x"), ("a.sh", "$(" * 5000 + " --speculative-config"),
    ("a.sh", "vllm serve m --speculative-config " + "x" * 500_000),
])
def test_deep_and_looping_files_end(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    report = check_paths([tmp_path])
    assert report.files == 1


@pytest.mark.parametrize("example", [rule.bad for rule in all_rules() if "SP006" <= rule.code <= "SP007"],
                         ids=lambda example: str(example[0]))
def test_mending_twice_changes_nothing_more(tmp_path: Path, example: tuple[str, str]) -> None:
    path = tmp_path / example[0]
    path.write_text(example[1], encoding="utf-8")
    assert fix_files(check_paths([path]).findings)
    mended = path.read_text(encoding="utf-8")
    assert mended != example[1]
    fix_files(check_paths([path]).findings)
    assert path.read_text(encoding="utf-8") == mended
