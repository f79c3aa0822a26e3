"""What is wrong with a file is said; what can still be used is used."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specplan.planner.acceptance.reading import Reading, acceptance_of
from specplan.planner.engines.acceptance import read_files
from specplan.planner.messages import InputError

DATA = Path(__file__).parents[1] / "data" / "acceptance"
VLLM = (DATA / "vllm-log.log").read_text().splitlines()[1]
SGLANG = (DATA / "sglang-new.log").read_text()


def read(tmp_path: Path, text: str | bytes, name: str = "server.log", **options: Any) -> Reading:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_files([str(path)], **options)


def codes(reading: Reading) -> set[str]:
    return {note.code for note in reading.warnings}


def vllm_line(
    accepted: int, drafted: int, rates: Sequence[float], *, length: float | None = None, rate: float | None = None
) -> str:
    steps = drafted / len(rates)
    return (f"INFO [metrics.py:96] SpecDecoding metrics: Mean acceptance length: {length or 1 + accepted / steps:.2f}, "
            f"Accepted throughput: 6.84 tokens/s, Drafted throughput: 8.26 tokens/s, Accepted: {accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: {', '.join(f'{one:.3f}' for one in rates)}, "
            f"Avg Draft acceptance rate: {rate or 100 * accepted / drafted:.1f}%\n")


def test_intervals_merge_by_steps_not_by_averaging(tmp_path: Path) -> None:
    long, short = vllm_line(2700, 3000, [0.95, 0.9, 0.85]), vllm_line(3, 30, [0.2, 0.1, 0.0])
    found = read(tmp_path, long + short)
    assert found.steps == 1010
    assert found.acceptance_length == pytest.approx(1 + 2703 / 1010)
    assert found.per_position == pytest.approx([(950 + 2) / 1010, (900 + 1) / 1010, 850 / 1010])


def test_files_merge_by_steps_and_different_d_become_a_curve(tmp_path: Path) -> None:
    for name, line in (("a", vllm_line(900, 1000, [0.9])), ("b", vllm_line(1500, 3000, [0.8, 0.5, 0.2]))):
        (tmp_path / name).write_text(line)
    found = read_files([str(tmp_path / "a"), str(tmp_path / "b")])
    assert dict(found.lengths) == pytest.approx({1: 1.9, 3: 2.5})
    assert acceptance_of(found).known_draft_len == 3
    with pytest.raises(InputError, match="twice"):
        read_files([str(tmp_path / "a")] * 2)


def test_mixed_engines_are_refused_unless_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"several engines.*sglang, vllm"):
        read(tmp_path, VLLM + "\n" + SGLANG)
    assert read(tmp_path, VLLM + "\n" + SGLANG, format="sglang").acceptance_length == 2.52


def test_cut_line_and_rotation_are_left_out_with_a_warning(tmp_path: Path) -> None:
    found = read(tmp_path, VLLM + "\n" + VLLM[:200] + "\n")
    assert found.acceptance_length == pytest.approx(1 + 513 / 124)
    assert any("cut" in note.message for note in found.warnings)
    found = read(tmp_path, VLLM[120:] + "\n" + VLLM)
    assert found.steps == 124


@pytest.mark.parametrize(("before", "after", "said"), [
    ("length: 5.14", "length: 3.14", "printed acceptance length"),
    ("0.863", "0.463", "rates per position"),
])
def test_broken_identity_names_the_number(tmp_path: Path, before: str, after: str, said: str) -> None:
    found = read(tmp_path, VLLM.replace(before, after))
    assert found.acceptance_length == pytest.approx(1 + 513 / 124)
    assert any(note.code == "identity_broken" and said in note.message for note in found.warnings)


def test_record_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contradict"):
        read(tmp_path, VLLM.replace("513", "313").replace("0.863", "0.163"))


def test_scheduled_d_keeps_al_and_says_so(tmp_path: Path) -> None:
    # 100 steps of which half drafted 1 of 2: 150 drafted, not 200
    found = read(tmp_path, vllm_line(90, 150, [0.6, 0.3], length=1.9))
    assert found.acceptance_length == pytest.approx(1.9)
    assert found.steps == pytest.approx(100)
    assert any("does not draft D every time" in note.message for note in found.warnings)


def test_counter_reset_is_new_growth(tmp_path: Path) -> None:
    def scrape(drafts: int, accepted: int) -> str:
        return (f"vllm:spec_decode_num_drafts_total {drafts}\nvllm:spec_decode_num_draft_tokens_total {drafts}\n"
                f"vllm:spec_decode_num_accepted_tokens_total {accepted}\n")

    found = read(tmp_path, scrape(1000, 500) + scrape(1200, 620) + scrape(100, 50))
    assert (found.steps, found.accepted) == (300, 170)
    assert "counter_reset" in codes(found)


def test_non_utf8_and_half_a_gzip_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xff\xfe\x00 broken \xe9\n" + VLLM.encode()).steps == 124
    packed = gzip.compress((VLLM + "\n").encode() * 50 + bytes(range(256)) * 400)
    found = read(tmp_path, packed[: len(packed) - 40], name="server.log.gz")
    assert found.acceptance_length == pytest.approx(1 + 513 / 124)


@pytest.mark.parametrize(("text", "said"), [
    ("", "is empty"),
    ("nothing of interest\n" * 5, "no acceptance numbers found"),
    ('{"backend": "sglang", "dataset_name": "random", "accept_length": null}', "without speculation"),
    ("INFO SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens\n", "0 steps"),
    ('{"meta_info": {"spec_verify_ct": -3, "spec_num_correct_drafts": 2}}', "negative"),
    ('{"meta_info": {"spec_verify_ct": 0, "spec_num_correct_drafts": 0}}', "0 steps"),
])
def test_nothing_usable_says_why(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, text, name="bench.json" if text.startswith("{") else "server.log")


def test_missing_file_bad_format_and_bad_draft_len_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_files([str(tmp_path / "none.log")])
    with pytest.raises(InputError, match="did you mean 'sglang'"):
        read(tmp_path, VLLM, format="sglangg")
    with pytest.raises(InputError, match="draft length"):
        read(tmp_path, VLLM, draft_len=0)
    with pytest.raises(InputError, match="cannot be"):
        read(tmp_path, VLLM, draft_len=3)      # the source accepts at position 5


def test_al_above_one_plus_d_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than 1 \\+ D"):
        read(tmp_path, '{"backend": "sglang", "dataset_name": "random", "accept_length": 5.2}', draft_len=3)


@pytest.mark.parametrize(("line", "said"), [
    (vllm_line(0, 3000, [0.0, 0.0, 0.0]), "0 %"),
    (vllm_line(0, 30, [0.0, 0.0, 0.0]), "AL is 1.00"),
    (vllm_line(3000, 3000, [1.0, 1.0, 1.0]), "D \\+ 1 = 4"),
    (vllm_line(360, 3000, [0.2, 0.1, 0.06]), "20% of first drafts"),
])
def test_bug_signatures_say_do_not_tune(tmp_path: Path, line: str, said: str) -> None:
    found = read(tmp_path, line)
    messages = [note.message for note in found.warnings if note.code == "looks_like_a_fault"]
    assert messages
    assert "do not tune" in messages[0]
    assert any(re.search(said, one) for one in messages)


def load_line(running: int) -> str:
    return ("INFO [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 8.5 "
            f"tokens/s, Running: {running} reqs, Waiting: 0 reqs\n")


def test_later_drafts_that_fall_only_at_batch_above_one_look_like_a_fault(tmp_path: Path) -> None:
    found = read(tmp_path, load_line(1) + vllm_line(1800, 3000, [0.8, 0.6, 0.4]) +
                 load_line(8) + vllm_line(1200, 3000, [0.8, 0.3, 0.1]))
    assert any("batch > 1" in note.message for note in found.warnings if note.code == "looks_like_a_fault")


def test_al_that_moves_with_the_batch_looks_like_a_fault(tmp_path: Path) -> None:
    found = read(tmp_path, load_line(1) + vllm_line(2400, 3000, [0.9, 0.8, 0.7]) +
                 load_line(8) + vllm_line(900, 3000, [0.5, 0.3, 0.1]))
    assert any("moves with the batch" in note.message for note in found.warnings)
    steady = read(tmp_path, load_line(1) + vllm_line(1800, 3000, [0.8, 0.6, 0.4]) +
                  load_line(8) + vllm_line(1770, 3000, [0.79, 0.59, 0.39]))
    assert "looks_like_a_fault" not in codes(steady)


def test_lookup_drafter_that_seldom_drafts_is_noticed_in_vllm(tmp_path: Path) -> None:
    # 8.5 tokens/s over 75 s = 637 tokens, but the drafting steps explain 10 + 9
    found = read(tmp_path, load_line(1).replace("8.5", "85.0") + vllm_line(513, 620, [0.96, 0.863, 0.823, 0.782, 0.71],
                                                                           length=5.14))
    assert "steps_without_draft" in codes(found)


def test_stated_faults_come_together_with_their_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "per_position: [0.9, 1.7, -1]\nsteps: many\n", name="a.yaml")
    assert [fault.path for fault in caught.value.faults] == [("steps",)]
    with pytest.raises(InputError) as caught:
        read(tmp_path, "per_position: [0.9, 1.7, -1]\n", name="a.yaml")
    assert [fault.path for fault in caught.value.faults] == [("per_position", 1), ("per_position", 2)]
    with pytest.raises(InputError, match="unknown key"):
        read(tmp_path, "per_position: [0.9]\nstep: 3\n", name="a.yaml")
