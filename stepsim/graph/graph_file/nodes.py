"""The operators of a graph file and the edges between them, checked before anything is built."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.fields import fields_of
from stepsim.graph.graph_file.messages import Schema, chosen
from stepsim.graph.graph_file.roles import count_outputs, inputs_of

_NEEDED: Final = ("ElementFunction", "MapAccumFunction", "AccumFunction")
_CHOICES: Final = (*_NEEDED, "InitFunction", "DataType")
_MERGES: Final = ("EagerMerge", "FlatReassemble")
_SHOWN: Final = 5
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class Edge:
    """One input of an operator.

    Attributes
    ----------
    field : name of the field that names the producer.
    source : position of the producer in the file.
    output : number of its output.
    """

    field: str
    source: int
    output: int


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the file.

    Attributes
    ----------
    where : its name in errors.
    kind : name of the operator in the format.
    shape : dims of the stream as stated: an int, or the text of a dynamic dim. None: not stated.
    outputs : number of output streams.
    """

    position: int
    id: int
    name: str
    kind: str
    where: str
    message: Any
    shape: tuple[int | str, ...] | None
    inputs: tuple[Edge, ...]
    outputs: int


def nodes_of(
    graph: Any, schema: Schema, known: Collection[str], where: str, skip_unknown: bool
) -> list[Node]:
    """The operators of a graph, in the order of the file; ``known`` are those that can be built.

    Raises
    ------
    GraphFileError : operators or fields are unknown, ids are duplicated, or edges lead nowhere.
    """
    if not graph.operators:
        raise GraphFileError(f"{where}: the graph has no operators; is it a graph file?")
    ids: dict[int, int] = {}
    titles = []
    for position, one in enumerate(graph.operators):
        title = f"{where}: operator '{_short(one.name)}' (id {one.id})"
        if one.id in ids:
            raise GraphFileError(
                f"{title}: id {one.id} is used twice, also for "
                f"'{_short(graph.operators[ids[one.id]].name)}'"
            )
        ids[one.id] = position
        titles.append(title)
    found = []
    for position, (one, title) in enumerate(zip(graph.operators, titles, strict=True)):
        kind = _kind(one, schema, known, title, skip_unknown)
        message = getattr(one, kind)
        generation = schema.numbers.generation
        if one.parallel_factor > 1:
            raise GraphFileError(
                f"{title}: parallel_factor is {one.parallel_factor}; no rule is known for it that "
                "stepsim could follow, expected 0 or 1"
            )
        found.append(
            Node(
                position, one.id, one.name, kind, title, message, _shape(one),
                _edges(message, kind, generation, ids, title), count_outputs(kind, message),
            )
        )  # fmt: skip
    _check_edges(found)
    return found


def _short(name: str) -> str:
    return name if 0 < len(name) <= _LONGEST else f"{name[:_LONGEST]}..." if name else "?"


def _kind(one: Any, schema: Schema, known: Collection[str], title: str, skip_unknown: bool) -> str:
    kind = chosen(one)
    unknown = schema.unknown(one, "Operation")
    if kind is None:
        numbers = ", ".join(unknown) or "none"
        raise GraphFileError(
            f"{title}: its operator is not in generation {schema.numbers.generation}; it has the "
            f"unknown field numbers {numbers}. State the number in numbers={{'operators': {{name: "
            "number}}"
        )
    if kind not in known:
        raise GraphFileError(f"{title}: stepsim has no {kind}; known are {', '.join(known)}")
    inside = getattr(one, kind)
    for field in fields_of(schema.numbers.generation, kind):
        if field.type not in _CHOICES:
            continue
        part = getattr(inside, field.name)
        if chosen(part) is not None:
            continue
        numbers = ", ".join(schema.unknown(part, field.type))
        if numbers or field.type in _NEEDED or field.name == "init_func":
            what = f"number {numbers}, which is not in the table" if numbers else "none"
            raise GraphFileError(
                f"{title}: {field.name} of {kind}: found {what}; state the number in numbers=, or "
                "correct the file"
            )
    if unknown and not skip_unknown:
        raise GraphFileError(
            f"{title}: unknown fields {'; '.join(unknown[:_SHOWN])}. The field numbers may be of "
            "another generation, or of a type or function whose number is not in the table: state "
            "it in numbers=, or pass skip_unknown=True to leave unknown fields out"
        )
    return kind


def _shape(one: Any) -> tuple[int | str, ...] | None:
    if not one.stream_shape:
        return None
    return tuple(
        dim.static if dim.HasField("static") or not dim.dynamic else dim.dynamic
        for dim in one.stream_shape
    )


