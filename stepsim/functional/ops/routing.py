"""Routing and merging (STeP paper, table 5); orders of arrival come from the recorded decisions."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.functional.decisions import has_free_order
from stepsim.functional.network import Node, Reader, Steps, Wait
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Selection, Token
from stepsim.graph import EagerMerge, Parallelize, Partition, Reassemble

_RECORD = (
    "pass decisions= of a timing run (stepsim.prepare(program).decisions()), or let "
    "stepsim.run_functional do both"
)


@evaluates(Partition)
def _partition(op: Partition, node: Node) -> Steps:
    data, selectors = node.inputs
    while (chosen := (yield from selectors.take())) is not None:
        stop = chosen.level + op.rank if chosen.level else None
        ended = False
        while not ended:
            token = yield from data.take()
            if token is None:
                node.fail(
                    f"data ended while selector {selectors.taken - 1} still asks for a chunk",
                    "data and selectors must have the same outer dims",
                )
            level = token.level
            if level > 0 and (level != stop if stop is not None else level > op.rank):
                want = f"{stop}" if stop is not None else f"at most {op.rank}"
                node.fail(
                    f"token {data.taken - 1} has stop level {level}, {want} is expected where "
                    f"selector {selectors.taken - 1} has level {chosen.level}",
                    "data and selectors must have the same outer dims",
                )
            out = op.rank if level and stop is not None else level
            for index in chosen.payload.indices:
                node.emit(token.payload, out, index)
            ended = level in (op.rank, stop) if level else op.rank == 0


def _chunk(node: Node, source: Reader, rank: int) -> Wait[list[Token]]:
    """The next subtensor of ``rank`` dims; an ended stream is an error."""
    chunk: list[Token] = []
    while not chunk or (rank > 0 and chunk[-1].level < rank):
        token = yield from source.take()
        if token is None:
            node.fail(
                f"{source.role} ended after {source.taken} tokens, another chunk of rank {rank} "
                "was asked for",
                "the decisions must come from a run with the same bindings and inputs",
            )
        chunk.append(token)
    return chunk


def _order(op: Reassemble, node: Node, number: int, chosen: Selection) -> Sequence[int]:
    """Inputs of selector ``number`` in the order in which their chunks arrived."""
    if len(chosen.indices) == 1:
        return chosen.indices
    decided = node.world.decisions
    if decided is None or op.id not in decided.joins:
        node.fail(f"{len(chosen.indices)} chunks arrive for selector {number} in no known order",
                  _RECORD)  # fmt: skip
    orders = decided.joins[op.id]
    order = orders[number] if number < len(orders) else ()
    if tuple(sorted(order)) != chosen.indices:
        node.fail(
            f"selector {number} selects {list(chosen.indices)}, the recorded order is "
            f"{list(order)}",
            "record the decisions with the same bindings",
        )
    return order


@evaluates(Reassemble)
def _reassemble(op: Reassemble, node: Node) -> Steps:
    selectors = node.inputs[-1]
    while (chosen := (yield from selectors.take())) is not None:
        if not chosen.payload.indices:
            node.fail(f"selector {selectors.taken - 1} selects no input")
        order = _order(op, node, selectors.taken - 1, chosen.payload)
        for index in order:
            chunk = yield from _chunk(node, node.inputs[index], op.rank)
            for token in chunk[:-1]:
                node.emit(token.payload, token.level)
            payload, level = chunk[-1]
            node.emit(payload, level + chosen.level + 1 if index == order[-1] else level)


@evaluates(EagerMerge)
def _eager_merge(op: EagerMerge, node: Node) -> Steps:
    decided = node.world.decisions
    width = len(op.inputs)
    if not has_free_order(op):
        while (yield from node.inputs[0].head()) is not None:
            yield from _forward(op, node, 0, width)
        return
    if decided is None or op.id not in decided.merges:
        node.fail("the order in which chunks arrive is not known", _RECORD)
    for index in decided.merges[op.id]:
        if not 0 <= index < width:
            node.fail(f"a recorded decision names input {index} of {width}")
        yield from _forward(op, node, index, width)


def _forward(op: EagerMerge, node: Node, index: int, width: int) -> Steps:
    chunk = yield from _chunk(node, node.inputs[index], op.rank)
    node.emit(Selection((index,), width), 0, 1)
    for token in chunk:
        node.emit(token.payload, token.level)


@evaluates(Parallelize)
def _parallelize(op: Parallelize, node: Node) -> Steps:
    turn = 0
    while (token := (yield from node.inputs[0].take())) is not None:
        node.emit(token.payload, token.level, turn)
        if token.level >= op.rank:
            turn = (turn + 1) % len(op.outputs)
