"""A small excerpt of the measured tables, so that fits can be tested without the wheel.

`python -m specplan.microbench.fit_fixture` writes it anew, from the installed wheel.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from specplan.microbench import silicon
from specplan.microbench.fit_rows import Slice, subsample
from specplan.microbench.fit_system import prepared
from specplan.microbench.fit_targets import target_of
from specplan.planner.kernels.profile import PROFILES, read_profile

FIXTURE = Path(__file__).resolve().parents[1] / "tests" / "data" / "silicon" / "rows.json"
SYSTEM = "h200-sxm"
ROWS = 1500         # of a slice at most
EXCERPT = (         # one kernel of each equation
    "attention vllm 0.24.0 vllm_flash_attn_fa3 head_dim=128 kv=bf16",
    "attention trtllm 1.3.0rc20 torch_flow head_dim=128 kv=bf16",
    "gemm vllm 0.24.0 torch.nn.functional.linear dtype=bf16",
    "gemm vllm 0.24.0 CutlassFP8ScaledMMLinearKernel dtype=fp8",
    "moe vllm 0.24.0 vllm_fp8moe_triton_tritonexperts dtype=fp8_block matrices=3",
    "allreduce vllm 0.24.0 vLLM_custom_graph gpus=8",
    "mla trtllm 1.3.0rc20 default kv=bf16",
    "recurrent vllm 0.1.dev19262 fused_recurrent_kda kind=kda phase=verify",
    "sparse sglang 0.5.14 flash_mla_sparse_fwd module=glm5_dsa_attn phase=verify",
)


def write_fixture(path: Path = FIXTURE) -> None:
    """Filtered rows of the excerpt: shapes as integers, times in nanoseconds."""
    hardware = read_profile((PROFILES / f"{SYSTEM}.yaml").read_text(encoding="utf-8")).hardware
    found = {rows.name: rows for rows in silicon.read_silicon(SYSTEM)}
    slices = []
    for name in EXCERPT:
        rows = subsample(prepared(found[name], target_of(found[name], hardware), hardware), ROWS)
        columns = {key: [_plain(value) for value in column] for key, column in rows.columns.items()}
        slices.append({
            "family": rows.family, "engine": rows.engine, "version": rows.version, "kernel": rows.kernel,
            "variant": dict(rows.variant), "columns": columns, "time_ns": [round(t * 1e9) for t in rows.time_s],
        })
    origin = f"Excerpt of {silicon.WHEEL} {silicon.VERSION} ({silicon.LICENCE}), tables of {SYSTEM}, rounded to 1 ns"
    body = ",\n".join(json.dumps(item, separators=(",", ":")) for item in slices)
    path.write_text(f'{{"origin":{json.dumps(origin)},"gpu":"{SYSTEM}","slices":[\n{body}\n]}}\n', encoding="utf-8")


def read_fixture(path: Path = FIXTURE) -> list[Slice]:
    """The slices of the excerpt."""
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return [
        Slice(family=item["family"], engine=item["engine"], version=item["version"], kernel=item["kernel"],
              variant=item["variant"], columns={key: np.asarray(v, dtype=float) for key, v in item["columns"].items()},
              time_s=np.asarray(item["time_ns"], dtype=float) * 1e-9)
        for item in loaded["slices"]
    ]


def _plain(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


if __name__ == "__main__":
    write_fixture()
