"""repeat_ref and take_last."""

from __future__ import annotations

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.graph import RepeatRef, TakeLast


@evaluates(RepeatRef)
def _repeat_ref(op: RepeatRef, node: Node) -> Steps:
    data, ref = node.inputs
    new = op.inputs[1].rank - op.inputs[0].rank - op.rank
    while (token := (yield from data.take())) is not None:
        level = -1
        while level < new:
            step = yield from ref.take()
            if step is None:
                node.fail(
                    f"ref ended while element {data.taken - 1} of in is repeated",
                    "both must have the same outer dims",
                )
            level = step.level - op.rank
            if level >= 0:
                node.emit(token.payload, level)
        if level != token.level + new:
            node.fail(
                f"element {data.taken - 1} of in has stop level {token.level}, its part of ref "
                f"ends with {level + op.rank}",
                "both must have the same outer dims",
            )


@evaluates(TakeLast)
def _take_last(op: TakeLast, node: Node) -> Steps:
    while (token := (yield from node.inputs[0].take())) is not None:
        if token.level:
            node.emit(token.payload, token.level)
