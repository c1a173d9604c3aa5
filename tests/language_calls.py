"""Every callable of the language, with arguments that work inside a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

import stepsim as st
from stepsim.graph import fn
from stepsim.graph.programs.current import CURRENT_PROGRAM
from stepsim.graph.sizes.dims import Kind

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


def table() -> st.graph.Routing:
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
    "accum_buffer": lambda: (
        st.accum_buffer,
        {"x": deep(), "fn": fn.add, "rank": 1, "kept": 1, "init": fn.zero((4, 8)), **BW},
    ),
    "broadcast": lambda: (st.broadcast, {"x": x(), "count": 2, **LABEL}),
    "bufferize": lambda: (st.bufferize, {"x": deep(), "rank": 1, **LABEL}),
    "consume": lambda: (st.consume, {"x": x(), **LABEL}),
    "counter": lambda: (st.counter, {"count": 3, "ref": x(), **LABEL}),
    "deinterleave": lambda: (st.deinterleave, {"x": x(), "n": 2, **LABEL}),
    "eager_merge": lambda: (st.eager_merge, {"xs": [x(), x()], "rank": 0, **LABEL}),
    "expand": lambda: (st.expand, {"x": tiles(4, 1), "to": 2, "rank": 1, **LABEL}),
    "expand to a stream": lambda: (st.expand, {"x": tiles(4, 1), "to": deep(), "rank": 1}),
    "expand to numbers": lambda: (
        lambda to, **kw: st.expand(tiles(4, 1), [to], **kw),
        {"to": 2, "rank": 1},
    ),
    "feedback": lambda: (st.feedback, {"type": x().type, "shape": [4], **LABEL}),
    "Feedback.connect": lambda: (st.feedback(x().type, [4]).connect, {"stream": x()}),
    "filter_rows": lambda: (
        st.filter_rows,
        {"x": x(), "mask": st.selector(np.ones((4, 4), int)), **LABEL},
    ),
    "flat_map": lambda: (st.flat_map, {"x": x(), "fn": fn.unpack_rows(), **LABEL}),
    "flatten": lambda: (st.flatten, {"x": deep(), "lo": 0, "hi": 1, **LABEL}),
    "interleave": lambda: (st.interleave, {"xs": [x(), x()], **LABEL}),
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
    "linear_load of other forms": lambda: (
        st.linear_load,
        {
            "tensor": st.spec(16, 8),
            "tile": (4, 8),
            "ref": deep(),
            "trigger_rank": 1,
            "transposed": True,
            "bypass": True,
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
    "repeat by factors": lambda: (lambda count: st.repeat(x(), [2, count]), {"count": 2}),
    "repeat_ref": lambda: (st.repeat_ref, {"x": x(), "ref": deep(), "rank": 0, **LABEL}),
    "reshape with a mask": lambda: (
        st.reshape,
        {"x": x(), "chunk": 3, "dim": 0, "pad": 0, "mask": True, **LABEL},
    ),
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
    "row_stat": lambda: (
        st.row_stat,
        {"x": deep(), "stat": "mean", "rank": 1, "count": 16, **BW},
    ),
    "scan": lambda: (
        st.scan,
        {
            "x": deep(),
            "fn": fn.add,
            "rank": 1,
            "init": fn.zero((4, 8)),
            "taps": 1,
            "exclusive": True,
            "second": deep(),
            "then": fn.mul,
            "counts": st.metadata([2, 2, 2, 2]),
            **BW,
        },
    ),
    "selector": lambda: (st.selector, {"flags": [[0, 1]], "as_indices": False, **LABEL}),
    "shuffle": lambda: (
        st.shuffle,
        {
            "x": deep(),
            "selector": st.selector(np.ones((4, 2, 3), int)),
            "rank": 1,
            "write_back": False,
            **LABEL,
        },
    ),
    "static_reassemble": lambda: (
        st.static_reassemble,
        {"xs": st.parallelize(x(), 2), "rank": 0, "switch_cycles": 1, **LABEL},
    ),
    "take_last": lambda: (st.take_last, {"x": deep(), **LABEL}),
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
    "function": lambda: (
        st.function,
        {
            "name": "f",
            "shape": "m n -> m n",
            "flops": 3,
            "cycles": 0,
            "values": None,
            "dtype": None,
            "valid": None,
            "kind": "number",
            "padding": 0.0,
        },
    ),
    "Init": lambda: (
        st.graph.Init,
        {"kind": "zero", "rows": 1, "cols": 8, "dtype": None, "value": None},
    ),
    "function of a lambda": lambda: (
        lambda flops: st.map(st.function("f", "same", flops), x()),
        {"flops": lambda m, n: 2 * m * n},
    ),
    "StreamFunction": lambda: (
        lambda **kw: st.flat_map(x(), st.graph.StreamFunction(**kw)),
        {"name": "f", "unit_kind": "RetileStreamify", "params": UNPACK, "kernel": None},
    ),
    "StreamFunction of the name of a parameter": lambda: (
        lambda key, value: st.graph.StreamFunction("f", "ExpertAddrGen", (("n", value), (key, 0))),
        {"key": "base", "value": 1},
    ),
    "flat_map of a function": lambda: (lambda fn: st.flat_map(x(), fn), {"fn": fn.emit([1])}),
    "fn.cache_read_addresses": lambda: (fn.cache_read_addresses, {"stride": 2}),
    "fn.cache_write_address": lambda: (fn.cache_write_address, {"stride": 2}),
    "fn.counter": lambda: (fn.counter, {}),
    "fn.view_addresses": lambda: (
        lambda **kw: st.flat_map(addresses(), fn.view_addresses(**kw)),
        {"shape": (2, 2), "stride": (2, 1), "slab": 4, "base": 0},
    ),
    "fn.emit": lambda: (
        lambda **kw: st.flat_map(x(), fn.emit(**kw)),
        {"dims": [2, "rows"], "tile": (1, "cols"), "cycles": 0, "kernel": None},
    ),
    "fn.empty": lambda: (fn.empty, {"shape": (0, 8), "dtype": None}),
    "fn.expert_addresses": lambda: (fn.expert_addresses, {"tiles": 2, "base": 0}),
    "fn.last_tile_filter": lambda: (fn.last_tile_filter, {}),
    "fn.one": lambda: (fn.one, {"shape": (1, 8), "dtype": None}),
    "fn.full": lambda: (fn.full, {"shape": (1, 8), "value": 2.0, "dtype": None}),
    "fn.neg_infinity": lambda: (fn.neg_infinity, {"shape": (1, 8), "dtype": None}),
    "fn.add_const": lambda: (fn.add_const, {"value": 2.0}),
    "fn.sub_const": lambda: (fn.sub_const, {"value": 2.0}),
    "fn.mul_const": lambda: (fn.mul_const, {"value": 2.0}),
    "fn.div_const": lambda: (fn.div_const, {"value": 2.0}),
    "fn.floor_div_const": lambda: (fn.floor_div_const, {"value": 2.0}),
    "fn.full_like": lambda: (fn.full_like, {"value": 2.0}),
    "fn.pow": lambda: (fn.pow, {"exponent": 2.0}),
    "fn.clamp": lambda: (fn.clamp, {"low": 0.0, "high": 1.0}),
    "fn.cast": lambda: (fn.cast, {"dtype": "f32"}),
    "fn.quantize": lambda: (fn.quantize, {"dtype": "i8"}),
    "fn.dequantize": lambda: (fn.dequantize, {"dtype": "f32"}),
    "fn.concat_rows": lambda: (fn.concat_rows, {"tiles": 2}),
    "fn.concat_cols": lambda: (fn.concat_cols, {"tiles": 2}),
    "fn.slice_rows": lambda: (fn.slice_rows, {"start": 0, "stop": 2}),
    "fn.slice_cols": lambda: (fn.slice_cols, {"start": 0, "stop": 2}),
    "fn.rotary": lambda: (fn.rotary, {"pairs": "half"}),
    "fn.part": lambda: (fn.part, {"index": 0, "members": 2}),
    "fn.causal_mask": lambda: (fn.causal_mask, {"window": None, "fill": 0.0}),
    "fn.length_mask": lambda: (fn.length_mask, {"fill": 0.0}),
    "unzip": lambda: (st.unzip, {"x": st.zip(x(), x()), **LABEL}),
    "fn.unpack_cols": lambda: (fn.unpack_cols, {"chunk": 2}),
    "fn.unpack_rows": lambda: (fn.unpack_rows, {"drop_padding": False, "chunk": 2}),
    "fn.zero": lambda: (fn.zero, {"shape": (1, 8), "dtype": None}),
    "Dim": lambda: (st.graph.Dim, {"expr": 4, "kind": Kind.SR}),
    "Dim.of": lambda: (st.graph.Dim.of, {"value": 4}),
    "Dim.ceil_div": lambda: (st.graph.Dim(4).ceil_div, {"chunk": 2}),
    "Dim *": lambda: (lambda other: st.graph.Dim(4) * other, {"other": 2}),
    "Dim +": lambda: (lambda other: st.graph.Dim(4) + other, {"other": 2}),
    "DType": lambda: (st.Tile.of, {"dtype": "bf16", "rows": 4, "cols": 8}),
    "Tile": lambda: (
        st.Tile,
        {"dtype": st.graph.DType.bf16, "rows": st.graph.Dim(4), "cols": st.graph.Dim(8)},
    ),
    "MultiHot": lambda: (st.graph.MultiHot, {"width": 4, "hot": 1}),
    "IndexSelector": lambda: (st.graph.IndexSelector, {"width": 4, "active": 1}),
    "Buffer": lambda: (st.graph.Buffer, {"tile": x().type, "dims": (st.graph.Dim(2),)}),
    "TupleType": lambda: (st.graph.TupleType, {"parts": (x().type, x().type)}),
    "TensorSpec": lambda: (
        st.graph.TensorSpec,
        {"shape": (4, 8), "dtype": st.graph.DType.bf16, "name": "w", "data": None},
    ),
    "Program": lambda: (
        st.Program,
        {
            "name": "p",
            "compute_bw": 1,
            "par_dispatch": 1,
            "fifo_depth": 2,
            "flop_weights": {"exp": 1},
        },
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
