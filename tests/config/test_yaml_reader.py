"""Strict YAML: the rules of the 1.2 core schema, places of faults, and files that are refused."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.planner.config.text_file import MAX_BYTES
from specplan.planner.config.yaml_reader import load_data, parse_yaml, read_yaml
from specplan.planner.messages import InputError


def value(text: str) -> Any:
    return parse_yaml(text).value


def complaint(text: str, *, file: str = "cfg.yaml", as_json: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, file=file, as_json=as_json)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("off", "off"), ("no", "no"), ("on", "on"), ("yes", "yes"), ("y", "y"), ("true", True), ("False", False),
        ("010", 10), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"), ("1:30", "1:30"), ("0b1", "0b1"), ("+3", 3),
        ("4.8e12", 4.8e12), ("1e-6", 1e-6), ("1e5", 1e5), (".5", 0.5), ("1.", 1.0), ("-2.5E+3", -2500.0),
        ("~", None), ("null", None), ("", None), ("2026-01-01", "2026-01-01"), ("<<", "<<"), ("=", "="), ("-", "-"),
        ("'1'", "1"), ('"true"', "true"), ("!!str 5", "5"), ("32k", "32k"), (".inf", math.inf), ("-.INF", -math.inf),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(written: str, read: Any) -> None:
    if written == "-":
        written = "'-'"
    found = value(f"key: {written}")["key"]
    assert found == read
    assert type(found) is type(read)


def test_nan_is_read_and_left_to_the_schema_to_refuse() -> None:
    assert math.isnan(value("a: .nan")["a"])


def test_keys_keep_their_type() -> None:
    assert value("{1: a, no: b, '2': c}") == {1: "a", "no": "b", "2": "c"}


def test_every_duplicate_key_is_reported_with_both_lines() -> None:
    assert complaint("a: 1\nb: {c: 1,\n  c: 2}\nx:\n- {d: 1}\n- {e: 1, e: 1}\na: 3\n").splitlines() == [
        "cfg.yaml:3: b.c: duplicate key; first on line 2",
        "cfg.yaml:6: x[1].e: duplicate key; first on line 6",
        "cfg.yaml:7: a: duplicate key; first on line 1",
    ]


def test_lines_of_keys_items_and_missing_children() -> None:
    document = parse_yaml("a:\n  b: 1\n  c:\n  - x\n  - {y: 2,\n     z: 3}\n")
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "c", 0)) == 4
    assert document.line(("a", "c", 1, "z")) == 6
    assert document.line(("a", "c", 1, "missing", "deeper")) == 5
    assert document.line(("nowhere",)) == 1


def test_aliases_are_values_and_small() -> None:
    assert value("a: &x [1, 2]\nb: *x\nc: &y 5\nd: *y\n") == {"a": [1, 2], "b": [1, 2], "c": 5, "d": 5}


def test_billion_laughs_is_refused_at_once() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    start = time.perf_counter()
    assert "aliases stand for more than" in complaint(text)
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &x [*x]", "alias '*x' has no finished '&x' before it"),
        ("a: *nobody", "alias '*nobody'"),
        ("[" * 200 + "]" * 200, "nested more than 100 deep"),
        ("[" * 50_000, "maximum nesting depth"),
        ("a: [1, 2", "not valid YAML"),
        ("a: b: c", "cfg.yaml:1: is not valid YAML"),
        ("\ta: 1", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "cfg.yaml:2: holds several documents"),
        ("", "cfg.yaml: is empty"),
        ("# only a comment\n", "is empty"),
        ("---\n...\n", "must be"),
        ("? [a, b]\n: c", "a key must be text"),
        ("{1.5: c}", "a key must be text"),
        ("{null: c}", "a key must be text"),
        ("true: c", "a key must be text"),
        ("a: \x07", "not valid YAML"),
        ("a: \ud800", "not valid YAML"),
    ],
)
def test_unusable_text(text: str, part: str) -> None:
    if part == "must be":       # an explicit empty document is null: for the schema to refuse
        assert value(text) is None
        return
    assert part in complaint(text)


@pytest.mark.parametrize(
    "tag",
    ["!!python/object/apply:os.system ['touch x']", "!!python/name:os.system", "!mine {a: 1}", "!!binary aGk=",
     "!!int '5'", "!!timestamp 2026-01-01"],
)
def test_tags_never_construct_objects(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cfg.yaml:2: b: tag" in complaint(f"a: 1\nb: {tag}\n")
    assert not list(tmp_path.iterdir())


def test_a_number_of_a_million_digits_is_infinite_not_slow() -> None:
    assert value("a: " + "9" * 900_000)["a"] == math.inf


def test_json_is_read_by_its_own_rules() -> None:
    text = '{\n\t"a": [0.0, Infinity],\n\t"b": "\\ud83d\\ude00", "c": {"d": 1}}'
    document = parse_yaml(text, as_json=True)
    assert document.value == {"a": [0.0, math.inf], "b": "\U0001f600", "c": {"d": 1}}
    assert parse_yaml('{"a": 1,\n "c": {\n  "d": 1}}', as_json=True).line(("c", "d")) == 3


def test_json_duplicates_and_syntax() -> None:
    assert complaint('{"a": 1,\n "a": 2}', as_json=True) == "cfg.yaml:2: a: duplicate key; first on line 1"
    assert complaint('{"a": 1, "s": "\\ud83d\\ude00", "a": 2}', as_json=True) == "cfg.yaml: duplicate key 'a'"
    assert "cfg.yaml:2: is not valid JSON" in complaint('{"a":\n}', as_json=True)
    assert "not usable JSON" in complaint("[" * 100_000, as_json=True)
    assert "not usable JSON" in complaint('{"a": ' + "9" * 5000 + "}", as_json=True)


def refused(path: Path | str, **options: int) -> str:
    with pytest.raises(InputError) as caught:
        read_yaml(path, **options)
    return str(caught.value)


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "binary.yaml").write_bytes(b"\x7fELF\0\0\1")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "empty.yaml").write_text("")
    assert refused(tmp_path / "confg.json").endswith("no such file; did you mean 'config.json'?")
    assert "is a directory" in refused(tmp_path)
    assert "did you mean" in refused(tmp_path)
    assert refused(tmp_path / "binary.yaml").endswith("is a binary file, not text")
    assert refused(tmp_path / "latin.yaml").endswith("latin.yaml:2: is not UTF-8 text")
    assert refused(tmp_path / "empty.yaml").endswith("empty.yaml: is empty")
    assert refused("a\0b")
    assert "cannot be read" in refused("a" * 5000)
    assert "binary" in refused("/dev/zero") or "larger" in refused("/dev/zero")


def test_a_file_of_50_mb_is_refused_without_reading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    monkeypatch.setattr(pathlib.Path, "open", lambda *_: pytest.fail("opened"))
    assert refused(path).endswith("is 50.0 MB; at most 1 MB is read")


def test_a_pipe_is_read_to_the_limit(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a: 1\n")
    os.close(writer)
    assert read_yaml(f"/dev/fd/{reader}").value == {"a": 1}
    os.close(reader)


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")
    document = read_yaml(path)
    assert document.value == {"a": 1, "b": {"c": 2}}
    assert document.line(("b", "c")) == 3
    assert load_data(path) == document.value
    assert path.stat().st_size < MAX_BYTES


ascii_text = st.text(st.characters(max_codepoint=0x7E), max_size=20)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | ascii_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ascii_text, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(ascii_text, json_value))
def test_json_text_reads_the_same_through_libyaml(tree: dict[str, Any]) -> None:
    assert value(json.dumps(tree)) == tree


@given(st.text(max_size=200))
def test_any_text_is_a_value_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_yaml(text)
