"""Operators added to the format in 2026: affine reads and counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.frozen import keyword_record
from stepsim.graph import fn
from stepsim.graph.graph_file.rows.row import Row, written
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.flat_map.numbers import Counter, counter
from stepsim.graph.ops.memory.onchip import streamify
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.types import U64_TILE, Buffer

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream


@keyword_record
class EndedCounter(Counter):
    """A counter with an outer dim of 1, as in the format: its last token carries a stop."""

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"n": self.count, "lead": True}


def _read_counter(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    made = counter(m.max, ref=xs[0], label=b.label) if xs else None
    if made is not None:
        return [made]
    if not b.leads(1):
        return [counter(m.max, label=b.label)]
    site = Site("counter", (), b.label)
    b.require(m.max >= 1, "max is 0; nothing could carry the stop of an empty run")
    return site.add(EndedCounter(count=m.max), [Output((Dim(1), Dim(m.max)), U64_TILE)])


def _read_count_up(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    return [flat_map(xs[0], fn.counter(), label=b.label)]


def _read_streamify(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    shape, stride, factors = list(m.out_shape), list(m.stride), list(m.repeat_factor)
    if not shape:
        b.require(not stride, "it has a stride, but no out_shape")
        return [streamify(xs[0], repeat=factors or None, label=b.label)]
    stated = shape[: len(factors)], stride[: len(factors)]
    b.require(
        stated == (factors, [0] * len(factors)),
        f"repeat_factor is {factors}, which out_shape {shape} with stride {stride} does not begin "
        "with",
    )
    return [streamify(xs[0], shape=shape, stride=stride, label=b.label)]


def _write_streamify(w: Writing, m: Any) -> None:
    op = w.operator
    kind = op.inputs[0].type
    assert isinstance(kind, Buffer)
    if op.shape is not None:
        shape, stride = list(op.shape), list(op.stride)
    else:
        w.require(
            all(d.is_static for d in kind.dims),
            "the format nests repeats of buffers of constant dims only",
        )
        shape = [int(d) for d in kind.dims]
        stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    m.out_shape.extend([*op.repeat, *shape])
    m.stride.extend([*(0 for _ in op.repeat), *stride])
    m.repeat_factor.extend(op.repeat)


ROWS = {
    "Counter": Row(("Counter", "DynCounter"), _read_counter, written(max="n")),
    "FlatmapCounter": Row(("FlatmapCounter",), _read_count_up, written()),
    "StaticStreamify": Row(("StaticStreamify",), _read_streamify, _write_streamify),
}
