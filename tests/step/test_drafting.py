"""E7: what drafting costs, by mechanism, each with its factor worked out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specplan.planner.kernels.profile import load_gpu
from specplan.planner.models.architecture import Model
from specplan.planner.models.drafters import load_drafter
from specplan.planner.models.reader import load_model
from specplan.planner.step.deployment import Deployment
from specplan.planner.step.drafting import depth_ratio, drafting, mean_query_len, pass_floor_s
from specplan.planner.step.engine_paths import engine_path
from specplan.planner.step.forward import total_s
from specplan.planner.step.step_time import off_step, speculative_step


def test_serial_drafting_is_d_passes(llama_8b: Model, h200: Deployment) -> None:
    eagle = load_drafter("eagle", llama_8b)
    draft_len = np.arange(0.0, 9.0)
    time = drafting(eagle, h200, draft_len, 4, 2000).total_s
    assert time[0] == 0.0
    assert np.allclose(time, draft_len * time[1])


def test_eagle_3_fuses_hidden_states_once_a_step_and_eagle_in_every_pass(llama_8b: Model, h200: Deployment) -> None:
    """Three states of 4096 to one are 3 * 4096^2 bf16 weights: 100.7 MB, 22.6 us at 4.464 TB/s, once at any D."""
    path = replace(h200.path, pass_floor_s=replace(h200.path.pass_floor_s, value=0.0))
    free = replace(h200, path=path)
    eagle3 = load_drafter("eagle3", llama_8b)
    without = replace(eagle3, fused_inputs=0)
    lengths = np.array([0.0, 1.0, 7.0])
    extra = drafting(eagle3, free, lengths, 4, 2000).total_s - drafting(without, free, lengths, 4, 2000).total_s
    assert extra[0] == 0.0
    assert np.all((extra[1:] > 22e-6) & (extra[1:] < 33e-6))
    eagle = load_drafter("eagle", llama_8b)
    without = replace(eagle, fused_inputs=0)
    extra = drafting(eagle, free, lengths, 4, 2000).total_s - drafting(without, free, lengths, 4, 2000).total_s
    assert extra[2] == pytest.approx(7 * extra[1])


def test_a_serial_pass_is_the_smooth_maximum_of_gpu_and_floor(llama_8b: Model, h200: Deployment) -> None:
    eagle = load_drafter("eagle3", llama_8b)
    one, two = (drafting(eagle, h200, draft_len, 4, 2000) for draft_len in (1.0, 2.0))
    first, later = (float(total_s(list(ops))) for ops in ((*two.pass_ops, *two.first_ops), two.pass_ops))
    assert float(two.total_s) == pytest.approx(np.hypot(first, two.floor_s) + np.hypot(later, two.floor_s))
    assert float(one.total_s) == pytest.approx(
        np.hypot(float(total_s([*one.pass_ops, *one.first_ops])), one.floor_s))


def test_specdecode_bench_pass_times_of_vllm_0_10(h200: Deployment) -> None:
    """Passes on H100: EAGLE-3 of the 8B 0.69 ms, 1B for the 70B on four GPUs 1.46 ms, 0.6B for the 8B 2.4 ms.

    A 16-layer drafter takes longer than a one-layer one though both are small: layers price it, not bytes.
    """
    old = replace(h200, gpu=load_gpu("h100-sxm"), path=engine_path("vllm", "0.10.1"))
    small = load_drafter("draft_model", load_model("llama-3.1-70b"), model="llama-3.2-1b")
    tiny = load_drafter("draft_model", load_model("qwen3-8b"), model="qwen3-0.6b")
    head = load_drafter("eagle3", load_model("llama-3.1-8b"))
    runs = [(head, old), (small, replace(old, tp=4)), (tiny, old)]
    times = [float(drafting(drafter, where, 1.0, 1, 500).total_s) for drafter, where in runs]
    assert times == pytest.approx([0.69e-3, 1.46e-3, 2.4e-3], rel=0.3)


def test_one_parallel_pass_hardly_grows_with_d(llama_8b: Model, h200: Deployment) -> None:
    dflash = load_drafter("dflash", llama_8b, block=16)
    three, fifteen = (float(drafting(dflash, h200, d, 1, 2000).total_s) for d in (3.0, 15.0))
    assert three < fifteen < 1.3 * three
    assert float(drafting(dflash, h200, 0.0, 1, 2000).total_s) == 0.0


def test_dspark_adds_a_serial_step_per_token(llama_8b: Model, h200: Deployment) -> None:
    """Its rank-256 head reads 128256 x 256 bf16 = 66 MB per token: 15 us at 4.46 TB/s, plus a launch."""
    dspark = load_drafter("dspark", llama_8b)
    without = replace(dspark, markov_rank=None)
    seven = drafting(dspark, h200, 7.0, 1, 2000).total_s - drafting(without, h200, 7.0, 1, 2000).total_s
    assert 7 * 14.7e-6 < float(seven) < 7 * 25e-6


@pytest.mark.parametrize(("mechanism", "factor"), [("eagle3", [0, 1, 2, 7]), ("dspark", [0, 1, 1, 1])])
def test_a_measured_pass_replaces_the_predicted_one(
    mechanism: str, factor: list[int], llama_8b: Model, h200: Deployment
) -> None:
    drafter = load_drafter(mechanism, llama_8b)
    lengths, batches = np.array([0.0, 1.0, 2.0, 7.0])[:, None], np.array([1.0, 64.0])
    predicted = drafting(drafter, h200, lengths, batches, 2000)
    measured = drafting(replace(drafter, measured_pass_s=3e-3), h200, lengths, batches, 2000)
    assert np.broadcast_to(measured.total_s, (4, 2)).T.tolist() == [pytest.approx([f * 3e-3 for f in factor])] * 2
    assert [op.name for op in measured.pass_ops] == [op.name for op in predicted.pass_ops]
    assert measured.passes.tolist() == predicted.passes.tolist()


def test_a_lookup_costs_the_gpu_nothing_and_verifies_fewer_rows(llama_8b: Model, h200: Deployment) -> None:
    ngram = load_drafter("ngram", llama_8b, draft_fraction=0.4)
    step = speculative_step(llama_8b, h200, ngram, 5.0, 4, 2000)
    assert float(step.draft_s) == 0.0
    assert float(step.query_len) == pytest.approx(1 + 5 * 0.4)


def test_share_of_lookups_that_draft_follows_what_is_accepted(llama_8b: Model) -> None:
    """min(1, 1.1*sqrt(AL - 1)): AL 1.25 drafts in 55 % of the steps, AL 2 in all of them."""
    ngram = load_drafter("ngram", llama_8b)
    rows = mean_query_len(ngram, engine_path("vllm", "0.24.0"), np.array([4.0, 4.0]), np.array([1.25, 2.0]))
    assert rows == pytest.approx([1 + 4 * 0.55, 5.0])


def test_depth_ratio_is_layers_over_layers(llama_8b: Model) -> None:
    assert depth_ratio(load_drafter("eagle3", llama_8b), llama_8b) == pytest.approx(1 / 32)
    assert depth_ratio(load_drafter("ngram", llama_8b), llama_8b) == 0.0


def test_floor_counts_further_layers(h200: Deployment) -> None:
    path = h200.path
    more = pass_floor_s(path, 5) - pass_floor_s(path, 1)
    assert more == pytest.approx(4 * path.pass_floor_s_per_extra_layer.value)


def test_drafter_tp_1_sends_nothing(llama_8b: Model, h200: Deployment) -> None:
    eagle = load_drafter("eagle3", llama_8b)
    four = replace(h200, tp=4)
    names = {op.name for op in drafting(eagle, replace(four, drafter_tp=1), 1.0, 1, 100).pass_ops}
    assert "allreduce_ffn" not in names
    assert "allreduce_ffn" in {op.name for op in drafting(eagle, four, 1.0, 1, 100).pass_ops}


def test_d_0_with_a_drafter_loaded_is_not_off(llama_8b: Model, h200: Deployment) -> None:
    eagle = load_drafter("eagle3", llama_8b)
    loaded = speculative_step(llama_8b, h200, eagle, 0.0, 8, 2000)
    off = off_step(llama_8b, h200, 8, 2000)
    tax = h200.path.spec_extra_s.value + 8 * h200.path.per_seq_s.value
    assert float(loaded.step_s - off.step_s) == pytest.approx(tax)


def test_eager_host_bounds_the_pass(llama_8b: Model, h200: Deployment) -> None:
    """Hugging Face eager: 0.49 ms per target layer whatever the GPU does."""
    eager = replace(h200, path=engine_path("transformers"))
    assert float(off_step(llama_8b, eager, 1, 200).step_s) == pytest.approx(32 * 0.49e-3 + 0.9e-3)


def test_data_parallel_attention_splits_the_drafters_sequences_like_the_targets(h200: Deployment) -> None:
    """Eight groups: the MTP layer of DeepSeek-V3 attends to 32 of 256 sequences on each GPU, with all 128 heads."""
    target = load_model("deepseek-v3")
    mtp = load_drafter("mtp", target)
    together = replace(h200, tp=8, ep=8)
    groups = replace(together, dp_attention=8)

    def attention_s(deployment: Deployment, batch: float) -> float:
        ops = drafting(mtp, deployment, 1.0, batch, 8192).pass_ops
        return float(next(op.total_s for op in ops if op.name == "attention"))

    layer = next(op for op in off_step(target, groups, 256, 8192).ops if op.name == "attention")
    assert attention_s(groups, 256) == pytest.approx(float(layer.time.time_s))
    assert attention_s(groups, 256) < 0.7 * attention_s(together, 256)
    ops = {op.name: op for op in drafting(mtp, groups, 1.0, 256, 8192).pass_ops}
    assert "expert_alltoall" in ops
    assert "allreduce_attention" not in ops
    fuse = next(op for op in drafting(mtp, together, 1.0, 32, 8192).pass_ops if op.name == "fuse")
    assert float(ops["fuse"].total_s) == pytest.approx(float(fuse.total_s))


def test_a_drafter_of_one_gpu_drafts_for_one_attention_group(h200: Deployment) -> None:
    """Groups of one GPU with a drafter each: 8 groups of 4 sequences draft like one GPU with 4 sequences."""
    eagle = load_drafter("eagle3", load_model("llama-3.1-70b"))
    groups = replace(h200, tp=8, dp_attention=8, drafter_tp=1)
    assert float(drafting(eagle, groups, 3.0, 32, 8000).total_s) == pytest.approx(
        float(drafting(eagle, h200, 3.0, 4, 8000).total_s))
    assert float(drafting(eagle, replace(h200, tp=8, drafter_tp=1), 3.0, 32, 8000).total_s) == pytest.approx(
        float(drafting(eagle, h200, 3.0, 32, 8000).total_s))
