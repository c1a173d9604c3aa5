"""Wiring: a program as units in construction order, joined by one-to-one FIFOs.

Construction order numbers the memory ports: operators enter as they were created, but an operator
without inputs enters just before its first reader (first input first); inferred broadcasts come
last. A program read from a file states its own order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from stepsim.collection import without_collection
from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.graph.ops.feedback import FeedbackSource
from stepsim.graph.ops.routing.routing_table import check_bindings
from stepsim.graph.programs.program import Program, check_program
from stepsim.graph.rewrites.broadcast import (
    Reader,
    by_chip,
    chip_of_copy,
    readers_by_output,
    resolved,
)
from stepsim.graph.stream import Stream
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.graph.operator import Bindings, Operator


@frozen
class WiredUnit:
    """One unit: kind and parameters in the vocabulary of the engine, FIFO indices, origin, chip."""

    name: str
    kind: str
    params: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operator: Operator | None
    source: str
    chip: int = 0


@frozen
class WiredFifo:
    """One FIFO; ``depth`` is that of the stream, or None for the program's default."""

    name: str
    depth: int | None
    stream: Stream


@frozen
class Wiring:
    """Units in construction order and the FIFOs between them."""

    program: Program
    units: tuple[WiredUnit, ...]
    fifos: tuple[WiredFifo, ...]
    by_stream: Mapping[tuple[int, int], int] = field(repr=False)

    @typed
    def fifo_of(self, stream: Stream) -> int:
        """Index of the FIFO that the producer of a stream writes."""
        return self.by_stream[resolved(stream).key]


def construction_order(program: Program) -> list[Operator]:
    """Operators in the order in which they enter the network."""
    if program.order is not None:
        return [program.operators[number] for number in program.order]
    order: list[Operator] = []
    placed: set[int] = set()
    for op in program.operators:
        if isinstance(op, FeedbackSource) or not op.inputs:
            continue
        for stream in op.inputs:
            source = resolved(stream).producer
            if not source.inputs and source.id not in placed:
                placed.add(source.id)
                order.append(source)
        placed.add(op.id)
        order.append(op)
    return order


def wire(program: Program, bindings: Mapping[Any, Any] | None = None) -> Wiring:
    """Units and FIFOs of a finished program, as simulated.

    Streams that are read several times get their broadcasts here, and feedback placeholders are
    removed. This is for tools that show or time programs; ``st.simulate`` does it by itself.

    Parameters
    ----------
    program : a finished program.
    bindings : index arrays ``[rows, k]`` of routings that were made from a spec.

    Raises
    ------
    LoweringError : the program is still open, or an operator has no unit.
    ArgError : a binding is missing or does not fit.

    Example
    -------
    >>> with st.Program("two readers") as program:
    ...     x = st.metadata([1, 2])
    ...     x.consume()
    ...     x.consume()
    >>> [unit.kind for unit in st.graph.wire(program).units]
    ['MetadataGen', 'Consumer', 'Consumer', 'Broadcast']
    """
    check_program("wire", program)
    if not program.closed:
        raise LoweringError(
            f"program '{program.name}' is still open; leave its `with` block before lowering it"
        )
    given = check_bindings(program, bindings)
    with without_collection():
        return _wired(program, given)


def _wired(program: Program, given: Bindings) -> Wiring:
    readers = readers_by_output(program)
    fifos: list[WiredFifo] = []
    inputs: dict[int, list[int]] = {op.id: [-1] * len(op.inputs) for op in program.operators}
    by_stream: dict[tuple[int, int], int] = {}
    copies: list[WiredUnit] = []
    plain: list[tuple[Operator, tuple[int, ...]]] = []

    depths = program.depths

    def fifo(name: str, stream: Stream) -> int:
        fifos.append(WiredFifo(name, depths.get(stream.key) if depths else None, stream))
        return len(fifos) - 1

    pending: deque[tuple[str, Stream, int, list[Reader], int]] = deque()
    for op in construction_order(program):
        outputs = []
        for stream in op.outputs:
            name = op.title(stream.output)
            index = fifo(name, stream)
            outputs.append(index)
            by_stream[stream.key] = index
            users = readers.get(stream.key, [])
            if len(users) == 1:
                inputs[users[0].operator.id][users[0].position] = index
            elif users:
                pending.append((name, stream, index, users, chip_of_copy(users, op.chip)))
        plain.append((op, tuple(outputs)))
    while pending:
        name, stream, index, users, chip = pending.popleft()
        ends = []
        for number, group in enumerate(by_chip(users, chip)):
            end = fifo(f"{name}>{number}", stream)
            if len(group) == 1:
                inputs[group[0].operator.id][group[0].position] = end
            else:
                pending.append((f"{name}>{number}", stream, end, group, group[0].operator.chip))
            ends.append(end)
        copies.append(
            WiredUnit(
                f"broadcast({name})", "Broadcast", {}, (index,), tuple(ends), None,
                stream.producer.source, chip,
            )
        )  # fmt: skip
    units = [
        WiredUnit(
            op.title(), op.unit_kind, op.unit_params(given), tuple(inputs[op.id]), outputs, op,
            op.source, op.chip,
        )
        for op, outputs in plain
    ]  # fmt: skip
    return Wiring(program, (*units, *copies), tuple(fifos), by_stream)
