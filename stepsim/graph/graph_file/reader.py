"""``st.load_graph``: a file of the public graph format as a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from stepsim.arguments import flag, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, GraphFileError, StepSimError
from stepsim.graph.graph_file.building import Building, Settings
from stepsim.graph.graph_file.element_types import check_type, tile_in
from stepsim.graph.graph_file.messages import Schema, chosen, schema_of
from stepsim.graph.graph_file.nodes import Edge, Node, build_order, nodes_of
from stepsim.graph.graph_file.numbers import GENERATIONS, numbers_of
from stepsim.graph.graph_file.roles import READ_BUFFERS, type_roles
from stepsim.graph.graph_file.rows import ROWS
from stepsim.graph.graph_file.side_arrays import SideArrays
from stepsim.graph.ops.feedback import Feedback, FeedbackSource, feedback
from stepsim.graph.ops.sources import consume
from stepsim.graph.programs.program import Program
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.stream import Stream

protobuf = deferred("google.protobuf")

_MOST_BYTES: Final = 256 * 2**20
_PASS_ON: Final = ("Broadcast", "Flatten", "Promote", "Parallelize", "RepeatStatic", "ExpandRef")
"""Operators whose outputs have the width of their input's selectors."""


def load_graph(
    source: str | Path | bytes,
    *,
    arrays: Mapping[Any, Any] | str | Path | None = None,
    routing: Any = None,
    numbers: Mapping[str, Any] | str | Path | None = None,
    generation: str | None = None,
    fifo_depth: int | None = 2,
    depths: Mapping[int, int] | None = None,
    mock_bf16: bool = False,
    skip_unknown: bool = False,
) -> Program:
    """Read a program from the public graph format (``graph.pb``).

    Operators are in the order of the file, so that memory ports and times are those of the graph.
    Depths of FIFOs, memory and on-chip bandwidth are not in the format: they come from the machine
    and from ``fifo_depth``. Needs ``pip install 'stepsim[graph]'``.

    Parameters
    ----------
    source : a file, or its bytes.
    arrays : selectors ``[..., width]`` of 0 and 1, integers and values of tensors, by path, name or
        id of the operator that reads them, or a folder or ``.npz`` file of them; by default files
        next to the graph are read. A ``st.spec`` gives only a shape: the program can then be
        measured, but not run. Values of tensors must be given by name.
    routing : expert indices ``[tokens, k]`` for all selectors that have no array.
    numbers : numbers of operators, types and functions that replace or extend those of the table: a
        mapping of groups, or a YAML file.
    generation : ``A`` or ``B``; by default ``A`` if no type of the file states a shape.
    fifo_depth : tokens that a FIFO holds, as in :class:`Program`.
    depths : depths of all output FIFOs of an operator, by its id.
    mock_bf16 : floats of 4 bytes represent 2 bytes, an option of the public simulator.
    skip_unknown : leave out fields that the table does not have.

    Raises
    ------
    GraphFileError : the file is damaged, has numbers that the table does not have, or operators
        that do not fit together; the message names the operator and the field.
    ArgError : an argument is wrong, or no operator reads an array.

    Example
    -------
    >>> import stepsim as st
    >>> with st.Program("copy") as program:
    ...     st.linear_store(st.linear_load(st.spec(64, 64), (16, 64)), "out")
    LinearStore(...)
    >>> again = st.load_graph(program.to_graph(mock_bf16=True), mock_bf16=True)
    >>> st.simulate(again).cycles == st.simulate(program).cycles
    True
    """
    data, where, folder = _content(source)
    name = Path(where).stem if folder is not None else "graph"
    skip_unknown = flag("load_graph: skip_unknown", skip_unknown)
    schema = schema_of(numbers_of(generation or _generation(data, where), numbers))
    graph = schema.parse(data, where)
    if not skip_unknown:
        _check_top(graph, where)
    nodes = nodes_of(graph, schema, ROWS, where, skip_unknown)
    settings = Settings(
        SideArrays(folder, arrays),
        _routing(routing),
        flag("load_graph: mock_bf16", mock_bf16),
        nodes,
    )
    program = Program(graph.name or name, fifo_depth=fifo_depth)
    program.mock_bf16 = settings.mock_bf16
    with program:
        _Reading(program, nodes, schema, settings, _depths(depths)).build(where)
    settings.arrays.check_used("load_graph")
    if settings.routes_nothing:
        raise ArgError(
            "load_graph: routing: no SelectGen of this graph is without an array of its own, so "
            "that the indices have no effect; leave them out"
        )
    return program


