"""Collection and distribution in a fixed order."""

from __future__ import annotations

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Token
from stepsim.graph import Deinterleave, Interleave, StaticReassemble


@evaluates(StaticReassemble)
def _static_reassemble(op: StaticReassemble, node: Node) -> Steps:
    turn = 0
    while (token := (yield from node.inputs[turn].take())) is not None:
        node.emit(token.payload, token.level)
        if token.level >= op.rank:
            turn = (turn + 1) % len(node.inputs)


@evaluates(Deinterleave)
def _deinterleave(op: Deinterleave, node: Node) -> Steps:
    lanes = len(op.outputs)
    group: list[Token] = []
    while (token := (yield from node.inputs[0].take())) is not None:
        group.append(token)
        if token.level and len(group) < lanes:
            node.fail(
                f"a vector ends after {len(group)} of {lanes} elements of a group",
                "every lane takes as many elements of a vector as the others",
            )
        if len(group) == lanes:
            for lane, (payload, _) in enumerate(group):
                node.emit(payload, token.level, lane)
            group.clear()
    if group:
        node.fail(
            f"the stream ends after {len(group)} of {lanes} elements of a group",
            "every lane takes as many elements of a vector as the others",
        )


@evaluates(Interleave)
def _interleave(op: Interleave, node: Node) -> Steps:
    first, *others = node.inputs
    while (token := (yield from first.take())) is not None:
        group = [token]
        for lane in others:
            mate = yield from lane.take()
            if mate is None or mate.level != token.level:
                found = "has ended" if mate is None else f"has stop level {mate.level}"
                node.fail(
                    f"token {first.taken - 1} of {first.role} has stop level {token.level}, "
                    f"{lane.role} {found}",
                    "all lanes must have the same shape",
                )
            group.append(mate)
        for payload, _ in group[:-1]:
            node.emit(payload, 0)
        node.emit(group[-1].payload, token.level)
