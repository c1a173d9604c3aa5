"""Kernels of routed rows, and which of their ports are typed.

An untyped stream carries whole rows, several at a time, in the order of the rows.
``dispatch`` takes a typed stream of single rows and sends untyped ones, one for each expert;
``combine`` takes those and sends a typed one of single rows. In between a kernel runs over the
tiles of rows of one expert outermost, whatever their number is in a run; for each of them its
weights are loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from stepsim.design.dataflow.graph import Edge, Kernel, KernelLoop, Port, Window
from stepsim.design.dataflow.untyped import Untyped, fifo_between
from stepsim.design.operators.graph import Op, Operand, OperatorGraph, Tensor
from stepsim.design.operators.routed import ROUTED, RoutedRows, dynamic_dims, routed_rows
from stepsim.design.operators.types import points_of, tiled_axes
from stepsim.errors import CompileError, ITensorError
from stepsim.itensor import AffineMap, ITensor


def loops_of(op: Op) -> tuple[KernelLoop, ...]:
    """Loops of a tiled operator that take several turns, outermost first."""
    assert op.tiling is not None
    steps, sizes = op.tiling.tile, op.sizes
    kinds = {dim.name: dim.kind for dim in op.dims}
    return tuple(
        KernelLoop(dim, sizes[dim] // steps[dim], steps[dim], kinds[dim])
        for dim in op.tiling.order
        if sizes[dim] > steps[dim]
    )


def is_routed(kernel: Kernel) -> bool:
    """Whether the operator reads a routing, or rows that a routing chose."""
    return kernel.op.kind in ROUTED or isinstance(kernel.output.itensor, Untyped)


class RoutedKernels:
    """Makes the kernels of a graph's operators that involve routings."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.rows: Mapping[str, RoutedRows] = routed_rows(graph)
        self.dims: Mapping[str, str] = dynamic_dims(graph)

    def makes(self, op: Op) -> bool:
        """The operator is one of them."""
        return op.kind in ROUTED or op.name in self.dims

    def kernel(self, op: Op, number: int) -> Kernel:
        """The kernel of a tiled operator.

        Raises
        ------
        CompileError : its tiles or the order of its loops do not leave rows whole.
        """
        assert op.tiling is not None
        if op.name in self.dims:
            loops, inputs, output = self._through(op, self.dims[op.name])
        else:
            loops = loops_of(op)
            first = self._tensor(op.inputs[0])
            table = self._tensor(op.inputs[1])
            columns = 1 if op.kind == "combine" else first.shape[1]
            inputs = (
                _typed(first, columns),
                _typed(table, table.shape[1]),
                *(self._untyped(op, operand) for operand in op.inputs[2:]),
            )
            if op.kind == "dispatch":
                output = self._untyped(op, op.output)
            else:
                made = self._tensor(op.output)
                output = _typed(made, 1 if op.kind == "choose" else made.shape[1])
        return Kernel(op, loops, inputs, output, op.tiling.unroll, points_of(op), number)

    def _tensor(self, operand: Operand) -> Tensor:
        return self.graph.tensors[operand.tensor]

    def _step(self, tensor: str) -> int:
        """Rows of a tile of routed rows, which their producer decides."""
        maker = self.graph.producers[tensor]
        dim = self.dims.get(maker.name) or maker.attributes["row"]
        assert maker.tiling is not None
        return maker.tiling.tile[dim]

    def _untyped(self, op: Op, operand: Operand) -> Port:
        tensor, rows = self._tensor(operand), self.rows[operand.tensor]
        shape, expert = tensor.shape, rows.expert
        window: Window = tuple((0, size) for size in shape)
        if rows.expert is None and operand is not op.output:
            expert = operand.access[0].offset
            window, shape = ((expert, 1), *window[1:]), shape[1:]
        stream = Untyped.rows(shape, self._step(tensor.name), tensor.dtype, rows.routing, expert)
        return Port(tensor.name, window, stream)

    def _through(self, op: Op, dim: str) -> tuple[tuple[KernelLoop, ...], tuple[Port, ...], Port]:
        """Loops and ports of an operator between dispatch and combination."""
        assert op.tiling is not None
        tiling, step = op.tiling, op.tiling.tile[dim]
        turns = KernelLoop(dim, op.sizes[dim] // step, step, "parallel")
        inner = tuple(loop for loop in loops_of(op) if loop.dim != dim)
        moving = [loop.dim for loop in inner]
        around = tiling.order[: tiling.order.index(dim)]
        if set(around) & set(moving):
            raise CompileError(
                f"{op.title()}: the loop {dim} runs over rows that a routing chooses, so it must "
                f"be outermost; found {', '.join(tiling.order)}"
            )
        rows = self.rows[op.output.tensor]
        inputs = []
        for operand in op.inputs:
            if operand.tensor not in self.rows:
                inputs.append(self._again(op, operand, turns, inner, rows))
                continue
            _require_whole(op, operand, self._tensor(operand), dim, moving)
            port = self._untyped(op, operand)
            if port.itensor.element[-2] != turns.step:
                raise CompileError(
                    f"{op.title()}: '{operand.tensor}' comes as {port.itensor}, but the tile of "
                    f"{dim} is {turns.step}; use the same tile for all operators of "
                    f"'{rows.routing}'"
                )
            inputs.append(port)
        _require_whole(op, op.output, self._tensor(op.output), dim, ())
        return (turns, *inner), tuple(inputs), self._untyped(op, op.output)

    def _again(
        self,
        op: Op,
        operand: Operand,
        turns: KernelLoop,
        inner: Sequence[KernelLoop],
        rows: RoutedRows,
    ) -> Port:
        """What is read once for every tile of rows: typed in one turn, in all it is not."""
        if operand.tensor in self.graph.producers:
            raise CompileError(
                f"{op.title()}: '{operand.tensor}' is made on the chip and would be read once for "
                f"each tile of {rows}; make it an input, a weight or a state"
            )
        tensor = self._tensor(operand)
        element = tiled_axes(op, operand)
        loops = (turns, *inner)
        results, window = [], []
        for index, size in zip(operand.access, element, strict=True):
            coefficients = tuple(index.coefficient(loop.dim) for loop in loops)
            reach = sum(
                n * loop.step * (loop.trip - 1) for n, loop in zip(coefficients, loops, strict=True)
            )
            window.append((index.offset, size + reach))
            results.append((coefficients, 0))
        stream = Untyped(
            element, tuple(loop.trip for loop in loops), tuple(loop.step for loop in loops),
            AffineMap(tuple(results), len(loops)), tensor.dtype, 1, rows.routing, rows.expert,
        )  # fmt: skip
        return Port(tensor.name, tuple(window), stream)


def _typed(tensor: Tensor, columns: int) -> Port:
    """All of a matrix, row after row, so many columns at a time."""
    rows, width = tensor.shape
    loops = [(0, rows, 1), (1, width // columns, columns)]
    stream = ITensor.of_loops(tensor.shape, loops, (1, columns), tensor.dtype)
    return Port(tensor.name, ((0, rows), (0, width)), stream)


def _require_whole(
    op: Op, operand: Operand, tensor: Tensor, dim: str, moving: Sequence[str]
) -> None:
    """An operand has rows and columns, and a tile of it all columns."""
    last = operand.access[-1]
    whole = last.reach(op.sizes) == (0, tensor.shape[-1] - 1)
    whole = whole and prod(op.sizes[d] for d, _ in last.terms) == tensor.shape[-1]
    if operand.access[-2:][0].dim != dim or not whole or set(operand.dims) & set(moving):
        raise CompileError(
            f"{op.title()}: {operand} is not whole rows [{dim}, columns] of '{tensor.name}'; "
            "between dispatch and combine operators read and write whole rows, and tile columns "
            "only of the result of a product"
        )


def untyped_edge(producer: Kernel, consumer: Kernel, slot: int) -> Edge:
    """An edge from or to routed rows: a FIFO between two untyped ends.

    Raises
    ------
    CompileError : only one end is untyped, or the ends differ.
    """
    port, sent = consumer.inputs[slot], producer.output.itensor
    target = port.itensor
    where = f"{consumer.op.title()}: operand {slot}, '{port.tensor}'"
    if not (isinstance(sent, Untyped) and isinstance(target, Untyped)):
        raise CompileError(
            f"{where}, is sent as {sent} and read as {target}; only dispatch and combine "
            "convert between typed and untyped streams"
        )
    source = sent if sent.expert is not None else sent.of_expert(target.expert)
    try:
        by = fifo_between(source, target)
    except ITensorError as error:
        raise CompileError(f"{where}: {error}") from None
    return Edge(port.tensor, producer.name, consumer.name, slot, source, by)
