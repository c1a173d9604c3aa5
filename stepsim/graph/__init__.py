"""What a program computes: operators, streams, symbolic shapes and symbolic metrics."""

from stepsim.graph import fn
from stepsim.graph.accumulation import Init
from stepsim.graph.dims import Dim, Kind
from stepsim.graph.feedback import Feedback, feedback
from stepsim.graph.functions import Function
from stepsim.graph.metrics import BoundMetrics, Metrics, OperatorMetrics
from stepsim.graph.operator import Operator
from stepsim.graph.ops.flat_map import StreamFunction, flat_map
from stepsim.graph.ops.higher_order import accum, map_accum, scan
from stepsim.graph.ops.higher_order import map_ as map
from stepsim.graph.ops.offchip import linear_load, linear_store, random_load, random_store
from stepsim.graph.ops.onchip import bufferize, streamify
from stepsim.graph.ops.routing import eager_merge, parallelize, partition, reassemble
from stepsim.graph.ops.shape import expand, flatten, promote, repeat, reshape, unsqueeze
from stepsim.graph.ops.shape import zip_ as zip
from stepsim.graph.ops.sources import (
    broadcast,
    consume,
    metadata,
    printer,
    selector,
)
from stepsim.graph.program import Assumption, Program
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
    "broadcast",
    "bufferize",
    "consume",
    "eager_merge",
    "expand",
    "feedback",
    "flat_map",
    "flatten",
    "fn",
    "linear_load",
    "linear_store",
    "map",
    "map_accum",
    "metadata",
    "parallelize",
    "partition",
    "printer",
    "promote",
    "random_load",
    "random_store",
    "reassemble",
    "repeat",
    "reshape",
    "routing",
    "scan",
    "selector",
    "spec",
    "streamify",
    "unsqueeze",
    "wire",
    "zip",
]
