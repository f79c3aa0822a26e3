"""E10: a few measured points move the model as far as they say anything, and no further."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.planner.decide.anchor import (
    COST_SD,
    LENGTH_SD,
    MEASUREMENT_SD,
    Measurement,
    Multipliers,
    Parts,
    anchor,
    anchored_length,
    anchored_overhead_s,
    anchored_verify_s,
)

OFF = Parts(off_s=8e-3, host_s=1e-3)


def row(draft_len: int, *, batch: float = 1.0) -> Parts:
    """A model row: verify grows a little with D, drafting 0.8 ms a token, fixed 0.5 ms."""
    return Parts(
        off_s=8e-3, host_s=1e-3, verify_s=7e-3 * (1 + 0.02 * draft_len * batch), draft_s=0.8e-3 * draft_len,
        overhead_s=1.5e-3, length=1 + 0.6 * draft_len**0.8, draft_len=draft_len,
    )


def step_s(parts: Parts, m: Multipliers) -> float:
    """The formula of DESIGN E10, written out."""
    core = parts.off_s - parts.host_s
    return m.scale * (
        core + m.verify * (parts.verify_s - core) + m.draft * parts.draft_s
        + parts.host_s + m.fixed * (parts.overhead_s - parts.host_s)
    )


def measured(parts: Parts, m: Multipliers, kind: str = "token_s") -> Measurement:
    value = step_s(parts, m) if kind == "step_s" else step_s(parts, m) / (m.length * parts.length)
    return Measurement(drafter="d", parts=parts, kind=kind, value=value, label=f"D={parts.draft_len}")


def off_row(scale: float) -> Measurement:
    return Measurement(drafter="", parts=OFF, kind="step_s", value=scale * OFF.off_s, label="off")


def test_one_absolute_row_moves_the_scale_only() -> None:
    """10 % slower than modelled, known to 3 % against a prior of 30 %: all but 1 % of it is believed."""
    found = anchor([measured(row(3), Multipliers(scale=1.1))])
    assert found.moved == ("scale",)
    assert found.of("d").scale == pytest.approx(1.1 ** (0.09 / (0.09 + 0.0009)), rel=1e-6)
    assert (found.of("d").verify, found.of("d").draft, found.of("d").length) == (1, 1, 1)


def test_plain_decoding_moves_the_scale_only() -> None:
    found = anchor([off_row(1.2), off_row(1.2)])
    assert found.moved == ("scale",)
    assert found.of("").scale == pytest.approx(1.2, rel=0.01)


def test_one_speedup_is_explained_by_the_likeliest_mix() -> None:
    """Predicted 2.0x, measured 1.6x: AL, drafting and fixed cost share the blame; the row itself is met."""
    parts = row(3)
    plain = parts.length * parts.off_s / step_s(parts, Multipliers())
    found = anchor([Measurement(drafter="d", parts=parts, kind="speedup", value=0.8 * plain)])
    factors = found.of("d")
    assert "scale" not in found.moved
    assert factors.length < 1 < factors.draft
    assert found.residuals[0].after == pytest.approx(0.8 * plain, rel=0.02)
    assert not found.residuals[0].contradicts


@pytest.mark.parametrize(("name", "factor"), [("draft", 1.8), ("fixed", 4.0), ("verify", 2.5)])
def test_steps_at_several_lengths_and_batches_find_a_wrong_cost(name: str, factor: float) -> None:
    """Where the time goes shows in how it grows with D and with batch; a fixed part hides best (within 30 %)."""
    truth = Multipliers(**{"scale": 1.05, name: factor})
    points = [row(d, batch=b) for d, b in ((1, 1), (3, 1), (7, 1), (3, 16), (7, 16))]
    found = anchor([off_row(1.05), *(measured(parts, truth, "step_s") for parts in points)])
    assert getattr(found.of("d"), name) == pytest.approx(factor, rel=0.3 if name == "fixed" else 0.12)
    other = row(5, batch=8)
    assert step_s(other, found.of("d")) == pytest.approx(step_s(other, truth), rel=0.02)


def test_a_measured_al_moves_al_and_not_the_costs() -> None:
    parts = row(3)
    al = 0.9 * parts.length
    value = step_s(parts, Multipliers()) / al
    found = anchor([off_row(1.0), Measurement(drafter="d", parts=parts, kind="token_s", value=value, length=al)])
    factors = found.of("d")
    assert factors.length == pytest.approx(0.9, rel=0.02)
    assert factors.draft == pytest.approx(1.0, abs=0.02)


def test_drafting_measured_apart_moves_drafting() -> None:
    parts = row(3)
    found = anchor([
        off_row(1.0), Measurement(drafter="d", parts=parts, kind="draft_s", value=2 * parts.draft_s, label="split")
    ])
    assert found.of("d").draft == pytest.approx(2.0, rel=0.02)
    assert "d.length" in found.refused


def test_what_a_lookup_lacks_is_not_moved() -> None:
    """A lookup has no drafting time: nothing can tell its multiplier."""
    parts = Parts(off_s=8e-3, host_s=1e-3, verify_s=7.5e-3, overhead_s=1.5e-3, length=1.5, draft_len=3)
    found = anchor([off_row(1.0), Measurement(drafter="n", parts=parts, kind="token_s", value=8e-3)])
    assert "n.draft" in found.refused
    assert found.of("n").draft == 1


def test_drafters_share_scale_and_verify_only() -> None:
    truth = Multipliers(scale=1.1, draft=1.7)
    found = anchor([off_row(1.1), *(measured(row(d), truth, "step_s") for d in (2, 6))])
    assert found.of("other") == Multipliers(scale=found.of("d").scale, verify=found.of("d").verify)


def test_contradictions_are_reported_with_their_residuals() -> None:
    """The same point measured twice, 40 % apart: no model meets both."""
    parts = row(3)
    one = measured(parts, Multipliers(), "step_s")
    two = Measurement(drafter="d", parts=parts, kind="step_s", value=1.4 * one.value, label="again")
    found = anchor([off_row(1.0), one, two])
    assert any(item.contradicts for item in found.residuals)
    assert all(item.measured > 0 and item.after > 0 for item in found.residuals)


def test_the_anchored_parts_add_up_to_the_formula() -> None:
    factors = Multipliers(scale=1.1, verify=1.5, draft=0.7, fixed=2.0, length=0.9)
    parts = row(4)
    whole = (
        anchored_verify_s(np.array(parts.verify_s), np.array(parts.off_s), parts.host_s, factors)
        + factors.scale * factors.draft * parts.draft_s
        + anchored_overhead_s(np.array(parts.overhead_s), parts.host_s, factors)
    )
    assert float(whole) == pytest.approx(step_s(parts, factors))


def test_al_stays_possible() -> None:
    lengths = anchored_length(np.array([1.0, 1.9, 3.9]), np.array([0, 1, 3]), Multipliers(length=1.3))
    assert lengths.tolist() == [1.0, 2.0, 4.0]


@given(
    scale=st.floats(0.8, 1.25), draft=st.floats(0.6, 1.6), fixed=st.floats(0.6, 1.6), length=st.floats(0.93, 1.07),
)
def test_off_and_both_ends_predict_the_middle(scale: float, draft: float, fixed: float, length: float) -> None:
    """Whatever is wrong within the priors, rows between the two ends follow to 3 %."""
    truth = Multipliers(scale=scale, draft=draft, fixed=fixed, length=length)
    found = anchor([off_row(scale), measured(row(1), truth), measured(row(8), truth)]).of("d")
    for drafted in (3, 5):
        parts = row(drafted)
        ours = step_s(parts, found) / (found.length * parts.length)
        assert ours == pytest.approx(step_s(parts, truth) / (length * parts.length), rel=0.03)


def test_widths_are_those_of_the_contract() -> None:
    assert (COST_SD, LENGTH_SD, MEASUREMENT_SD) == (0.6, 0.1, 0.03)
