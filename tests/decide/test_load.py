"""The closed form under load, against queueing results, hand counts, and the discrete simulation."""

from __future__ import annotations

import numpy as np
import pytest

from specplan.planner.decide.load import Replica, closed_loop, occupancy, saturation_rate, steady_state
from specplan.planner.decide.simulate import poisson_requests, simulate


def replica(**changes: object) -> Replica:
    """A constant step and no prefill: an M/M/c-like server whose results are in textbooks."""
    fields: dict[str, object] = {
        "step_s": np.full(4, 0.01), "emitted": 1.0, "output_tokens": 101.0, "prefill_s": 0.0, "gpus": 1,
    }
    return Replica(**(fields | changes))  # type: ignore[arg-type]


def erlang_c(servers: int, load: float) -> float:
    """Chance that a request waits, M/M/c with offered load a = rate * service (Erlang 1917)."""
    terms = np.cumprod([1.0, *(load / k for k in range(1, servers + 1))])
    last = terms[-1] * servers / (servers - load)
    return float(last / (terms[:-1].sum() + last))


def test_erlang_c_without_prefill() -> None:
    server = replica()      # 100 steps of 10 ms: service 1 s, 4 slots
    share, last = occupancy(server, np.array([3.0]))
    assert last == pytest.approx([4.0])
    assert share[0, -1] == pytest.approx(erlang_c(4, 3.0), rel=1e-9)
    state = steady_state(server, 3.0)
    assert state.mean_batch == pytest.approx([3.0])                                  # Little's law
    assert state.mean_waiting == pytest.approx([3.0 * erlang_c(4, 3.0) / (4.0 - 3.0)])
    assert state.tpot_s == pytest.approx([0.01])


def test_saturation_by_hand() -> None:
    # 100 steps of 10 ms, 4 at a time, and 50 ms of prefill each; one of 101 slot-steps is in prefill
    server = replica(prefill_s=0.05)
    assert server.full_batch == 4
    assert saturation_rate(server) == pytest.approx(4 / (100 * 0.01 + 4 * 0.05))
    state = steady_state(server, np.array([3.0, 3.4]))
    assert state.stable.tolist() == [True, False]
    assert np.isinf(state.ttft_s[1])
    assert state.tokens_per_s_per_gpu[1] == pytest.approx(saturation_rate(server) * 101)


def test_last_step_overshoots() -> None:
    # steps of 1 or 3 tokens: E[X^2]/E[X] = 2.5, so 0.75 tokens too many on average
    server = replica(emitted=2.0, emitted_variance=1.0)
    assert server.steps == pytest.approx((100 + 0.75) / 2)


def test_concurrency_closes_the_loop() -> None:
    server = replica()
    two, crowd = closed_loop(server, 2), closed_loop(server, 50)
    assert two.request_rate == pytest.approx([2.0])
    assert crowd.request_rate == pytest.approx([saturation_rate(server)])
    assert crowd.mean_waiting == pytest.approx([46.0])
    assert crowd.request_s == pytest.approx([50.0 / saturation_rate(server)], rel=0.01)      # Little's law


def test_one_user_waits_for_no_prompt_while_decoding() -> None:
    # 100 steps of 10 ms after a prompt of 0.5 s: TPOT counts from the first token on, and nobody else sends prompts
    alone = closed_loop(replica(prefill_s=0.5, output_variation=0.0), 1)
    assert alone.tpot_s == pytest.approx([0.01])
    assert alone.tpot_top_s == pytest.approx([0.01])
    assert alone.step_gap_top_s == pytest.approx([0.01])
    assert alone.request_rate == pytest.approx([1 / 1.5])
    assert alone.request_s == pytest.approx([1.5], rel=0.02)        # one request at a time
    four = closed_loop(replica(prefill_s=0.05), 4)
    assert four.tpot_s == pytest.approx([0.01 + 3 * 0.05 / 100])    # the prompts of three others cut in


def test_more_load_is_never_better() -> None:
    server = replica(step_s=0.01 + 0.0005 * np.arange(32), prefill_s=0.02, emitted=2.0, emitted_variance=0.8)
    state = steady_state(server, np.linspace(0.05, 0.95, 19) * saturation_rate(server))
    for name in ("tpot_s", "tpot_top_s", "ttft_s", "request_s", "mean_batch"):
        assert np.all(np.diff(getattr(state, name)) > 0), name
    assert np.all(state.tpot_top_s > state.tpot_s)
    assert np.all(state.ttft_top_s > state.ttft_p50_s)


