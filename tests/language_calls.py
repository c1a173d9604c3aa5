"""Every callable of the language, with arguments that work inside a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

import stepsim as st
from stepsim.graph import fn
from stepsim.graph.current import CURRENT_PROGRAM
from stepsim.graph.dims import Kind

__all__ = ["LANGUAGE", "Call", "Table", "here", "x"]

Call = tuple[Callable[..., Any], dict[str, Any]]
Table = dict[str, Callable[[], Call]]


def tiles(*shape: int, rows: int = 4, cols: int = 8) -> st.Stream:
    count = int(np.prod(shape))
    whole = st.linear_load(st.spec(count * rows, cols), (rows, cols), shape=(count, 1)).flatten(
        0, 1
    )
    for size in reversed(shape[1:]):
        whole = whole.reshape(size)
    return whole


def selectors() -> st.Stream:
    return st.selector(np.eye(2, dtype=int)[[0, 1, 0, 1]])


def addresses() -> st.Stream:
    return st.metadata([0, 1, 2, 3])


def x() -> st.Stream:
    return tiles(4)


def deep() -> st.Stream:
    return tiles(4, 2)


def table() -> st.Routing:
    return st.routing([[0, 1]] * 4, 4)


def here() -> st.Program:
    program = CURRENT_PROGRAM.get()
    assert program is not None
    return program


LABEL = {"label": "it"}
BW = {"compute_bw": 8, "write_back": False, **LABEL}
OFF = {"base": 0, "par_dispatch": 1, **LABEL}


UNPACK = (("split_row", True), ("filter", False))

LANGUAGE: Table = {
    "accum": lambda: (
        st.accum,
        {"x": deep(), "fn": fn.add, "rank": 1, "init": fn.zero((4, 8)), **BW},
    ),
    "broadcast": lambda: (st.broadcast, {"x": x(), "count": 2, **LABEL}),
    "bufferize": lambda: (st.bufferize, {"x": deep(), "rank": 1, **LABEL}),
    "consume": lambda: (st.consume, {"x": x(), **LABEL}),
    "eager_merge": lambda: (st.eager_merge, {"xs": [x(), x()], "rank": 0, **LABEL}),
    "expand": lambda: (st.expand, {"x": tiles(4, 1), "to": 2, "rank": 1, **LABEL}),
    "expand to a stream": lambda: (st.expand, {"x": tiles(4, 1), "to": deep(), "rank": 1}),
    "feedback": lambda: (st.feedback, {"type": x().type, "shape": [4], **LABEL}),
    "Feedback.connect": lambda: (st.feedback(x().type, [4]).connect, {"stream": x()}),
    "flat_map": lambda: (st.flat_map, {"x": x(), "fn": fn.unpack_rows(), **LABEL}),
    "flatten": lambda: (st.flatten, {"x": deep(), "lo": 0, "hi": 1, **LABEL}),
    "linear_load": lambda: (
        st.linear_load,
        {
            "tensor": st.spec(16, 8),
            "tile": (4, 8),
            "shape": (4, 1),
            "stride": (1, 1),
            "ref": x(),
            **OFF,
        },
    ),
    "linear_store": lambda: (st.linear_store, {"x": x(), "name": "out", **OFF}),
    "map": lambda: (lambda fn, xs, **kw: st.map(fn, xs, **kw), {"fn": fn.silu, "xs": x(), **BW}),
    "map of two": lambda: (
        lambda first, second, **kw: st.map(fn.add, first, second, **kw),
        {"first": x(), "second": x(), **BW},
    ),
    "map_accum": lambda: (
        st.map_accum,
        {"fn": fn.matmul_t, "a": deep(), "b": deep(), "rank": 1, "init": fn.zero((4, 4)), **BW},
    ),
    "metadata": lambda: (st.metadata, {"values": [1, 2], **LABEL}),
    "parallelize": lambda: (
        st.parallelize,
        {"x": x(), "n": 2, "rank": 0, "switch_cycles": 1, **LABEL},
    ),
    "partition": lambda: (
        st.partition,
        {
            "x": x(),
            "selector": selectors(),
            "rank": 0,
            "outputs": 2,
            "switch_cycles": 1,
            "write_back": False,
            **LABEL,
        },
    ),
    "printer": lambda: (st.printer, {"x": x(), **LABEL}),
    "promote": lambda: (st.promote, {"x": x(), **LABEL}),
    "random_load": lambda: (
        st.random_load,
        {"addr": addresses(), "tensor": st.spec(16, 8), "tile": (4, 8), **OFF},
    ),
    "random_store": lambda: (
        st.random_store,
        {
            "addr": addresses(),
            "data": x(),
            "tensor": st.spec(16, 8),
            "depth": 1,
            "ack": "addr",
            **OFF,
        },
    ),
    "reassemble": lambda: (
        st.reassemble,
        {
            "xs": st.partition(x(), selectors()),
            "selector": selectors(),
            "rank": 0,
            "switch_cycles": 1,
            "write_back": False,
            **LABEL,
        },
    ),
    "repeat": lambda: (st.repeat, {"x": x(), "count": 2, **LABEL}),
    "reshape": lambda: (
        st.reshape,
        {
            "x": x(),
            "chunk": 2,
            "dim": 0,
            "pad": 0,
            "add_outer": False,
            "write_back": False,
            **LABEL,
        },
    ),
    "routing": lambda: (st.routing, {"indices": st.spec(4, 2), "experts": 4}),
    "Routing.multihot": lambda: (table().multihot, LABEL),
    "Routing.onehot": lambda: (table().onehot, LABEL),
    "Routing.counts_of": lambda: (table().counts_of, {"indices": [[0, 1]] * 4}),
    "scan": lambda: (
        st.scan,
        {"x": deep(), "fn": fn.add, "rank": 1, "init": fn.zero((4, 8)), **BW},
    ),
    "selector": lambda: (st.selector, {"flags": [[0, 1]], "as_indices": False, **LABEL}),
    "spec": lambda: (
        lambda shape, **kw: st.spec(shape, **kw),
        {"shape": 4, "dtype": "bf16", "name": "w"},
    ),
    "streamify": lambda: (
        st.streamify,
        {
            "x": deep().bufferize(1),
            "ref": None,
            "repeat": 2,
            "shape": None,
            "stride": None,
            **LABEL,
        },
    ),
    "streamify along a walk": lambda: (
        st.streamify,
        {"x": deep().bufferize(1), "shape": (1, 1), "stride": (1, 1), "repeat": None},
    ),
    "unsqueeze": lambda: (st.unsqueeze, {"x": x(), "dim": 0, **LABEL}),
    "zip": lambda: (st.zip, {"a": x(), "b": x(), **LABEL}),
    "Function": lambda: (
        st.Function,
        {
            "name": "f",
            "arity": 1,
            "map_unit": "Silu",
            "accum_unit": None,
            "transposed": False,
            "constant_cycles": False,
            "stride": None,
            "sizes": None,
            "infer": None,
            "cost": None,
            "kernel": None,
        },
    ),
    "Init": lambda: (st.Init, {"kind": "zero", "rows": 1, "cols": 8, "dtype": None}),
    "Function of sizes": lambda: (
        st.Function,
        {
            "name": "f",
            "arity": 1,
            "map_unit": None,
            "accum_unit": None,
            "transposed": False,
            "constant_cycles": False,
            "stride": None,
            "sizes": lambda rows, cols: (rows, cols, 1),
            "infer": None,
            "cost": None,
            "kernel": None,
        },
    ),
    "Function of sizes in a map": lambda: (
        lambda **kw: st.map(st.Function("f", 1, **kw), x()),
        {"sizes": lambda rows, cols: (rows, cols, 1)},
    ),
    "what sizes returns": lambda: (
        lambda found: st.map(st.Function("f", 1, sizes=lambda *_: found), x()),
        {"found": (1, 1, 1)},
    ),
    "what infer returns": lambda: (
        lambda found: st.map(st.Function("f", 1, "Silu", infer=lambda *_: found), x()),
        {"found": x().type},
    ),
    "StreamFunction": lambda: (
        lambda **kw: st.flat_map(x(), st.StreamFunction(**kw)),
        {"name": "f", "unit_kind": "RetileStreamify", "params": UNPACK, "kernel": None},
    ),
    "StreamFunction of the name of a parameter": lambda: (
        lambda key, value: st.StreamFunction("f", "ExpertAddrGen", (("n", value), (key, 0))),
        {"key": "base", "value": 1},
    ),
    "flat_map of a function": lambda: (lambda fn: st.flat_map(x(), fn), {"fn": fn.emit([1])}),
    "fn.cache_read_addresses": lambda: (fn.cache_read_addresses, {"stride": 2}),
    "fn.cache_write_address": lambda: (fn.cache_write_address, {"stride": 2}),
    "fn.emit": lambda: (
        lambda **kw: st.flat_map(x(), fn.emit(**kw)),
        {"dims": [2, "rows"], "tile": (1, "cols"), "cycles": 0, "kernel": None},
    ),
    "fn.empty": lambda: (fn.empty, {"shape": (0, 8), "dtype": None}),
    "fn.expert_addresses": lambda: (fn.expert_addresses, {"tiles": 2, "base": 0}),
    "fn.last_tile_filter": lambda: (fn.last_tile_filter, {}),
    "fn.one": lambda: (fn.one, {"shape": (1, 8), "dtype": None}),
    "fn.unpack_cols": lambda: (fn.unpack_cols, {}),
    "fn.unpack_rows": lambda: (fn.unpack_rows, {"drop_padding": False}),
    "fn.zero": lambda: (fn.zero, {"shape": (1, 8), "dtype": None}),
    "Dim": lambda: (st.Dim, {"expr": 4, "kind": Kind.SR}),
    "Dim.of": lambda: (st.Dim.of, {"value": 4}),
    "Dim.ceil_div": lambda: (st.Dim(4).ceil_div, {"chunk": 2}),
    "Dim *": lambda: (lambda other: st.Dim(4) * other, {"other": 2}),
    "Dim +": lambda: (lambda other: st.Dim(4) + other, {"other": 2}),
    "DType": lambda: (st.Tile.of, {"dtype": "bf16", "rows": 4, "cols": 8}),
    "Tile": lambda: (st.Tile, {"dtype": st.DType.bf16, "rows": st.Dim(4), "cols": st.Dim(8)}),
    "MultiHot": lambda: (st.MultiHot, {"width": 4, "hot": 1}),
    "IndexSelector": lambda: (st.IndexSelector, {"width": 4, "active": 1}),
    "Buffer": lambda: (st.Buffer, {"tile": x().type, "dims": (st.Dim(2),)}),
    "TupleType": lambda: (st.TupleType, {"parts": (x().type, x().type)}),
    "TensorSpec": lambda: (
        st.TensorSpec,
        {"shape": (4, 8), "dtype": st.DType.bf16, "name": "w", "data": None},
    ),
    "Program": lambda: (
        st.Program,
        {"name": "p", "compute_bw": 1, "par_dispatch": 1, "fifo_depth": 2},
    ),
    "Program.assume_equal": lambda: (here().assume_equal, {"left": 4, "right": here().dim("n")}),
    "Program.dim": lambda: (here().dim, {"name": "n"}),
    "Program.metrics": lambda: (
        here().metrics,
        {"counting": "paper", "count_fifos": False, "on_demand": None},
    ),
    "Program.metrics.bind": lambda: (here().metrics().bind, {"values": {}}),
    "Program.ragged": lambda: (here().ragged, {"name": "n", "static": False}),
    "Program.rewrite": lambda: (here().rewrite, {"rule": str}),
    "Program.provenance": lambda: (here().provenance, {"symbol": sympy.Symbol("n")}),
    "Program.set_depth": lambda: (here().set_depth, {"stream": x(), "depth": 2}),
    "Program.readers": lambda: (here().readers, {"stream": x()}),
    "Stream.with_depth": lambda: (x().with_depth, {"depth": 2}),
    "Stream.assume_shape": lambda: (lambda shape: x().assume_shape(shape), {"shape": 4}),
    "Stream.dim": lambda: (x().dim, {"index": 0}),
}
"""Every callable of the language, with arguments that work inside a program."""
