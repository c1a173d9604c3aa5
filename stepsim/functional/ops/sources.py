"""Sources, sinks and copies."""

from __future__ import annotations

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Selection, TileValue
from stepsim.graph.levels import stop_levels
from stepsim.graph.ops.sources import Broadcast, Consume, MetadataSource, Print, SelectorSource
from stepsim.graph.routing_table import RoutingSource

__all__: list[str] = []


@evaluates(RoutingSource)
@evaluates(SelectorSource)
def _selectors(op: RoutingSource | SelectorSource, node: Node) -> Steps:
    params = op.unit_params(node.world.bindings)
    for chosen, level in zip(params["selectors"], params["levels"], strict=True):
        node.emit(Selection(tuple(chosen), params["width"]), level)
    yield from ()


@evaluates(MetadataSource)
def _metadata(op: MetadataSource, node: Node) -> Steps:
    levels = stop_levels(op.values.shape, most=op.values.ndim - 1)
    for value, level in zip(op.values.ravel().tolist(), levels, strict=True):
        node.emit(TileValue.integer(value), level)
    yield from ()


@evaluates(Consume)
@evaluates(Print)
def _sink(op: Consume | Print, node: Node) -> Steps:
    while (yield from node.inputs[0].take()) is not None:
        pass


@evaluates(Broadcast)
def _broadcast(op: Broadcast, node: Node) -> Steps:
    while (token := (yield from node.inputs[0].take())) is not None:
        for output in range(op.count):
            node.emit(token.payload, token.level, output)
