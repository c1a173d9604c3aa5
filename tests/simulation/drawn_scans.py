"""Steps of random programs: further scans, results of groups, and selectors of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import stepsim.graph as st
from stepsim.errors import StepError
from stepsim.graph import fn
from stepsim.graph.types import MultiHot
from tests.simulation.grower import Grower, is_address, load

__all__ = ["SCAN_STEPS"]


def _scans(g: Grower) -> None:
    """Scans of tiles, which often show the state before an element."""
    rank = g.integer(1, 2)
    x = g.even(rank) if g.integer(0, 3) else g.floats(rank)
    f = g.pick([fn.add, fn.max, fn.last, fn.mul])
    options: dict[str, Any] = {"write_back": g.flag()}
    if g.flag() and all(d.is_static for d in x.shape[len(x.shape) - rank :]):
        length = int(np.prod([int(d) for d in x.shape[len(x.shape) - rank :]]))
        kept = x.shape[: len(x.shape) - rank]
        if all(d.is_static and d != 0 for d in kept):
            options["counts"] = st.metadata(np.full([int(d) for d in kept], length))
    kind = g.integer(0, 3)
    if kind == 0:
        g.add(*x.scan(f, rank, taps=2, **options))
        return
    if kind > 1:
        options |= {"second": st.map(fn.exp, x), "then": g.pick([fn.mul, fn.sub, fn.matmul_t])}
    g.add(x.scan(f, rank, exclusive=g.flag(), **options))


def _tuple_scan(g: Grower) -> None:
    """A state of two tiles, which a second function of a pair looks at."""
    x = g.even(1)
    own = st.function(
        "both", "m 1, m n; m n -> m 1, m n", lambda m, n: m * n + 2, values=lambda a, b, y: (a, y)
    )
    then = st.function(
        "then", "m n, m n, m 1, m n -> m n, m 1", lambda m, n: 3 * m * n, 1,
        values=lambda x, y, a, b: (x, a),
    )  # fmt: skip
    start = fn.zero((int(x.type.rows), 1)), fn.zero((int(x.type.rows), int(x.type.cols)))
    if g.flag():
        made = x.scan(own, 1, start, exclusive=g.flag(), second=st.zip(x, x), then=then)
        g.add(*st.unzip(made))
    else:
        for tap in x.scan(own, 1, start, taps=2):
            g.add(*st.unzip(tap))


def _statistics(g: Grower) -> None:
    x = g.floats(1)
    count = g.pick([None, 7])
    g.add(x.row_stat(g.pick(["mean", "var"]), g.integer(1, x.rank), count, write_back=g.flag()))


def _summed_buffers(g: Grower) -> None:
    x = load(g, [g.integer(1, 3) for _ in range(g.integer(2, 4))]) if g.flag() else g.even(1)
    rank = g.integer(1, x.rank)
    b = x.accum_buffer(
        g.pick([fn.add, fn.max, fn.last]), rank, g.integer(1, rank), write_back=g.flag()
    )
    g.add(b, b.streamify())


def _rows_of_one(g: Grower) -> None:
    row = st.map(fn.slice_rows(0, 1), g.even())
    g.add(st.map(fn.broadcast_rows(g.integer(1, 3)), row))


def _counted(g: Grower) -> None:
    """Whole numbers of streams of any tiles."""
    x = g.floats(1)
    f = g.pick([fn.increment, fn.signal])
    g.add(x.accum(f, 1), st.map(fn.to_integer(g.integer(0, 3)), x), x.scan(fn.increment, 1))


def _steered(g: Grower) -> None:
    """Selectors of numbers, which route what the numbers come with."""
    x = g.stream(is_address)
    if g.flag():
        x = st.map(fn.is_equal(g.integer(0, 2)), x)
    width = g.integer(2, 4)
    f = fn.index_to_multihot(width) if g.flag() else fn.integer_to_multihot(width)
    which = st.map(f, x, write_back=g.flag())
    g.pairs.append((x, which))
    g.add(which)


def _flags(g: Grower) -> None:
    """Selectors of selectors, or whole numbers of them."""
    x = g.stream(lambda x: isinstance(x.type, MultiHot))
    kind = g.integer(0, 3)
    if kind == 0:
        g.add(st.map(fn.multihot_to_integer, x))
    elif kind == 1 and x.type.hot == 1:
        g.add(st.map(fn.select_to_scalar, x))
    elif kind == 2:
        g.add(st.map(fn.select_not, x))
    elif kind == 3:
        f = g.pick([fn.select_and, fn.select_or, fn.select_xor])
        g.add(st.map(f, x, st.map(fn.select_not, x)))
    else:
        raise StepError("not these")


SCAN_STEPS = (
    _scans, _scans, _tuple_scan, _statistics, _summed_buffers, _rows_of_one, _counted, _steered,
    _flags,
)  # fmt: skip