def _content(source: Any) -> tuple[bytes, str, Path | None]:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "graph", None
    if not isinstance(source, str | Path):
        raise GraphFileError(f"load_graph: expected a path or bytes, found {shown(source)}")
    path = Path(source)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GraphFileError(
            f"{str(path)!a:.200}: cannot be read: {reason}; name a graph file"
        ) from error
    if len(data) > _MOST_BYTES:
        raise GraphFileError(f"{path}: expected at most {_MOST_BYTES:,} bytes, found more")
    return data, str(path), path.parent


def _routing(routing: Any) -> Any:
    if routing is None:
        return None
    try:
        array = np.asarray(routing)
    except ValueError:
        raise GraphFileError(
            "load_graph: routing: the rows of indices [tokens, k] differ in length"
        ) from None
    if array.ndim != 2 or array.dtype.kind not in "iu" or not array.size:
        raise GraphFileError(
            f"load_graph: routing: expected indices [tokens, k], found an array of {array.dtype} "
            f"of shape {list(array.shape)}"
        )
    return array


def _depths(depths: Any) -> Mapping[int, int]:
    if depths is not None and not isinstance(depths, Mapping):
        raise GraphFileError(
            "load_graph: depths: expected a mapping from ids of operators to tokens, found "
            f"{shown(depths)}"
        )
    return depths or {}


def _generation(data: bytes, where: str) -> str:
    """``A`` if every type of the file is an empty message."""
    schema = schema_of(numbers_of("B"))
    graph = schema.parse(data, where)
    stated = False
    for one in graph.operators:
        kind = chosen(one)
        if kind is None:
            return GENERATIONS[-1]
        if one.stream_shape:
            return GENERATIONS[-1]
        message = getattr(one, kind)
        for name, _, _ in type_roles("B", kind):
            if not message.HasField(name):
                continue
            stated = True
            if not _is_empty(getattr(message, name).SerializeToString()):
                return GENERATIONS[-1]
    return "A" if stated else "B"


def _is_empty(type_: bytes) -> bool:
    """Whether a type of a file is one of generation A: its key and length 0, or a buffer."""
    return (len(type_) <= 3 and type_[-1:] in (b"", b"\0")) or type_.startswith(b"\x2a\x02")


def _check_top(graph: Any, where: str) -> None:
    unknown = sorted({one.field_number for one in protobuf.unknown_fields.UnknownFieldSet(graph)})
    if unknown:
        numbers = ", ".join(map(str, unknown))
        raise GraphFileError(
            f"{where}: the graph has unknown fields {numbers}; is it a graph file? Pass "
            "skip_unknown=True to leave them out"
        )


