"""Every dialect says a plan so that reading it back gives the same plan, and says what it cannot say."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields, replace
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.planner.check.files import Kind
from specplan.planner.check.run import check_text
from specplan.planner.decide.tier import Tier
from specplan.planner.engines.dialects import ENGINES, Emitted, emit, engine_name, parse, write_configuration
from specplan.planner.engines.plan import DraftPlan, check_plan, fitted
from specplan.planner.engines.tensorrt_llm.configuration import graph_batches
from specplan.planner.engines.vllm.configuration import max_capture_size
from specplan.planner.messages import InputError
from specplan.planner.models.drafter import Mechanism

FILES: dict[str, tuple[str, Kind]] = {"tensorrt_llm": ("llm.yaml", "yaml"),
                                      "onnxruntime_genai": ("genai_config.json", "json")}
LOADED = {"draft_model", "eagle", "eagle3", "p_eagle", "pard", "dflash", "dspark"}     # have files of their own
EAGLE3 = DraftPlan(mechanism="eagle3", draft_len=3, drafter_model="org/drafter", target_model="org/target", tp=4,
                   max_batch=128, drafter_tp=1, sampling="probabilistic",
                   schedule=(Tier(1, 8, 3), Tier(9, 64, 1), Tier(65, 128, 0)), acceptance_length=2.4)


@st.composite
def plans(draw: st.DrawFn) -> DraftPlan:
    """Plans as the planner makes them: any mechanism, length, schedule and size."""
    mechanism = draw(st.sampled_from(get_args(Mechanism)))
    lengths = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4).filter(lambda found: max(found) > 0))
    ends = sorted(draw(st.lists(st.integers(1, 512), min_size=len(lengths), max_size=len(lengths), unique=True)))
    tiers = tuple(Tier(first + 1, last, length) for first, last, length in
                  zip([0, *ends[:-1]], ends, lengths, strict=True))
    length = max(lengths)
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    drafter = draw(st.sampled_from(["org/drafter", "/models/my drafter", "it's.gguf"]))
    return DraftPlan(
        mechanism=mechanism, draft_len=length, schedule=tiers if len(tiers) > 1 else None,
        drafter_model=drafter if mechanism in LOADED else None,
        target_model=draw(st.sampled_from([None, "org/target", "/models/a b"])), tp=tp,
        max_batch=draw(st.sampled_from([None, ends[-1], 1024])), drafter_tp=draw(st.sampled_from([None, 1, tp])),
        ep=draw(st.sampled_from([1, tp])),
        dp_attention=draw(st.sampled_from([size for size in (1, 2, tp) if tp % size == 0])),
        weights=draw(st.sampled_from([None, "fp8", "nvfp4"])), kv_dtype=draw(st.sampled_from([None, "fp8", "int8"])),
        block=length + 1 if mechanism == "dflash" else length if mechanism == "dspark" else None,
        sampling=draw(st.sampled_from([None, "greedy", "probabilistic"])),
        acceptance_length=draw(st.sampled_from([None, 1.0 + length / 2])),
        cost_table=draw(st.sampled_from([None, "costs.json"])) if mechanism == "dspark" else None,
        min_acceptance_rate=draw(st.sampled_from([None, 0.25])),
    )


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_reading_back_gives_the_plan_and_what_is_lost_is_said(engine: str, plan: DraftPlan) -> None:
    for version in {"tensorrt_llm": (None, "1.2.0"), "vllm": (None, "0.24.0")}.get(engine, (None,)):
        written = written_or_refused(plan, engine, version)
        if written is None:
            continue
        assert parse(written.text, engine, version) == written.plan
        assert written.plan.draft_len == plan.draft_len, "D is never changed"
        lost = {field.name for field in fields(DraftPlan) if getattr(plan, field.name)
                and getattr(written.plan, field.name) != getattr(plan, field.name)} - {"acceptance_length"}
        lost -= {"sampling"} if plan.sampling == "greedy" else set()            # is what engines do anyway
        lost -= {"drafter_tp"} if plan.drafter_tp == plan.tp else set()         # likewise
        assert len(written.notes) >= bool(lost), lost


def written_or_refused(plan: DraftPlan, engine: str, version: str | None = None) -> Emitted | None:
    """None where the engine has no such drafter (or takes no plan without an expectation), and says so."""
    try:
        return write_configuration(plan, engine, version)
    except InputError as error:
        needs_length = engine == "aiconfigurator" and plan.acceptance_length is None
        if (f"'{plan.mechanism}'" if not needs_length else "acceptance length") not in str(error):
            raise
        return None


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=25, deadline=None)
@given(plan=plans())
def test_what_is_written_passes_the_check(engine: str, plan: DraftPlan) -> None:
    """Without errors: what remains are warnings about choices that the plan made."""
    written = written_or_refused(plan, engine)
    if written is None:
        return
    name, kind = FILES.get(engine) or ("serve.sh", "shell")
    found = check_text(written.text, name, kind)
    assert [finding for finding in found if finding.severity == "error"] == []


def without_remarks(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def test_vllm_takes_triples_and_capture_sizes_of_whole_verify_steps() -> None:
    words = shlex.split(without_remarks(emit(EAGLE3, "vllm")).replace("\\\n", " "))
    assert words[:3] == ["vllm", "serve", "org/target"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert json.loads(options["--speculative-config"]) == {
        "method": "eagle3", "model": "org/drafter", "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 64, 1], [65, 128, 0]],
        "draft_tensor_parallel_size": 1, "draft_sample_method": "probabilistic"}
    assert "--compilation-config" not in options, "vLLM's own graphs reach the 128 rows of the largest step"


def vllm_sizes(end: int, length: int) -> list[int]:
    """Graph sizes that vLLM makes up to `end` rows under speculation."""
    own = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, end + 1, 16)) if size <= end]
    up = sorted({-(-size // (length + 1)) * (length + 1) for size in own})
    return [size for size in up if size <= end]


@settings(max_examples=200, deadline=None)
@given(plan=plans(), largest=st.integers(1, 1024))
def test_graphs_reach_the_largest_step_and_pad_little(plan: DraftPlan, largest: int) -> None:
    """Every step of every tier replays a graph with at most a quarter more rows (or 16, where rows cost nothing)."""
    plan = replace(plan, max_batch=largest, dp_attention=1)
    end = max_capture_size(plan) or min(largest * (plan.draft_len + 1) * 2, 512)
    sizes, batches = vllm_sizes(end, plan.draft_len), graph_batches(largest)
    for batch in range(1, largest + 1):
        rows = batch * (1 + plan.length_at(batch))
        assert min(size for size in sizes if size >= rows) <= max(rows * 1.25, rows + 16)
        assert min(known for known in batches if known >= batch) <= max(batch * 1.125, batch + 3)


def test_graphs_follow_the_tiers_not_the_longest_draft_at_the_largest_batch() -> None:
    falling = replace(EAGLE3, draft_len=6, max_batch=128, schedule=(Tier(1, 100, 6), Tier(101, 128, 3)))
    assert falling.largest_step_rows == 700
    assert '{"max_cudagraph_capture_size": 707}' in emit(falling, "vllm")
    assert "--cuda-graph-max-bs 128" in emit(falling, "sglang")
    batches = yaml.safe_load(emit(falling, "tensorrt_llm"))["cuda_graph_config"]
    assert batches == {"enable_padding": True, "batch_sizes": [1, 2, 4, *range(8, 64, 4), *range(64, 129, 8)]}


def test_sglang_triple_is_consistent_and_the_adaptive_file_is_by_lowest_batch() -> None:
    text = emit(EAGLE3, "sglang")
    words = shlex.split(text.split("EOF\n")[-1].replace("\\\n", " "))
    steps, topk, rows = (words[words.index("--speculative-" + name) + 1]
                         for name in ("num-steps", "eagle-topk", "num-draft-tokens"))
    assert (steps, topk, rows) == ("3", "1", "4")
    adaptive = json.loads(text.split("<<'EOF'\n")[1].split("EOF")[0])
    assert adaptive == {"1": {"candidate_steps": [3]}, "9": {"candidate_steps": [1]}, "65": {"candidate_steps": [0]}}


@pytest.mark.parametrize(("engine", "old", "new", "key"), [
    ("vllm", "0.8.5", "0.22.0", "num_speculative_tokens_per_batch_size"),
    ("vllm", "0.21.1", "0.24.0", "num_speculative_tokens_per_batch_size"),
    ("sglang", "0.4.1", "0.5.10", "--speculative-adaptive"),
])
def test_a_release_before_schedules_gets_one_length_and_says_so(engine: str, old: str, new: str, key: str) -> None:
    """The release is that of the check rules: what the check refuses there is not written."""
    written = write_configuration(EAGLE3, engine, old)
    settings = "".join(line for line in written.text.splitlines(keepends=True) if not line.startswith("#"))
    assert key not in settings
    assert written.plan.schedule is None
    (said,) = [note.message for note in written.notes if note.code == "schedule"]
    assert f"{old} does not have {key} yet, which is there since" in said
    assert "3 is used throughout" in said
    assert key in write_configuration(EAGLE3, engine, new).text


@pytest.mark.parametrize(("engine", "old", "first"), [
    ("tensorrt_llm", "0.17", "1.2"), ("llama_cpp", "b4000", "b9235"), ("vllm", "0.6.3", "0.8.3")])
def test_a_release_before_the_known_settings_is_refused(engine: str, old: str, first: str) -> None:
    plan = replace(EAGLE3, schedule=None)
    with pytest.raises(InputError, match=f"{engine} {old}: the settings that specplan writes are there since {first}"):
        write_configuration(plan, engine, old)
    assert write_configuration(plan, engine, first).text


@pytest.mark.parametrize("version", ["banana", "main", "latest", "x", "\uff10.\uff12\uff14.\uff10", "0.24.0 ", "-1"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InputError, match=r"is not a version of vllm: give a release such as 0\.33\.0"):
        write_configuration(EAGLE3, "vllm", version)


def test_trtllm_schedule_has_the_meaning_of_the_release() -> None:
    """Lowest batch of a tier before pull request 10860, highest batch after it."""
    newest = yaml.safe_load(emit(EAGLE3, "tensorrt_llm"))["speculative_config"]["draft_len_schedule"]
    older = yaml.safe_load(emit(EAGLE3, "tensorrt_llm", "1.2.0"))["speculative_config"]["draft_len_schedule"]
    assert newest == {8: 3, 64: 1, 128: 0}
    assert older == {1: 3, 9: 1, 65: 0}


@pytest.mark.parametrize(("engine", "lines"), [
    ("vllm", ["--kv-cache-dtype fp8", "--quantization fp8", "--tensor-parallel-size 2", "--data-parallel-size 2",
              "--enable-expert-parallel", "--max-num-seqs 64"]),
    ("sglang", ["--kv-cache-dtype fp8_e4m3", "--quantization fp8", "--tp-size 4", "--dp-size 2",
                "--enable-dp-attention", "--ep-size 4", "--max-running-requests 128"]),
    ("tensorrt_llm", ["dtype: fp8", "FP8 weights: serve a checkpoint in that format", "tensor_parallel_size: 4",
                      "moe_expert_parallel_size: 4", "attention DP here is over all 4 GPUs or none"]),
    ("llama_cpp", ["FP8 weights", "KV cache in FP8", "experts over 4 GPUs and attention over 2 groups"]),
])
def test_formats_and_groups_are_flags_or_said(engine: str, lines: list[str]) -> None:
    plan = replace(EAGLE3, ep=4, dp_attention=2, weights="fp8", kv_dtype="fp8", schedule=None)
    text = emit(plan, engine).replace("\n#   ", " ")
    assert [line for line in lines if line not in text] == []
    plain = emit(replace(EAGLE3, schedule=None), engine)
    assert [word for word in ("fp8", "FP8", "expert", "dp-size", "data-parallel") if word in plain] == []


def test_attention_dp_over_all_ranks_counts_sequences_of_one() -> None:
    written = write_configuration(replace(EAGLE3, dp_attention=4, ep=4), "tensorrt_llm")
    settings_of = yaml.safe_load(written.text)
    assert (settings_of["enable_attention_dp"], settings_of["max_batch_size"]) == (True, 32)
    assert "draft_len_schedule" not in settings_of["speculative_config"]
    assert any("32 of 128" in note.message for note in written.notes)


def test_groups_that_do_not_divide_the_gpus_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        check_plan(replace(EAGLE3, ep=3, dp_attention=3))
    assert {fault.path for fault in caught.value.faults} == {("ep",), ("dp_attention",)}


@pytest.mark.parametrize(("engine", "expected"), [
    ("llama_cpp", "--spec-draft-n-max 3"), ("lmdeploy", "--speculative-num-draft-tokens 3"),
    ("aiconfigurator", "--nextn 3"), ("onnxruntime_genai", '"max_draft_tokens": 3'),
])
def test_other_dialects_name_d(engine: str, expected: str) -> None:
    written = write_configuration(EAGLE3, engine)
    assert expected in written.text.replace(" \\\n    ", "\n")
    assert "1-8: 3, 9-64: 1, 65-128: 0" in " ".join(note.message for note in written.notes)


def test_aiconfigurator_counts_accepted_drafts_without_the_bonus() -> None:
    assert "--nextn-accepted 1.4" in emit(EAGLE3, "aiconfigurator")


@pytest.mark.parametrize(("engine", "line"), [
    ("sglang", "--speculative-dspark-block-size 5"), ("vllm", '"num_speculative_tokens": 5'),
    ("tensorrt_llm", "max_draft_len: 5"),
])
def test_dspark_block_is_d_and_dflash_block_is_one_more(engine: str, line: str) -> None:
    dspark = DraftPlan(mechanism="dspark", draft_len=5, block=5, drafter_model="d", target_model="t")
    assert line in emit(dspark, engine)
    dflash = replace(dspark, mechanism="dflash", block=6)
    assert parse(emit(dflash, "sglang"), "sglang").draft_len == 5
    assert "--speculative-dflash-block-size 6" in emit(dflash, "sglang") or (
        "--speculative-num-draft-tokens 6" in emit(dflash, "sglang"))


@pytest.mark.parametrize("engine", ENGINES)
def test_off_is_said_and_starts_nothing(engine: str) -> None:
    text = emit(DraftPlan(mechanism=None, draft_len=0), engine)
    assert without_remarks(text) == ""
    assert "plain decoding" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_remarks_keep_the_snippet_what_it_is(engine: str) -> None:
    """Remarks are comments of the format, JSON gets none; lines of remarks are short."""
    text = emit(EAGLE3, engine)
    if engine == "onnxruntime_genai":
        assert json.loads(text)
    elif engine == "tensorrt_llm":
        assert yaml.safe_load(text)
    assert all(len(line) <= 118 for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize(("engine", "text", "says"), [
    ("vllm", "vllm serve m \\\n  --speculative-config '{\"method\": \"mtp\",}'", "line 2: "),
    ("vllm", "vllm serve m", "does not"), ("sglang", "python -m sglang.launch_server --model m", "does not say"),
    ("tensorrt_llm", "max_batch_size: 3\n", "does not"), ("tensorrt_llm", "a: b\nc: [", "line 2"),
    ("llama_cpp", "llama-server -m a.gguf", "does not"), ("lmdeploy", "lmdeploy serve api_server m", "does not say"),
    ("onnxruntime_genai", "{}", "no"), ("aiconfigurator", "aiconfigurator cli default", "no"),
])
def test_text_without_a_plan_says_so(engine: str, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(text, engine)


@pytest.mark.parametrize(("given_name", "engine"), [
    ("vLLM", "vllm"), ("TRTLLM", "tensorrt_llm"), ("TensorRT-LLM", "tensorrt_llm"), ("llama.cpp", "llama_cpp"),
    ("onnxruntime-genai", "onnxruntime_genai"), ("aic", "aiconfigurator"),
])
def test_engines_have_their_usual_spellings(given_name: str, engine: str) -> None:
    assert engine_name(given_name) == engine


def test_unknown_engine_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'sglang'"):
        emit(EAGLE3, "sglan")


@pytest.mark.parametrize(("change", "field"), [
    ({"draft_len": -1, "schedule": None, "acceptance_length": None}, "draft_len"), ({"tp": 0}, "tp"),
    ({"acceptance_length": 4.5}, "acceptance_length"), ({"schedule": ()}, "schedule"), ({"max_batch": 0}, "max_batch"),
    ({"schedule": (Tier(2, 8, 3),)}, "schedule"), ({"schedule": (Tier(1, 8, 3), Tier(8, 9, 1))}, "schedule"),
    ({"schedule": (Tier(1, 8, 2),)}, "draft_len"), ({"schedule": (Tier(1, 8, 3), Tier(9, 16, -1))}, "schedule"),
    ({"mechanism": "magic"}, "mechanism"), ({"drafter_tp": 0}, "drafter_tp"),
])
def test_faulty_plans_are_refused_by_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=field):
        check_plan(replace(EAGLE3, **change))       # type: ignore[arg-type]


def test_all_faults_of_a_plan_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        check_plan(replace(EAGLE3, tp=0, max_batch=0, acceptance_length=9.0))
    assert len(caught.value.faults) == 3


def test_schedule_is_cut_at_the_largest_batch() -> None:
    assert EAGLE3.schedule is not None
    assert fitted(EAGLE3.schedule, 32) == (Tier(1, 8, 3), Tier(9, 32, 1))
    assert replace(EAGLE3, schedule=None).tiers == (Tier(1, 128, 3),)
