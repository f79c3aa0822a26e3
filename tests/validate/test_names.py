"""Words of sources -> names: by rules first, by the table where no rule can know."""

from __future__ import annotations

import pytest

from specplan.planner.kernels.profile import gpu_names
from specplan.planner.models.reader import load_model
from specplan.planner.validate import names


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"),
        ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("DeepSeek-R1-0528 NVFP4", "deepseek-r1"),
        ("GLM-4.5-Air", "glm-4.5-air-106b-a12b"),
        ("Kimi-K2.6-NVFP4", "kimi-k2.6-nvfp4"),
        ("MiMo-V2-Flash (309B-A15B MoE)", "mimo-v2-flash"),
        ("Inkling (1T)", "inkling"),
        ("Llama-3-70B-Instruct", "llama-3.3-70b"),      # same shape, by the table
        ("gpt_oss_120b", "gpt-oss-120b"),
        ("not in the stored text", None),
        ("", None),
    ],
)
def test_targets(text: str, preset: str | None) -> None:
    found = names.target_name(text)
    assert (None if found is None else found.name) == preset


def test_annotations_add_shapes_of_siblings() -> None:
    found = names.target_name("Qwen3.8-27B INT4", {"Qwen3.8-27B": {"use": "qwen3.6-27b-nvfp4", "kind": "inferred"}})
    assert found == names.Named("qwen3.6-27b-nvfp4", "inferred")


@pytest.mark.parametrize(
    ("text", "profile", "count", "power"),
    [
        ("H100", "h100-sxm", None, None),
        ("4x H100", "h100-sxm", 4, None),
        ("8xH200", "h200-sxm", 8, None),
        ("1x RTX 5090 at 400 W cap", "rtx-5090", 1, 400.0),
        ("A100-40GB", "a100-40-sxm", None, None),
        ("A100-80GB", "a100-80-sxm", None, None),
        ("DGX Spark (GB10)", "dgx-spark-gb10", None, None),
        ("Radeon RX 7900 XTX", "rx-7900-xtx", None, None),
        ("2x RTX 3090 + RTX 3090 Ti", "rtx-3090", 3, None),
        ("RTX PRO 6000 Blackwell Max-Q", "rtx-pro-6000-maxq", None, None),
        ("Intel Arc Pro B70", "arc-pro-b70", None, None),
        ("Apple M3 Ultra", "m3-ultra", None, None),
        ("RTX 3090 (430 W, overclocked)", "rtx-3090", None, 430.0),
        ("not stated", None, None, None),
        ("Ascend NPU (model not stated)", None, None, None),
    ],
)
def test_gpus(text: str, profile: str | None, count: int | None, power: float | None) -> None:
    found = names.gpu_text(text)
    name = None if found.profile is None else found.profile.name
    assert (name, found.count, found.power_limit_w) == (profile, count, power)


def test_doubt_in_words_makes_a_gpu_inferred_and_two_names_ask_the_row() -> None:
    assert names.gpu_text("B200 (as Table 11; not restated)").profile == names.Named("b200-sxm", "inferred")
    assert names.gpu_text("RTX 5090 / H200").several == ("h200-sxm", "rtx-5090")


def test_every_profile_is_found_by_its_own_name() -> None:
    for name in gpu_names():
        found = names.gpu_text(name.replace("-", " ")).profile
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    ("text", "engine", "version", "path"),
    [
        ("vLLM 0.10.1", "vllm", "0.10.1", None),
        ("SGLang FA4, spec v2", "sglang", None, "sglang-spec-v2"),
        ("TensorRT-LLM (PyTorch), early 2025", "trtllm", None, None),
        ("SGLang (2025-03)", "sglang", "0.0", None),        # older than the release that began the newest path
        ("vLLM V1 (2026-03)", "vllm", "0.16", None),
        ("llama.cpp master 666f889", "llama_cpp", None, None),
        ("HF transformers", "transformers", None, None),
        ("PocketLLM (custom)", None, None, None),
        ("", None, None, None),
    ],
)
def test_engines(text: str, engine: str | None, version: str | None, path: str | None) -> None:
    assert names.engine_text(text) == names.EngineText(engine=engine, version=version, path=path)


@pytest.mark.parametrize(
    ("texts", "mechanism"),
    [
        (("eagle3 (topk 1 = chain; topk>1 = tree)",), "eagle3"),
        (("EAGLE-3",), "eagle3"),
        (("P-EAGLE best",), "p_eagle"),
        (("external_draft",), "draft_model"),
        (("n-gram",), "ngram"),
        (("mtp vs dflash",), None),
        (("DFlash", "mtp vs dflash"), "dflash"),
        (("8 chained MTP heads",), "mtp"),
    ],
)
def test_mechanisms(texts: tuple[str, ...], mechanism: str | None) -> None:
    assert names.mechanism_name(*texts) == mechanism


def test_weight_formats_by_role_of_a_file_and_in_doubt() -> None:
    dsr1 = names.weight_formats("attention bf16, FFN/MoE nvfp4, MTP bf16")
    assert (dsr1.attention, dsr1.ffn, dsr1.experts, dsr1.mtp) == ("bf16", "nvfp4", "nvfp4", "bf16")
    file = names.weight_formats("UD-Q4_K_XL (17.9 GB)")
    assert (file.gguf, file.file_bytes) == ("q4_k_xl", 17.9e9)
    assert names.weight_formats("", "Qwen3-8B-FP8").ffn == "fp8"
    assert names.weight_formats("int4 (online)").experts == "w4a16"
    assert names.weight_formats("fp8, int4").doubtful
    assert names.weight_formats("not re-read") == names.Formats()


def test_the_table_names_only_what_exists() -> None:
    table = names.aliases()
    known = set(gpu_names())
    assert {entry["use"] for entry in table["gpus"].values()} <= known
    for entry in (*table["targets"].values(), *table["draft_models"].values()):
        load_model(entry["config"] if "config" in entry else entry["use"])
        assert entry["kind"] in ("exact", "same_shape", "inferred")


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("LLaMA3.1-8B", "llama-3.1-8b"),
        ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"), ("DeepSeek-V3", "deepseek-v3"),
        ("Llama-3_3-Nemotron-Super-49B-v1", "llama-3.3-nemotron-super-49b"), ("Gemma3-27B", "gemma-3-27b"),
    ],
)
def test_spelling_and_releases_do_not_matter(text: str, preset: str) -> None:
    assert names.target_name(text) == names.Named(preset)


def test_an_unknown_version_takes_its_siblings_shape_and_says_so() -> None:
    found = names.target_name("Qwen3.8-27B")
    assert found is not None
    assert found.kind == "inferred"
    assert "27b" in found.name
    assert names.target_name("Llama-9B") is None


@pytest.mark.parametrize(
    ("text", "profile", "count"),
    [("RTX4090", "rtx-4090", None), ("H100x8", "h100-sxm", 8), ("DGX B200 (8 GPUs)", "b200-sxm", 8),
     ("RX7900XTX", "rx-7900-xtx", None), ("Gaudi 3", "gaudi3", None), ("GeForce 4090", "rtx-4090", None)],
)
def test_glued_and_trailing_counts(text: str, profile: str, count: int | None) -> None:
    found = names.gpu_text(text)
    assert found.profile == names.Named(profile)
    assert found.count == count


def test_months_in_words_and_versions_behind_a_v() -> None:
    assert names.engine_text("vLLM (v0.9.1)").version == "0.9.1"
    assert names.engine_text("SGLang (March 2026)").version == "0.5.6"
    assert names.engine_text("vLLM main, Sep 2025").version == "0.0"
