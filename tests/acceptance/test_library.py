"""The shipped curves, estimates from them, and how wrong those estimates are."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.acceptance.accuracy import (
    accuracy,
    accuracy_lines,
    leave_heads_out,
    leave_targets_out,
    spread_by_tier,
)
from specplan.planner.acceptance.curve import acceptance_length, interval
from specplan.planner.acceptance.estimate import nearest_curve
from specplan.planner.acceptance.library import (
    acceptance,
    curve_facts,
    curve_line,
    families,
    family_of,
    find_curves,
    learned_spread,
    library,
    library_curve,
    load_curve,
)
from specplan.planner.answer.acceptances import library_estimate
from specplan.planner.messages import InputError


def test_every_curve_has_a_source_and_is_usable() -> None:
    assert len(library()) == 237
    assert len({curve.id for curve in library()}) == 237
    for curve in library():
        assert curve.url.startswith("https://")
        found = acceptance(curve)
        fitted = acceptance_length(found, np.array(curve.draft_len, dtype=float))
        assert np.abs(fitted - curve.acceptance_length).max() < 0.2      # the noise that smoothing takes out
        assert family_of(curve.domain) or curve.domain in {
            "not stated", "mean of 11", "low_entropy_16k", "speed-bench throughput"}


def test_inferencex_golden_rows_are_inside() -> None:
    # SemiAnalysisAI/InferenceX golden_al_distribution, Aug 2026: Qwen3.5-397B MTP, thinking on
    curve = load_curve("golden-qwen3.5_mtp-thinking_on")
    assert curve.acceptance_length == (1.93, 2.73, 3.39, 3.97, 4.41, 4.80, 5.04, 5.21)
    assert curve.labels["thinking"] == "on"
    assert curve_line(curve)["acceptance_length"] == 5.21
    assert curve_facts(curve)["acceptance_length"]["3"] == 3.39
    assert library_curve(curve.id).labels["domain"] == "coding"


def test_find_filters_by_all_that_is_given() -> None:
    assert {curve.mechanism for curve in find_curves(mechanism="mtp")} == {"mtp"}
    assert all(family_of(curve.domain) == "coding" for curve in find_curves(domain="coding"))
    assert {curve.domain for curve in find_curves(domain="gsm8k")} == {"gsm8k"}
    assert len(find_curves(target="llama-3.3-70b")) == len(find_curves(target="Llama-3.3-70B-Instruct-FP8")) == 15
    assert find_curves(mechanism="mtp", target="no such") == ()


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="golden-dsv4_mtp-thinking_on"):
        load_curve("golden-dsv4_mtp-thinking")
    with pytest.raises(InputError, match="did you mean 'coding'"):
        nearest_curve("mtp", domain="codeing")
    with pytest.raises(InputError, match="no curve of mechanism draft_model"):
        nearest_curve("draft_model", domain="coding")


def test_estimate_takes_the_target_itself_where_it_can_and_says_so() -> None:
    own, notes = nearest_curve("mtp", domain="coding", target="qwen3.5-397b-a17b")
    assert float(acceptance_length(own, 3.0)) == pytest.approx((3.39 + 3.33) / 2, abs=0.01)
    assert "this target and drafter" in notes[0].message
    other, notes = nearest_curve("mtp", domain="coding", target="some-new-model")
    assert "other targets" in notes[0].message
    assert other.spread > own.spread
    assert "qwen3.5" in notes[0].message


def test_interval_widens_with_the_distance() -> None:
    near, _ = nearest_curve("eagle3", domain="coding", target="minimax-m3", drafter="AMD EAGLE3.1 head")
    far, _ = nearest_curve("eagle3", domain="coding")
    farther, _ = nearest_curve("mtp", domain="math")
    widths = [np.subtract(*interval(curve, 3.0)[::-1]) for curve in (near, far, farther)]
    assert widths[0] < widths[1] < widths[2]
    few, _ = nearest_curve("ngram", domain="chat")       # one target only: no better than the farthest tier
    assert few.spread == learned_spread()["mechanism"]


def test_other_kinds_of_text_do_not_enter_an_estimate_and_every_curve_is_named() -> None:
    # a lookup accepts what the text repeats: 1.5 tokens per step in this target's chat, 4.7 in another's translation
    own, _ = nearest_curve("ngram", domain="chat", target="llama-3.1-8b")
    measured = load_curve("sdbench-llama31-8b-ngram-sharegpt")
    assert own.curves == (measured.id,)
    assert float(acceptance_length(own, 20.0)) == pytest.approx(measured.acceptance_length[-1], abs=0.1)
    for target in (None, "llama-3.1-8b"):               # one target only: still no other kind of text
        few, _ = nearest_curve("ngram", domain="math", target=target)
        assert few.curves == ("sdbench-llama31-8b-ngram-gsm8k",)
    both, _ = nearest_curve("eagle3", domain="mtbench", target="llama-3.1-8b")
    targets = {load_curve(curve).target.lower() for curve in both.curves}
    assert "llama-3.1-8b-instruct" in targets           # averaged with others: those are named too
    assert len(targets) > 3
    assert {family_of(load_curve(curve).domain) for curve in both.curves} == {"chat"}
    assert f"{len(both.curves)} curves" in both.source


def test_mechanism_without_curves_has_a_stand_in_that_is_named() -> None:
    _, notes = nearest_curve("suffix", domain="chat")
    assert [note.code for note in notes] == ["acceptance_from_library", "acceptance_stand_in"]


def test_stored_spread_is_what_leaving_out_teaches() -> None:
    taught = spread_by_tier([*leave_targets_out(), *leave_heads_out()])
    assert learned_spread() == pytest.approx(taught, abs=0.001)


def test_left_out_targets_are_predicted_and_covered_as_promised() -> None:
    table = {one.tier: one for one in accuracy()}
    overall = table["all targets left out"]
    assert overall.targets >= 25
    assert overall.median_error < 0.30           # AL at D = 3, only mechanism and domain known
    assert 0.80 <= overall.coverage <= 0.95      # of nominal 90 % intervals
    assert table["domain"].median_error < table["mechanism"].median_error
    text = "\n".join(accuracy_lines())
    assert f"{overall.median_error:.3f}" in text
    assert f"{overall.coverage:.1%}" in text


def test_families_do_not_overlap() -> None:
    members = [member for group in families().values() for member in group]
    assert len(members) == len(set(members))


def test_a_mix_of_kinds_carries_the_doubt_and_the_curves_of_its_parts() -> None:
    kinds = {"chat": 0.7, "math": 0.3}
    mixed = library_estimate("eagle3", kinds, "llama-3.1-8b")
    parts = [library_estimate("eagle3", kind, "llama-3.1-8b") for kind in kinds]
    assert mixed.spread == max(part.spread for part in parts)
    assert set(mixed.curves) == {curve for part in parts for curve in part.curves}
    assert all(part.source in mixed.source for part in parts)
    assert {note.code for note in mixed.notes} >= {"acceptance_from_library"}
