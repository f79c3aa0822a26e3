"""5,000 damaged samples: never a traceback, and no damage turns a number that others confirm into a wrong AL."""

from __future__ import annotations

import random
from pathlib import Path

from specplan.planner.acceptance.canonical import canonical
from specplan.planner.engines.acceptance import read_files
from specplan.planner.messages import InputError

DATA = Path(__file__).parents[1] / "data" / "acceptance"
MUTATIONS = 5_000
# samples whose AL is said more than once; elsewhere one changed digit is another valid number
CONFIRMED = ("vllm-log.log", "vllm-0.9.log", "vllm-before-17908.log", "vllm-v0.log", "vllm-request.json",
             "vllm-bench.json", "vllm-bench.txt", "sglang-meta_info.json", "trtllm-response.json",
             "llama_cpp-june-2026.log", "llama_cpp-statistics.log", "ik_llama-table.txt", "lmdeploy.log",
             "aiperf-profile_export_aiperf.json", "specdec_bench-acceptance_rate.json")


def damaged(raw: bytes, rng: random.Random) -> bytes:
    at, other = rng.randrange(len(raw)), rng.randrange(len(raw))
    digits = [i for i, byte in enumerate(raw) if 48 <= byte < 58]
    digit = rng.choice(digits)
    return rng.choice([
        raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1:],
        raw[:at] + raw[at + rng.randrange(1, 40):],
        raw[:at],
        raw[at:],
        raw[:at] + rng.randbytes(4) + raw[at:],
        raw[:digit] + str(rng.randrange(10)).encode() + raw[digit + 1:],
        raw[:at] + raw[other:other + 120] + raw[at:],
        raw[:digit] + rng.choice([b"-", b".", b"nan", b"1e9"]) + raw[digit:],
    ])


def test_damaged_samples_never_crash_and_never_mislead(tmp_path: Path) -> None:
    rng = random.Random(20261129)
    samples = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
    truth = {name: read_files([str(DATA / name)]) for name in CONFIRMED}
    silent: list[tuple[str, float, bytes]] = []
    kept = 0
    for number in range(MUTATIONS):
        sample = samples[number % len(samples)]
        raw = damaged(sample.read_bytes(), rng)
        path = tmp_path / sample.name
        path.write_bytes(raw)
        try:
            found = read_files([str(path)])
            canonical(found)
        except InputError:
            continue
        kept += 1
        length = found.acceptance_length
        assert length is None or 1.0 <= length <= 1.0 + (found.draft_len or 1e3)
        if sample.name in truth and length is not None:
            known = truth[sample.name]
            assert known.acceptance_length is not None
            same = abs(length - known.acceptance_length) <= 0.01 * known.acceptance_length
            if not same and {n.code for n in found.warnings} <= {n.code for n in known.warnings}:
                silent.append((sample.name, length, raw))
    assert silent == []
    assert kept > MUTATIONS // 4
