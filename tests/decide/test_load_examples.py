"""The closed form against the simulation on shipped examples, dense and MoE, from 10 % to 90 % of saturation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specplan.planner.answer.load_answer import best_of
from specplan.planner.answer.resolve import resolve
from specplan.planner.answer.ways import ways_of
from specplan.planner.config.load import config_from_mapping, read_config
from specplan.planner.decide.load import saturation_rate, steady_state
from specplan.planner.decide.simulate import poisson_requests, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHIN = 0.05
# near saturation the batch wanders slowly: 8000 requests of one seed still miss the mean of three seeds by 3 %
REQUESTS = {0.1: 3000, 0.3: 6000, 0.5: 12_000, 0.7: 24_000, 0.8: 24_000, 0.9: 24_000}


@pytest.mark.slow
@pytest.mark.parametrize("variation", [0.0, 1.0], ids=["fixed", "geometric"])
@pytest.mark.parametrize("speculate", [False, True], ids=["off", "eagle3"])
@pytest.mark.parametrize("name", ["llama-3.3-70b-h200", "gpt-oss-120b-b200"])
def test_tpot_and_throughput_within_5_percent(name: str, speculate: bool, variation: float) -> None:
    fields = dict(read_config(EXAMPLES / f"{name}.yaml").document.value)
    fields["workload"] = {
        "request_rate": 1.0, "input_tokens": 1500, "output_tokens": 500, "max_batch": 128,
        "lengths": {"output_variation": variation},
    }
    question = resolve(config_from_mapping(fields, base=EXAMPLES))
    assert question.load is not None
    found = ways_of(question, question.load)
    way = best_of([way for way in found if (way.drafter == "eagle3") == speculate], question.load, "latency")
    server = replace(way.replica, output_variation=variation)
    for share, count in REQUESTS.items():
        rate = share * saturation_rate(server)
        requests = poisson_requests(server, rate, requests=count, variation=variation, seed=7)
        checked = simulate(server, way.survival, requests, seed=7)
        state = steady_state(server, rate)
        assert float(state.tpot_s[0]) == pytest.approx(checked.tpot_s, rel=WITHIN), share
        assert rate * server.output_tokens == pytest.approx(checked.tokens_per_s, rel=WITHIN), share
