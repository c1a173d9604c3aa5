"""What a program computes: operators, streams, symbolic shapes and symbolic metrics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepsim.deferred import names_of
from stepsim.graph import fn
from stepsim.graph.accumulation import Init
from stepsim.graph.dims import Dim, Kind
from stepsim.graph.equalities import Assumption
from stepsim.graph.feedback import Feedback, feedback
from stepsim.graph.functions import Function, function
from stepsim.graph.metrics import BoundMetrics, Metrics, OperatorMetrics
from stepsim.graph.operator import Operator
from stepsim.graph.ops.dealing import deinterleave, interleave, static_reassemble
from stepsim.graph.ops.flat_map import StreamFunction, flat_map
from stepsim.graph.ops.group_results import accum_buffer, row_stat
from stepsim.graph.ops.higher_order import map_ as map
from stepsim.graph.ops.higher_order import unzip
from stepsim.graph.ops.linear_load import linear_load
from stepsim.graph.ops.merging import eager_merge, reassemble
from stepsim.graph.ops.numbers import counter
from stepsim.graph.ops.offchip import linear_store
from stepsim.graph.ops.onchip import bufferize, streamify
from stepsim.graph.ops.random_access import random_load, random_store
from stepsim.graph.ops.reductions import accum, map_accum
from stepsim.graph.ops.references import repeat_ref, take_last
from stepsim.graph.ops.repeats import expand, repeat
from stepsim.graph.ops.reshape import reshape
from stepsim.graph.ops.routing import parallelize, partition
from stepsim.graph.ops.scans import scan
from stepsim.graph.ops.selecting import filter_rows, shuffle
from stepsim.graph.ops.shape import flatten, promote, unsqueeze
from stepsim.graph.ops.shape import zip_ as zip
from stepsim.graph.ops.sources import (
    broadcast,
    consume,
    metadata,
    printer,
    selector,
)
from stepsim.graph.program import Program
from stepsim.graph.rewrites.wiring import WiredFifo, WiredUnit, Wiring, wire
from stepsim.graph.routing_table import Routing, routing
from stepsim.graph.stream import Stream
from stepsim.graph.types import (
    Ack,
    Buffer,
    DType,
    IndexSelector,
    MultiHot,
    TensorSpec,
    Tile,
    TupleType,
    spec,
)

if TYPE_CHECKING:
    from stepsim.graph import nn
    from stepsim.graph.graph_file import load_graph

__all__ = [
    "Ack",
    "Assumption",
    "BoundMetrics",
    "Buffer",
    "DType",
    "Dim",
    "Feedback",
    "Function",
    "IndexSelector",
    "Init",
    "Kind",
    "Metrics",
    "MultiHot",
    "Operator",
    "OperatorMetrics",
    "Program",
    "Routing",
    "Stream",
    "StreamFunction",
    "TensorSpec",
    "Tile",
    "TupleType",
    "WiredFifo",
    "WiredUnit",
    "Wiring",
    "accum",
    "accum_buffer",
    "broadcast",
    "bufferize",
    "consume",
    "counter",
    "deinterleave",
    "eager_merge",
    "expand",
    "feedback",
    "filter_rows",
    "flat_map",
    "flatten",
    "fn",
    "function",
    "interleave",
    "linear_load",
    "linear_store",
    "load_graph",
    "map",
    "map_accum",
    "metadata",
    "nn",
    "parallelize",
    "partition",
    "printer",
    "promote",
    "random_load",
    "random_store",
    "reassemble",
    "repeat",
    "repeat_ref",
    "reshape",
    "routing",
    "row_stat",
    "scan",
    "selector",
    "shuffle",
    "spec",
    "static_reassemble",
    "streamify",
    "take_last",
    "unsqueeze",
    "unzip",
    "wire",
    "zip",
]

_lookup = names_of(__name__, {"graph_file": ("load_graph",)})


def __getattr__(name: str) -> Any:
    """What few programs need: layers, and files of graphs."""
    return import_module("stepsim.graph.nn") if name == "nn" else _lookup(name)
