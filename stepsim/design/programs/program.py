"""From a dataflow graph to programs, one for each group: ``program_of`` and ``programs_of``.

Groups run one after another, since only one group is on the chip at a time: an earlier group stores
what a later one loads. Within one program a load could only wait for the acknowledgments of a
store, and would still read the values that the tensor had before the program started. So each group
is a separate program, their cycles add up, and the chip must fit the largest of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.design.dataflow.buffer_walks import tile_of
from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel, Window
from stepsim.design.dataflow.kernels import parts_sent
from stepsim.design.dataflow.routed_kernels import is_routed
from stepsim.design.dataflow.untyped import Untyped
from stepsim.design.operators.given import values_of
from stepsim.design.operators.graph import Op
from stepsim.design.operators.routed import ROUTED, bounds_of, routing_of
from stepsim.design.operators.routed_values import indices_of, shaped
from stepsim.design.passes.memory.layout import (
    laid_out,
    relaid,
    stored_shape,
    stored_tile,
    tile_walk,
)
from stepsim.design.programs.group_program import Array, GroupProgram
from stepsim.design.programs.kernel_streams import gathered, output_of
from stepsim.design.programs.routed_streams import routed_outputs
from stepsim.design.programs.streams import converted, cut, joined, regrouped
from stepsim.dtypes import dtype_of
from stepsim.errors import CompileError
from stepsim.graph import (
    Program,
    Routing,
    Stream,
    TensorSpec,
    broadcast,
    fn,
    linear_load,
    linear_store,
    map as map_,
    partition,
    routing,
    selector,
    spec,
)
from stepsim.typed import typed


@typed
def program_of(graph: DataflowGraph, values: Mapping[str, Any] | None = None) -> Program:
    """The program of a dataflow graph of one group.

    Parameters
    ----------
    values : arrays of inputs, weights and states by name, which make the program one that
        ``run_functional`` evaluates; without them it can be measured and simulated.

    Raises
    ------
    CompileError : the graph has several groups; ``programs_of`` makes a program of each.
    """
    groups = graph.groups
    if len(groups) != 1:
        raise CompileError(
            f"program_of: {graph.name} has {len(groups)} groups, which run one after another; make "
            "a program of each with programs_of, or fuse the kernels into one group"
        )
    return programs_of(graph, values)[0].program


@typed
def programs_of(
    graph: DataflowGraph, values: Mapping[str, Any] | None = None
) -> tuple[GroupProgram, ...]:
    """A program for every group, in the order in which they run.

    ``values`` are as in :func:`program_of`; those of tensors that an earlier group stores are only
    known when it has run, and are passed to ``run_functional`` with :meth:`GroupProgram.tensors`.

    Raises
    ------
    CompileError : the kernels have no DMAs yet, or one cannot be made of operators.
    """
    if not graph.dmas:
        raise CompileError(
            f"programs_of: {graph.name} has no loads and stores; put its kernels into groups with "
            "fuse_kernels first"
        )
    return tuple(_Builder(graph, kernels, values or {}).built() for kernels in graph.groups)


class _Builder:
    """One group under construction."""

    def __init__(
        self, graph: DataflowGraph, kernels: tuple[Kernel, ...], values: Mapping[str, Any]
    ) -> None:
        self.graph, self.kernels, self.values = graph, kernels, values
        self.group = kernels[0].group
        self.dmas = [dma for dma in graph.dmas if dma.group == self.group]
        self.edges = [e for e in graph.inner_edges if graph.kernel(e.producer).group == self.group]
        self.feeds: dict[tuple[str, int], Stream] = {}
        self.loads: dict[str, Dma] = {}
        self.stores: dict[str, Dma] = {}
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, str] = {}
        self.indices: dict[str, Array] = {}
        self.routings: dict[str, Routing] = {}
        self.held: dict[str, Stream] = {}
        self.again: dict[tuple[str, int], tuple[Dma, TensorSpec]] = {}

    def built(self) -> GroupProgram:
        several = len(self.graph.groups) > 1
        name = f"{self.graph.name} group {self.group}" if several else self.graph.name
        with Program(name) as program:
            for number, dma in enumerate(self.dmas):
                if dma.direction == "load":
                    self._load(dma, number)
            for kernel in self.kernels:
                self._kernel(kernel)
        return GroupProgram(
            self.group, program, self.loads, self.stores, self.streams, self.tables, self.indices,
            self.routings, self.held, self.graph.operators.tensors,
        )  # fmt: skip

    def _load(self, dma: Dma, number: int) -> None:
        name = f"{dma.tensor}#{number}"
        self.loads[name] = dma
        label = f"load_{dma.tensor}"
        tensor = self.graph.operators.tensors[dma.tensor]
        data = None
        if dma.tensor in self.values:
            given = values_of(dma.tensor, self.values[dma.tensor], tensor.shape)
            data = laid_out(dma, given).astype(np.float32)
        stored = TensorSpec(stored_shape(dma), dtype_of(dma.walk.dtype), name, data)
        if isinstance(dma.walk, Untyped):  # The kernel loads it, for every tile of its rows.
            self.again.update(dict.fromkeys(dma.ports, (dma, stored)))
            return
        x = self._walked(dma, stored)
        if dma.converter is not None:
            x = converted(x, dma.converter, label)
        for port, stream in zip(dma.ports, _forked(x, len(dma.ports), label), strict=True):
            target = self.graph.kernel(port[0]).inputs[port[1]].itensor
            depth = target.tokens if dma.depth is None else dma.depth
            self._sized(f"{dma.name}->{port[0]}.{port[1]}", stream, depth)
            self.feeds[port] = stream

    def _walked(self, dma: Dma, tensor: TensorSpec) -> Stream:
        """The tiles of a load, in the order of its walk."""
        label, tile, stored = f"load_{dma.tensor}", tile_of(dma.walk.element), stored_tile(dma)
        if not dma.packed:
            shape, stride = tile_walk(dma)
            return linear_load(tensor, tile, shape=shape, stride=stride, label=label)
        x = linear_load(
            tensor,
            (dma.burst * stored[0], stored[1]),
            shape=[dma.rounds, dma.tiles // dma.burst],
            stride=[0, 1],
            label=label,
        )
        if dma.burst > 1:
            x = x.flat_map(fn.unpack_rows(chunk=stored[0]), label=label)
        return x if stored == tile else map_(relaid(stored, tile), x, label=label)

    def _sized(self, name: str, x: Stream, depth: int) -> None:
        """A stream whose FIFO has the stated depth, or one at which nothing waits for room."""
        self.streams[name] = x.with_depth(depth)

    def _kernel(self, kernel: Kernel) -> None:
        if is_routed(kernel):
            self._routed(kernel)
            return
        if kernel.op.kind == "gather":
            made = self._gather(kernel)
        else:
            inputs = [self.feeds.pop((kernel.name, slot)) for slot in range(len(kernel.inputs))]
            made = output_of(kernel, inputs)
        self._sent(kernel, made)

    def _routed(self, kernel: Kernel) -> None:
        """A kernel of rows that a routing chooses."""
        op = kernel.op
        streams = {
            slot: self.feeds.pop((kernel.name, slot))
            for slot in range(len(kernel.inputs))
            if (kernel.name, slot) in self.feeds
        }
        table = self._routing(op) if op.kind in ROUTED else None
        made = routed_outputs(kernel, streams, table, self.again)
        self.held.update(made.held)
        for expert, x in made.streams.items():
            if expert is None:
                self._sent(kernel, x)
                continue
            edges = [
                edge
                for edge in self.edges
                if edge.producer == kernel.name
                and isinstance(edge.source, Untyped)
                and edge.source.expert == expert
            ]
            if edges:
                self._branch(kernel, edges, x)
            else:
                x.consume()

    def _routing(self, op: Op) -> Routing:
        """The routing of a program that stands for an input of the model."""
        name = routing_of(op)
        if name not in self.routings:
            experts, most = bounds_of(self.graph.operators, name)
            shape = self.graph.operators.tensors[name].shape
            indices: Any = spec(*shape)
            if name in self.values:
                given = shaped(name, self.values[name], shape, op.title())
                indices = indices_of(name, given, experts, op.title())
            self.routings[name] = routing(indices, experts, max_rows=most)
        return self.routings[name]

    def _sent(self, kernel: Kernel, made: Stream) -> None:
        """Connect the output of a kernel to stores and, by FIFO or converter, to its readers."""
        edges = [edge for edge in self.edges if edge.producer == kernel.name]
        stores = [
            dma
            for dma in self.dmas
            if dma.direction == "store" and dma.tensor == kernel.output.tensor
        ]
        windows: dict[Window, dict[object, list[Edge]]] = {}
        for edge in edges:
            key = edge.name if edge.shared is None else edge.shared
            window = self.graph.kernel(edge.consumer).inputs[edge.slot].window
            windows.setdefault(window, {}).setdefault(key, []).append(edge)
        whole = kernel.output.window
        readers = list(windows.pop(whole, {}).values())
        streams = iter(_forked(made, len(readers) + len(stores) + bool(windows), kernel.name))
        for dma in stores:
            self._store(dma, next(streams))
        for branch in readers:
            self._branch(kernel, branch, next(streams))
        if windows:
            self._parts(kernel, windows, next(streams))

    def _gather(self, kernel: Kernel) -> Stream:
        """Rows of a table by index. Which they are is in the program, as all addresses are."""
        table, numbers = (self.graph.operators.tensors[x.tensor] for x in kernel.op.inputs)
        if numbers.name in self.values:
            indices = np.asarray(self.values[numbers.name]).reshape(numbers.shape)
        else:
            # Rows in turn: no time depends on which they are as long as the memory is even.
            indices = np.arange(numbers.elements).reshape(numbers.shape) % table.shape[0]
        self.indices[numbers.name] = indices
        data = self.values.get(table.name)
        if data is not None:
            data = np.asarray(data, np.float32).reshape(table.shape)
        name = f"{table.name}#{kernel.name}"
        self.tables[name] = table.name
        spec = TensorSpec(table.shape, dtype_of(table.dtype), name, data)
        return gathered(kernel, spec, indices)

    def _parts(
        self, kernel: Kernel, windows: dict[Window, dict[object, list[Edge]]], x: Stream
    ) -> None:
        """Streams of parts of a tensor: each token goes to the windows that it lies in."""
        sent = parts_sent(kernel, windows)
        offsets = sent.offsets()
        flags = np.stack([_in_window(offsets, sent.element, window) for window in windows], axis=1)
        label = f"{kernel.name}_parts"
        # A last output takes what nobody reads.
        rest = np.logical_not(np.any(flags, axis=1, keepdims=True))
        wanted = np.concatenate([flags, rest], axis=1) if rest.any() else flags
        x = cut(x, tile_of(kernel.output.itensor.element), tile_of(sent.element), label)
        flat = regrouped(x, (sent.tokens,), label)
        parts = partition(flat, selector(wanted.astype(np.int64), label=label), label=label)
        if rest.any():
            parts.pop().consume()
        for part, readers, count in zip(parts, windows.values(), flags.sum(axis=0), strict=True):
            known = part.assume_shape(int(count))
            streams = _forked(known, len(readers), label)
            for branch, stream in zip(readers.values(), streams, strict=True):
                self._branch(kernel, branch, stream)

    def _branch(self, kernel: Kernel, edges: list[Edge], x: Stream) -> None:
        """A converter, or a FIFO, and the consumers that read its stream."""
        first = edges[0]
        label = f"{kernel.name}_to_{first.consumer}"
        if not first.matched:
            before = first.depth_before
            self._sized(
                f"{first.name}/before", x, first.source.tokens if before is None else before
            )
            x = converted(x, first.converter, label)
        for edge, stream in zip(edges, _forked(x, len(edges), label), strict=True):
            self.feeds[edge.consumer, edge.slot] = self._passed(edge, stream, label)

    def _passed(self, edge: Edge, x: Stream, label: str) -> Stream:
        """What comes out of the FIFO to the consumer, through which tiles may go as vectors."""
        tile = tile_of(edge.target.element)
        vector = edge.vector or tile
        pieces = tile[0] // vector[0], tile[1] // vector[1]
        if vector != tile:
            x = cut(x, tile, vector, label)
        self._sized(edge.name, x, edge.fifo_depth)
        if vector == tile:
            return x
        inner = [n for n in pieces if n > 1]
        return joined(regrouped(x, (edge.target.tokens, *inner), label), tile, vector, label)

    def _store(self, dma: Dma, x: Stream) -> None:
        label = f"store_{dma.tensor}"
        stored, tile = stored_tile(dma), tile_of(dma.walk.element)
        if stored != tile:
            x = map_(relaid(tile, stored), x, label=label)
        linear_store(regrouped(x, (dma.walk.tokens,), label), dma.tensor, label=label)
        self.stores[dma.tensor] = dma


def _forked(x: Stream, readers: int, label: str) -> list[Stream]:
    """A stream for each reader, so that each FIFO has a separate depth."""
    return [x] if readers == 1 else list(broadcast(x, readers, label=label))


def _in_window(offsets: Array, element: tuple[int, ...], window: Window) -> Array:
    """Which tokens lie in a part of the tensor."""
    starts = np.array([start for start, _ in window])
    ends = starts + np.array([extent for _, extent in window])
    inside: Array = np.logical_and(offsets >= starts, offsets + np.array(element) <= ends)
    return np.asarray(inside.all(axis=1))
