"""Random operator graphs, recorded by the builder and computed by numpy side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as some
from numpy.lib.stride_tricks import sliding_window_view

from stepsim.design import GraphBuilder, OperatorGraph, Ref

__all__ = ["Drawn", "drawn_graphs"]

SIZES = (1, 2, 3, 4, 6)


@dataclass
class Drawn:
    """A graph, values of its inputs and the outputs that numpy computed."""

    builder: GraphBuilder
    values: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    pool: list[tuple[Ref, Any]] = field(default_factory=list)

    @property
    def graph(self) -> OperatorGraph:
        return self.builder.graph()

    def given(self, shape: tuple[int, ...], role: str = "input") -> tuple[Ref, Any]:
        name = f"{role}{len(self.values)}"
        seed = np.random.default_rng(len(self.values))
        self.values[name] = seed.uniform(-1.5, 1.5, shape)
        ref = getattr(self.builder, role)(name, shape)
        return ref, self.values[name]

    def given_positions(self, count: int) -> tuple[Ref, Any]:
        ref, values = self.given((count,))
        values[...] = np.arange(count)
        return ref, values


def _reshaped(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements, with axes of size 1 here and there."""
    rest, made = prod(shape), []
    while rest > 1:
        size = draw(some.sampled_from([n for n in range(2, rest + 1) if rest % n == 0]))
        made.append(size)
        rest //= size
    for _ in range(draw(some.integers(0, 1))):
        made.insert(draw(some.integers(0, len(made))), 1)
    return tuple(made)


