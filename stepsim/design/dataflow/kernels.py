"""From a tiled operator graph to kernels with typed ports: the pass ``kernels_of``.

The type of a port follows from the loop nest (StreamTensor, on the itensor type): trips and
steps are those of the loops, the element is the slice that a tile reads, the map its offset. A
producer sends only after the last iteration of its reductions, so reduction loops are not in the
type of an output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd

from stepsim.design.dataflow.graph import DataflowGraph, Edge, Kernel, KernelLoop, Port, Window
from stepsim.design.dataflow.routed_kernels import RoutedKernels, loops_of, untyped_edge
from stepsim.design.dataflow.untyped import Untyped
from stepsim.design.operators.graph import Op, Operand, OperatorGraph, Tensor
from stepsim.design.operators.routed import ROUTED
from stepsim.design.operators.structured import parts_of
from stepsim.design.operators.types import points_of, tiled_axes
from stepsim.errors import CompileError
from stepsim.itensor import AffineMap, ITensor, converter
from stepsim.typed import typed


@typed
def kernels_of(graph: OperatorGraph) -> DataflowGraph:
    """Make a kernel of every operator, each in its own group, and connect them by typed edges.

    Raises
    ------
    CompileError : an operator has no tiles, or a consumer reads a part of a tensor that the tiles
        of the producer do not divide.
    """
    routed = RoutedKernels(graph)
    kernels = tuple(_kernel(graph, op, number, routed) for number, op in enumerate(graph.ops))
    by_name = {kernel.name: kernel for kernel in kernels}
    windows: dict[str, list[Window]] = {}
    for edge in graph.edges:
        port = by_name[edge.consumer].inputs[edge.slot]
        if port.window != by_name[edge.producer].output.window:
            windows.setdefault(edge.producer, []).append(port.window)
    edges = []
    for edge in graph.edges:
        producer, consumer = by_name[edge.producer], by_name[edge.consumer]
        if not is_streamed(consumer.op, edge.slot):
            raise CompileError(
                f"{consumer.op.title()}: operand {edge.slot} of {consumer.op.kind}, "
                f"'{edge.tensor}', is made by {producer.op.title()}, "
                "but is read by address from off chip; make it "
                "an input, a weight or a state"
            )
        port = consumer.inputs[edge.slot]
        sent = producer.output.itensor
        if isinstance(sent, Untyped) or isinstance(port.itensor, Untyped):
            edges.append(untyped_edge(producer, consumer, edge.slot))
            continue
        if port.window != producer.output.window:
            sent = parts_sent(producer, windows[producer.name])
        source = part_of(producer, sent, port)
        edges.append(
            Edge(edge.tensor, edge.producer, edge.consumer, edge.slot, source,
                 converter(source, port.itensor))
        )  # fmt: skip
    return DataflowGraph(graph, kernels, tuple(edges))


def is_streamed(op: Op, slot: int) -> bool:
    """Whether the operand arrives as a stream.

    All do but those that a gather reads by address, and routings, which runs are bound to.
    """
    return op.kind != "gather" and not (op.kind in ROUTED and slot == 1)


def _kernel(graph: OperatorGraph, op: Op, number: int, routed: RoutedKernels) -> Kernel:
    if op.tiling is None:
        raise CompileError(f"kernels_of: {op.title()} has no tiles; tile the graph first")
    if routed.makes(op):
        return routed.kernel(op, number)
    whole = op.kind == "opaque"  # Its sums are within it.
    loops = tuple(loop for loop in loops_of(op) if not (whole and loop.kind == "reduction"))
    inputs = tuple(
        _port(graph.tensors[operand.tensor], op, operand, *_part_read(op, slot, loops))
        for slot, operand in enumerate(op.inputs)
    )
    sent = [loop for loop in loops if loop.kind == "parallel"]
    output = _port(graph.tensors[op.output.tensor], op, op.output, sent, {})
    return Kernel(op, loops, inputs, output, op.tiling.unroll, points_of(op), number)


def _part_read(
    op: Op, slot: int, loops: Sequence[KernelLoop]
) -> tuple[Sequence[KernelLoop], Mapping[str, int]]:
    """Loops in which an operand is read, and where dims start."""
    assert op.tiling is not None
    if op.kind == "opaque":  # All of each operand, once.
        own = op.inputs[slot].dims
        return [replace(loop, kind="reduction") for loop in loops_of(op) if loop.dim in own], {}
    parts = parts_of(op, slot)
    read = [
        replace(loop, trip=(parts[loop.dim][1] - parts[loop.dim][0]) // loop.step)
        if loop.dim in parts
        else loop
        for loop in loops
    ]
    return read, {dim: start for dim, (start, _) in parts.items()}


def _port(
    tensor: Tensor,
    op: Op,
    operand: Operand,
    loops: Sequence[KernelLoop],
    first: Mapping[str, int],
) -> Port:
    element = tiled_axes(op, operand)
    if op.kind == "gather" and operand is op.inputs[0]:
        element = tuple(
            1 if axis == op.attributes["axis"] else size for axis, size in enumerate(element)
        )
    results, window = [], []
    for index, size in zip(operand.access, element, strict=True):
        coefficients = tuple(index.coefficient(loop.dim) for loop in loops)
        low = index.offset + sum(n * first.get(dim, 0) for dim, n in index.terms)
        moves = [
            n * loop.step * (loop.trip - 1) for n, loop in zip(coefficients, loops, strict=True)
        ]
        low += sum(min(0, move) for move in moves)
        window.append((low, size + sum(abs(move) for move in moves)))
        results.append((coefficients, -sum(min(0, move) for move in moves)))
    stream = ITensor(
        element,
        tuple(loop.trip for loop in loops),
        tuple(loop.step for loop in loops),
        AffineMap(tuple(results), len(loops)),
        tensor.dtype,
    )
    return Port(tensor.name, tuple(window), stream)


def parts_sent(producer: Kernel, windows: Iterable[Window]) -> ITensor:
    """The tokens of a producer whose consumers read only parts: tiles that no part cuts.

    Tiles across the border of a part are cut into pieces, rows outside, as a program cuts them.
    """
    sent = producer.output.itensor
    element = list(sent.element)
    for window in windows:
        element = [gcd(e, *part) for e, part in zip(element, window, strict=True)]
    pieces = [
        (axis, whole // part, part)
        for axis, (whole, part) in enumerate(zip(sent.element, element, strict=True))
        if whole > part
    ]
    results = tuple(
        ((*coefficients, *(int(axis == own) for own, _, _ in pieces)), const)
        for axis, (coefficients, const) in enumerate(sent.map.results)
    )
    return ITensor(
        tuple(element),
        (*sent.trips, *(trip for _, trip, _ in pieces)),
        (*sent.steps, *(step for _, _, step in pieces)),
        AffineMap(results, len(sent.trips) + len(pieces)),
        sent.dtype,
    )


def part_of(producer: Kernel, sent: ITensor, port: Port) -> ITensor:
    """The tokens of a producer that lie in the window of a port, in order.

    Raises
    ------
    CompileError : the window is not a whole number of iterations of the loops along an axis.
    """
    trips = list(sent.trips)
    for axis, (start, extent) in enumerate(port.window):
        left = [start, extent]
        driving = [p for p, loop in enumerate(sent.loops) if loop.stride[axis]]
        for p in sorted(driving, key=lambda p: -sent.loops[p].stride[axis]):
            stride = sent.loops[p].stride[axis]
            if left[0] % stride == 0 and left[1] % stride == 0:
                trips[p], left = left[1] // stride, [0, stride]
            elif left[0] // stride == (left[0] + left[1] - 1) // stride:
                trips[p], left = 1, [left[0] % stride, left[1]]
            else:
                break
        if left != [0, sent.element[axis]]:
            raise CompileError(
                f"{producer.op.title()} sends '{port.tensor}' as {sent}, and positions {start} to "
                f"{start + extent - 1} of axis {axis} are read alone, which are not whole "
                "iterations of its loops; tile the dim that moves along that axis by a divisor of "
                f"{gcd(start, extent)}"
            )
    return ITensor(sent.element, tuple(trips), sent.steps, sent.map, sent.dtype)
