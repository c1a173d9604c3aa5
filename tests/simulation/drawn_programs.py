"""Random programs over every operator, drawn by Hypothesis.

A program grows step by step: a step takes streams that are there and puts an operator on them,
wherever the graph layer lets it. What no step reads is consumed or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
from hypothesis import strategies as hs

import stepsim.graph as st
from stepsim.errors import StepError
from stepsim.graph import Program, Stream, fn
from stepsim.graph.types import Buffer, MultiHot, Tile, TupleType
from tests.simulation.drawn_scans import SCAN_STEPS
from tests.simulation.grower import Grower, even_tiles, is_address, load

__all__ = ["STEPS", "Step", "drawn_programs", "grown"]

Step = Callable[[Grower], None]


def _load(g: Grower) -> None:
    g.add(load(g))


def _other_load(g: Grower) -> None:
    rows, cols = g.integer(1, 3), g.integer(1, 3)
    array = np.ones((2 * rows, 2 * cols), np.float32)
    g.add(st.linear_load(array, (rows, cols), transposed=g.flag(), bypass=g.flag()))


def _addresses(g: Grower) -> None:
    shape = tuple(g.integer(1, 3) for _ in range(g.integer(1, 2)))
    g.add(st.metadata(g.array(shape, 1, 3)))


def _numbers(g: Grower) -> None:
    """Counters that begin at 0, and addresses of views."""
    kind = g.integer(0, 3)
    if kind == 0:
        g.add(st.counter(g.integer(1, 4)))
    elif kind == 1:
        g.add(st.counter(g.integer(1, 3), ref=g.stream()))
    elif kind == 2:
        g.add(g.stream(is_address).flat_map(fn.counter()))
    else:
        one_hot = g.stream(
            lambda x: is_address(x) or (isinstance(x.type, MultiHot) and x.type.hot == 1)
        )
        shape = [g.integer(1, 3) for _ in range(g.integer(1, 2))]
        steps = [g.integer(0, 4) for _ in shape]
        g.add(one_hot.flat_map(fn.view_addresses(shape, steps, g.integer(1, 5), g.integer(0, 2))))


def _ragged(g: Grower) -> None:
    """Reads of as many tiles as an integer says."""
    length = g.stream(is_address)
    index = st.map(fn.cache_write_address(1), length, length) if g.flag() else length
    addresses = index.flat_map(fn.cache_read_addresses(1), length)
    g.add(addresses, st.random_load(addresses, np.ones((64, 2), np.float32), (1, 2)))


def _selector(g: Grower) -> None:
    shape = tuple(g.integer(1, 3) for _ in range(g.integer(1, 2)))
    flags = g.flags(shape, g.integer(1, 3))
    g.add(st.selector(flags, as_indices=g.flag()))


def _routing(g: Grower) -> None:
    rows, experts = g.integer(1, 4), g.integer(2, 3)
    k = g.integer(1, experts)
    first = [g.integer(0, experts - 1) for _ in range(rows)]
    table = st.routing([[(e + j) % experts for j in range(k)] for e in first], experts)
    hot = table.multihot()
    x = load(g, (rows, *[g.integer(1, 2)] * g.integer(0, 1)))
    g.pairs.append((x, hot))
    g.add(x, hot, table.onehot())


def _pair(g: Grower) -> None:
    """A selector for the outer dims of a stream."""
    x = g.stream(lambda x: not isinstance(x.type, TupleType))
    outer = g.integer(1, len(x.shape))
    if not all(d.is_static and d != 0 for d in x.shape[:outer]):
        raise StepError("no constant dims")
    flags = g.flags([int(d) for d in x.shape[:outer]], g.integer(1, 3), some=g.flag())
    g.pairs.append((x, st.selector(flags)))


def _merge(g: Grower) -> None:
    x = g.stream()
    others = [y for y in g.open if y.rank == x.rank and type(y.type) is type(x.type)]
    xs = [x, *(g.pick(others) for _ in range(g.integer(0, 2)))]
    data, which = st.eager_merge(xs)
    g.pairs.append((data, which))
    g.add(data)


def _mixed(g: Grower) -> None:
    """Merged tiles of different heights."""
    inner = [g.integer(1, 3)] * g.integer(0, 1)
    cols = g.integer(1, 2)
    xs = [load(g, (g.integer(1, 3), *inner), (g.integer(1, 3), cols)) for _ in range(2)]
    data, which = st.eager_merge(xs)
    g.pairs.append((data, which))
    g.add(data)


def _change_pair(g: Grower) -> None:
    """The same change of shape for data and selectors."""
    x, which = g.pick(g.pairs)
    times, kind = g.integer(1, 3), g.integer(0, 5)
    if kind == 0 and x.rank == which.rank:
        x, which = x.repeat(times), which.repeat(times)
    elif kind == 1:
        x, which = x.unsqueeze(x.rank + 0), which.unsqueeze(which.rank)
    elif kind == 2 and which.rank:
        gap = x.rank - which.rank
        x, which = x.flatten(gap, gap + 1), which.flatten(0, 1)
    elif kind == 3 and x.rank == which.rank:
        x, which = x.unsqueeze(0).expand(times), which.unsqueeze(0).expand(times)
    elif kind == 4 and x.rank == which.rank:
        ref = x.repeat(times)
        x, which = x.unsqueeze(0).expand(ref), which.unsqueeze(0).expand(ref)
    elif x.rank == which.rank:
        lengths = st.metadata(np.array([g.integer(1, 3) for _ in range(int(x.shape[0]))]))
        ref = lengths.flat_map(fn.cache_read_addresses(1), lengths)
        x, which = x.unsqueeze(0).expand(ref), which.unsqueeze(0).expand(ref)
    else:
        raise StepError("not these")
    g.pairs.append((x, which))


def _partition(g: Grower) -> None:
    x, which = g.pick(g.pairs)
    parts = st.partition(x, which)
    g.add(*parts)
    if which.type.hot and g.flag() and not any(p.shape[0] == 0 for p in parts):
        g.add(st.reassemble(parts, which, write_back=g.flag()))


def _gather(g: Grower) -> None:
    """Reassemble by selectors that have at least one bit each."""
    x, which = g.pick(g.pairs)
    g.add(st.reassemble(st.partition(x, which), which))


def _merge_parts(g: Grower) -> None:
    x, which = g.pick(g.pairs)
    data, source = st.eager_merge(st.partition(x, which))
    g.pairs.append((data, source))
    g.add(data)


def _deal(g: Grower) -> None:
    x = g.stream()
    g.add(*st.parallelize(x, g.integer(1, 3)))


def _flatten(g: Grower) -> None:
    x = g.stream(lambda x: x.rank > 0)
    lo = g.integer(0, x.rank - 1)
    g.add(x.flatten(lo, g.integer(lo + 1, x.rank)))


def _reshape(g: Grower) -> None:
    x, kind = g.stream(), g.integer(0, 2)
    if kind == 0:
        g.add(x.reshape(g.integer(1, 3), pad=0))
    elif kind == 1:
        g.add(x.reshape(g.integer(1, 3), pad=0, add_outer=True))
    else:
        g.add(x.reshape(g.integer(1, 3), dim=g.integer(0, x.rank)))


def _levels(g: Grower) -> None:
    x, kind = g.stream(), g.integer(0, 4)
    if kind == 0:
        g.add(x.unsqueeze(g.integer(0, x.rank)))
    elif kind == 1:
        g.add(x.promote())
    elif kind == 2:
        g.add(x.repeat(g.integer(1, 3)))
    elif kind == 3:
        g.add(x.unsqueeze(0).expand(g.integer(1, 3)))
    else:
        g.add(x.unsqueeze(0).expand(x.repeat(g.integer(1, 3))))


def _repeats(g: Grower) -> None:
    """Repeats in several dims, by numbers or by a reference."""
    x, kind = g.stream(), g.integer(0, 4)
    factors = [g.integer(1, 2) for _ in range(g.integer(1, 2))]
    if kind == 0:
        g.add(x.repeat(factors))
    elif kind == 1:
        g.add(x.unsqueeze(0).unsqueeze(0).expand([factors[0], 2]))
    elif kind == 2:
        g.add(x.repeat_ref(x.repeat(factors), rank=g.integer(0, 1)))
    elif kind == 3:
        g.add(x.repeat_ref(g.stream(lambda ref: ref.rank > x.rank), rank=g.integer(0, 1)))
    else:
        one = st.metadata(np.zeros((1,) * len(x.shape), int))
        g.add(one.expand(x, len(x.shape)))


def _promote(g: Grower) -> None:
    """A new outermost dim of streams of which only a run knows whether they are empty."""
    rows = g.integer(1, 4)
    table = st.routing([[g.integer(0, 1)] for _ in range(rows)], 2)
    parts = st.partition(load(g, (rows, g.integer(1, 2))), table.multihot())
    g.add(*(part.promote() for part in parts))


def _take_last(g: Grower) -> None:
    g.add(g.stream().take_last())


def _collect(g: Grower) -> None:
    """In turn from lanes, or one from each."""
    x, kind = g.stream(), g.integer(0, 3)
    if kind == 0:
        g.add(st.static_reassemble(st.parallelize(x, g.integer(1, 3)), switch_cycles=2))
    elif kind == 1:
        n = g.integer(2, 3)
        lanes = x.repeat(n).deinterleave(n)
        g.add(*lanes, st.interleave(lanes))
    elif kind == 2:
        g.add(*x.deinterleave(2))
    else:
        y = st.map(fn.exp, g.floats())
        xs = [y, g.pick([z for z in g.open if z.shape == y.shape and z.type == y.type])]
        g.add(st.interleave(xs), st.static_reassemble(xs))


def _shuffle(g: Grower) -> None:
    x, which = g.pick(g.pairs)
    if which.rank == 0:
        x, which = x.promote(), which.promote()
    data, markers = st.shuffle(x, which, write_back=g.flag())
    g.pairs.append((data, markers))
    g.add(data)


def _masked(g: Grower) -> None:
    """Padded chunks and their mask, which may drop the padding again."""
    x = g.floats().flat_map(fn.unpack_rows())
    x = x.flatten(0, x.rank) if x.rank else x
    data, mask = x.reshape(g.integer(1, 3), pad=0, mask=True, add_outer=g.flag())
    while data.rank:
        data, mask = data.flatten(0, 1), mask.flatten(0, 1)
    g.add(data, mask, data.filter_rows(mask))


def _filter(g: Grower) -> None:
    x = g.even()
    if g.flag():
        g.add(x.filter_rows())
        return
    shape = [*(int(d) for d in x.shape), int(x.type.rows)]
    flags = g.array(shape, 0, 1) | g.integer(0, 1)
    g.add(x.filter_rows(st.selector(flags)))


def _expand(g: Grower) -> None:
    """A stream with as many elements as an other has vectors."""
    ref = g.stream(lambda x: x.rank > 0)
    x = st.map(fn.exp, g.even()) if g.flag() else ref
    if x is ref:
        x = even_tiles(ref).accum(fn.add, 1).unsqueeze(0)
    g.add(x.expand(ref))


def _map(g: Grower) -> None:
    x, kind = g.floats(), g.integer(0, 6)
    if kind == 0:
        g.add(st.map(g.pick([fn.silu, fn.exp, fn.row_sum]), x, write_back=g.flag()))
    elif kind == 1:
        g.add(st.map(g.pick([fn.add, fn.mul, fn.div]), x, st.map(fn.exp, x)))
    elif kind == 2:
        g.add(st.map(fn.add, st.zip(x, x)))
    elif kind == 3:
        g.add(st.map(fn.matmul_t, x, x))
    elif kind == 4:
        g.add(st.map(fn.mul, x, st.map(fn.row_sum, x)))
    elif kind == 5:
        own = x.type
        assert isinstance(own, Tile)
        dims = [int(d) for d in x.shape]
        sides = (int(own.cols), g.integer(1, 3))
        g.add(st.map(fn.matmul, x, load(g, dims, sides)))
    else:
        y = st.map(fn.exp, g.floats())
        g.add(st.map(fn.add, x, y))


def _cost(g: Grower, letters: Sequence[str]) -> Any:
    """A random polynomial of some letters."""
    total = sympy.Integer(g.integer(0, 3))
    for _ in range(g.integer(0, 3)):
        term = sympy.Integer(g.integer(1, 5))
        for _ in range(g.integer(1, 3)):
            term *= sympy.Symbol(g.pick(letters))
        total += term
    return total


def _own_map(g: Grower) -> None:
    """A function of a user, of any number of operands, with one result or more."""
    x = g.floats()
    count, results = g.integer(1, 4), g.integer(1, 2)
    if g.flag():
        shape = " , ".join(["m n"] * count) + " -> " + ", ".join(["m n", "m 1"][:results])
        cost = _cost(g, ["m", "n"])
        values = _as_they_are if results == 1 else _with_first_column
        own = st.function("own", shape, cost, g.integer(0, 2), values)
        xs = [x, *(st.map(fn.exp, x) for _ in range(count - 1))]
    else:
        own = st.function("stack", "a n, b n -> a+b+1 n", _cost(g, "abn"), 1, _stacked)
        xs, results = [x, x], 1
    if len(xs) > 1 and g.flag():
        xs = [st.zip(xs[0], xs[1]), *xs[2:]]
    made = st.map(own, *xs, write_back=g.flag())
    g.add(*(st.unzip(made) if results > 1 else [made]))


def _as_they_are(x: Any, *rest: Any) -> Any:
    return x


def _with_first_column(x: Any, *rest: Any) -> Any:
    return x, x[:, :1]


def _stacked(x: Any, y: Any) -> Any:
    return np.concatenate([x, y, y[:1] if len(y) else np.zeros((1, y.shape[1]))], axis=0)


def _own_accumulation(g: Grower) -> None:
    """A function of a user with one state or two, of one element or a pair."""
    rank = g.integer(1, 2)
    x = g.floats(rank)
    pairs, cost = g.flag(), _cost(g, ["m", "n"])
    if g.flag():
        own = st.function("one", f"m n; m n{', m n' * pairs} -> m n", cost, 0, _as_they_are)
    else:
        shape = f"m 1, m n; m n{', m n' * pairs} -> m 1, m n"
        own = st.function("two", shape, cost, g.integer(0, 2), lambda a, b, *xs: (a, b))
    init = [_zeros(x.type.rows, st.Dim(1)), _zeros(x.type.rows, x.type.cols)][-own.results :]
    write_back = g.flag()
    if not pairs:
        made = (
            x.scan(own, rank, init) if g.flag() else x.accum(own, rank, init, write_back=write_back)
        )
    elif g.flag():
        made = st.map_accum(own, x, st.map(fn.exp, x), rank, init, write_back=write_back)
    else:
        made = st.zip(x, x).accum(own, rank, init, write_back=write_back)
    g.add(*(st.unzip(made) if own.results > 1 else [made]))


def _zeros(*sides: st.Dim) -> st.Init:
    """A state, whose dynamic sides are those of the first element."""
    rows, cols = (int(side) if side.is_static else 0 for side in sides)
    return fn.zero((rows, cols)) if rows and cols else fn.empty((rows, cols))


def _standard_map(g: Grower) -> None:
    """Any function of one, two or three tiles of one size."""
    x = g.floats()
    f = g.pick(
        [
            fn.gelu, fn.row_max, fn.row_mean, fn.col_sum, fn.transpose, fn.clamp(0, 1),
            fn.slice_rows(0, 1), fn.slice_cols(0, 1), fn.cast("f32"), fn.max, fn.sub, fn.t_matmul,
            fn.concat_rows(2), fn.concat_cols(3), fn.quantize("i8"),
        ]
    )  # fmt: skip
    made = st.map(f, *[x] * f.arity)
    g.add(made)
    if g.flag():
        g.add(st.map(fn.where, st.map(fn.lt, made, made), made, made))


def _standard_accumulation(g: Grower) -> None:
    rank = g.integer(1, 2)
    x = g.floats(rank)
    f = g.pick([fn.max, fn.min, fn.sub, fn.last])
    g.add(x.accum(f, rank), st.map_accum(fn.t_matmul, x, x, rank), x.scan(f, rank))


def _address_map(g: Grower) -> None:
    x = g.stream(is_address)
    kind = g.integer(0, 2)
    if kind == 0:
        g.add(st.map(fn.cache_write_address(g.integer(1, 2)), x, x))
    elif kind == 1:
        which = x.flat_map(fn.last_tile_filter())
        y = x.flat_map(fn.cache_read_addresses(1), x)
        g.pairs.append((y, which))
        g.add(which)
    else:
        tile = load(g, [int(d) for d in x.shape], (4, 2))
        g.add(st.map(fn.set_offset, tile, x))


def _append(g: Grower) -> None:
    x = g.even()
    row = load(g, [int(d) for d in x.shape], (1, int(x.type.cols)))
    room = st.map(fn.set_offset, x, st.metadata(np.zeros([int(d) for d in x.shape], int)))
    g.add(st.map(fn.append_row, room, row))


def _reduce(g: Grower) -> None:
    rank, kind = g.integer(1, 2), g.integer(0, 6)
    x = g.even(rank)
    if kind < 4:
        f = [fn.add, fn.mul, fn.pack_rows, fn.pack_cols][kind]
        g.add(x.accum(f, rank, write_back=g.flag()))
    elif kind == 4:
        g.add(st.map_accum(fn.matmul_t, x, x, rank, write_back=g.flag()))
    else:
        g.add(x.scan(g.pick([fn.add, fn.pack_rows, fn.pack_cols]), rank))


def _reduce_any(g: Grower) -> None:
    """Reductions of tiles of different sizes, which some runs can do."""
    rank = g.integer(1, 2)
    x = g.floats(rank)
    f = g.pick([fn.pack_rows, fn.pack_cols, fn.signal, fn.add])
    if g.flag():
        g.add(x.accum(f, rank))
    elif f is not fn.signal:
        g.add(x.scan(f, rank))
    else:
        other = load(g, [int(d) for d in x.shape], (int(x.type.cols), 2))
        g.add(st.map_accum(fn.matmul, x, other, rank))


def _signal(g: Grower) -> None:
    x = g.stream(lambda x: isinstance(x.type, Tile))
    g.add(x.accum(fn.signal, g.integer(1, 2)))


def _buffer(g: Grower) -> None:
    rank = g.integer(1, 2)
    b = g.even(rank).bufferize(rank)
    g.add(b)
    _read(g, b)


def _unbuffer(g: Grower) -> None:
    _read(g, g.stream(lambda x: isinstance(x.type, Buffer)))


def _read(g: Grower, b: Stream) -> None:
    kind = g.integer(0, 6)
    if kind == 0:
        g.add(b.streamify())
    elif kind == 1:
        g.add(b.streamify(repeat=g.integer(1, 3)))
    elif kind == 2:
        inside = b.repeat(g.integer(1, 2)).streamify()
        g.add(b.streamify(inside.accum(fn.add, 1)))
    elif kind == 3:
        g.add(b.streamify(g.stream(lambda x: x.rank >= b.rank)))
    elif kind == 4:
        g.add(b.streamify(repeat=[g.integer(1, 3), g.integer(1, 2)]))
    elif kind == 5:
        g.add(b.streamify(repeat=[g.integer(1, 2)] * g.integer(0, 2), **_walk(g, b)))
    else:
        g.add(b.streamify(g.stream(lambda x: x.rank >= b.rank), **_walk(g, b)))


def _walk(g: Grower, b: Stream) -> dict[str, Any]:
    assert isinstance(b.type, Buffer)
    room = int(np.prod([int(d) for d in b.type.dims])) - 1
    shape = [g.integer(1, 3) for _ in range(g.integer(1, 2))]
    stride = []
    for size in shape:
        stride.append(g.integer(0, room // (size - 1) if size > 1 else 3))
        room -= stride[-1] * (size - 1)
    return {"shape": shape, "stride": stride}


def _unpack(g: Grower) -> None:
    x, kind = g.floats(), g.integer(0, 6)
    if kind == 0:
        g.add(x.flat_map(fn.unpack_cols()))
    elif kind == 4:
        g.add(x.flat_map(fn.unpack_cols(chunk=g.integer(1, 3))))
    elif kind == 5:
        g.add(x.flat_map(fn.unpack_rows(g.flag(), chunk=g.integer(1, 3))))
    elif kind == 6:
        lengths = st.metadata(g.array([int(d) for d in x.shape], 1, 3))
        dims = [g.pick([1, 2, "rows", "ceil(m/2)"])] * g.integer(0, 1)
        dims.insert(g.integer(0, len(dims)), g.pick(["length", "2*length + 1"]))
        g.add(x.flat_map(_own_pieces(dims, (1, "cols")), lengths))
    elif kind == 1:
        plain = [1, 2, "rows", "cols", "valid"]
        dims = [
            g.pick(plain) if g.flag() else g.pick([d for d in _SIZES if "length" not in d])
            for _ in range(g.integer(1, 2))
        ]
        sides = (g.pick([1, "rows", "2*m"]), g.pick([1, "cols", "m+n", "ceil(n/2)"]))
        g.add(x.flat_map(_own_pieces(dims, sides, cycles=1)))
    else:
        g.add(x.flat_map(fn.unpack_rows(kind == 2)))


_SIZES: dict[Any, Callable[[int, int, int, int], int]] = {
    "rows": lambda m, n, valid, length: m,
    "cols": lambda m, n, valid, length: n,
    "valid": lambda m, n, valid, length: valid,
    "length": lambda m, n, valid, length: length,
    "2*m": lambda m, n, valid, length: 2 * m,
    "m+n": lambda m, n, valid, length: m + n,
    "m*n": lambda m, n, valid, length: m * n,
    "valid + 1": lambda m, n, valid, length: valid + 1,
    "(2*m + 4)/2": lambda m, n, valid, length: m + 2,
    "ceil(m/2)": lambda m, n, valid, length: -(-m // 2),
    "ceil(n/2)": lambda m, n, valid, length: -(-n // 2),
    "ceil((m+n)/3)": lambda m, n, valid, length: -(-(m + n) // 3),
    "2*length + 1": lambda m, n, valid, length: 2 * length + 1,
}


def _own_pieces(dims: Sequence[Any], sides: Sequence[Any], cycles: int = 0) -> st.StreamFunction:
    """Pieces of ones, as many and as large as formulas say."""

    def kernel(tile: Any, valid: int, length: int = 0) -> Any:
        def size(entry: Any) -> int:
            return _SIZES[entry](*tile.shape, valid, length) if entry in _SIZES else entry

        piece = np.ones([size(side) for side in sides], np.float32)
        return [piece] * int(np.prod([size(dim) for dim in dims]))

    return fn.emit(dims, (sides[0], sides[1]), cycles=cycles, kernel=kernel)


def _chunked_rows(g: Grower) -> None:
    """Padded chunks, something done to them, and the rows again."""
    x = g.even().reshape(g.integer(2, 3), pad=0).accum(fn.pack_rows, 1)
    if g.flag():
        x = st.map(fn.add, st.zip(x, st.map(fn.exp, x)))
    g.add(x, x.flat_map(fn.unpack_rows(True)))


def _expert_addresses(g: Grower) -> None:
    x = g.stream(lambda x: isinstance(x.type, MultiHot) and x.type.hot == 1)
    x = x.flatten(0, x.rank) if x.rank else x
    addresses = x.flat_map(fn.expert_addresses(g.integer(1, 2), g.integer(0, 2)))
    g.add(addresses, st.random_load(addresses, np.ones((16, 2), np.float32), (1, 2)))


def _ref_load(g: Grower) -> None:
    x = g.stream()
    g.add(
        st.linear_load(
            np.ones((4, 2), np.float32), (2, g.integer(1, 2)), ref=x,
            trigger_rank=g.pick([0, g.integer(0, x.rank)]), transposed=g.flag(),
            bypass=not g.integer(0, 2),
        )
    )  # fmt: skip


def _store(g: Grower) -> None:
    x = g.even()
    if g.flag():
        st.linear_store(x)
        return
    shape = [int(d) for d in x.shape]
    addresses = st.metadata(np.arange(int(np.prod(shape))).reshape(shape))
    rows, cols = int(x.type.rows), int(x.type.cols)
    target = st.spec(max(64, int(np.prod(shape))) * rows, cols, dtype="f32")
    g.add(st.random_store(addresses, x, target, ack=g.pick(["addr", "data"])))


def _broadcast(g: Grower) -> None:
    g.add(*st.broadcast(g.stream(), g.integer(1, 2)))


def _zip(g: Grower) -> None:
    x = g.stream(lambda x: not isinstance(x.type, Buffer | TupleType))
    g.add(st.zip(x, x))


def _feedback(g: Grower) -> None:
    """Tokens that go round a few times before they leave."""
    start = load(g, [1])
    turns = np.array([[1, 0]] * g.integer(1, 3) + [[0, 1]])
    back = st.feedback(start.type, [start.program.dim("turns")])
    entering, source = st.eager_merge([start, back])
    source.consume()
    total = st.map(fn.exp, entering).assume_shape(len(turns))
    again, out = st.partition(total, st.selector(turns))
    start.program.assume_equal(again.shape[0], back.shape[0])
    back.connect(again)
    g.add(out)


STEPS: tuple[Step, ...] = (
    _load, _other_load, _addresses, _numbers, _ragged, _selector, _routing, _pair, _merge, _mixed,
    _change_pair, _change_pair, _partition, _partition, _gather, _merge_parts, _deal, _flatten,
    _reshape, _levels, _expand, _repeats, _repeats, _take_last, _collect, _collect, _shuffle,
    _shuffle, _masked, _filter, _promote, _map, _map, _own_map, _own_map, _own_accumulation,
    _standard_map, _standard_accumulation, _address_map, _append, _reduce, _reduce_any, _signal,
    _buffer, _unbuffer, _unpack, _unpack, _chunked_rows, _expert_addresses, _ref_load, _store,
    _broadcast, _zip, _feedback, *SCAN_STEPS,
)  # fmt: skip


@hs.composite
def drawn_programs(
    draw: Callable[[Any], Any], steps: int = 16, choices: Sequence[Step] = STEPS
) -> Program:
    """Programs of up to ``steps`` of the ``choices`` on a load."""
    return grown(lambda low, high: draw(hs.integers(low, high)), steps, choices)


def grown(
    integer: Callable[[int, int], int], steps: int, choices: Sequence[Step] = STEPS
) -> Program:
    """A program of some steps on a load, with numbers from ``integer(low, high)``."""
    g = Grower(integer)
    with Program("drawn", compute_bw=4) as p:
        _load(g)
        for _ in range(g.integer(1, steps)):
            try:
                g.pick(choices)(g)
            except (StepError, ValueError):
                continue
        for op in list(p.operators):
            for out in op.outputs:
                if not p.readers(out) and not _looped(p, out):
                    (out.print if g.integer(0, 9) == 0 else out.consume)()
    return p


def _looped(p: Program, out: Stream) -> bool:
    return any(
        (behind := op.loops_back()) is not None and behind.key == out.key for op in p.operators
    )
