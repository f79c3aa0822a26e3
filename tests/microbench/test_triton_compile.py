"""The Triton attention kernel compiles for every GPU generation without spilling, and uses its matrix instructions.

Compiled for the target by Triton itself; no GPU is involved and no time is measured. What is read: PTX for the
instructions, the cubin's resource usage for spills (a stack frame), shared memory against what an SM has.
"""

from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specplan.microbench.triton_attention import row_tiles, tiling

triton = pytest.importorskip("triton", reason="needs triton (extra gpu)")
pytest.importorskip("torch", reason="needs torch (extra gpu)")

SHARED_BYTES = {80: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}     # CUDA guide, per block
MATRIX = {80: "mma.sync", 89: "mma.sync", 90: "wgmma", 100: "tcgen05", 120: "mma.sync"}     # at 64 rows and more


class Compiled(NamedTuple):
    """What the assembler says of one variant."""

    instruction: str
    registers: int
    stack_bytes: int
    shared_bytes: int


def compile_attend(
    capability: int, block_m: int, *, head_dim: int = 128, kv: str = "bf16", page: int = 0, group: int = 8,
    rope: int = 0, split: bool = True,
) -> Compiled:
    from specplan.microbench.triton_kernels import attend

    tile = tiling(rows=block_m, head_dim=head_dim, capability=capability, block_m=block_m)
    padded = 1 << (head_dim - 1).bit_length()
    constants: dict[str, Any] = {
        "GROUP": group, "HEAD_DIM": head_dim, "HEAD_BLOCK": padded, "VALUE_DIM": head_dim, "VALUE_BLOCK": padded,
        "ROPE_DIM": rope, "KEYS_ARE_VALUES": rope > 0, "PAGE": page, "BLOCK_M": block_m, "BLOCK_N": tile.block_n,
        "HALVES": tile.halves, "SPLIT": split,
    }
    pointers = {"query": "*bf16", "out": "*bf16", "table": "*i32", "lengths": "*i32", "partial": "*fp32",
                "peaks": "*fp32", "totals": "*fp32"}
    cache = {"bf16": "*bf16", "fp8": "*fp8e4nv"}[kv]
    types = {**pointers, "keys": cache, "values": cache, "scale_log2": "fp32"}
    return _assemble(attend, constants, types, capability, {"num_warps": tile.warps, "num_stages": tile.stages})


def _assemble(
    kernel: Any, constants: dict[str, Any], types: dict[str, str], capability: int, options: dict[str, int]
) -> Compiled:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    aligned = [i for i, name in enumerate(names) if signature[name].startswith("*") or name.endswith("stride")]
    source = ASTSource(kernel, signature, constexprs={(names.index(name),): value for name, value in constants.items()},
                       attrs={(i,): [["tt.divisibility", 16]] for i in aligned})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # triton 3.9 on defaults to come
        built = triton.compile(source, target=GPUTarget("cuda", capability, 32),
                               options={**options, "enable_fp_fusion": True})
    ptx = built.asm["ptx"]
    used = _resources(built.asm["cubin"])
    instruction = next((name for name in ("tcgen05.mma", "wgmma.mma", "mma.sync") if name in ptx), "none")
    return Compiled(instruction.removesuffix(".mma"), *used, built.metadata.shared)


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes, by the cuobjdump that comes with triton; a spill needs a stack."""
    import tempfile

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"REG:(\d+) STACK:(\d+)", said.stdout)
    assert found is not None, said.stdout
    return int(found[1]), int(found[2])


def check(compiled: Compiled, capability: int, block_m: int) -> None:
    assert compiled.stack_bytes == 0, f"spills: {compiled}"
    assert compiled.shared_bytes <= SHARED_BYTES[capability], compiled
    assert compiled.instruction == (MATRIX[capability] if block_m >= 64 else "mma.sync"), compiled


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
@pytest.mark.parametrize("block_m", [16, 32, 64, 128, 256])
def test_compiles_without_spill_and_with_the_right_instruction(capability: int, block_m: int) -> None:
    check(compile_attend(capability, block_m), capability, block_m)


@pytest.mark.parametrize(("capability", "block_m", "options"), [
    (90, 64, {"kv": "fp8"}),
    (100, 128, {"kv": "fp8", "page": 16}),
    (90, 128, {"page": 16, "group": 5}),
    (100, 256, {"head_dim": 64}),
    (100, 256, {"kv": "fp8", "page": 16}),
    (120, 256, {"split": False}),
    (90, 32, {"head_dim": 512, "rope": 64, "group": 16}),
])  # fmt: skip
def test_variants_compile_without_spill(capability: int, block_m: int, options: dict[str, Any]) -> None:
    check(compile_attend(capability, block_m, **options), capability, block_m)


VARIANTS: tuple[dict[str, Any], ...] = (
    {"split": False}, {"page": 64, "split": False}, {"kv": "fp8", "page": 16}, {"page": 16, "group": 5}, {"kv": "fp8"},
    {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_every_offered_tile_compiles_without_spill(capability: int, head_dim: int) -> None:
    for block_m in row_tiles(head_dim, capability):
        for variant in VARIANTS:
            options = {**variant, "rope": 64 if head_dim == 512 else 0}
            if not (options.get("kv") == "fp8" and capability < 89):
                check(compile_attend(capability, block_m, head_dim=head_dim, **options), capability, block_m)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("capability", "head_dim", "block_m", "variant"), [
    (90, 512, 64, {}), (100, 512, 64, {"kv": "fp8", "page": 16}), (120, 256, 128, {}),
])  # fmt: skip
def test_a_tile_that_is_left_out_would_spill(
    capability: int, head_dim: int, block_m: int, variant: dict[str, Any]
) -> None:
    assert block_m not in row_tiles(head_dim, capability)
    rope = 64 if head_dim == 512 else 0
    compiled = compile_attend(capability, block_m, head_dim=head_dim, rope=rope, **variant)
    assert compiled.stack_bytes > 0, compiled


def test_combine_compiles_without_spill() -> None:
    from specplan.microbench.triton_kernels import combine

    types = {"partial": "*fp32", "peaks": "*fp32", "totals": "*fp32", "out": "*bf16"}
    for width in (128, 512):
        constants = {"GROUP": 8, "VALUE_DIM": width, "VALUE_BLOCK": width, "ROWS": 1, "CHUNK": 16}
        compiled = _assemble(combine, constants, types, 90, {"num_warps": 4})
        assert compiled.stack_bytes == 0, compiled
