"""Attention kernels of the public tables: their designs, what is fixed by the design, what is fitted.

Starting values are typical of measured kernels; they are also the priors at which a number is held that the rows
cannot tell. Designs and filters: kernel_fits.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specplan.microbench.fit_rows import Mask, Slice
from specplan.microbench.fit_target import US, Candidate, Free, Target, Within
from specplan.planner.kernels.entries import Hardware, Key

_DESIGNS = {
    "vllm_flash_attn_fa3": "fa3", "fa3": "fa3", "vllm_flashinfer_trtllmdecode": "trtllm-gen",
    "trtllm_mha": "trtllm-gen", "vllm_flash_attn_fa2": "fa2", "vllm_flash_attn": "fa2", "flash_attention": "fa2",
    "flashinfer": "flashinfer", "vllm_flashinfer_fidecode": "flashinfer", "torch_flow_flashinfer": "flashinfer",
    "vllm_flash_attn_fa4": "fa4",
}
_TRTLLM_DESIGNS = {"hopper": "xqa", "blackwell": "trtllm-gen", "blackwell-ultra": "trtllm-gen"}    # else: xqa-ampere
FA3_BLOCKS = {(64, "bf16"): 128, (128, "bf16"): 128, (192, "bf16"): 96, (256, "bf16"): 64,
              (64, "fp8"): 160, (128, "fp8"): 160, (192, "fp8"): 128, (256, "fp8"): 64}   # paged, without TMA
FA3_MARGIN = 1.1            # flash_prepare_scheduler.cu: blocks per SM with 10 % to spare
FULL_RAMP = 0.95            # of the datasheet: XQA reaches no more at several GB
FULL_STREAM = 0.93          # of the datasheet: what FA3 and trtllm-gen reach at large KV


def attention_target(rows: Slice, hw: Hardware) -> Target:
    """Entry, equation and filters of a slice of decode attention."""
    head_dim, kv = int(rows.variant["head_dim"]), str(rows.variant["kv"])
    key: dict[str, Key] = {"head_dim": head_dim, "kv_dtype": kv}
    design = _DESIGNS.get(rows.kernel, "")
    if rows.engine == "trtllm" and rows.kernel == "torch_flow":
        design = _TRTLLM_DESIGNS.get(hw.arch, "xqa-ampere")
    if not design:
        return Target(id=f"{rows.engine}-{rows.kernel}", key=key, candidates=(), unfit="no equation for this kernel")
    keep: dict[str, Callable[[Slice], Mask]] = {}
    if design == "fa2":
        keep["one query head per KV head: another kernel (cliff fa2-single-group)"] = Within("group_size", low=1.5)
    if design in ("xqa", "xqa-ampere"):
        keep["one query head per KV head: another kernel"] = Within("group_size", low=1.5)
        keep["more than 32 query heads per KV head: fallback (cliff xqa-group)"] = Within("group_size", high=32)
    if design == "flashinfer":
        keep["one query head per KV head: another kernel"] = Within("group_size", low=1.5)
    if rows.engine == "trtllm" and design == "trtllm-gen":
        keep["64 or more query heads per KV head: fallback (cliff trtllm-gen-group)"] = Within("group_size", high=63)
    candidates = _CANDIDATES[design](hw, head_dim, kv, rows.engine)
    return Target(id=f"{rows.engine}-{design}", key=key, candidates=candidates, keep=keep)


def walk_numbers(hw: Hardware, *names: str) -> dict[str, Free]:
    """Priors and bounds of numbers of the walk equations."""
    known = {
        "launch_s": Free(9 * US, 1 * US, 30 * US),
        "l2_gain": Free(1.6, 1.0, 10.0),
        "stream_bytes_per_s": Free(0.85 * hw.hbm_bytes_per_s, 0.3 * hw.hbm_bytes_per_s, 1.05 * hw.hbm_bytes_per_s),
        "block_s": Free(0.1 * US, 0.0, 10 * US),
        "wave_s": Free(1.5 * US, 0.0, 20 * US),
        "row_s": Free(0.05 * US, 0.0, 1 * US),
        "combine_s": Free(1.0 * US, 0.0, 20 * US),
        "split_s": Free(0.05 * US, 0.0, 2 * US),
        "cta_bytes_per_s": Free(60e9, 5e9, 1000e9),
    }
    return {name: known[name] for name in names}


def _fa3(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    wide = head_dim >= 192
    fixed = {
        "stream_bytes_per_s": FULL_STREAM * hw.hbm_bytes_per_s, "tile_rows": 128, "row_tile": 128 if wide else 64,
        "ctas_per_sm": 1, "split_cap": 32 if engine == "vllm" else 128,     # vLLM's cap under CUDA graphs
        "kv_block_tokens": FA3_BLOCKS[head_dim, kv],
    }
    if engine == "vllm":    # its FA3 schedules sequences of unequal length, SGLang asks for FA3's static splits
        fixed["split_margin"] = FA3_MARGIN
    free = walk_numbers(hw, "launch_s", "l2_gain", "block_s", "wave_s", "combine_s", "split_s", "cta_bytes_per_s")
    return (Candidate(form="walk_fa3", fixed=fixed, free=free),)


def _gen(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    del head_dim, kv, engine
    fixed = {"stream_bytes_per_s": FULL_STREAM * hw.hbm_bytes_per_s, "ctas_per_sm": 1, "kv_block_tokens": 128,
             "split_cap": hw.sms, "split_min_blocks": 4}
    free = walk_numbers(hw, "launch_s", "l2_gain", "block_s", "row_s", "combine_s", "split_s")
    return (Candidate(form="walk_gen", fixed=fixed, free=free),)


def _fa2(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    del kv, engine
    free = walk_numbers(hw, "launch_s", "l2_gain", "stream_bytes_per_s", "block_s", "wave_s", "combine_s", "split_s")
    block = 64 if head_dim > 128 else 128
    base = {"tile_rows": 64, "row_tile": 64, "split_cap": 128}
    return (
        Candidate(form="walk_fa2", fixed={**base, "ctas_per_sm": 2, "kv_block_tokens": block}, free=free),
        Candidate(form="walk_fa2", free=free,
                  fixed={**base, "ctas_per_sm": 1, "kv_block_tokens": 128, "split_min_blocks": 2}),
    )


def _tile(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    del head_dim, kv, engine
    free = walk_numbers(hw, "launch_s", "l2_gain", "stream_bytes_per_s", "block_s", "wave_s", "combine_s", "split_s")
    base = {"tile_rows": 16, "row_tile": 64, "split_cap": 512, "kv_block_tokens": 64}
    return tuple(
        Candidate(form="walk_tile", fixed={**base, "ctas_per_sm": ctas, "split_min_blocks": blocks}, free=free)
        for ctas, blocks in ((2, 1), (1, 1), (1, 4))
    )


def _xqa(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    del head_dim, kv, engine
    bandwidth = hw.hbm_bytes_per_s
    ramp = {
        "launch_s": Free(10 * US, 1 * US, 30 * US),
        "stream_bytes_per_s": Free(0.9 * bandwidth, 0.5 * bandwidth, FULL_RAMP * bandwidth),
        "ramp_s": Free(30 * US, 0.0, 300 * US), "ramp_half_bytes": Free(100e6, 0.1e6, 2000e6),
    }
    if hw.arch == "hopper":     # here the walk fits small caches better, but is 10 to 50 % too slow beyond 1 GB
        return (Candidate(form="ramp", fixed={"tile_rows": 64}, free=ramp),)
    walk = walk_numbers(hw, "launch_s", "l2_gain", "stream_bytes_per_s", "block_s", "wave_s", "combine_s", "split_s")
    base = {"tile_rows": 32, "row_tile": 64, "kv_block_tokens": 64, "split_cap": 512}
    return (
        Candidate(form="ramp", fixed={"tile_rows": 32}, free=ramp),
        *(Candidate(form="walk_xqa", fixed={**base, "ctas_per_sm": ctas, "split_min_blocks": blocks}, free=walk)
          for ctas, blocks in ((3, 8), (3, 1), (1, 8))),
    )


def _fa4(hw: Hardware, head_dim: int, kv: str, engine: str) -> tuple[Candidate, ...]:
    del head_dim, kv, engine
    free = walk_numbers(hw, "launch_s", "l2_gain", "stream_bytes_per_s", "block_s", "wave_s", "combine_s")
    fixed = {"tile_rows": 128, "row_tile": 128, "ctas_per_sm": 1, "split_cap": 128, "kv_block_tokens": 128}
    return (Candidate(form="walk_fa3", fixed=fixed, free=free),)


_CANDIDATES: Mapping[str, Callable[[Hardware, int, str, str], tuple[Candidate, ...]]] = {
    "fa3": _fa3, "trtllm-gen": _gen, "fa2": _fa2, "flashinfer": _tile, "fa4": _fa4, "xqa": _xqa,
    "xqa-ampere": _xqa,
}
