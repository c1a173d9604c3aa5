"""Random programs: operators put on random streams wherever the graph layer lets them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import stepsim.graph as st
from stepsim.errors import StepError
from stepsim.graph import Program, Stream, fn
from stepsim.graph.types import Tile
from tests.functional.support import tiles

__all__ = ["random_program"]

Rng = np.random.Generator


def _small(rng: Rng, low: int = 1, high: int = 4) -> int:
    return int(rng.integers(low, high))


def _static(rng: Rng) -> Stream:
    shape = tuple(_small(rng) for _ in range(_small(rng)))
    return tiles(shape, _small(rng), _small(rng))[0]


def _ragged(rng: Rng) -> Stream:
    shape = tuple(_small(rng) for _ in range(_small(rng, 1, 3)))
    length = st.metadata(rng.integers(1, 4, size=shape))
    index = st.metadata(rng.integers(0, 5, size=shape))
    data = rng.random((8, 2)).astype(np.float32)
    return st.random_load(index.flat_map(fn.cache_read_addresses(1), length), data, (1, 2))


def _routed(rng: Rng) -> Stream:
    x = _static(rng)
    rows = x.shape[0]
    table = st.routing(rng.integers(0, 2, size=(int(rows), 1)), 2)
    kept, rest = st.partition(x, table.multihot())
    rest.consume()
    return kept


def _merge_back(rng: Rng, x: Stream) -> Stream:
    """Partition by a random selector, then reassemble or merge."""
    x, count = _even(x), int(x.shape[0])
    flags = rng.integers(0, 2, size=(count, 2))
    flags[:, 0] |= 1 - flags[:, 1]
    which = st.selector(flags)
    parts = st.partition(x, which)
    if rng.random() < 0.5:
        return st.reassemble(parts, which)
    merged, source = st.eager_merge(parts)
    source.consume()
    return merged


def _again(rng: Rng, x: Stream) -> Stream:
    """Something twice the same, joined by a map."""
    y = st.map(fn.exp, x)
    return st.map(fn.mul if rng.random() < 0.5 else fn.add, x, y)


def _bounded(x: Stream) -> Stream:
    """``x / (x + exp(x))``: below 1, however large x is."""
    return st.map(fn.div, x, st.map(fn.add, x, st.map(fn.exp, x)))


def _even(x: Stream) -> Stream:
    """Tiles of one size; only a run can tell whether others can be added or packed."""
    if not (isinstance(x.type, Tile) and x.type.is_static):
        raise StepError("sizes vary")
    return x


def _walked(rng: Rng, x: Stream) -> Stream:
    """Buffers read along a walk, with nested repeats or by a reference."""
    b = x.bufferize(1)
    room = int(b.type.dims[0]) - 1
    walk = {"shape": [_small(rng), 2], "stride": [0, room]}
    if rng.random() < 0.5:
        return b.streamify(repeat=[_small(rng), 2], **walk)
    return b.streamify(b.repeat(2).streamify().accum(fn.add, 1), **walk)


def _loaded(rng: Rng, x: Stream) -> Stream:
    data = rng.random((4, 2)).astype(np.float32)
    rank = _small(rng, 0, x.rank + 1)
    flags = {"transposed": bool(rng.random() < 0.5), "bypass": bool(rng.random() < 0.3)}
    return st.linear_load(data, (2, 1), ref=x, trigger_rank=rank, **flags)


def _numbered(rng: Rng, x: Stream) -> Stream:
    """Rows by counted and generated addresses."""
    data = rng.random((8, 2)).astype(np.float32)
    numbers = st.counter(_small(rng), ref=x)
    if rng.random() < 0.5:
        numbers = numbers.flat_map(fn.view_addresses((2,), (_small(rng),), slab=2))
    else:
        numbers = numbers.unsqueeze(0).flatten(0, 1)
    return st.random_load(numbers, data, (1, 2))


def _masked(rng: Rng, x: Stream) -> Stream:
    """Padded chunks, without their padding again."""
    rows = x.flat_map(fn.unpack_rows())
    flat = rows.flatten(0, rows.rank) if rows.rank else rows
    data, mask = flat.reshape(_small(rng), pad=0, mask=True)
    return data.flatten(0, 1).filter_rows(mask.flatten(0, 1))


def _shuffled(rng: Rng, x: Stream) -> Stream:
    x = _even(x) if x.rank else _even(x).promote()
    flags = rng.integers(0, 2, size=(*(int(d) for d in x.shape), 2))
    flags[..., 0] |= 1 - flags[..., 1]
    data, markers = st.shuffle(x, st.selector(flags))
    markers.consume()
    return data


STEPS: list[Callable[[Rng, Stream], Stream]] = [
    lambda rng, x: x.flatten(*sorted(rng.choice(x.rank + 1, 2, replace=False).tolist())),
    lambda rng, x: x.reshape(_small(rng), pad=0),
    lambda rng, x: x.reshape(_small(rng), pad=0, add_outer=True),
    lambda rng, x: x.reshape(_small(rng), dim=_small(rng, 0, 3)),
    lambda rng, x: x.unsqueeze(_small(rng, 0, x.rank + 1)),
    lambda rng, x: x.promote(),
    lambda rng, x: x.repeat(_small(rng)),
    lambda rng, x: x.repeat([_small(rng), _small(rng)]),
    lambda rng, x: x.unsqueeze(0).unsqueeze(0).expand([_small(rng), _small(rng)]),
    lambda rng, x: x.repeat_ref(x.repeat([_small(rng), _small(rng)]), _small(rng, 0, 2)),
    lambda rng, x: x.take_last(),
    lambda rng, x: st.static_reassemble(st.parallelize(x, _small(rng))),
    lambda rng, x: st.interleave(x.repeat(2).deinterleave(2)),
    lambda rng, x: x.filter_rows(),
    lambda rng, x: _masked(rng, x),
    lambda rng, x: _shuffled(rng, x),
    lambda rng, x: x.flat_map(fn.unpack_rows(bool(rng.random() < 0.5), _small(rng))),
    lambda rng, x: x.flat_map(fn.unpack_cols(_small(rng))),
    lambda rng, x: x.unsqueeze(0).expand(_small(rng)),
    lambda rng, x: x.unsqueeze(0).expand(x.repeat(_small(rng))),
    lambda rng, x: _even(x).accum(fn.add, _small(rng)),
    lambda rng, x: _even(x).accum(fn.pack_rows, _small(rng)),
    lambda rng, x: _even(x).accum(fn.pack_cols, _small(rng)),
    lambda rng, x: _even(x).scan(fn.add, _small(rng)),
    lambda rng, x: st.map(fn.row_sum, x),
    lambda rng, x: _bounded(x),
    lambda rng, x: _again(rng, x),
    lambda rng, x: x.bufferize(_small(rng)).streamify(),
    lambda rng, x: x.bufferize(_small(rng)).streamify(repeat=_small(rng)),
    lambda rng, x: (b := x.bufferize(1)).streamify(b.repeat(2).streamify().accum(fn.add, 1)),
    lambda rng, x: x.flat_map(fn.unpack_rows(bool(rng.random() < 0.5))),
    lambda rng, x: x.flat_map(fn.emit(["rows", 1], (1, "cols"))),
    lambda rng, x: st.linear_load(np.ones((4, 2), np.float32), (2, 2), ref=x),
    lambda rng, x: _loaded(rng, x),
    lambda rng, x: _walked(rng, x),
    lambda rng, x: _numbered(rng, x),
    lambda rng, x: x.bufferize(_small(rng)).streamify(repeat=[_small(rng), _small(rng)]),
    lambda rng, x: _merge_back(rng, x),
    lambda rng, x: st.map(fn.add, st.zip(x, x)),
    lambda rng, x: st.map_accum(fn.matmul_t, _even(x), x, _small(rng)),
]


def random_program(seed: int, length: int = 8) -> Program:
    """A program of a few random chains."""
    rng = np.random.default_rng(seed)
    with Program(f"random{seed}", compute_bw=4) as p:
        for source in (_static, _ragged, _routed):
            x = source(rng)
            seen = [x]
            for _ in range(length):
                step = STEPS[rng.integers(len(STEPS))]
                try:
                    made = step(rng, seen[-1] if rng.random() < 0.8 else seen[0])
                except (StepError, ValueError):
                    continue
                if isinstance(made.type, Tile):
                    seen.append(made)
        for op in list(p.operators):
            for out in op.outputs:
                if not p.readers(out):
                    out.consume()
    return p
