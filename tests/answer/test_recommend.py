"""The whole way from a configuration to an answer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import specplan
from specplan.planner.answer import explain, recommend
from specplan.planner.messages import InputError
from specplan.planner.output.contract import answer_json, explanation_json


def config(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "target": "llama-3.3-70b",
        "gpu": "h200-sxm",
        "parallel": {"tp": 4},
        "dtypes": {"weights": "fp8", "kv": "fp8", "activations": "bf16"},
        "engine": "vllm:0.24.0",
        "workload": {"batch": [1, 32], "context_tokens": [2000, 32000], "input_tokens": 1500, "output_tokens": 500},
        "objective": "latency",
        "drafters": [
            {"mechanism": "eagle3", "acceptance": {"per_position": [0.78, 0.55, 0.38, 0.26, 0.18]}},
            {"mechanism": "draft_model", "model": "llama-3.2-1b", "acceptance": {"alpha": 0.72}},
            {"mechanism": "pard", "model": "llama-3.2-1b",
             "acceptance": {"acceptance_length": {1: 1.7, 3: 2.6, 7: 3.4}}},
            {"mechanism": "ngram", "acceptance": {"alpha": 0.3}, "draft_fraction": 0.4},
        ],
        "max_draft_len": 16,
    }
    return base | changes


def test_one_cell_per_batch_and_context_and_the_identities_of_the_contract() -> None:
    answer = recommend(config())
    assert [(cell.batch, cell.context_tokens) for cell in answer.cells] == [
        (1, 2000), (1, 32000), (32, 2000), (32, 32000)
    ]
    for cell in answer.cells:
        assert cell.off.step_s == pytest.approx(sum(cell.off.breakdown.values()))
        for item in cell.candidates:
            assert item.step_s == pytest.approx(item.verify_s + item.draft_s + item.overhead_s)
            assert item.acceptance_length is not None
            assert item.speedup == pytest.approx(item.acceptance_length * cell.off.step_s / item.step_s)
            assert item.break_even_acceptance_length == pytest.approx(item.step_s / cell.off.step_s)
            assert 1 <= item.acceptance_length <= 1 + item.draft_len


def test_python_api_gives_the_same_numbers_as_the_json() -> None:
    answer = specplan.recommend(config())
    found = answer_json(answer)
    assert found["recommendation"]["speedup"] == answer.recommendation.speedup
    assert found["cells"][0]["candidates"] == found["candidates"]
    json.dumps(found, allow_nan=False)


def test_the_recommendation_is_the_best_candidate_within_a_percent() -> None:
    answer = recommend(config())
    for cell in answer.cells:
        best = max(item.tokens_per_s_per_user or 0 for item in cell.candidates if item.fits_memory and item.draft_len)
        assert (cell.recommendation.tokens_per_s_per_user or 0) >= best / 1.01
        low, high = cell.recommendation.speedup_range or (0, 0)
        assert low < (cell.recommendation.speedup or 0) < high


def test_without_acceptance_nothing_is_assumed() -> None:
    answer = recommend(config(drafters=[{"mechanism": "eagle3"}]))
    best = answer.recommendation
    assert (best.speculate, best.draft_len, best.speedup, best.mechanism) == (None, None, None, None)
    assert best.break_even_acceptance_length is not None
    assert best.break_even_acceptance_length > 1
    assert "acceptance" in best.reasons[0]
    assert all(item.speedup is None and item.break_even_acceptance_length > 1 for item in answer.candidates)


def test_off_is_recommended_when_speculation_loses() -> None:
    answer = recommend(config(drafters=[{"mechanism": "eagle3", "acceptance": {"per_position": [0.02]}}]))
    best = answer.recommendation
    assert (best.speculate, best.mechanism, best.draft_len, best.speedup) == (False, None, None, 1.0)
    assert "off wins" in best.reasons[0]


def test_throughput_headline_is_the_largest_batch_that_fits() -> None:
    workload = {"batch": [1, 32, 4000], "context_tokens": [32000], "input_tokens": 1500, "output_tokens": 500}
    answer = recommend(config(objective="throughput", workload=workload))
    assert answer.cell.batch == 32
    assert not answer.cells[2].off.fits_memory
    assert any(note.code == "does-not-fit" for note in answer.warnings)


def test_drafts_are_cut_at_the_last_known_acceptance_and_it_is_said() -> None:
    answer = recommend(config())
    eagle = [item for item in answer.candidates if item.mechanism == "eagle3"]
    assert [item.draft_len for item in eagle] == [0, 1, 2, 3, 4, 5]
    assert any(note.code == "acceptance-cut" and "D = 5" in note.message for note in answer.warnings)
    alpha = [item.draft_len for item in answer.candidates if item.mechanism == "draft_model"]
    assert max(alpha) == 16


def test_attention_kernel_override_and_the_warning_of_a_cliff() -> None:
    answer = recommend(config(attention_kernel="fa2"))
    assert answer.gpu.kernel_attention is not None
    assert "fa2" in answer.gpu.kernel_attention
    assert any(note.code.startswith("kernel-cliff") for note in answer.warnings)


@pytest.mark.parametrize(("group_tp", "draft_len"), [(1, 15), (8, 15)])
def test_nvidia_128_gives_d_15_for_llama_70b(group_tp: int, draft_len: int) -> None:
    """64 query and 8 KV heads: G = 8 on one GPU as on eight."""
    answer = recommend(config(attention_kernel="nvidia-128", parallel={"tp": group_tp}))
    rules = {rule.id: rule for rule in answer.guidelines}
    assert rules["G2"].draft_len == draft_len
    assert rules["G3"].draft_lens[:2] == (31, 47)
    assert [rule.id for rule in answer.guidelines] == ["G1", "G2", "G3", "G4", "G5"]


def test_every_number_has_a_source() -> None:
    answer = recommend(config())
    assert {"target", "gpu", "host_step_s", "acceptance"} <= {item.parameter for item in answer.provenance}
    assert all(item.source for item in answer.provenance)


def test_a_gpu_without_measured_kernels_says_so() -> None:
    answer = recommend(config(gpu="h100-pcie"))
    assert answer.gpu.evidence == "prior"
    assert any("prior" in note.code and "h100-pcie" in note.message for note in answer.warnings)


def test_all_faults_of_resolution_at_once() -> None:
    drafters = [
        {"mechanism": "mtp"},
        {"mechanism": "eagle3", "acceptance": {"per_position": [0.2, 0.9]}},
        {"mechanism": "draft_model", "model": "llama-3.2-2b", "acceptance": {"alpha": 1.4}},
    ]
    with pytest.raises(InputError) as caught:
        recommend(config(parallel={"tp": 3}, drafters=drafters))
    paths = [fault.path[:2] for fault in caught.value.faults]
    assert ("parallel", "tp") in paths
    assert {("drafters", 0), ("drafters", 1), ("drafters", 2)} <= set(paths)


def test_unknown_names_show_the_nearest() -> None:
    with pytest.raises(InputError, match="h200-sxm"):
        recommend(config(gpu="h200-smx"))
    with pytest.raises(InputError, match=r"llama-3\.3-70b"):
        recommend(config(target="llama3.3-70b"))


def test_explain_accounts_for_the_whole_step() -> None:
    found = explain(config(), mechanism="eagle3", draft_len=3, batch=8, context_tokens=4000)
    assert sum(line.time_s for line in found.ops) == pytest.approx(found.step_s)
    assert sum(line.share for line in found.ops) == pytest.approx(1.0)
    assert [line.draft_len for line in found.sweep] == [0, 1, 2, 3, 4, 5]
    assert found.sweep[3].step_s == pytest.approx(found.step_s)
    json.dumps(explanation_json(found), allow_nan=False)


def test_explain_refuses_what_is_not_there() -> None:
    with pytest.raises(InputError, match="mechanism"):
        explain(config(), mechanism="dflash", draft_len=3, batch=8, context_tokens=4000)
    with pytest.raises(InputError, match="known up to D = 5"):
        explain(config(), mechanism="eagle3", draft_len=9, batch=8, context_tokens=4000)


def test_explain_shows_experts_touched_by_a_moe() -> None:
    moe = config(
        target="qwen3-30b-a3b", parallel={"tp": 1}, dtypes={},
        drafters=[{"mechanism": "eagle3", "acceptance": {"alpha": 0.7}}],
    )
    found = explain(moe, mechanism="eagle3", draft_len=3, batch=1, context_tokens=1000)
    touched = [line.experts_touched for line in found.sweep[:4]]
    assert touched[0] == pytest.approx(8)
    assert touched == sorted(touched, key=lambda value: value or 0)
    assert all(share is not None and 0 < share < 1 for share in (line.expert_share for line in found.sweep))


def test_a_range_of_batches_collapses_to_a_schedule_without_gaps() -> None:
    workload = {"batch": "1-256", "context_tokens": [2000, 8000]}
    answer = recommend(config(workload=workload))
    found = answer_json(answer)["schedule"]
    tiers = found["tiers"]
    assert tiers[0]["first_batch"] == 1
    assert tiers[-1]["last_batch"] == 256
    assert all(one["last_batch"] + 1 == two["first_batch"] for one, two in itertools.pairwise(tiers))
    assert found["mean_loss"] <= 0.02
    allowed = {item.draft_len for item in answer.candidates if item.drafter == found["drafter"]}
    assert {tier["draft_len"] for tier in tiers} <= allowed


def test_one_batch_has_no_schedule() -> None:
    answer = recommend(config(workload={"batch": 8, "context_tokens": 2000}))
    assert answer.schedule is None
    assert answer_json(answer)["schedule"] is None


def test_a_misspelt_engine_is_a_fault_and_a_strange_one_is_said() -> None:
    with pytest.raises(InputError, match="did you mean 'vllm'"):
        recommend(config(engine="vlm"))
    answer = recommend(config(engine="some-server"))
    assert any(note.code == "engine-unknown" for note in answer.warnings)


def test_kernels_that_are_not_there_are_faults_of_their_keys() -> None:
    with pytest.raises(InputError) as caught:
        recommend(config(engine="vlm", attention_kernel="fa33"))
    assert {fault.path for fault in caught.value.faults} == {("engine",), ("attention_kernel",)}
