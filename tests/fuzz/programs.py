"""Random programs through the public operators, methods and functions, valid or not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

import stepsim as st
from tests.fuzz.script import Refused, Script

__all__ = ["STEPS", "Grown", "grow"]

fn = st.fn

_FLOATS = ["f32", "bf16", "f16", "f8e4m3", "i8", "f4", "i4"]
_BINARY = [fn.add, fn.mul, fn.div, fn.matmul, fn.matmul_t, fn.set_offset, fn.append_row]
_UNARY = [fn.exp, fn.silu, fn.row_sum]
_REDUCTIONS = [fn.add, fn.pack_rows, fn.pack_cols, fn.mul, fn.signal]


class Grown:
    """A program under construction.

    Attributes
    ----------
    chips : number of chips that operators are on.
    streams : all streams so far.
    routings : routing tables with indices that fit, for the bindings of a run.
    lengths : streams of lengths with their values, for the bindings of metrics.
    """

    def __init__(self, script: Script, chips: int = 1) -> None:
        self.script = script
        self.rng = script.rng
        self.chips = chips
        self.streams: list[Any] = []
        self.routings: list[tuple[Any, Any]] = []
        self.lengths: list[tuple[Any, Any]] = []

    def small(self, low: int = 1, high: int = 3) -> int:
        return self.rng.randint(low, high)

    def any(self) -> Any:
        """A stream, most likely a recent one."""
        if not self.streams:
            source(self)
        recent = self.rng.random() < 0.7
        return self.streams[-1] if recent else self.rng.choice(self.streams)

    def tile(self) -> Any:
        """A stream of tiles, if there is one."""
        tiles = [s for s in self.streams if isinstance(s.type, st.Tile)]
        return tiles[-1 - min(self.rng.randint(0, 2), len(tiles) - 1)] if tiles else self.any()

    def like(self, stream: Any) -> Any:
        """A stream of the same shape, if there is one."""
        same = [s for s in self.streams if getattr(stream, "shape", None) == s.shape]
        return self.rng.choice(same) if same else self.any()

    def make(
        self, written: str, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        """Call an operator, and keep the streams that it returns."""
        made = self.script.call(written, function, *given, **options)
        self.streams += [s for s in _flat(made) if isinstance(s, st.Stream)]
        return made

    def method(self, stream: Any, name: str, /, *given: Any, **options: Any) -> Any:
        """Call an operator as a method of its stream."""
        function = getattr(stream, name)
        owner = f"{stream.producer.title(stream.output)}"
        return self.make(f"<{owner}>.{name}", function, *given, **options)


def _flat(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _tensor(g: Grown, rows: int, cols: int) -> Any:
    dtype = g.rng.choice(_FLOATS)
    if g.rng.random() < 0.2:
        return np.ones((rows, cols), g.rng.choice(["f4", "f2", "i1"]))
    return g.script.call(
        "st.spec", st.spec, rows, cols, dtype=dtype, name=g.rng.choice([None, "w"])
    )


def load(g: Grown) -> None:
    shape = [g.small() for _ in range(g.small())]
    rows, cols = g.rng.choice([(1, 1), (2, 2), (1, 4), (4, 2), (3, 5)])
    tensor = _tensor(g, int(np.prod(shape)) * rows, cols)
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    options: dict[str, Any] = {"shape": shape, "stride": steps}
    if g.rng.random() < 0.3:
        options |= {"par_dispatch": g.small(), "base": g.small(0, 9)}
    elif g.rng.random() < 0.3:
        options |= {"transposed": True, "bypass": g.rng.random() < 0.5}
    g.make("st.linear_load", st.linear_load, tensor, (rows, cols), **options)


def load_each(g: Grown) -> None:
    options = {"trigger_rank": 1} if g.rng.random() < 0.3 else {}
    g.make("st.linear_load", st.linear_load, _tensor(g, 4, 2), (2, 2), ref=g.any(), **options)


def ragged(g: Grown) -> None:
    shape = [g.small() for _ in range(g.small(1, 2))]
    count = int(np.prod(shape))
    values = np.array([g.rng.randint(0, 3) for _ in range(count)]).reshape(shape)
    lengths = g.make("st.metadata", st.metadata, values)
    index = g.make("st.metadata", st.metadata, np.zeros(shape, int))
    rule = g.script.call("st.fn.cache_read_addresses", fn.cache_read_addresses, g.small())
    addresses = g.make("st.flat_map", st.flat_map, index, rule, lengths)
    g.lengths.append((lengths, values))
    g.make("st.random_load", st.random_load, addresses, _tensor(g, 16, 2), (1, 2))


def selectors(g: Grown) -> None:
    shape = [g.small() for _ in range(g.small(1, 2))]
    if g.rng.random() < 0.4:
        width = g.small(1, 3)
        flags = np.array(
            [[int(g.rng.random() < 0.6) for _ in range(width)] for _ in range(int(np.prod(shape)))]
        ).reshape(*shape, width)
        g.make("st.selector", st.selector, flags, as_indices=g.rng.random() < 0.2)
        return
    experts, rows = g.small(2, 4), shape[0]
    k = g.rng.randint(1, experts)
    indices = np.array([g.rng.sample(range(experts), k) for _ in range(rows)])
    given = indices if g.rng.random() < 0.5 else st.spec(rows, k)
    table = g.script.call("st.routing", st.routing, given, experts)
    if isinstance(table, st.graph.Routing):
        g.routings.append((table, indices))
        kind = g.rng.choice(["multihot", "onehot"])
        g.make(f"routing.{kind}", getattr(table, kind), label=None)


def source(g: Grown) -> None:
    g.rng.choice([load, load, ragged, selectors])(g)


def route(g: Grown) -> None:
    x = g.any()
    selectors(g)
    which = g.rng.choice(
        [s for s in g.streams if isinstance(s.type, (st.graph.MultiHot, st.graph.IndexSelector))]
    )
    options: dict[str, Any] = {"write_back": g.rng.random() < 0.2}
    if g.rng.random() < 0.3:
        options["switch_cycles"] = g.small(0, 4)
    fits = [
        s for s in g.streams if s.rank >= which.rank and s.shape[: len(which.shape)] == which.shape
    ]
    x = g.rng.choice(fits) if fits else x
    parts = g.make("st.partition", st.partition, x, which, **options)
    if g.rng.random() < 0.5:
        g.make("st.reassemble", st.reassemble, parts, which, **options)
    else:
        g.make("st.eager_merge", st.eager_merge, parts)


def deal(g: Grown) -> None:
    parts = g.make("st.parallelize", st.parallelize, g.any(), g.small())
    if g.rng.random() < 0.6:
        g.make("st.eager_merge", st.eager_merge, parts)


def collect(g: Grown) -> None:
    parts = g.make("st.parallelize", st.parallelize, g.any(), g.small())
    g.make("st.static_reassemble", st.static_reassemble, parts, switch_cycles=g.small(0, 4))
    lanes = g.make("st.deinterleave", st.deinterleave, g.any(), g.small())
    g.make("st.interleave", st.interleave, lanes)


def selected(g: Grown) -> None:
    x = g.tile()
    g.make("st.filter_rows", st.filter_rows, x, g.rng.choice([None, g.any()]))
    g.make("st.shuffle", st.shuffle, x, g.any(), write_back=g.rng.random() < 0.3)
    g.make("st.reshape", st.reshape, x, g.small(), pad=0, mask=True)


def merge(g: Grown) -> None:
    g.make("st.eager_merge", st.eager_merge, [g.any() for _ in range(g.small())])


def binary(g: Grown) -> None:
    a = g.tile()
    options: dict[str, Any] = (
        {"compute_bw": g.rng.choice([4, 64, 1024])} if g.rng.random() < 0.7 else {}
    )
    g.make("st.map", st.map, g.rng.choice(_BINARY), a, g.like(a), **options)


def zipped(g: Grown) -> None:
    a = g.any()
    pairs = g.make("st.zip", st.zip, a, g.like(a))
    g.method(pairs, "map", g.rng.choice(_BINARY), compute_bw=16)


def pair_products(g: Grown) -> None:
    a = g.tile()
    rule = g.rng.choice([fn.matmul_t, fn.matmul])
    g.make("st.map_accum", st.map_accum, rule, a, g.like(a), g.small(1, 2), compute_bw=64)


def reduction(g: Grown) -> None:
    rule, init = g.rng.choice(_REDUCTIONS), None
    if g.rng.random() < 0.3:
        maker = g.rng.choice(["zero", "one", "empty"])
        sides = (g.small(0, 2), g.small(0, 4))
        init = g.script.call(
            f"st.fn.{maker}", getattr(fn, maker), sides, g.rng.choice([None, "f32"])
        )
    verb = g.rng.choice(["accum", "accum", "scan"])
    g.method(g.tile(), verb, rule, g.small(1, 2), init, compute_bw=8)


def buffered(g: Grown) -> None:
    b = g.method(g.tile(), "bufferize", g.small(1, 2))
    if g.rng.random() < 0.3:
        ref = g.method(b, "streamify")
        g.method(b, "streamify", g.method(ref, "repeat", g.small()))
    elif g.rng.random() < 0.4:
        g.method(b, "streamify", repeat=g.rng.choice([g.small(), [g.small(), 2]]))
    elif g.rng.random() < 0.4:
        g.method(b, "streamify", shape=[2, g.small()], stride=[0, g.small(0, 1)])
    else:
        g.method(b, "streamify")


def general(g: Grown) -> None:
    dims = [
        g.rng.choice(["rows", "valid", 1, 2, "2*m", "ceil(n/2)", "m+1"])
        for _ in range(g.small(1, 2))
    ]
    sides = (g.rng.choice([1, "rows", 2, "m*n"]), g.rng.choice(["cols", 1, "n/2"]))
    rule = g.script.call("st.fn.emit", fn.emit, dims, sides, cycles=g.small(0, 4))
    g.method(g.tile(), "flat_map", rule)


def unpacked(g: Grown) -> None:
    chunk = g.rng.choice([None, g.small()])
    if g.rng.random() < 0.7:
        rule = g.script.call("st.fn.unpack_rows", fn.unpack_rows, g.rng.random() < 0.5, chunk)
    else:
        rule = g.script.call("st.fn.unpack_cols", fn.unpack_cols, chunk)
    g.method(g.tile(), "flat_map", rule)


def addresses(g: Grown) -> None:
    rule = g.script.call("st.fn.expert_addresses", fn.expert_addresses, g.small(), g.small(0, 2))
    made = g.method(g.any(), "flat_map", rule)
    g.make(
        "st.random_load", st.random_load, made, _tensor(g, 32, 2), (1, 2), par_dispatch=g.small()
    )


def writes(g: Grown) -> None:
    data = g.tile()
    count = data.elements()
    small = isinstance(count, int) and 0 < count < 100
    if not small or not isinstance(data.type, st.Tile):
        raise Refused
    where = g.make("st.metadata", st.metadata, np.arange(count))
    options = {"depth": g.small(), "ack": g.rng.choice(["addr", "data"])}
    rows, cols = (int(side) if side.is_static else 1 for side in (data.type.rows, data.type.cols))
    tensor = g.script.call(
        "st.spec", st.spec, max(1, count * rows), max(1, cols), dtype=data.type.dtype, name="out"
    )
    g.make("st.random_store", st.random_store, where, data, tensor, **options)


def stores(g: Grown) -> None:
    g.make("st.linear_store", st.linear_store, g.tile(), g.rng.choice([None, "y"]))


def cache_writes(g: Grown) -> None:
    a = g.make("st.metadata", st.metadata, [g.small(0, 3) for _ in range(g.small())])
    rule = g.script.call("st.fn.cache_write_address", fn.cache_write_address, g.small())
    g.make("st.map", st.map, rule, a, g.like(a))


def lengths(g: Grown) -> None:
    values = [g.small(1, 3) for _ in range(g.small())]
    held = g.make("st.metadata", st.metadata, values)
    rule = g.script.call("st.fn.last_tile_filter", fn.last_tile_filter)
    g.method(held, "flat_map", rule)
    g.lengths.append((held, values))


def loop(g: Grown) -> None:
    kind = g.script.call(
        "st.Tile.of", st.Tile.of, g.rng.choice(["f32", "u64"]), g.small(), g.small()
    )
    back = g.make("st.feedback", st.feedback, kind, [g.rng.choice([1, 2])])
    if g.rng.random() < 0.8:
        target = g.rng.choice([back, g.like(back)])
        g.script.call("feedback.connect", back.connect, target)


def stated(g: Grown) -> None:
    x = g.any()
    if g.rng.random() < 0.5:
        g.method(x, "assume_shape", *[g.rng.choice([1, 2, d]) for d in x.shape])
    else:
        left, right = g.any().shape[0], g.any().shape[-1]
        g.script.call("program.assume_equal", x.program.assume_equal, left, right)


def dims(g: Grown) -> None:
    program = g.any().program
    made = g.script.call("program.dim", program.dim, g.rng.choice(["d", "m"]))
    g.script.call("Dim.ceil_div", made.ceil_div, g.small())
    g.script.call("Dim.of", st.graph.Dim.of, g.rng.choice([made, 3]))
    g.script.call("program.ragged", program.ragged, "r", static=g.rng.random() < 0.5)


def depths(g: Grown) -> None:
    g.method(g.any(), "with_depth", g.small())


def own_function(g: Grown) -> None:
    rule = g.script.call(
        "st.function", st.function, "double", "m n -> m n", lambda m, n: m * n, values=np.copy
    )
    g.make("st.map", st.map, rule, g.tile(), compute_bw=8)


def _shape_step(name: str, *makers: Callable[[Grown], Any], **named: Callable[[Grown], Any]) -> Any:
    """A step that calls a method of any stream."""

    def step(g: Grown) -> None:
        options = {key: make(g) for key, make in named.items()}
        g.method(g.any(), name, *(make(g) for make in makers), **options)

    step.__name__ = name
    return step


def _index(g: Grown) -> int:
    return g.rng.randint(0, 2)


def _zero(g: Grown) -> int:
    return 0


STEPS: list[Callable[[Grown], None]] = [
    source,
    load_each,
    route,
    route,
    deal,
    collect,
    selected,
    merge,
    binary,
    binary,
    zipped,
    pair_products,
    reduction,
    reduction,
    buffered,
    general,
    unpacked,
    addresses,
    writes,
    stores,
    cache_writes,
    lengths,
    loop,
    stated,
    dims,
    depths,
    own_function,
    _shape_step("map", lambda g: g.rng.choice(_UNARY), compute_bw=lambda g: 16),
    _shape_step("flatten", _zero, lambda g: g.small(1, 2)),
    _shape_step("reshape", lambda g: g.small(1, 4), pad=_zero),
    _shape_step("reshape", lambda g: g.small(1, 4), _zero, _zero, add_outer=lambda g: True),
    _shape_step("reshape", lambda g: g.small(1, 3), _index, write_back=lambda g: True),
    _shape_step("promote"),
    _shape_step("unsqueeze", _index),
    _shape_step("repeat", lambda g: g.rng.choice([g.small(1, 4), [g.small(), g.small()]])),
    _shape_step("repeat_ref", lambda g: g.any(), lambda g: g.small(0, 1)),
    _shape_step("take_last"),
    _shape_step("expand", lambda g: g.rng.choice([g.small(), g.any()]), lambda g: g.small(1, 2)),
    _shape_step("consume"),
    _shape_step("print", label=lambda g: "seen"),
]


def grow(g: Grown, steps: int) -> None:
    """Some steps; those that are refused leave the program as it was."""
    for _ in range(steps):
        try:
            with st.chip(g.rng.randrange(g.chips)) if g.chips > 1 else nullcontext():
                g.rng.choice(STEPS)(g)
        except Refused:
            continue
