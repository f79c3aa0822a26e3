"""The step that is timed is a decode step: q tokens in one pass give what q passes of one token give."""

from __future__ import annotations

import pytest

from specplan.microbench import decode_step
from specplan.microbench.decode_step import Shape
from specplan.planner.messages import InputError
from specplan.planner.models.reader import load_model
from tests.microbench.devices import CPU

SHAPE = Shape(layers=2, hidden=32, intermediate=48, matrices=3, query_heads=6, kv_heads=2, head_dim=16, vocab=40)


def test_one_verify_pass_equals_single_steps() -> None:
    torch = pytest.importorskip("torch", reason="needs torch (extra gpu)")
    torch.manual_seed(0)
    network = decode_step.build(SHAPE, CPU, "fp32")
    once = decode_step.fill_cache(network, batch=2, context_tokens=5, spare=3)
    again = decode_step.Cache(keys=tuple(key.clone() for key in once.keys),
                              values=tuple(value.clone() for value in once.values), context_tokens=5)
    hidden = torch.randn(2, 3, SHAPE.hidden)
    logits, picked = decode_step.step(network, once, batch=2, query_len=3, hidden=hidden.reshape(6, -1))()
    assert picked.shape == (6,)
    for token in range(3):
        grown = decode_step.Cache(keys=again.keys, values=again.values, context_tokens=5 + token)
        single, _ = decode_step.step(network, grown, batch=2, query_len=1, hidden=hidden[:, token])()
        torch.testing.assert_close(logits.view(2, 3, -1)[:, token], single, rtol=2e-4, atol=2e-5)


def test_a_shape_is_read_from_a_dense_model() -> None:
    shape = decode_step.shape_of(load_model("llama-3.1-8b"), 3)
    assert shape == Shape(layers=3, hidden=4096, intermediate=14_336, matrices=3, query_heads=32, kv_heads=8,
                          head_dim=128, vocab=128_256)
    assert shape.qkv == (32 + 16) * 128


@pytest.mark.parametrize("name", ["deepseek-r1", "gpt-oss-120b"])
def test_other_layers_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match="validate step builds"):
        decode_step.shape_of(load_model(name), 1)
