"""Finding and reading files: what is skipped, what is refused, how comments and settings silence rules."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from specplan.planner.check.files import MAX_BYTES, MAX_DEPTH
from specplan.planner.check.options import Options, fraction, read_options, with_command_line
from specplan.planner.check.report import Report
from specplan.planner.check.run import check_paths
from specplan.planner.messages import InputError

BAD = """vllm serve m --speculative-config '{"method": "mtp"}'\n"""       # SP010


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def reasons(report: Report) -> str:
    return "; ".join(f"{Path(one.file).name}: {one.reason}" for one in report.skipped)


def test_binary_huge_and_latin1_files_are_skipped_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"vllm\0serve --speculative-config '{'")
    (tmp_path / "b.yaml").write_text("# speculative_config\n" + "x: 1\n" * (MAX_BYTES // 5), encoding="utf-8")
    (tmp_path / "c.json").write_bytes('{"speculative_config": "ä"}'.encode("latin-1"))
    (tmp_path / "d.sh").write_text(BAD, encoding="utf-8")
    report = check_paths([tmp_path])
    assert codes(report) == ["SP010"], "the other file is checked all the same"
    assert reasons(report) == ("a.sh: is a binary file; b.yaml: is 2.0 MB, larger than any configuration; "
                               "c.json: is not UTF-8 text")
    assert report.unreadable == []


@pytest.mark.skipif(os.name != "posix", reason="symbolic links and permissions as on POSIX")
def test_symbolic_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "serve.sh").write_text(BAD, encoding="utf-8")
    (inner / "up").symlink_to(tmp_path / "a", target_is_directory=True)
    (inner / "again.sh").symlink_to(inner / "serve.sh")
    (inner / "self.sh").symlink_to("self.sh")
    (inner / "gone.sh").symlink_to("nowhere.sh")
    report = check_paths([tmp_path, inner])
    assert codes(report) == ["SP010"]
    assert reasons(report) == ("gone.sh: is a broken or looping symbolic link; self.sh: cannot be read: "
                               f"{os.strerror(errno.ELOOP)}; up: is a symbolic link to a folder that was read")
    assert report.exit_code == 1


@pytest.mark.skipif(os.name != "posix", reason="symbolic links and permissions as on POSIX")
def test_named_paths_that_cannot_be_read_give_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "loop.sh").symlink_to("loop.sh")
    os.mkfifo(tmp_path / "pipe.sh")
    for name, says in (("loop.sh", "symbolic link"), ("missing.sh", "no such file"), ("pipe.sh", "no regular file")):
        report = check_paths([tmp_path / name])
        assert report.exit_code == 2
        assert says in report.unreadable[0].reason


def test_folders_deeper_than_any_project_end(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(MAX_DEPTH + 3):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "serve.sh").write_text(BAD, encoding="utf-8")
    report = check_paths([tmp_path])
    assert codes(report) == []
    assert "too deeply" in reasons(report)


def test_only_files_that_may_hold_configurations_are_looked_at(tmp_path: Path) -> None:
    for name in ("serve.sh", "Makefile", "start", "notes.md", "main.py", "Dockerfile.gpu", ".env.prod"):
        text = "FROM ubuntu\nRUN " + BAD if name.startswith("Docker") else BAD
        (tmp_path / name).write_text("#!/bin/bash\n" + text if name == "start" else text, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "hook.sh").write_text(BAD, encoding="utf-8")
    report = check_paths([tmp_path])
    found = {Path(finding.file).name for finding in report.findings}
    assert found == {"serve.sh", "Makefile", "start", "Dockerfile.gpu"}
    assert check_paths([tmp_path / "notes.md"]).files == 1, "a file that is named is read whatever it is called"


def test_paths_are_reported_as_given_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.sh").write_text(BAD + "\n" + BAD, encoding="utf-8")
    Path("a.sh").write_text(BAD, encoding="utf-8")
    found = check_paths(["b.sh", "a.sh", "b.sh"]).findings
    assert [(finding.file, finding.line) for finding in found] == [("a.sh", 1), ("b.sh", 1), ("b.sh", 3)]


@pytest.mark.parametrize(("content", "left"), [
    (BAD.rstrip() + "  # specplan: ignore[SP010] model file says it\n", []),
    ("# specplan: ignore[SP010] model file says it\n" + BAD, []),
    ("# specplan: ignore[SP010]\n# another remark\n\n" + BAD, []),
    ("# specplan: ignore[draft-length-missing] by name\n" + BAD, []),
    ("# specplan: ignore\n" + BAD, []),
    ("# specplan: ignore[SP011, SP010]\n" + BAD, []),
    ("# specplan: ignore[SP011] another rule\n" + BAD, ["SP010"]),
    ("# specplan: ignore[SP010] first only\n" + BAD + BAD, ["SP010"]),
    ("# specplan: ignore-file[SP010] benchmarks\n" + BAD + BAD, []),
    (BAD + "# specplan: ignore[SP010] too late\n", ["SP010"]),
])
def test_comments_silence_a_rule_where_they_stand(tmp_path: Path, content: str, left: list[str]) -> None:
    (tmp_path / "serve.sh").write_text(content, encoding="utf-8")
    report = check_paths([tmp_path / "serve.sh"])
    assert codes(report) == left
    assert report.suppressed == content.count("vllm serve") - len(left)


def test_comment_above_a_command_counts_for_its_continued_lines(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("# specplan: ignore[SP010] x\nvllm serve m \\\n --port 1 \\\n "
                                       """--speculative-config '{"method": "mtp"}'\n""", encoding="utf-8")
    assert codes(check_paths([tmp_path / "serve.sh"])) == []


@pytest.mark.parametrize(("select", "ignore", "expected"), [
    ((), (), ["SP002", "SP010"]), (("SP010",), (), ["SP010"]), (("SP0",), ("SP002",), ["SP010"]), (("SP1",), (), []),
    (("unknown-setting",), (), ["SP002"]), ((), ("sp0",), []),
])
def test_rules_are_selected_by_code_beginning_or_name(tmp_path: Path, select: tuple[str, ...], ignore: tuple[str, ...],
                                                      expected: list[str]) -> None:
    (tmp_path / "a.sh").write_text(BAD.replace('"mtp"', '"mtp", "modle": "x"'), encoding="utf-8")
    assert sorted(codes(check_paths([tmp_path], Options(select=select, ignore=ignore)))) == expected


@pytest.mark.parametrize("options", [Options(select=("SP999",)), Options(ignore=("draft-length-mising",)),
                                     Options(per_file_ignores={"*.sh": ("XX1",)})])
def test_codes_of_no_rule_are_refused(options: Options) -> None:
    with pytest.raises(InputError, match="is not a rule"):
        check_paths([], options)


def test_settings_come_from_the_nearest_file_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.specplan]\nignore = "SP010, SP2"\nexclude = ["old_*"]\nfail-on = "note"\nmax-loss = "5%"\nbatch = 64\n'
        'temperature = 0.7\nengines = {trtllm = "1.2", vLLM = "0.33"}\nper-file-ignores = {"bench/*" = ["SP110"]}\n',
        encoding="utf-8")
    inner = tmp_path / "deploy"
    inner.mkdir()
    options = read_options(inner)
    assert options == Options(ignore=("SP010", "SP2"), exclude=("old_*",), fail_on="note", max_loss=0.05, batch=64,
                              temperature=0.7, engines={"tensorrt_llm": "1.2", "vllm": "0.33"},
                              per_file_ignores={"bench/*": ("SP110",)})
    (inner / "specplan.toml").write_text('select = ["SP0"]\n', encoding="utf-8")
    assert read_options(inner) == Options(select=("SP0",))
    assert with_command_line(options, batch=8, ignore=None, max_loss=0.01).batch == 8
    assert with_command_line(options, batch=None, ignore=None).batch == 64


@pytest.mark.parametrize(("table", "says"), [
    ("selct = []", "did you mean 'select'"), ("select = 3", "list of strings"), ("batch = 0", "from 1"),
    ('max-loss = "a lot"', "share"), ('engines = {vlm = "1"}', "did you mean"), ('fail-on = "info"', "note, warning"),
    ('per-file-ignores = {"*" = "SP1"}', "lists of codes"), ("select = [", "cannot be read"),
])
def test_faults_in_settings_are_named_with_their_file(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "specplan.toml").write_text(table, encoding="utf-8")
    with pytest.raises(InputError, match=r"specplan\.toml") as caught:
        read_options(tmp_path)
    assert says in str(caught.value)


def test_settings_exclude_files_and_ignore_rules_per_file(tmp_path: Path) -> None:
    for name in ("old_serve.sh", "bench.sh", "serve.sh"):
        (tmp_path / name).write_text(BAD, encoding="utf-8")
    options = Options(exclude=("old_*",), per_file_ignores={"bench.sh": ("SP010",)})
    report = check_paths([tmp_path], options)
    assert [Path(finding.file).name for finding in report.findings] == ["serve.sh"]
    assert report.files == 2


def test_notes_fail_only_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("vllm serve m --speculative-config "
                                   '\'{"method": "mtp", "num_speculative_tokens": 1}\' --port "$PORT" '
                                   '--speculative-config.model "$DRAFT"\n', encoding="utf-8")
    assert codes(check_paths([tmp_path])) == ["SP005"]
    assert check_paths([tmp_path]).exit_code == 0
    assert check_paths([tmp_path], Options(fail_on="note")).exit_code == 1
    assert check_paths([tmp_path], Options(fail_on="error")).exit_code == 0


@pytest.mark.parametrize(("given", "share"), [("5%", 0.05), ("0.05", 0.05), (0.02, 0.02), ("0", 0.0)])
def test_shares_are_read(given: str | float, share: float) -> None:
    assert fraction(given) == pytest.approx(share)


def test_own_configuration_is_checked_by_structure(tmp_path: Path) -> None:
    (tmp_path / "cfg.yaml").write_text("target: llama-3.1-8b\ngpu: h200-sxm\nworkload:\n  batch: 8\n  contxt: 8k\n",
                                       encoding="utf-8")
    found = check_paths([tmp_path / "cfg.yaml"]).findings
    assert [(finding.code, finding.line) for finding in found] == [("SP801", 3), ("SP801", 5)]
    assert "workload.context_tokens" in found[0].message
    assert "workload.contxt: unknown key" in found[1].message
