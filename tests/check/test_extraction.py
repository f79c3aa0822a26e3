"""Configurations are found wherever people write them, and findings point into the file as it is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from specplan.planner.check.options import Options
from specplan.planner.check.report import Finding, Report
from specplan.planner.check.run import check_paths, check_text, read_plans
from specplan.planner.engines.plan import DraftPlan
from specplan.planner.messages import InputError

KEY = "num_speculative_token"      # misspelt wherever it stands in `places`
FILES = yaml.safe_load((Path(__file__).parents[1] / "data" / "check" / "extraction.yaml").read_text(encoding="utf-8"))


def found(tmp_path: Path, name: str, content: str, options: Options | None = None) -> Report:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    return check_paths([tmp_path / name], options)


def spot(content: str, finding: Finding) -> str:
    """The text that a finding points at."""
    lines = content.split("\n")
    if finding.line == finding.end_line:
        return lines[finding.line - 1][finding.column - 1:finding.end_column - 1]
    return lines[finding.line - 1][finding.column - 1:]


@pytest.mark.parametrize("file", FILES["places"], ids=lambda file: file["place"])
def test_finding_points_at_the_key_in_the_original_file(tmp_path: Path, file: dict[str, str]) -> None:
    content = file["content"]
    report = found(tmp_path, file["name"], content)
    assert not report.unreadable
    unknown = [finding for finding in report.findings if finding.code == "SP002"]
    assert len(unknown) == 1
    assert KEY in spot(content, unknown[0])
    assert "did you mean 'num_speculative_tokens'" in unknown[0].message


@pytest.mark.parametrize("file", FILES["engines"], ids=lambda file: f"{file['engine']} {file['name']}")
def test_engines_are_told_apart(tmp_path: Path, file: dict[str, str]) -> None:
    report = found(tmp_path, file["name"], file["content"])
    assert report.configurations == 1
    assert (file["engine"], file["code"]) in {(finding.engine, finding.code) for finding in report.findings}


@pytest.mark.parametrize("file", FILES["clean"], ids=lambda file: file["name"])
def test_files_without_a_configuration_are_clean(tmp_path: Path, file: dict[str, str]) -> None:
    report = found(tmp_path, file["name"], file["content"])
    assert (report.findings, report.unreadable, report.exit_code) == ([], [], 0)


def test_invalid_json_is_shown_where_it_stands(tmp_path: Path) -> None:
    content = ("vllm serve m \\\n  --port 80 \\\n  --speculative-config '{\"method\": \"mtp\",\n"
               "    \"num_speculative_tokens\": 3,}'\n")
    report = found(tmp_path, "serve.sh", content)
    (finding,) = report.findings
    assert finding.code == "SP001"
    assert (finding.line, content.split("\n")[finding.line - 1][finding.column - 1]) == (4, "}")
    assert "comma" in finding.message


@pytest.mark.parametrize(("value", "says"), [
    ("{'method': 'mtp'}", "double quotes"), ('{"method": mtp}', "not a JSON value"), ('{"a": True}', "write true"),
    ('{"method": "mtp"', "missing at the end"), ('{"method" "mtp"}', "':' is missing"), ("{} {}", "follows"),
    ('{"method": "mtp}', "not closed"), ("", "missing"), ('{"a": ' + "[" * 200, "nested"), ("7", "object"),
])
def test_every_kind_of_broken_json_is_named(tmp_path: Path, value: str, says: str) -> None:
    report = found(tmp_path, "serve.sh", f"vllm serve m --speculative-config {shlex.quote(value)}\n")
    assert [finding.code for finding in report.findings] == ["SP001"]
    assert says in report.findings[0].message


@pytest.mark.parametrize("value", [
    "${SPEC}", "$SPEC", "$(cat spec.json)", "`cat spec.json`", "{{ .Values.spec | toJson }}"])
def test_whole_values_from_outside_are_unknown(tmp_path: Path, value: str) -> None:
    report = found(tmp_path, "serve.sh", f'vllm serve m --speculative-config "{value}"\n')
    assert {finding.code for finding in report.findings} <= {"SP005"}
    assert report.exit_code == 0


@pytest.mark.parametrize("value", ["${D}", "$D", "{{ .Values.d }}", "${D:-3}"])
def test_parts_from_outside_are_unknown_and_the_rest_is_checked(tmp_path: Path, value: str) -> None:
    content = ('vllm serve m --speculative-config "{\\"method\\": \\"mtp\\", \\"num_speculative_tokens\\": '
               + value + ', \\"bogus_key\\": 1}"\n')
    report = found(tmp_path, "serve.sh", content)
    assert {finding.code for finding in report.findings} == {"SP002", "SP005"}
    (note,) = (finding for finding in report.findings if finding.code == "SP005")
    assert "num_speculative_tokens" in note.message


@pytest.mark.parametrize("text", [
    "speculative_config:\n  decoding_type: Eagle3\n  speculative_model: $M\n  max_draft_len: $D\n",
    'speculative_config: {"method": "mtp", "num_speculative_tokens": ${D:-3}}\n',
    '{"1": {"candidate_steps": [$A, ${B}]}}\n',
])
def test_shell_fills_in_here_documents_unless_quoted(tmp_path: Path, text: str) -> None:
    open_one, quoted = (f"cat > conf <<{end}\n{text}EOF\nls\n" for end in ("EOF", "'EOF'"))
    report = found(tmp_path, "serve.sh", open_one)
    assert report.configurations == 1
    assert {finding.code for finding in report.findings} <= {"SP005"}
    assert not report.skipped
    literal = found(tmp_path, "serve.sh", quoted)
    assert literal.skipped or any(finding.severity == "error" for finding in literal.findings)


def test_here_document_that_is_no_yaml_leaves_the_rest_readable(tmp_path: Path) -> None:
    bad = FILES["places"][0]["content"]
    report = found(tmp_path, "serve.sh", "cat > a.yaml <<'EOF'\nspeculative_config: {\nEOF\n" + bad)
    assert "SP002" in {finding.code for finding in report.findings}
    assert "a here-document cannot be read" in report.skipped[0].reason


def test_helm_values_stay_unknown_inside_a_template(tmp_path: Path) -> None:
    report = found(tmp_path, "deployment.yaml", (
        "kind: Deployment\nspec:\n  containers:\n  - image: lmsysorg/sglang:{{ .Values.tag }}\n    command: [python3]\n"
        "    args:\n    - -m\n    - sglang.launch_server\n    - --model-path={{ .Values.model }}\n"
        "    - --speculative-algorithm=EAGLE\n    - --speculative-num-steps={{ .Values.steps }}\n"
        "    - --speculative-eagle-topk=1\n    - --speculative-num-draft-tokens=2\n"
        '    {{- include "x" . | nindent 4 }}\n'))
    assert report.configurations == 1
    assert [finding.code for finding in report.findings] == ["SP005"], "2 rows are right for some number of steps"


@pytest.mark.parametrize("file", FILES["contradictions"], ids=lambda file: f"{file['code']} {file['name']}")
def test_contradictions_are_named(tmp_path: Path, file: dict[str, str]) -> None:
    assert file["code"] in {finding.code for finding in found(tmp_path, file["name"], file["content"]).findings}


@pytest.mark.parametrize(("key", "says"), [
    ("enable_adaptive_verification", "0.9.0 does not have 'enable_adaptive_verification' yet: it is there since 0.25"),
    ("enable_adaptiv_verification", "did you mean 'enable_adaptive_verification'? (since 0.25)"),
])
def test_key_of_a_later_release_says_since_when(tmp_path: Path, key: str, says: str) -> None:
    value = json.dumps({"method": "mtp", "num_speculative_tokens": 1, key: True})
    content = f"docker run vllm/vllm-openai:v0.9.0 --model m --speculative-config '{value}'\n"
    report = found(tmp_path, "serve.sh", content)
    assert any(says in finding.message for finding in report.findings if finding.code == "SP002")
    newest = found(tmp_path, "serve.sh", content.replace(":v0.9.0", ""))
    assert not any("does not have" in finding.message for finding in newest.findings)


def test_release_of_the_options_counts_where_the_file_names_none(tmp_path: Path) -> None:
    content = ("speculative_config:\n  decoding_type: Eagle3\n  speculative_model: m\n  max_draft_len: 4\n"
               "  draft_len_schedule: {1: 4, 4: 2, 8: 0}\n")
    assert "SP301" in {finding.code for finding in found(tmp_path, "llm.yaml", content).findings}
    old = found(tmp_path, "llm.yaml", content, Options(engines={"tensorrt_llm": "1.2.0"}))
    assert old.findings == []


@pytest.mark.parametrize(("name", "content"), [
    ("a.yaml", "speculative_config: {a: [1\nb: 2\n"), ("a.json", '{"speculative_config": {"method": }}')])
def test_named_file_that_is_no_yaml_or_json_is_unreadable(tmp_path: Path, name: str, content: str) -> None:
    report = found(tmp_path, name, content)
    assert report.exit_code == 2
    assert "line " in report.unreadable[0].reason
    assert check_paths([tmp_path]).exit_code == 0, "in a folder such a file is skipped with a note"
    assert check_paths([tmp_path]).skipped


def test_plans_are_read_from_any_file(tmp_path: Path) -> None:
    pod = next(file["content"] for file in FILES["places"] if file["place"] == "kubernetes")
    (tmp_path / "pod.yaml").write_text(pod.replace(KEY, KEY + "s"), encoding="utf-8")
    assert read_plans(tmp_path / "pod.yaml") == [DraftPlan(mechanism="mtp", draft_len=2, target_model="m")]


@pytest.mark.parametrize(("name", "content", "says"), [
    ("none.sh", "ls\n", "no configuration"), ("broken.json", "{", "missing"), ("zero.sh", "\0", "binary")])
def test_files_without_a_plan_say_so(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_plans(tmp_path / name)


def test_text_can_be_checked_without_a_file() -> None:
    assert [finding.code for finding in check_text(FILES["places"][0]["content"], "-", "shell")] == ["SP002", "SP010"]
