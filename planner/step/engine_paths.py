"""Fixed costs of a step, in absolute time, per (engine, version, code path): equation E6 of docs/model.md.

They do not shrink with a faster GPU and do not cancel in a speedup, so they are data with a level of evidence. A
path that nobody measured still gets an answer, with a warning, a wider range and a request for one measured row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from specplan.planner.arrays import Array, ArrayLike
from specplan.planner.config.yaml_reader import load_data
from specplan.planner.fact import fact
from specplan.planner.messages import Note

TABLE = Path(__file__).parent / "data" / "engine_paths.yaml"
ENGINE_ALIASES = {
    "tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "hf": "transformers", "huggingface": "transformers",
    "llama.cpp": "llama_cpp", "llamacpp": "llama_cpp", "llama-cpp": "llama_cpp", "ollama": "llama_cpp",
    "mlx-lm": "mlx", "mlx_lm": "mlx",
}


@fact
class FixedCost:
    """One constant with its range (about +-1.5 standard deviations) and evidence."""

    value: float
    low: float
    high: float
    evidence: str


@fact
class EnginePath:
    """What one code path of an engine adds to the kernels of a step.

    off:  step = target(B, 1, S) + host_step
    spec: step = target(B, 1 + D, S) + drafting + host_step + spec_extra + per_seq * B
    """

    name: str
    engine: str
    host_step_s: FixedCost
    spec_extra_s: FixedCost
    per_seq_s: FixedCost
    pass_floor_s: FixedCost                     # least time of one draft pass, whatever its bytes
    pass_floor_s_per_extra_layer: FixedCost     # more of it per draft layer beyond the first
    evidence_for: tuple[str, ...]
    kernel_launch_factor: float = 1.0           # below 1: a persistent kernel hides launches
    host_s_per_layer: float = 0.0               # above 0: eager host, step >= layers * this
    draft_layer_factor: float = 1.0
    kernels: str = "profile"                    # 'ggml': priced by the law of ggml.py, not by a profile's entries
    ggml: Mapping[str, Any] | None = field(default=None, compare=False)     # another table for it; None: the shipped
    version_given: bool = True
    shared: Mapping[str, FixedCost] = field(default_factory=dict, compare=False)    # constants of all paths

    def constant(self, name: str) -> float:
        """Value of one of the constants that all paths share, or of this path where it has its own."""
        return self.shared[name].value

    def notes(self, mechanisms: Iterable[str]) -> tuple[Note, ...]:
        """What to say about the evidence for these mechanisms on this path."""
        known = set(mechanisms)
        without = sorted(known - set(self.evidence_for))
        notes = []
        if without:
            text = (
                f"no published step time of {', '.join(without)} on {self.name}: fixed costs are carried over from "
                "other mechanisms and the range is widened; one measured row (observations) would settle it"
            )
            notes.append(Note("no-path-evidence", text))
        if not self.version_given and known - set(without):
            text = f"engine version not given: fixed costs of the newest known path ({self.name}), range widened"
            notes.append(Note("engine-version-assumed", text))
        return tuple(notes)


@functools.cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_data(TABLE)
    return table


def shared_constant(name: str) -> FixedCost:
    """One of the constants that all engines share (small kernels per layer, MoE skew, ...)."""
    return _cost(_table()["shared"][name])


def speedup_sd(*, moe: bool, path: EnginePath, mechanism: str, anchored: bool = False) -> float:
    """Standard deviation of ln(predicted / measured speedup); `anchored`: the user measured this drafter."""
    table = _table()["uncertainty"]
    if anchored:
        return float(table["anchored"])
    if mechanism not in path.evidence_for:
        return float(table["no_evidence"])
    base = float(table["moe"] if moe else table["dense"])
    return base if path.version_given else max(base, float(table["version_not_given"]))


def engine_names() -> tuple[str, ...]:
    """Engines with fixed costs of their own."""
    return tuple(sorted({path["engine"] for path in _table()["paths"].values()}))


def path_names() -> tuple[str, ...]:
    """Names of the code paths themselves, which may stand for an engine and its version."""
    return tuple(sorted(_table()["paths"]))


def engine_path(engine: str, version: str | None = None) -> EnginePath:
    """The code path of an engine version; without a version the newest path, marked as assumed."""
    name = ENGINE_ALIASES.get(engine.lower(), engine.lower())
    paths: dict[str, dict[str, Any]] = _table()["paths"]
    if name in paths:
        return _path(name, paths[name], version_given=True)
    mine = {key: fields for key, fields in paths.items() if fields["engine"] == name}
    if not mine:
        return _path("generic", paths["generic"], version_given=False)
    fitting = {
        key: fields for key, fields in mine.items() if version is not None and _covers(fields, _version(version))
    }
    key, fields = list((fitting or mine).items())[-1]   # the table lists the versions of an engine oldest first
    return _path(key, fields, version_given=bool(fitting) or len(mine) == 1)


def graph_rows(engine: str, batch: ArrayLike, query_len: ArrayLike) -> Array:
    """Rows of a captured pass that holds B sequences of q tokens (>= B*q); beyond the largest graph no padding.

    A size s of the list is captured as the next multiple of q, so B*q rows run in the first s with
    ceil(s / q) * q >= B*q.
    """
    rows: Array = np.asarray(batch, dtype=float) * np.asarray(query_len, dtype=float)
    graph = _table()["graphs"].get(ENGINE_ALIASES.get(engine.lower(), engine.lower()))
    if graph is None:
        return rows
    sizes = np.array(
        graph["sizes"] + [s for first, last, by in graph["ranges"] for s in range(first, last + 1, by)], dtype=float
    )
    query = np.broadcast_to(np.asarray(query_len, dtype=float), rows.shape)
    index = np.searchsorted(sizes, rows - query, side="right")
    captured = index < sizes.size
    padded = np.ceil(sizes[np.minimum(index, sizes.size - 1)] / query) * query
    return np.asarray(np.where(captured, np.maximum(padded, rows), rows))


def _cost(fields: Mapping[str, Any]) -> FixedCost:
    low, high = fields["range"]
    return FixedCost(value=float(fields["value"]), low=float(low), high=float(high), evidence=fields["evidence"])


def _path(name: str, fields: Mapping[str, Any], *, version_given: bool) -> EnginePath:
    return EnginePath(
        name=name,
        engine=fields["engine"],
        host_step_s=_cost(fields["host_step_s"]),
        spec_extra_s=_cost(fields["spec_extra_s"]),
        per_seq_s=_cost(fields["per_seq_s"]),
        pass_floor_s=_cost(fields["pass_floor_s"]),
        pass_floor_s_per_extra_layer=_cost(fields["pass_floor_s_per_extra_layer"]),
        evidence_for=tuple(fields["evidence_for"]),
        kernel_launch_factor=float(fields.get("kernel_launch_factor", 1.0)),
        host_s_per_layer=float(fields.get("host_s_per_layer", 0.0)),
        draft_layer_factor=float(fields.get("draft_layer_factor", 1.0)),
        kernels=str(fields.get("kernels", "profile")),
        version_given=version_given,
        shared={key: _cost(fields[key]) if key in fields else shared_constant(key) for key in _table()["shared"]},
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in re.findall(r"\d+", text)[:3])


def _covers(fields: Mapping[str, Any], version: tuple[int, ...]) -> bool:
    low = _version(fields["from"]) if "from" in fields else ()
    return version >= low and ("below" not in fields or version < _version(fields["below"]))
