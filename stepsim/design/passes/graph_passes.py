"""Passes from operator graph to operator graph that keep all values.

Print a graph before and after with :meth:`OperatorGraph.text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepsim.design.operators.expressions import Expr, substituted, times_read
from stepsim.design.operators.graph import Index, Op, Operand, OperatorGraph
from stepsim.design.operators.routed import ROUTED, dynamic_dims, routed_rows
from stepsim.design.operators.views import substituted_index
from stepsim.typed import typed

_NEEDED = {"concat": ("dim",), "causal_mask": ("key",), "scan": ("along",)}
"""Attributes that name dims which a structured operator has whatever their size."""


@typed
def fold_unit_dims(graph: OperatorGraph) -> OperatorGraph:
    """Drop dims of size 1 from operators, and axes of size 1 from tensors.

    Tensors from and to off chip lose them too; :meth:`OperatorGraph.evaluate` takes their arrays
    with or without. A reduction over one position becomes element-wise.
    """
    kept = {(op.inputs[0].tensor, op.attributes["axis"]) for op in graph.ops if op.kind == "gather"}
    for op in graph.ops:
        for name in _needed(op):
            places = enumerate(op.output.access)
            kept |= {(op.output.tensor, axis) for axis, at in places if at.coefficient(name)}
        if op.kind in ROUTED:
            ends = (*op.inputs, op.output)
            kept |= {(end.tensor, axis) for end in ends for axis in range(len(end.access))}
    rows = dynamic_dims(graph)
    kept |= {(name, axis) for name in routed_rows(graph) for axis in range(_rank(graph, name))}
    axes = {
        name: tuple(a for a, size in enumerate(t.shape) if size != 1 or (name, a) in kept)
        for name, t in graph.tensors.items()
    }
    tensors = {
        name: replace(t, shape=tuple(t.shape[axis] for axis in axes[name]))
        for name, t in graph.tensors.items()
    }
    ops = tuple(_folded(op, axes, rows.get(op.name)) for op in graph.ops)
    return graph.replaced(tensors=tensors, ops=ops)


def _rank(graph: OperatorGraph, tensor: str) -> int:
    return len(graph.tensors[tensor].shape)


def _needed(op: Op) -> set[str]:
    if op.kind in ROUTED:
        return set(op.sizes)
    if op.kind == "pad":
        return set(op.attributes["inside"])
    return {op.attributes[name] for name in _NEEDED.get(op.kind, ())}


def _folded(op: Op, axes: Mapping[str, tuple[int, ...]], rows: str | None) -> Op:
    needed = _needed(op) if rows is None else set(op.output.dims)
    gone = {d.name: Index() for d in op.dims if d.size == 1 and d.name not in needed}

    def folded(operand: Operand) -> Operand:
        access = (operand.access[axis] for axis in axes[operand.tensor])
        return replace(operand, access=tuple(substituted_index(i, gone) for i in access))

    dims = tuple(dim for dim in op.dims if dim.name not in gone)
    attributes = dict(op.attributes)
    if op.kind == "causal_mask" and attributes["query"] in gone:
        attributes["query"] = None
    if op.kind == "gather":
        attributes["axis"] = axes[op.inputs[0].tensor].index(attributes["axis"])
    tiling = op.tiling
    if tiling is not None:
        tiling = replace(
            tiling,
            tile={dim: step for dim, step in tiling.tile.items() if dim not in gone},
            order=tuple(dim for dim in tiling.order if dim not in gone),
        )
    return replace(
        op, dims=dims, inputs=tuple(map(folded, op.inputs)), output=folded(op.output),
        combine=op.combine if any(dim.kind == "reduction" for dim in dims) else None,
        attributes=attributes, tiling=tiling,
    )  # fmt: skip


@typed
def fuse_elementwise(graph: OperatorGraph) -> OperatorGraph:
    """Compute an element-wise operator where its only reader computes.

    The reader is any generic operator that uses each value once: what would be computed again and
    again, as the operand of a matmul, stays an operator of its own.
    """
    fused = True
    while fused:
        fused = False
        for producer in graph.ops:
            made = _into_reader(graph, producer)
            if made is not None:
                graph, fused = made, True
                break
    return graph


def _into_reader(graph: OperatorGraph, producer: Op) -> OperatorGraph | None:
    """The graph with an operator fused into its reader; None when it cannot be."""
    name = producer.output.tensor
    readers = graph.consumers[name]
    if not producer.elementwise or graph.tensors[name].role == "output" or len(readers) != 1:
        return None
    reader, slot = readers[0]
    if reader.body is None or times_read(reader.body, slot) != 1:
        return None
    operand = reader.inputs[slot]
    if reader.iterations > producer.iterations:
        return None  # Windows overlap.
    if any(dim.size > 1 and dim.name not in operand.dims for dim in reader.dims):
        return None
    places = _solved(producer, operand, reader)
    if places is None:
        return None
    tensors = {key: tensor for key, tensor in graph.tensors.items() if key != name}
    one = _fused(producer, reader, name, places)
    ops = tuple(one if op.name == reader.name else op for op in graph.ops if op is not producer)
    return graph.replaced(tensors=tensors, ops=ops)


def _solved(producer: Op, operand: Operand, reader: Op) -> dict[str, Index] | None:
    """Each dim of the producer, at the position that an operand reads; None when it is not affine.

    An axis is a mixed-radix number of dims, so that each term of the position belongs to the
    largest digit that divides its coefficient; the digits must not overflow.
    """
    sizes = reader.sizes
    found: dict[str, Index] = {}
    for written, read in zip(producer.output.access, operand.access, strict=True):
        if written.dim is not None and read.dim is not None:
            found[written.dim] = read
            continue
        moving = [term for term in written.terms if producer.sizes[term[0]] > 1]
        digits = sorted(moving, key=lambda term: -term[1])
        terms: dict[str, list[tuple[str, int]]] = {dim: [] for dim, _ in digits}
        for dim, n in read.terms:
            if sizes[dim] == 1:
                continue
            home = next(((d, c) for d, c in digits if n % c == 0 and abs(n) >= c), None)
            if home is None:
                return None
            terms[home[0]].append((dim, n // home[1]))
        rest = read.offset
        for digit, c in digits:
            index = Index(tuple(terms[digit]), rest // c)
            rest %= c
            low, high = index.reach(sizes)
            if low < 0 or high >= producer.sizes[digit]:
                return None
            found[digit] = index
    return {dim.name: found.get(dim.name, Index()) for dim in producer.dims}


def _fused(producer: Op, reader: Op, tensor: str, places: Mapping[str, Index]) -> Op:
    inputs: list[Operand] = []

    def number(operand: Operand) -> Expr:
        if operand not in inputs:
            inputs.append(operand)
        return ("arg", inputs.index(operand))

    def moved(operand: Operand) -> Operand:
        access = (substituted_index(index, places) for index in operand.access)
        return replace(operand, access=tuple(access))

    assert producer.body is not None
    assert reader.body is not None
    parts: dict[int, Expr] = {}
    for slot, operand in enumerate(reader.inputs):
        if operand.tensor == tensor:
            inner = {i: number(moved(read)) for i, read in enumerate(producer.inputs)}
            parts[slot] = substituted(producer.body, inner)
        else:
            parts[slot] = number(operand)
    places_of = [where for where in (producer.where, reader.where) if where]
    return replace(
        reader, inputs=tuple(inputs), body=substituted(reader.body, parts),
        where="; ".join(dict.fromkeys(places_of)),
    )  # fmt: skip