def _edges(
    message: Any, kind: str, generation: str, ids: Mapping[int, int], title: str
) -> tuple[Edge, ...]:
    found = []
    for one in inputs_of(generation, kind):
        if one.is_list:
            sources = list(getattr(message, one.id))
            outputs = list(getattr(message, one.output))
            if len(outputs) != len(sources) or not sources:
                raise GraphFileError(
                    f"{title}: {one.id} has {len(sources)} entries and {one.output} "
                    f"{len(outputs)}; expected equally many, at least one"
                )
            both = enumerate(zip(sources, outputs, strict=True))
            pairs = [(f"{one.id}[{i}]", source, output) for i, (source, output) in both]
        elif one.optional and not message.HasField(one.id):
            continue
        else:
            stated = getattr(message, one.output) if message.HasField(one.output) else -1
            pairs = [(one.id, getattr(message, one.id), stated)]
        for field, source, output in pairs:
            if source not in ids:
                raise GraphFileError(
                    f"{title}: {field} names operator {source}, which the file does not have"
                )
            found.append(Edge(field, ids[source], output))
    return tuple(found)


def _check_edges(nodes: Sequence[Node]) -> None:
    """Check that every output exists and has one reader."""
    readers: dict[tuple[int, int], Node] = {}
    for node in nodes:
        for edge in node.inputs:
            source = nodes[edge.source]
            title = f"{node.where}: {edge.field} reads '{_short(source.name)}' (id {source.id})"
            if source.outputs == 0:
                raise GraphFileError(f"{title}, a {source.kind}, which has no output")
            if edge.output < 0 and source.outputs > 1:
                raise GraphFileError(
                    f"{title} without the number of an output; it has {source.outputs}"
                )
            output = max(edge.output, 0)
            if output >= source.outputs:
                raise GraphFileError(
                    f"{title}, output {output}; it has {source.outputs}, numbered from 0"
                )
            before = readers.get((edge.source, output))
            if before is not None:
                raise GraphFileError(
                    f"{title}, output {output}, which '{_short(before.name)}' (id {before.id}) "
                    "reads too; copy it by a Broadcast"
                )
            readers[edge.source, output] = node
    for node in nodes:
        if node.kind == "RandomOffChipStore":
            continue  # acknowledgments need no reader
        unread = next((i for i in range(node.outputs) if (node.position, i) not in readers), None)
        if unread is not None:
            raise GraphFileError(
                f"{node.where}: no operator reads output {unread} of {node.outputs}; add a "
                "ConsumerContext"
            )


def build_order(nodes: Sequence[Node]) -> tuple[list[int], set[int]]:
    """Positions in topological order, and the merges that close cycles.

    Inputs of such a merge may come after it.

    Raises
    ------
    GraphFileError : a cycle does not pass through a merge, so it could never start.
    """
    readers: dict[int, list[int]] = {}
    waits = [0] * len(nodes)
    for node in nodes:
        waits[node.position] = len(node.inputs)
        for edge in node.inputs:
            readers.setdefault(edge.source, []).append(node.position)
    ready = [n.position for n in nodes if not n.inputs]
    heapq.heapify(ready)
    order: list[int] = []
    done: set[int] = set()
    closing: set[int] = set()
    while len(order) < len(nodes):
        if not ready:
            merge = _cycle_start(nodes, done)
            closing.add(merge)
            ready.append(merge)
        position = heapq.heappop(ready)
        if position in done:
            continue
        done.add(position)
        order.append(position)
        for reader in readers.get(position, ()):
            waits[reader] -= 1
            if waits[reader] == 0 and reader not in done:
                heapq.heappush(ready, reader)
    return order, closing


def _cycle_start(nodes: Sequence[Node], done: set[int]) -> int:
    left = [n for n in nodes if n.position not in done]
    on_cycle = _on_cycles(left, done)
    for kind in _MERGES:
        for node in left:
            if node.kind == kind and node.position in on_cycle:
                return node.position
    names = [_short(nodes[p].name) for p in sorted(on_cycle)]
    more = ", ..." if len(names) > _SHOWN else ""
    first = nodes[min(on_cycle)]
    raise GraphFileError(
        f"{first.where}: the operators {', '.join(names[:_SHOWN])}{more} wait for each other in a "
        "cycle that no merge opens; a cycle of STeP passes an EagerMerge or a FlatReassemble"
    )


def _on_cycles(left: Sequence[Node], done: set[int]) -> set[int]:
    """Operators that are on a cycle: strongly connected components of more than one operator, or
    self-loops."""
    sources = {n.position: [e.source for e in n.inputs if e.source not in done] for n in left}
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_: set[int] = set()
    found: set[int] = set()
    work: list[tuple[int, Iterator[int]]] = []

    def enter(at: int) -> None:
        index[at] = low[at] = len(index)
        stack.append(at)
        open_.add(at)
        work.append((at, iter(sources[at])))

    for root in sources:
        if root not in index:
            enter(root)
        while work:
            at, rest = work[-1]
            following = next(rest, None)
            if following is not None:
                if following not in index:
                    enter(following)
                elif following in open_:
                    low[at] = min(low[at], index[following])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[at])
            if low[at] == index[at]:
                part = [stack.pop()]
                while part[-1] != at:
                    part.append(stack.pop())
                open_.difference_update(part)
                if len(part) > 1 or at in sources[at]:
                    found.update(part)
    return found