def _step(draw: Any, d: Drawn) -> tuple[Ref, Any]:
    b = d.builder
    x, v = draw(some.sampled_from(d.pool))
    rank = x.rank
    kinds = ["unary", "number", "reshape", "binary", "expand"]
    if rank:
        kinds += ["permute", "slice", "reduce", "linear", "softmax", "rms", "concat", "again"]
        kinds += ["cumsum", "pad", "windows", "chosen"]
    if rank > 1:
        kinds += ["matmul", "mask"]
    if rank > 2:
        kinds += ["conv"]
    if rank and x.shape[-1] % 2 == 0:
        kinds += ["rotary"]
    kind = draw(some.sampled_from(kinds))
    axis = draw(some.integers(0, rank - 1)) if rank else 0
    if kind == "unary":
        name = draw(some.sampled_from(["square", "silu", "exp", "neg", "relu", "tanh"]))
        if name == "exp":
            v = np.clip(v, -4, 4)
            x = b.apply("max", b.apply("min", x, 4.0), -4.0)
        of = {
            "square": np.square, "silu": lambda a: a / (1 + np.exp(-a)), "exp": np.exp,
            "neg": np.negative, "relu": lambda a: np.maximum(a, 0), "tanh": np.tanh,
        }[name]  # fmt: skip
        return b.apply(name, x), of(v)
    if kind == "number":
        return b.sub(1.25, x), 1.25 - v
    if kind == "reshape":
        shape = _reshaped(draw, x.shape)
        return b.reshape(x, shape), v.reshape(shape)
    if kind == "permute":
        order = draw(some.permutations(range(rank)))
        return b.permute(x, order), v.transpose(order)
    if kind == "slice":
        size = x.shape[axis]
        start = draw(some.integers(0, size - 1))
        stop = draw(some.integers(start + 1, size))
        step = draw(some.integers(1, 2))
        at = tuple(slice(start, stop, step) if i == axis else slice(None) for i in range(rank))
        return b.slice(x, axis, start, stop, step), v[at]
    if kind == "expand":
        size = draw(some.sampled_from([2, 3]))
        shape = (size, *x.shape)
        return b.expand(x, shape), np.broadcast_to(v, shape)
    if kind == "binary":
        name = draw(some.sampled_from(["add", "mul", "sub", "max"]))
        of = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "max": np.maximum}[name]
        fits = [(y, w) for y, w in d.pool if y.shape == x.shape]
        shape = tuple(draw(some.sampled_from([1, size])) for size in x.shape)
        y, w = draw(some.sampled_from([*fits, None])) or d.given(shape)
        return b.apply(name, x, y), of(v, w)
    if kind == "again":  # one value, read in two orders
        y, w = b.transpose(x, 0, -1), np.swapaxes(v, 0, -1)
        made = b.reshape(y, (prod(y.shape),)), w.reshape(-1)
        return b.add(made[0], b.reshape(x, (prod(x.shape),))), made[1] + v.reshape(-1)
    if kind == "reduce":
        keep = draw(some.booleans())
        if draw(some.booleans()):
            return b.sum(x, axis, keep), v.sum(axis, keepdims=keep)
        return b.max(x, axis, keep), v.max(axis, keepdims=keep)
    if kind == "softmax":
        e = np.exp(v - v.max(axis, keepdims=True))
        return b.softmax(x, axis), e / e.sum(axis, keepdims=True)
    if kind == "rms":
        w, a = d.given(x.shape[-1:], "weight")
        root = np.sqrt((v**2).mean(-1, keepdims=True) + 0.5)
        return b.rms_norm(x, w, 0.5), v / root * a
    if kind == "linear":
        w, a = d.given((draw(some.sampled_from(SIZES)), x.shape[-1]), "weight")
        return b.scale(b.linear(x, w), 0.25), v @ a.T * 0.25
    if kind == "cumsum":
        return b.cumsum(x, axis), v.cumsum(axis)
    if kind == "pad":
        pads = [(draw(some.integers(0, 2)), draw(some.integers(0, 2))) for _ in range(rank)]
        return b.pad(x, pads, 0.5), np.pad(v, pads, constant_values=0.5)
    if kind == "windows":  # the largest values of some that may overlap
        width = draw(some.integers(1, x.shape[axis]))
        stride, apart = draw(some.integers(1, 2)), draw(some.integers(1, 2))
        if apart * (width - 1) + 1 > x.shape[axis]:
            apart = 1
        seen = sliding_window_view(v, apart * (width - 1) + 1, axis)[..., ::apart]
        at = tuple(slice(None, None, stride if i == axis else 1) for i in range(rank))
        made = b.unfold(x, axis, width, stride, apart)
        return b.max(made, axis + 1), seen[at].max(-1)
    if kind == "chosen":
        places, _ = d.given_positions(x.shape[axis])
        order = b.rank(x, places, axis)
        chosen = b.ranked(order, places, 1, axis=axis)
        made = b.gather(x, b.reshape(chosen, chosen.shape), places, axis)
        return made, v.max(axis, keepdims=True)
    if kind == "conv":
        out, width = draw(some.sampled_from(SIZES)), draw(some.integers(1, x.shape[-1]))
        w, a = d.given((*(1,) * (rank - 3), width, x.shape[1], out), "weight")
        turned = b.permute(w, (rank - 1, rank - 2, *range(rank - 2)))
        # Positions before the last axis have windows of one place.
        seen = sliding_window_view(v, width, -1)
        product = np.einsum("nc...w,wco->no...", seen, a.reshape(width, x.shape[1], out))
        return b.scale(b.conv(x, turned), 0.25), product * 0.25
    if kind == "matmul":
        lead = tuple(draw(some.sampled_from([1, size])) for size in x.shape[:-2])
        y, w = d.given((*lead, x.shape[-1], draw(some.sampled_from(SIZES))))
        return b.scale(b.matmul(x, y), 0.25), v @ w * 0.25
    if kind == "mask":
        # Minus infinity would end up in differences of itself.
        start = draw(some.integers(0, 2))
        seen = np.arange(v.shape[-1]) <= np.arange(v.shape[-2])[:, None] + start
        masked = b.causal_mask(x, start)
        return b.apply("max", masked, -9.0), np.maximum(np.where(seen, v, -np.inf), -9.0)
    if kind == "rotary":
        half = v.shape[-1] // 2
        (cos, c), (sin, s) = d.given((half,)), d.given((half,))
        if draw(some.booleans()):
            e, o = v[..., :half], v[..., half:]
            turned = np.concatenate([e * c - o * s, o * c + e * s], -1)
            return b.rotary(x, cos, sin), turned
        e, o = v[..., ::2], v[..., 1::2]
        turned = np.stack([e * c - o * s, o * c + e * s], -1).reshape(v.shape)
        return b.rotary(x, cos, sin, pairs="interleaved"), turned
    shape = tuple(draw(some.sampled_from(SIZES)) if i == axis else n for i, n in enumerate(x.shape))
    y, w = d.given(shape)
    return b.concat([x, y, x], axis), np.concatenate([v, w, v], axis)


@some.composite
def drawn_graphs(draw: Any) -> Drawn:
    """Some steps from random inputs; the last values are outputs."""
    d = Drawn(GraphBuilder("random"))
    shape = tuple(draw(some.lists(some.sampled_from(SIZES), min_size=1, max_size=3)))
    d.pool.append(d.given(shape))
    for _ in range(draw(some.integers(1, 7))):
        made = _step(draw, d)
        if prod(made[0].shape) <= 4096:
            d.pool.append(made)
    # What nothing reads is an output, so that the graph has no value in vain.
    for number, (ref, value) in enumerate(d.pool):
        name = f"out{number}"
        d.builder.output(ref, name)
        d.expected[name] = value
    return d
