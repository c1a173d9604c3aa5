"""Good arguments of the language: operators as methods, layers, and what programs are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import stepsim as st
from stepsim.graph import fn
from tests.boundary import instances as some
from tests.language_calls import deep, selectors, tiles, x

__all__ = ["CALLS"]

Given = dict[str, Any]


def _rows() -> st.Stream:
    return tiles(2, rows=4, cols=16)


def _heads(width: int = 8) -> st.Stream:
    return st.linear_load(st.spec(16, width), (4, width), shape=(2, 2), stride=(2, 1))


def _keys() -> st.Stream:
    return st.linear_load(st.spec(16, 8), (8, 8), shape=(2, 2), stride=(1, 0))


def _single_rows() -> st.Stream:
    return st.linear_load(st.spec(4, 8), (1, 8)).flatten(0, 1)


def _of_many(shape: tuple[int, int]) -> list[Any]:
    return [st.spec(*shape) for _ in range(4)]


def _llama() -> st.nn.LlamaWeights:
    shapes = {
        "q": (16, 16), "k": (16, 8), "v": (16, 8), "o": (16, 16), "gate": (16, 32), "up": (16, 32),
        "down": (32, 16), "attention_norm": (1, 16), "ffn_norm": (1, 16), "cos": (8, 2),
        "sin": (8, 2),
    }  # fmt: skip
    return st.nn.LlamaWeights(**{name: st.spec(*shape) for name, shape in shapes.items()})


def _on_chips(rows: bool = False) -> list[st.Stream]:
    """A stream on each of two chips."""
    made = []
    for number in range(2):
        with st.chip(number):
            made.append(_single_rows() if rows else _rows())
    return made


def _table() -> st.graph.Routing:
    return st.routing([[0, 1]] * 4, 4)


CALLS: dict[str, Callable[[], Given]] = {
    "Function": lambda: {"name": "f", "shape": fn.silu.shape},
    "Function.cost": lambda: {"operands": [x().type], "results": [x().type]},
    "Program.compare": lambda: {"a": st.graph.Dim(2), "b": st.graph.Dim(2)},
    "chip": lambda: {"number": 1},
    "map": lambda: {"fn": fn.silu, "xs": (x(),)},
    "spec": lambda: {"shape": (2, 2)},
    "graph.Buffer": lambda: {"tile": x().type, "dims": (st.graph.Dim(2),)},
    "graph.Dim": lambda: {"expr": 4},
    "graph.TensorSpec": lambda: {"shape": (4, 8), "dtype": st.graph.DType.bf16},
    "graph.TupleType": lambda: {"parts": (x().type, x().type)},
    "graph.Init": lambda: {"kind": "zero", "rows": 1, "cols": 8},
    "graph.MultiHot": lambda: {"width": 4},
    "graph.IndexSelector": lambda: {"width": 4, "active": 1},
    "graph.StreamFunction": lambda: {
        "name": "f", "unit_kind": "RetileStreamify",
        "params": (("split_row", True), ("filter", False)),
    },
    "graph.Routing.counts_of": lambda: {"indices": [[0, 1]] * 4},
    "graph.Feedback.connect": lambda: {"stream": tiles(4).map(fn.cast("f32"))},
    "graph.BoundMetrics.value": lambda: {"size": st.graph.Dim(4)},
    "graph.Metrics.lambdify": lambda: {"quantity": "flops", "arguments": []},
    "load_graph": lambda: {"source": some.graph_file()},
    "fn.part": lambda: {"index": 0, "members": 2},
    "fn.slice_cols": lambda: {"start": 0, "stop": 2},
    "fn.slice_rows": lambda: {"start": 0, "stop": 2},
    **{
        f"nn.{name}": lambda: {"xs": _on_chips()}
        for name in ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
    },
    "nn.chosen_weights": lambda: {"x": _single_rows(), "experts": [[0, 1]] * 4},
    "nn.combine_rows": lambda: {"xs": _on_chips(rows=True), "to": [[[1, 0]] * 4, [[0, 1]] * 4]},
    "nn.dispatch_rows": lambda: {"xs": _on_chips(rows=True), "to": [[[1, 0]] * 4, [[0, 1]] * 4]},
    "nn.attention": lambda: {"q": _heads(), "k": _keys(), "v": _keys()},
    "nn.flash_attention": lambda: {
        "q": _heads(), "k": st.spec(2, 8, 8), "v": st.spec(2, 8, 8), "kv_tile": 4,
    },
    "nn.gelu_ffn": lambda: {"x": _rows(), "up": st.spec(16, 16), "down": st.spec(16, 16)},
    "nn.latent_attention": lambda: {
        "q": _heads(), "q_rope": _heads(2), "latent": st.spec(8, 4), "k_rope": st.spec(8, 2),
        "up_key": st.spec(16, 4), "up_value": st.spec(8, 8), "kv_tile": 4,
    },
    "nn.linear": lambda: {"x": _rows(), "weight": st.spec(16, 16)},
    "nn.llama_block": lambda: {
        "x": st.linear_load(st.spec(8, 16), (4, 16), shape=(1, 2), stride=(2, 1)),
        "weights": _llama(), "heads": 4, "kv_heads": 2,
    },
    "nn.moe": lambda: {
        "x": _single_rows(), "table": _table(), "gate": _of_many((8, 16)), "up": _of_many((8, 16)),
        "down": _of_many((16, 8)), "tile": 2,
    },
    "nn.paged_attention": lambda: {
        "q": tiles(2, rows=4, cols=8), "k": st.spec(32, 8), "v": st.spec(32, 8),
        "lengths": [5, 12], "page": 4,
    },
    "nn.rope": lambda: {
        "x": st.linear_load(np.ones((32, 8), np.float32), (4, 8), shape=(2, 4), stride=(4, 1)),
        "cos": np.ones((16, 4), np.float32), "sin": np.ones((16, 4), np.float32),
    },
    "nn.rope_tables": lambda: {"positions": 16, "dim": 8},
    "nn.router": lambda: {"x": _single_rows(), "weight": st.spec(8, 4), "table": _table()},
    "nn.swiglu": lambda: {
        "x": _rows(), "gate": st.spec(16, 16), "up": st.spec(16, 16), "down": st.spec(16, 16),
    },
    "nn.top_k": lambda: {"scores": [[0.1, 0.7, 0.2]], "k": 2},
    "Stream.accum": lambda: {"fn": fn.add, "rank": 1},
    "Stream.accum_buffer": lambda: {"fn": fn.add, "rank": 1},
    "Stream.assume_shape": lambda: {"shape": (4, 2)},
    "Stream.bufferize": lambda: {"rank": 1},
    "Stream.dim": lambda: {"index": 0},
    "Stream.expand": lambda: {"to": 2, "rank": 1},
    "Stream.filter_rows": lambda: {"mask": st.selector(np.ones((4, 2, 4), int))},
    "Stream.flat_map": lambda: {"fn": fn.unpack_rows()},
    "Stream.flatten": lambda: {"lo": 0, "hi": 1},
    "Stream.repeat": lambda: {"count": 2},
    "Stream.repeat_ref": lambda: {"ref": deep().repeat(2), "rank": 0},
    "Stream.reshape": lambda: {"chunk": 2},
    "Stream.row_stat": lambda: {"stat": "mean", "rank": 1},
    "Stream.scan": lambda: {"fn": fn.add, "rank": 1},
    "Stream.shuffle": lambda: {"selector": st.selector(np.ones((4, 2, 3), int)), "rank": 1},
    "Stream.unsqueeze": lambda: {"dim": 0},
    "Program.downtile": lambda: {"rows": 4, "cols": 8},
    "Stream.streamify": lambda: {"repeat": 2},
    "Program.assume_equal": lambda: {"left": 4, "right": 4},
    "partition": lambda: {"x": x(), "selector": selectors()},
}  # fmt: skip
