"""The shipped profiles: complete, sourced, true to the datasheets, and a faithful round trip of text and objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specplan.planner.kernels.entries import KEYS, OPTIONAL_KEYS, REQUIRED
from specplan.planner.kernels.families import attention_families, default_families
from specplan.planner.kernels.gemm import gemm_time
from specplan.planner.kernels.profile import PROFILES, dump_profile, gpu_names, load_gpu, read_profile
from specplan.planner.kernels.select import attention_kernel, gemm_kernel
from specplan.planner.messages import InputError

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PROFILES.glob("*.yaml"))}
EXAMPLE = Path(__file__).parents[1] / "data" / "profiles" / "l40s.yaml"     # a fitted profile that no new fit changes
MEASURED = {"a100-80-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "l40s", "rtx-pro-6000-server"}


def test_the_gpus_people_have_are_here() -> None:
    assert len(gpu_names()) >= 50
    assert {"mi300x", "mi355x", "rubin-r200", "dgx-spark-gb10", "gh200-144", "h20"} < set(gpu_names())


@pytest.mark.parametrize("name", TEXTS)
def test_text_and_profile_round_trip(name: str) -> None:
    profile = read_profile(TEXTS[name])
    assert dump_profile(profile) == TEXTS[name]
    assert read_profile(dump_profile(profile)) == profile
    assert profile.name == name


@pytest.mark.parametrize("name", TEXTS)
def test_every_number_has_a_source(name: str) -> None:
    profile = read_profile(TEXTS[name])
    assert profile.hardware.sources
    assert set(profile.hardware.sources) <= set(profile.sources)
    assert profile.hardware.confidence in ("high", "medium", "low")
    for family, entries in profile.kernels.items():
        for entry in entries:
            assert entry.evidence.source in profile.sources
            assert entry.evidence.fitted_range, (family, entry.id)
            assert entry.evidence.rows or entry.engine == "any" or family in ("attention_math", "allreduce")
            limit = 20 if family == "moe" or entry.evidence.quality == "rough" else 16.5
            assert (entry.evidence.error_mean_pct or 0) <= limit, (family, entry.id)
            assert entry.id.startswith(f"{entry.engine}-")
            assert set(REQUIRED[family][entry.form]) <= set(entry.parameters)
            assert set(KEYS[family]) - OPTIONAL_KEYS <= set(entry.key)


@pytest.mark.parametrize("name", TEXTS)
def test_entries_are_told_apart_by_id_and_key(name: str) -> None:
    profile = read_profile(TEXTS[name])
    for family, entries in profile.kernels.items():
        seen = [(entry.id, *entry.key.items()) for entry in entries]
        assert len(seen) == len(set(seen)), family


@pytest.mark.parametrize("name", TEXTS)
def test_gpus_without_measurements_name_the_nearest_measured_one(name: str) -> None:
    profile = read_profile(TEXTS[name])
    if not profile.kernels:
        # nothing comparable was measured for Apple's parts: their engines have a law of their own
        assert profile.prior_from in MEASURED or profile.hardware.vendor == "apple"
    assert profile.prior_from is None or profile.prior_from in MEASURED
    assert (name in MEASURED) <= bool(profile.kernels)


@pytest.mark.parametrize(("name", "number_format", "flop_per_s"), [
    # dense, fp32 accumulation: the traps of kernels.md, section 3
    ("h100-sxm", "bf16", 989.4e12), ("h100-pcie", "bf16", 756.5e12), ("h20", "bf16", 148e12), ("b200-sxm", "fp4", 9e15),
    ("b300-sxm", "fp4", 13.5e15), ("b300-sxm", "int8", 153e12), ("rtx-4090", "bf16", 165.2e12),
    ("rtx-5090", "bf16", 209.5e12), ("a10g", "bf16", 70e12), ("jetson-thor-t5000", "fp4", 1035e12),
    ("mi300x", "fp8", 2615e12), ("a100-80-sxm", "fp8", 0.0),
])
def test_peaks_are_dense_with_full_precision_accumulation(name: str, number_format: str, flop_per_s: float) -> None:
    assert load_gpu(name).hardware.dense(number_format) == pytest.approx(flop_per_s)


@pytest.mark.parametrize(("name", "rows"), [("b200-sxm", 291), ("h200-sxm", 412)])
def test_exponential_knee_in_bf16_kernels_md_0(name: str, rows: float) -> None:
    # one exponential per row and cached token of 512 bytes
    hardware = load_gpu(name).hardware
    assert hardware.exp_per_s / (hardware.hbm_bytes_per_s / 512) == pytest.approx(rows, rel=0.07)


def test_preliminary_figures_are_refused_unless_allowed() -> None:
    with pytest.raises(InputError, match="preliminary"):
        load_gpu("rubin-r200")
    assert load_gpu("rubin-r200", allow_preliminary=True).hardware.preliminary


def test_unknown_names_get_the_nearest_ones() -> None:
    text = r"^no profile named 'h200'; did you mean .*'h200-sxm'.*\? \(all names: specplan profiles list\)$"
    with pytest.raises(InputError, match=text):
        load_gpu("h200")


def broken(tmp_path: Path, *changes: tuple[str, str]) -> str:
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_gpu(path)
    return str(caught.value)


def test_all_faults_of_a_profile_at_once_with_their_lines(tmp_path: Path) -> None:
    said = broken(tmp_path, ("sms: 142", "smss: 142"), ("hbm_bytes_per_s: 8.64e+11", "hbm_bytes_per_s: .nan"),
                  ("form: walk_fa2", "form: walk_fa9"), ("quality: ok", "quality: fine"),
                  ("source: aic-fit", "source: hearsay"))
    lines = said.splitlines()
    assert len(lines) >= 6
    assert all(line.startswith(str(tmp_path)) for line in lines)
    for expected in ("hardware.smss: unknown key; did you mean 'sms'?", "hardware.sms: is missing",
                     "hardware.hbm_bytes_per_s: must be a number >= 0, is nan", "form: must be one of walk_fa3",
                     "quality: must be one of ok, rough, is 'fine'", "'hearsay' is not among the sources"):
        assert expected in said
    assert f"{tmp_path}/broken.yaml:7: hardware.smss" in said


@pytest.mark.parametrize(("old", "new", "message"), [
    ("schema: 1", "schema: 9", "this version reads schema 1"),
    ("launch_s: 1.17e-5, ", "", "form walk_fa2 needs launch_s"),
    ("stream_bytes_per_s: 6.83e+11", "stream_bytes_per_s: 0", "stream_bytes_per_s must be above 0"),
    ("launch_s: 1.17e-5", "launch_s: -1", "must be a number >= 0, is -1"),
    ("launch_s: 1.17e-5", "launch_s: fast", "must be a number >= 0, is 'fast'"),
    ("head_dim: 64", "head_dim: wide", "head_dim: must be a whole number"),
    ("alpha_s: ", "alfa_s: ", "each with upto_bytes, alpha_s, beta_s_per_byte"),
    ("{bf16: 3.62e+14, fp8: 7.33e+14, int8: 7.33e+14}", "{int8: 7.33e+14}", "needs a rate for bf16"),
])
def test_faults_of_a_profile(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in broken(tmp_path, (old, new))


@pytest.mark.parametrize("text", [
    "", "[1, 2]", "schema: 1\nname: x", "a: &a [1]\nb: *a\n", "\0", "name: !!python/object:os.system {}"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        load_gpu(path)


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(InputError):
            load_gpu(f"{path}/" if path is tmp_path else path)


def test_prior_of_an_unknown_or_the_same_gpu_is_refused(tmp_path: Path) -> None:
    for name in ("h2000-sxm", "mine"):
        profile = replace(read_profile(TEXTS["h20"]), name="mine", prior_from=name)
        path = tmp_path / "mine.yaml"
        path.write_text(dump_profile(profile), encoding="utf-8")
        with pytest.raises(InputError, match="prior_from: no profile named"):
            load_gpu(path)
        path.unlink()


def test_attention_designs_are_complete() -> None:
    families = attention_families()
    assert set(families) == {
        "fa2", "fa3", "fa4", "flashinfer", "flashinfer-fa3", "xqa", "xqa-ampere", "trtllm-gen", "vllm-triton",
        "sglang-triton", "flashmla", "flex", "sdpa", "nvidia-128", "specplan-triton", "torch-packed",
    }
    archs = {load_gpu(name, allow_preliminary=True).hardware.arch for name in gpu_names()}
    archs.add("cpu")    # profiles of CPUs come from `specplan sweep --device cpu` alone
    for family in families.values():
        assert family.sources
        assert set(family.arch) <= archs
        assert 0 < family.kv_efficiency <= 1
        for limit, tiles in family.tile_list:
            assert limit > 0
            assert list(tiles) == sorted(tiles)
        assert set(family.relative_tile_cost) <= set(family.tiles(128))
        # a kernel that does not read the cache once for all rows warns, and one that stops splitting has a cliff
        assert family.packing == "none" or family.reread in ("once", "per_tile")
        assert family.split.verify or family.cliffs
    for (_, arch), names in default_families().items():
        assert arch in archs
        for name in names:
            assert arch in families[name].arch, (arch, name)


def test_every_gpu_has_an_attention_kernel_for_vllm_and_sglang() -> None:
    """An architecture that the engines' lists lack gets a stand-in that says so."""
    for name in gpu_names():
        gpu = load_gpu(name, allow_preliminary=True)
        for engine in ("vllm", "sglang"):
            kernel = attention_kernel(gpu, engine, head_dim=128, kv_dtype="bf16")
            listed = (engine, gpu.hardware.arch) in default_families()
            assert listed or kernel.evidence.level == "prior"


def test_small_rows_of_a_gpu_with_little_math_stay_bound_by_memory() -> None:
    """RTX 3090: one row reads its weights; the 64-row padding fitted on A100 would double the time."""
    kernel = gemm_kernel(load_gpu("rtx-3090"), "vllm", weight_dtype="bf16")
    assert gemm_time(kernel, rows=1, n=28672, k=4096).bound() == "memory"
