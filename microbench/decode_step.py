"""A real decode step in torch: layers of a configured shape with random weights, a real KV cache, and a drafter.

Only what costs time is there: fused QKV, rotary-free attention over a cache that is written first, output projection,
norms, gated feed-forward, head and argmax. Values mean nothing. `step(query_len)` runs B sequences of q tokens; its
kernels are those that the sweep times, so that a prediction made of them can be held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specplan.microbench.backends.attention_torch import pack_rows, packed_attention, unpack_rows, verify_mask
from specplan.microbench.backends.matrix import linear, packed_linear
from specplan.microbench.environment import capability
from specplan.microbench.measurements import Environment
from specplan.microbench.operands import random
from specplan.planner.messages import InputError
from specplan.planner.models.architecture import DenseFfn, Model, SoftmaxAttention

EPS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A dense decoder of equal layers, as one GPU sees it."""

    layers: int
    hidden: int
    intermediate: int
    matrices: int
    query_heads: int
    kv_heads: int
    head_dim: int
    vocab: int

    @property
    def qkv(self) -> int:
        """Width of the fused query, key and value projection."""
        return (self.query_heads + 2 * self.kv_heads) * self.head_dim


def shape_of(model: Model, layers: int) -> Shape:
    """Shape of a model of equal dense layers, cut to `layers` of them.

    Raises
    ------
    InputError
        For a layer that this step does not build: experts, a latent cache, a recurrent state, a window.
    """
    (group, *others) = model.groups
    mixer, ffn = group.layer.mixer, group.layer.ffn
    if others or not isinstance(mixer, SoftmaxAttention) or not isinstance(ffn, DenseFfn):
        raise InputError(f"model: validate step builds dense layers that are all alike; {model.name} has other ones")
    if mixer.window_tokens is not None or mixer.head_dim != mixer.value_head_dim:
        raise InputError(f"model: validate step builds full attention with equal widths; {model.name} has other layers")
    return Shape(layers=layers, hidden=model.hidden, intermediate=ffn.intermediate, matrices=ffn.matrices,
                 query_heads=mixer.query_heads, kv_heads=mixer.kv_heads, head_dim=mixer.head_dim, vocab=model.vocab)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Weights of a shape on a device, in the layout of its matrix kernel."""

    shape: Shape
    environment: Environment
    dtype: str
    layers: tuple[dict[str, Any], ...]
    head: Any
    ones: Any


def build(shape: Shape, environment: Environment, dtype: str) -> Network:
    """Random weights; on a CPU in oneDNN's own layout."""
    import torch

    device = torch.device(environment.device)
    wide = shape.intermediate * (shape.matrices - 1)
    attended = shape.query_heads * shape.head_dim

    def weight(n: int, k: int) -> Any:
        drawn = random((n, k), dtype, device, scale=k**-0.5)
        return packed_linear(drawn) if environment.device == "cpu" else drawn

    layers = tuple(
        {"qkv": weight(shape.qkv, shape.hidden), "out": weight(shape.hidden, attended),
         "up": weight(wide, shape.hidden), "down": weight(shape.hidden, shape.intermediate)}
        for _ in range(shape.layers)
    )
    return Network(shape=shape, environment=environment, dtype=dtype, layers=layers,
                   head=weight(shape.vocab, shape.hidden), ones=torch.ones(shape.hidden, device=device, dtype=random(
                       (1,), dtype, device).dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """KV cache of every layer: on a CPU [batch, kv_heads, tokens, width], on a GPU [batch, tokens, kv_heads, width]."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    context_tokens: int


def fill_cache(network: Network, *, batch: int, context_tokens: int, spare: int) -> Cache:
    """Random keys and values for S tokens and `spare` more to come."""
    import torch

    shape, environment = network.shape, network.environment
    tokens = context_tokens + spare
    size = ((batch, shape.kv_heads, tokens, shape.head_dim) if environment.device == "cpu"
            else (batch, tokens, shape.kv_heads, shape.head_dim))
    device = torch.device(environment.device)

    def drawn() -> tuple[Any, ...]:
        return tuple(random(size, network.dtype, device) for _ in range(shape.layers))

    return Cache(keys=drawn(), values=drawn(), context_tokens=context_tokens)


def step(network: Network, cache: Cache, *, batch: int, query_len: int, hidden: Any = None) -> Callable[[], Any]:
    """One pass over B sequences of q tokens: returns a call that writes the cache and gives the logits of each row.

    `hidden` [batch * query_len, hidden] stands for embedded tokens; random numbers by default.
    """
    import torch

    device = torch.device(network.environment.device)
    embedded = random((batch * query_len, network.shape.hidden), network.dtype, device) if hidden is None else hidden
    attend = _attention(network, cache, batch, query_len)
    multiply = linear if network.environment.device == "cpu" else torch.nn.functional.linear
    norm = torch.nn.functional.rms_norm
    width = (network.shape.hidden,)

    def call() -> Any:
        rows = embedded
        for index, layer in enumerate(network.layers):
            mixed = attend(index, multiply(norm(rows, width, network.ones, EPS), layer["qkv"]))
            rows = rows + multiply(mixed, layer["out"])
            rows = rows + multiply(_gate(multiply(norm(rows, width, network.ones, EPS), layer["up"]),
                                         network.shape.matrices), layer["down"])
        logits = multiply(norm(rows, width, network.ones, EPS), network.head)
        return logits, logits.argmax(dim=-1)

    return call


def _gate(wide: Any, matrices: int) -> Any:
    from torch.nn.functional import relu, silu

    if matrices == 2:
        return relu(wide).square()
    gate, up = wide.chunk(2, dim=-1)
    return silu(gate) * up


def _attention(network: Network, cache: Cache, batch: int, query_len: int) -> Callable[[int, Any], Any]:
    """Write the new keys and values, then attend with the kernel that the sweep timed on this device."""
    shape = network.shape
    heads, kv_heads, width = shape.query_heads, shape.kv_heads, shape.head_dim
    attended, cached = heads * width, kv_heads * width
    start, end = cache.context_tokens, cache.context_tokens + query_len
    scale = width**-0.5

    def parts(fused: Any) -> tuple[Any, Any, Any]:
        query, key, value = fused.split((attended, cached, cached), dim=-1)
        return (query.view(batch, query_len, heads, width), key.view(batch, query_len, kv_heads, width),
                value.view(batch, query_len, kv_heads, width))

    if network.environment.device == "cpu":
        mask = verify_mask(query_len, heads // kv_heads, like=network.ones)

        def on_cpu(index: int, fused: Any) -> Any:
            query, key, value = parts(fused)
            keys, values = cache.keys[index], cache.values[index]
            keys[:, :, start:end] = key.transpose(1, 2)
            values[:, :, start:end] = value.transpose(1, 2)
            found = packed_attention(pack_rows(query, kv_heads), keys[:, :, :end], values[:, :, :end], mask, scale)
            return unpack_rows(found, query_len).reshape(batch * query_len, attended)

        return on_cpu
    return _triton_attention(network, cache, batch, query_len, parts)


def _triton_attention(
    network: Network, cache: Cache, batch: int, query_len: int, parts: Callable[[Any], tuple[Any, Any, Any]]
) -> Callable[[int, Any], Any]:
    import dataclasses  # noqa: PLC0415
    import math  # noqa: PLC0415

    import torch

    from specplan.microbench.triton_attention import Layout, bind, choose_splits, tiling  # noqa: PLC0415

    shape, environment = network.shape, network.environment
    start, end = cache.context_tokens, cache.context_tokens + query_len
    rows = shape.query_heads // shape.kv_heads * query_len
    tile = tiling(rows=rows, head_dim=shape.head_dim, capability=capability(environment))
    splits = choose_splits(tasks=batch * shape.kv_heads * math.ceil(rows / tile.block_m), slots=environment.sms or 1,
                           kv_blocks=math.ceil(end / tile.block_n))
    tile = dataclasses.replace(tile, splits=splits)
    lengths = torch.full((batch,), end, dtype=torch.int32, device=environment.device)
    query_in = torch.empty((batch, query_len, shape.query_heads, shape.head_dim), dtype=network.ones.dtype,
                           device=environment.device)
    calls = [bind(query_in, keys, values, lengths, layout=Layout(page_tokens=0), tiles=tile,
                  scale=shape.head_dim**-0.5, value_dim=shape.head_dim)
             for keys, values in zip(cache.keys, cache.values, strict=True)]

    def on_gpu(index: int, fused: Any) -> Any:
        query, key, value = parts(fused)
        cache.keys[index][:, start:end] = key
        cache.values[index][:, start:end] = value
        query_in.copy_(query)
        return calls[index]().view(batch * query_len, -1)

    return on_gpu