def test_chunks_of_long_prompts() -> None:
    # a prompt of 0.4 s in chunks of 0.1 s stretches over four steps: its first token waits for them
    whole, cut = replica(prefill_s=0.4), replica(prefill_s=0.4, chunk_s=0.1)
    one, other = steady_state(whole, 0.5), steady_state(cut, 0.5)
    assert other.ttft_s[0] > one.ttft_s[0]
    assert other.step_gap_top_s[0] == pytest.approx(0.11)


@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_closed_form_meets_simulation(variation: float) -> None:
    survival = np.array([0.7, 0.4, 0.2])
    variance = float((np.array([1, 3, 5]) @ survival) - survival.sum() ** 2)
    server = replica(
        step_s=0.012 + 0.0002 * np.arange(48), emitted=2.3, emitted_variance=variance, output_tokens=120.0,
        prefill_s=0.03, output_variation=variation,
    )
    for share in (0.3, 0.8):
        rate = share * saturation_rate(server)
        found = simulate(server, survival, poisson_requests(server, rate, requests=5000, variation=variation, seed=4))
        state = steady_state(server, rate)
        assert state.tpot_s[0] == pytest.approx(found.tpot_s, rel=0.05)
        assert state.ttft_s[0] == pytest.approx(found.ttft_s, rel=0.1)
        assert rate * server.output_tokens == pytest.approx(found.tokens_per_s, rel=0.05)
        assert state.mean_batch[0] == pytest.approx(found.mean_batch, rel=0.06)


def test_a_seed_repeats_a_run() -> None:
    server = replica(emitted=1.5, emitted_variance=0.25)
    runs = [
        simulate(server, np.array([0.5]), poisson_requests(server, 2.0, requests=300, seed=seed), seed=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def brief(**changes: object) -> Replica:
    """Answers of ten tokens after prompts that take as long as a step: prefill fills nearly all of the time."""
    fields: dict[str, object] = {
        "step_s": 0.012 + 0.00003 * np.arange(256), "emitted": 2.5, "emitted_variance": 1.5, "output_tokens": 10.0,
        "prefill_s": 0.03,
    }
    return replica(**(fields | changes))


@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_percentiles_of_brief_answers_rise_up_to_saturation(variation: float) -> None:
    server = brief(output_variation=variation)
    rates = np.linspace(0.05, 0.999, 30) * saturation_rate(server)
    half, ninety, top = (steady_state(server, rates, level) for level in (50, 90, 99))
    assert np.all(half.tpot_p50_s <= ninety.tpot_top_s)
    assert np.all(ninety.tpot_top_s <= top.tpot_top_s)
    for found in (half, ninety, top):
        assert np.all(np.diff(found.tpot_top_s) > 0)
    # no more than half of the requests can take twice the mean, and no one in a hundred less than it
    assert np.all(top.tpot_p50_s < 2.0 * top.tpot_s)
    assert np.all(top.tpot_top_s > top.tpot_s)


@pytest.mark.parametrize("variation", [0.0, 1.0])
@pytest.mark.parametrize("chunk_s", [np.inf, 0.06, 0.01])
def test_percentiles_of_brief_answers_meet_simulation(chunk_s: float, variation: float) -> None:
    survival = np.array([0.75, 0.5, 0.25])
    variance = float((np.array([1, 3, 5]) @ survival) - survival.sum() ** 2)
    server = brief(chunk_s=chunk_s, emitted_variance=variance, output_variation=variation)
    for share in (0.3, 0.6, 0.8):
        rate = share * saturation_rate(server)
        requests = poisson_requests(server, rate, requests=6000, variation=variation, seed=4)
        state = steady_state(server, rate, 99.0)
        for level, closed in ((50.0, state.tpot_p50_s), (99.0, state.tpot_top_s)):
            found = simulate(server, survival, requests, percentile=level, seed=4)
            assert 0.5 < closed[0] / found.tpot_top_s < 2.0, (share, level)
            assert state.tpot_s[0] == pytest.approx(found.tpot_s, rel=0.2)


def test_as_many_requests_finish_as_come() -> None:
    # steps as long with many sequences as with few: what a request takes does not depend on how many there are
    server = brief(step_s=np.full(256, 0.012), output_variation=0.0)
    rate = 0.5 * saturation_rate(server)
    phi = rate * server.prefill_s
    burst = server.prefill_s * phi / (1 - phi**2) * (1 - phi**server.steps)
    decode_s = (server.steps * 0.012 + burst) / (1 - phi)
    assert steady_state(server, rate).tpot_s == pytest.approx([decode_s / 9], rel=1e-6)
