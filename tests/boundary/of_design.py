"""Good arguments of st.design and st.itensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stepsim as st
from stepsim.design.passes.fusion.groups import FusionEdge, FusionGraph
from tests.boundary import instances as some

__all__ = ["CALLS"]

Given = dict[str, Any]


def _ref(*shape: int) -> st.design.Ref:
    return some.builder().input(some.new_name(), shape or (16, 16))


def _routing() -> st.design.Ref:
    return some.builder().routing(some.new_name(), 16, 2)


def _weights(*shape: int) -> list[st.design.Ref]:
    return [some.builder().weight(some.new_name(), shape) for _ in range(4)]


def _op() -> st.design.Op:
    return some.operators().ops[0]


BUILDER: dict[str, Callable[[], Given]] = {
    name: lambda: {"x": _ref()}
    for name in (
        "copy", "cumsum", "exp", "gelu", "layer_norm", "max", "mean", "rsqrt", "silu", "softmax",
        "square", "sum", "transpose", "single",
    )
} | {name: lambda: {"x": _ref(), "y": 2.0} for name in ("add", "div", "mul", "sub")} | {
    "add_rows": lambda: {
        "source": _ref(), "indices": _ref(16), "positions": _ref(16), "size": 8,
    },
    "apply": lambda: {"function": "exp", "operands": (_ref(),)},
    "at": lambda: {"module_path": "m"},
    "bmm": lambda: {"x": _ref(2, 4, 4), "y": _ref(2, 4, 4)},
    "cache_append": lambda: {
        "cache": some.builder().state("c", (2, 8, 4)), "new": _ref(2, 1, 4),
    },
    "causal_mask": lambda: {"scores": _ref()},
    "choose": lambda: {"scores": _ref(16, 4), "routing": _routing()},
    "chunk": lambda: {"x": _ref(), "pieces": 2},
    "concat": lambda: {"parts": [_ref(), _ref()]},
    "conv": lambda: {"x": _ref(1, 4, 8), "w": _weights(8, 4, 3)[0]},
    "dispatch": lambda: {"x": _ref(), "routing": _routing(), "experts": 4},
    "combine": lambda: {
        "results": some.builder().dispatch(_ref(), routing := _routing(), 4),
        "weights": _ref(16, 2), "routing": routing,
    },
    "elementwise": lambda: {"name": "e", "body": ("exp", ("arg", 0)), "inputs": (_ref(),)},
    "einsum": lambda: {"operands": ["ij", "jk"], "output": "ik", "inputs": (_ref(), _ref())},
    "embedding": lambda: {
        "indices": some.builder().input("i", (4,), "u32"), "table": _weights(16, 16)[0],
    },
    "expand": lambda: {"x": _ref(1, 16), "shape": (4, 16)},
    "gather": lambda: {"x": _ref(), "indices": _ref(), "positions": _ref(16)},
    "input": lambda: {"name": "i", "shape": (4, 4)},
    "linear": lambda: {"x": _ref(), "w": _weights(16, 16)[0]},
    "matmul": lambda: {"x": _ref(), "y": _ref()},
    "moe": lambda: {
        "x": _ref(), "routing": _routing(), "gate": _weights(8, 16), "up": _weights(8, 16),
        "down": _weights(16, 8), "router": _weights(4, 16)[0],
    },
    "opaque": lambda: {"target": "t", "inputs": [_ref()], "shape": (4, 4)},
    "output": lambda: {"x": some.builder().exp(_ref()), "name": "y"},
    "pad": lambda: {"x": _ref(), "pads": [(1, 1)]},
    "pool": lambda: {"x": _ref(1, 4, 8), "combine": "max", "places": 2},
    "rank": lambda: {"x": _ref(), "positions": _ref(16)},
    "ranked": lambda: {"rank": _ref(), "positions": _ref(16), "count": 2},
    "scatter": lambda: {
        "source": _ref(), "indices": _ref(), "positions": _ref(16), "size": 8,
    },
    "take": lambda: {"x": _ref(), "indices": _ref(4), "positions": _ref(16)},
    "unfold": lambda: {"x": _ref(), "axis": 0, "width": 2},
    "permute": lambda: {"x": _ref(), "order": (1, 0)},
    "record": lambda: {
        "name": "r", "operands": [(_ref(), ("m", "n"))], "output": [("m",), ("n",)],
        "body": ("arg", 0),
    },
    "reduce": lambda: {"name": "r", "combine": "sum", "x": _ref()},
    "reshape": lambda: {"x": _ref(), "shape": (4, 64)},
    "rms_norm": lambda: {"x": _ref(), "w": None, "eps": 1e-5},
    "rotary": lambda: {"x": _ref(2, 4, 8), "cos": _ref(4, 4), "sin": _ref(4, 4)},
    "routing": lambda: {"name": "r", "rows": 4, "k": 2},
    "scale": lambda: {"x": _ref(), "factor": 2.0},
    "sdpa": lambda: {"q": _ref(1, 2, 4, 4), "k": _ref(1, 2, 4, 4), "v": _ref(1, 2, 4, 4)},
    "select": lambda: {"x": _ref(), "axis": 0, "position": 0},
    "slice": lambda: {"x": _ref(), "axis": 0},
    "split": lambda: {"x": _ref(), "sizes": 8},
    "squeeze": lambda: {"x": _ref(1, 16), "axis": 0},
    "state": lambda: {"name": "s", "shape": (4, 4)},
    "unsqueeze": lambda: {"x": _ref(), "axis": 0},
    "weight": lambda: {"name": "w", "shape": (4, 4)},
}  # fmt: skip

ITENSOR: dict[str, Callable[[], Given]] = {
    "AffineMap": lambda: {"results": (((1, 0), 0), ((0, 1), 0)), "num_dims": 2},
    "AffineMap.offset_texts": lambda: {"loops": ["i", "j"]},
    "ITensor": lambda: {
        "element": (2, 2), "trips": (2, 2), "steps": (2, 2), "map": some.itensor().map,
        "dtype": "f32",
    },
    "ITensor.of_loops": lambda: {
        "shape": (4, 4), "loops": ((0, 2, 2), (1, 2, 2)), "element": (2, 2), "dtype": "f32",
    },
    "ITensor.of_normal_form": lambda: {"form": some.itensor().normal_form(), "dtype": "f32"},
    "ITensor.violations": lambda: {
        "element": (2, 2), "trips": (2, 2), "steps": (2, 2), "map": some.itensor().map,
    },
    "ITensor.bytes_of": lambda: {"cells": 2},
    "ITensor.offset_of": lambda: {"token": 0},
    "chunk": lambda: {"it": some.itensor(), "parts": 2, "axis": 0},
    "concat": lambda: {"parts": [some.itensor(), some.itensor()], "axis": 0},
    "join": lambda: {"parts": [some.itensor(), some.itensor()], "axis": 0},
    "infer": lambda: {
        "loops": [("i", 2, 2), ("j", 2, 2)], "offsets": ["i", "j"], "element": (2, 2),
        "dtype": "f32",
    },
    "reassociate": lambda: {"it": some.itensor(), "shape": (4, 2, 2)},
    "vectorize": lambda: {"it": some.itensor(), "vector": (1, 2)},
    "fold": lambda: {"src": some.itensor(), "dst": some.itensor()},
}  # fmt: skip

DESIGN: dict[str, Callable[[], Given]] = {
    "DataflowGraph.kernel": lambda: {"name": some.dataflow().kernels[0].op.name},
    "DataflowGraph.maker": lambda: {"tensor": some.dataflow().kernels[0].output.tensor},
    "DataflowGraph.on_chip": lambda: {"edge": some.dataflow().edges[0]},
    "DataflowGraph": lambda: {
        "operators": some.dataflow().operators, "kernels": some.dataflow().kernels,
        "edges": some.dataflow().edges,
    },
    "GraphBuilder": lambda: {"name": "g"},
    "GroupProgram.results": lambda: {"stored": some.stored()},
    "GroupProgram.tensors": lambda: {"values": some.values()},
    "Index.of": lambda: {"dim": "m"},
    "Index.reach": lambda: {"sizes": {"m": 4}},
    "OperatorGraph": lambda: {
        "name": "g", "tensors": some.untiled().tensors, "ops": some.untiled().ops,
    },
    "OperatorGraph.evaluate": lambda: {"values": some.values()},
    "OperatorGraph.from_json": lambda: {"text": some.untiled().to_json()},
    "OperatorGraph.op": lambda: {"name": _op().name},
    "OperatorGraph.with_role": lambda: {"roles": ("input",)},
    "Op": lambda: {
        "name": "o", "kind": "generic", "dims": _op().dims, "inputs": _op().inputs,
        "output": _op().output, "body": _op().body, "combine": _op().combine,
    },
    "Plan.from_yaml": lambda: {"text": some.plan().to_yaml()},
    "Plan.group": lambda: {"number": 0},
    "Plan.load": lambda: {"path": some.file("plan.yaml")},
    "RequestTimes.over": lambda: {"other": st.design.RequestTimes(1, 2, 1.0, 2.0, 3.0)},
    "RepeatedBlock.evaluate": lambda: {"values": some.values_of_all_layers()},
    "RepeatedBlock.name": lambda: {"layer": 1, "tensor": "x"},
    "RepeatedBlock.weight_base": lambda: {"layer": 1},
    "RoutedCost.at": lambda: {"routings": {"routing": some.chosen()}},
    "TracedSizes.tried": lambda: {"traces": [some.chosen()]},
    "Tiling": lambda: {"tile": {"m": 2}, "order": ("m",)},
    "buffers_of": lambda: {"graph": some.dataflow(), "group": 0},
    "designed": lambda: {
        "graph": some.untiled(),
        "choices": st.design.Choices(budget=1 << 24, order="reductions_innermost"),
    },
    "find_model": lambda: {"text": "gpt2-medium", "machine": some.machine(), "sizes": {}},
    "joules_per_token": lambda: {
        "times": st.design.RequestTimes(1, 2, 1.0, 2.0, 3.0), "watts": 2.0,
    },
    "kernels_of": lambda: {"graph": some.tiled()},
    "permute": lambda: {"graph": some.tiled()},
    "unroll": lambda: {"graph": some.tiled(), "budget": 64},
    "merged_groups": lambda: {
        "graph": FusionGraph(2, (FusionEdge(0, 1, 4, 4, 0),)), "budget": 100,
    },
    "place_in_memory": lambda: {"graph": some.dataflow(), "device": some.machine().device},
    "place_on_dies": lambda: {"graph": some.dataflow(), "device": some.machine().device},
    "request": lambda: {"prefill": some.plan(), "decode": some.plan("decode"), "generated": 2},
    "request_times": lambda: {
        "prompt": 2, "output": 2, "prefill_ms": lambda tokens: 1.0, "token_ms": 1.0,
    },
    "routing_windows": lambda: {
        "graph": some.routed(), "files": [some.file("routing.parquet")], "most": 1,
    },
    "size_over_traces": lambda: {
        "program": some.routed_group(), "traces": [some.chosen()],
        "machine": "sda-1024",
    },
    "fuse_kernels": lambda: {"graph": some.dataflow(), "budget": 1 << 20},
}  # fmt: skip

CALLS: dict[str, Callable[[], Given]] = (
    {f"design.GraphBuilder.{name}": make for name, make in BUILDER.items()}
    | {f"itensor.{name}": make for name, make in ITENSOR.items()}
    | {f"design.{name}": make for name, make in DESIGN.items()}
    | {"compile": lambda: {"model": some.untiled()}}
)
