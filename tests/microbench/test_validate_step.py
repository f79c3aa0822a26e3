"""A timed step beside its prediction: which fixed costs it has, what the regret of a choice is, what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from specplan.microbench import cases, runner, validate_step
from specplan.microbench.fit_measurements import fit_measured
from specplan.microbench.journal import append, open_journal
from specplan.microbench.measured_base import base_profile
from specplan.microbench.measurements import Measurement, environment_id
from specplan.microbench.step_timing import beside
from specplan.microbench.validate_step import StepRow, StepValidation
from specplan.microbench.validate_step_text import validation_json, validation_text
from specplan.planner.acceptance.forms import from_alpha
from specplan.planner.kernels.profile import dump_profile, load_gpu
from specplan.planner.messages import InputError
from tests.microbench.devices import CPU
from tests.microbench.test_sweep_plan import measured, timed

CONFIG = """
target: {{model_type: llama, architectures: [LlamaForCausalLM], hidden_size: 64, num_hidden_layers: 3,
         num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64, intermediate_size: 128, vocab_size: 256,
         hidden_act: silu, torch_dtype: float32}}
gpu: {gpu}
dtypes: {{weights: {dtype}, kv: {dtype}}}
workload: {{batch: [2], context_tokens: [64]}}
drafters: [{drafter}]
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A profile of a CPU with its measurements beside it."""
    found = measured()
    report = fit_measured(found, base_profile(found), splits=("a",))
    (tmp_path / "profile.yaml").write_text(dump_profile(report.profile))
    floor = Measurement(op="launch", kernel="torch-add", shape={}, dtypes={}, flop=0.0, bytes=8.0,
                        environment=environment_id(CPU), samples_s=(5e-6,))
    with open_journal(tmp_path / "measurements.jsonl", CPU) as journal:
        append(journal, floor)
    return tmp_path / "profile.yaml"


def config(profile: Path, drafter: str = "{mechanism: eagle3, acceptance: {alpha: 0.7}}", dtype: str = "fp32") -> Path:
    path = profile.parent / "cfg.yaml"
    path.write_text(CONFIG.format(gpu=profile, drafter=drafter, dtype=dtype))
    return path


def test_the_runner_has_no_host_and_small_kernels_at_the_measured_launch_floor(profile: Path) -> None:
    gpu = load_gpu(str(profile))
    swept = beside(gpu)
    assert swept is not None
    path = runner.runner_path(runner.small_kernels_s(swept.timed, gpu, "cpu"))
    assert path.host_step_s.value == path.spec_extra_s.value == path.per_seq_s.value == path.pass_floor_s.value == 0
    assert path.constant("small_kernels_s_per_layer") == pytest.approx(runner.SMALL_KERNELS * 5e-6)


def test_without_a_sweep_the_launch_floor_is_a_prior() -> None:
    gpu = load_gpu("h200-sxm")
    assert beside(gpu) is None
    assert runner.small_kernels_s((), gpu, "cuda") == runner.SMALL_KERNELS * runner.LAUNCH_PRIOR_S


@pytest.mark.parametrize(("extra_s", "told_s"), [(200e-6, 200e-6), (-1e-3, 50e-6), (1.0, 750e-6)])
def test_drafter_passes_tell_the_small_kernels_between_bounds(profile: Path, extra_s: float, told_s: float) -> None:
    gpu = load_gpu(str(profile))
    swept = beside(gpu)
    assert swept is not None
    passes = []
    for batch in (1, 4):
        case = cases.draft_step(batch=batch, context_tokens=512, layers=2, hidden=512, intermediate=1536, query_heads=8,
                                kv_heads=2, head_dim=64, vocab=4096, dtype="fp32")
        passes.append(timed(case, "torch-step", 1.0))
        seconds = runner.draft_step_s(passes[-1], gpu, device="cpu", small_s=0.0)
        passes[-1] = dataclasses.replace(passes[-1], samples_s=(max(seconds + 2 * extra_s, 1e-6),))
    assert runner.small_kernels_s([*swept.timed, *passes], gpu, "cpu") == pytest.approx(told_s, rel=1e-6)


def row(draft_len: int | None, measured_s: float, predicted_s: float) -> StepRow:
    return StepRow(batch=1, context_tokens=10, draft_len=draft_len, measured_s=measured_s, predicted_s=predicted_s)


def test_regret_is_what_the_predicted_choice_loses_by_the_clock() -> None:
    # alpha 0.5: AL = 1, 1.5, 1.75 for D = 0, 1, 2
    rows = [row(None, 1.0, 1.0), row(1, 1.2, 1.4), row(2, 1.5, 1.5)]
    (choice,) = validate_step._choices(rows, from_alpha(0.5))
    assert (choice.chosen, choice.best) == (2, 1)
    assert choice.regret == pytest.approx(1 - (1.75 / 1.5) / (1.5 / 1.2))


def test_errors_are_relative_to_the_measurement() -> None:
    result = StepValidation(rows=(row(None, 2.0, 1.0), row(1, 1.0, 1.5)), choices=(), layers=1, model_layers=1,
                            reference_spread=0.0, pace=2.0)
    assert result.mean_error_pct == pytest.approx(50.0)
    assert result.mean_regret is None
    text = validation_text(result)
    assert "mean error of the step 50.0 %" in text
    assert "takes 2.00 times as long" in text
    assert result.mean_error_at_pace_pct == pytest.approx(100.0)     # 0 and 200 %
    assert "with that taken out 100.0 %" in text
    assert validation_json(result)["rows"][0] == {
        "batch": 1, "context_tokens": 10, "draft_len": None, "measured_s": 2.0, "predicted_s": 1.0}


def test_a_small_step_is_built_timed_and_predicted(profile: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    result = validate_step.validate_step(config(profile), device="cpu", threads=1, layers=2, draft_lens=(0, 1, 3))
    assert [row.draft_len for row in sorted(result.rows, key=lambda row: -1 if row.draft_len is None else row.draft_len)
            ] == [None, 0, 1, 3]
    assert all(row.measured_s > 0 and row.predicted_s > 0 for row in result.rows)
    by_length = {row.draft_len: row.predicted_s for row in result.rows}
    assert by_length[3] > by_length[1] > by_length[0] == by_length[None]
    assert (result.layers, result.model_layers) == (2, 3)
    assert "2 of the model's 3 layers were built" in " ".join(note.message for note in result.notes)
    assert len(result.choices) == 1
    assert result.pace is None      # the sweep beside the profile was another machine's


@pytest.mark.parametrize(("drafter", "dtype", "said"), [
    ("{mechanism: ngram, acceptance: {alpha: 0.5}}", "fp32", "needs one with a network"),
    ("{mechanism: dflash, block: 8, acceptance: {alpha: 0.5}}", "fp32", "builds serial drafters"),
    ("{mechanism: eagle3, acceptance: {alpha: 0.5}}", "bf16", "runs weights and cache in fp32, not bf16"),
])  # fmt: skip
def test_what_cannot_be_built_is_refused(profile: Path, drafter: str, dtype: str, said: str) -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    with pytest.raises(InputError, match=said):
        validate_step.validate_step(config(profile, drafter, dtype), device="cpu", threads=1)


def test_a_batch_that_does_not_fit_and_a_drafter_that_is_not_there_are_named(profile: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (extra gpu)")
    path = config(profile)
    with pytest.raises(InputError, match="none is called 'eagle4'; there are eagle3; did you mean 'eagle3'"):
        validate_step.validate_step(path, device="cpu", threads=1, drafter="eagle4")
    path.write_text(path.read_text().replace("batch: [2]", "batch: [2, 300000000]"))
    with pytest.raises(InputError, match=r"batch 300000000, context_tokens 64: does not fit: .* take [\d.e+]+ GB"):
        validate_step.validate_step(path, device="cpu", threads=1)
