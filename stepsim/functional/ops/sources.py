"""Sources, sinks and copies."""

from __future__ import annotations

from stepsim.errors import EvaluationError
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Selection, TileValue
from stepsim.graph import (
    Broadcast,
    Consume,
    Counter,
    MetadataSource,
    Missing,
    Print,
    RoutingSource,
    SelectorSource,
    stop_levels,
)


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


@evaluates(Missing)
def _missing(op: Missing, node: Node) -> Steps:
    raise EvaluationError(op.complaint())


@evaluates(Counter)
def _counter(op: Counter, node: Node) -> Steps:
    if not node.inputs:
        for value in range(op.count):
            last = value == op.count - 1
            node.emit(TileValue.integer(value), op.outputs[0].rank if last else 0)
        return
    while (token := (yield from node.inputs[0].take())) is not None:
        for value in range(op.count):
            level = 1 + token.level if value == op.count - 1 else 0
            node.emit(TileValue.integer(value), level)


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