class _Reading:
    """The program under construction."""

    def __init__(
        self,
        program: Program,
        nodes: Sequence[Node],
        schema: Schema,
        settings: Settings,
        depths: Mapping[int, int],
    ) -> None:
        self.program = program
        self.nodes = nodes
        self.schema = schema
        self.settings = settings
        self.depths = depths
        self.made: dict[int, Sequence[Stream]] = {}
        self.operators: dict[int, list[int]] = {}
        self.open: list[tuple[Feedback, Node, Edge]] = []
        self.readers: dict[int, list[Node]] = {}
        for node in nodes:
            for edge in node.inputs:
                self.readers.setdefault(edge.source, []).append(node)

    def build(self, where: str) -> None:
        unknown = set(self.depths) - {node.id for node in self.nodes}
        if unknown:
            raise GraphFileError(
                f"load_graph: depths: {where} has no operator {shown(min(unknown))}"
            )
        order, closing = build_order(self.nodes)
        for position in order:
            node = self.nodes[position]
            if node.kind == "SelectGen" and self._first_reader(node) is not None:
                continue  # its reader determines shape and width
            self._make(node, position in closing)
        for loop, node, edge in self.open:
            stream = self.made[edge.source][max(edge.output, 0)]
            with _Located(node):
                b = self._building(node)
                b.agree(loop.shape, stream.shape)
                loop.connect(stream)
        extra = self._unread()
        placed = [i for node in self.nodes for i in self.operators[node.position]]
        self.program.place([*placed, *extra])

    def _first_reader(self, node: Node) -> Node | None:
        """The operator that reads these selectors directly."""
        reader = self.readers[node.position][0]
        kinds = ("FlatPartition", "FlatReassemble")
        return (
            reader if reader.kind in kinds and reader.inputs[-1].source == node.position else None
        )

    def _make(self, node: Node, closes: bool) -> None:
        with _Located(node):
            xs = [self._input(node, edge, closes) for edge in node.inputs[:-1]]
            for edge in node.inputs[-1:]:
                source = self.nodes[edge.source]
                if source.kind == "SelectGen" and edge.source not in self.made:
                    self._make_selectors(source, node, xs)
                xs.append(self._input(node, edge, closes))
            before = len(self.program.operators)
            outputs = ROWS[node.kind].read(self._building(node), node.message, xs)
            self._register(node, before, outputs)
            self._check_types(node, xs, outputs)

    def _make_selectors(self, node: Node, reader: Node, xs: Sequence[Stream]) -> None:
        dims: tuple[Dim, ...] | None = None
        if reader.kind == "FlatPartition":
            dims = xs[0].shape[: max(len(xs[0].shape) - reader.message.partition_rank, 0)]
        with _Located(node):
            before = len(self.program.operators)
            outputs = ROWS[node.kind].read(self._building(node, dims), node.message, ())
            self._register(node, before, outputs)
            self._check_types(node, (), outputs)

    def _building(self, node: Node, dims: Sequence[Dim] | None = None) -> Building:
        width = self._width(node) if node.kind == "SelectGen" else None
        return Building(self.program, node, self.settings, width, dims)

    def _register(self, node: Node, before: int, outputs: Sequence[Stream]) -> None:
        ops = self.program.operators
        self.operators[node.position] = [
            i for i in range(before, len(ops)) if not isinstance(ops[i], FeedbackSource)
        ]
        self.made[node.position] = outputs
        if node.id in self.depths:
            for stream in outputs:
                self.program.set_depth(stream, self.depths[node.id])

    def _input(self, node: Node, edge: Edge, closes: bool) -> Stream:
        if edge.source in self.made:
            return self.made[edge.source][max(edge.output, 0)]
        assert closes
        loop = self._loop(node, edge)
        self.open.append((loop, node, edge))
        return loop

    def _loop(self, node: Node, edge: Edge) -> Feedback:
        """A stream that is connected later: its type is that of the merge, its shape the
        producer's."""
        source = self.nodes[edge.source]
        message = node.message
        tile = tile_in(message.dtype if node.kind == "EagerMerge" else message.input_dtype)
        if tile is None or source.shape is None:
            raise GraphFileError(
                f"{node.where}: {edge.field} closes a cycle, for which type and shape of the "
                f"stream must be known: '{source.name}' needs a stream_shape, and the type of "
                "this operator a tile shape (generation B)"
            )
        tile = replace(tile, dtype=self._building(node).mocked(tile.dtype))
        dims = [Dim(d) if isinstance(d, int) else self.program.dim("loop") for d in source.shape]
        return feedback(tile, dims)

    def _width(self, node: Node) -> int | None:
        """Width of selectors, from the operators that read them."""
        todo, seen = [node.position], {node.position}
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                if reader.kind == "FlatPartition" and reader.inputs[-1].source in seen:
                    return int(reader.message.num_consumers)
                if reader.kind == "FlatReassemble" and reader.inputs[-1].source in seen:
                    return len(reader.inputs) - 1
                if reader.kind in _PASS_ON and reader.position not in seen:
                    seen.add(reader.position)
                    todo.append(reader.position)
        return None

    def _check_types(self, node: Node, xs: Sequence[Stream], outputs: Sequence[Stream]) -> None:
        generation = self.schema.numbers.generation
        for name, side, number in type_roles(generation, node.kind):
            streams = xs if side == "in" else outputs
            message = getattr(node.message, name)
            if node.kind in READ_BUFFERS and chosen(message) == "Buffer":
                streams = xs  # earlier versions of stepsim stated the buffers here
            if streams:
                check_type(message, streams[number].type, f"{node.where}: {name}")

    def _unread(self) -> list[int]:
        """Sinks of acknowledgments that no operator of the file reads."""
        found = []
        for node in self.nodes:
            if node.kind == "RandomOffChipStore" and node.position not in self.readers:
                consume(self.made[node.position][0], label=f"{node.name}.ack")
                found.append(len(self.program.operators) - 1)
        return found


class _Located:
    """Add the operator of the file to errors raised inside."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StepSimError) and not isinstance(error, GraphFileError):
            raise GraphFileError(f"{self.node.where}: {error}") from error
