"""Tile, permute and unroll: passes that write the attribute ``tiling`` of operators.

A tile is two-dimensional on the machine, so a dim can be tiled by more than 1 only where it moves
along one of the last two axes of every operand that it moves; along the axes before them a tile has
one position. Several dims of one axis make a contiguous slice only from the fastest one up. Source:
StreamTensor, on the tiling space (one default tile size; reductions outermost, parallel loops
innermost; intensity-driven unrolling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import get_args

from stepsim.design.choices import Choices, Order, Unrolling
from stepsim.design.operators.graph import Index, Op, Operand, OperatorGraph, Tiling
from stepsim.design.operators.routed import dynamic_dims
from stepsim.design.operators.structured import parts_of
from stepsim.design.operators.types import points_of, unroll_of
from stepsim.design.passes.loops.part_tiles import Parts, common_divisor, fits_parts, parts_read
from stepsim.design.passes.loops.stream_order import stream_orders
from stepsim.design.passes.loops.unrolling import Unrollable, exact, heap_skip, heap_stop
from stepsim.errors import CompileError, did_you_mean
from stepsim.typed import typed

_BY_ROW = ("choose", "combine")
"""Kinds of operators that work on a row and an expert of it at a time."""

ORDERS: tuple[Order, ...] = get_args(Order)
"""Orders of loops that :func:`permute` knows by name."""

_METHODS = {"heap_stop": heap_stop, "heap_skip": heap_skip, "exact": exact}


@typed
def tile(
    graph: OperatorGraph,
    size: int = Choices.tile,
    tiles: Mapping[str, Mapping[str, int]] | None = None,
) -> OperatorGraph:
    """Give every operator the steps of its loops.

    Parameters
    ----------
    size : the default for every dim: the largest divisor of the dim up to it. Dims that cannot be
        tiled (see the module) step by 1, those that must stay whole by their size. Where parts of a
        result are read alone and their borders lie inside of such tiles, it is the largest divisor
        of the borders, too (:mod:`stepsim.design.passes.loops.part_tiles`).
    tiles : steps of single dims, ``{operator: {dim: step}}``, in place of the default.

    Raises
    ------
    CompileError : a stated step does not divide its dim, or cannot be a tile; there is no such
        operator or dim; or ``size`` is below 1.
    """
    _check_size(size)
    stated = dict(tiles or {})
    names = [op.name for op in graph.ops]
    for name in stated:
        if name not in names:
            near = did_you_mean(name, names)
            raise CompileError(f"tile: {graph.name} has no operator '{name}'{near}")
    rows, parts = dynamic_dims(graph), parts_read(graph)
    return graph.replaced(
        ops=tuple(
            _tiled(
                op,
                size,
                stated.get(op.name, {}),
                _whole_dims(op) | _row_dims(op, rows),
                parts.get(op.name, {}),
            )
            for op in graph.ops
        )
    )


def _row_dims(op: Op, rows: Mapping[str, str]) -> frozenset[str]:
    """Dims that stay whole so that rows which a routing chooses do; ``rows``: its dim of each."""
    if op.kind in ("dispatch", "combine"):
        return frozenset(op.output.access[-1].dims)
    if op.name not in rows:
        return frozenset()
    # Columns of a result can be tiled where no operand with such rows moves along them.
    read = {d for operand in op.inputs if rows[op.name] in operand.dims for d in operand.dims}
    return frozenset(read | set(op.reductions)) - {rows[op.name]}


def _tiled(
    op: Op,
    size: int,
    stated: Mapping[str, int],
    whole: frozenset[str],
    parts: Mapping[str, Parts],
) -> Op:
    sizes, single = op.sizes, single_dims(op)
    for dim, step in stated.items():
        _check_step(op, dim, step, whole, single)
    apart = [dim for dim in sizes if dim in single & whole and sizes[dim] > 1]
    if apart:
        raise CompileError(
            f"tile: {op.title()}: dim '{apart[0]}' of {op.kind} stays whole, but moves along an "
            "axis before the last two of an operand, so a tile of it is not a contiguous slice; "
            "copy the operand into another layout first"
        )
    steps = {}
    for dim, most in sizes.items():
        if dim in single:
            steps[dim] = 1
        elif dim in whole:
            steps[dim] = most
        else:
            steps[dim] = stated.get(dim) or _default_step(op, dim, size, parts.get(dim, ()))
    order = op.tiling.order if op.tiling is not None else _scan_innermost(op, tuple(sizes))
    made = replace(op, tiling=Tiling(steps, order, unroll_of(op)))
    for operand in (*op.inputs, op.output):
        for index in operand.access:
            _require_slice(made, operand, index)
    return made


def _default_step(op: Op, dim: str, size: int, parts: Parts) -> int:
    step = _divisor(_unbroken(op, dim), size)
    if fits_parts(step, parts):
        return step
    return _divisor(gcd(_unbroken(op, dim), common_divisor(parts)), size)


def _check_step(op: Op, dim: str, step: int, whole: frozenset[str], single: frozenset[str]) -> None:
    if dim not in op.sizes:
        near = did_you_mean(dim, op.sizes)
        raise CompileError(f"tile: {op.title()} has no dim '{dim}'{near}")
    size = _unbroken(op, dim)
    if step < 1 or size % step:
        what = f"size {op.sizes[dim]}" if size == op.sizes[dim] else f"parts of size {size} of it"
        raise CompileError(
            f"tile: {op.title()}: tile {step} of dim '{dim}' does not divide its {what}; use one "
            f"of the divisors {', '.join(map(str, _divisors(size)))}"
        )
    if dim in whole and step != op.sizes[dim]:
        raise CompileError(
            f"tile: {op.title()}: dim '{dim}' of {op.kind} stays whole, so its tile is "
            f"{op.sizes[dim]}, found {step}"
        )
    if dim in single and step != 1:
        raise CompileError(
            f"tile: {op.title()}: dim '{dim}' moves along an axis before the last two of a tensor, "
            f"or above another dim of its axis, so its tile is 1, found {step}; tiles have two axes"
        )


def thin_tiles(graph: OperatorGraph, size: int = Choices.tile) -> dict[int, int]:
    """Sizes of dims whose tiles are less than a quarter of the default, ``{size: tile}``.

    A prompt of 17 tokens has tiles of one row, as nothing is padded: its design reads every weight
    for each row, and takes long to run and to compile. Dims that cannot be tiled are left out.

    Raises
    ------
    CompileError : ``size`` is below 1.
    """
    _check_size(size)
    found = {}
    for op in graph.ops:
        for dim in set(op.sizes) - single_dims(op) - _whole_dims(op):
            most = op.sizes[dim]
            step = _divisor(most, size)
            if 4 * step < min(most, size):
                found[most] = step
    return dict(sorted(found.items()))


def _check_size(size: int) -> None:
    if size < 1:
        raise CompileError(f"tile: the default tile size must be at least 1, found {size}")


def _divisors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


def _divisor(size: int, most: int) -> int:
    """The largest divisor of a size up to a limit."""
    return max(n for n in range(1, min(size, most) + 1) if size % n == 0)


def _unbroken(op: Op, dim: str) -> int:
    """What a tile of a dim has to divide: its size, or the greatest length that all parts have."""
    parts = [parts_of(op, slot).get(dim, ()) for slot in range(len(op.inputs))]
    return gcd(op.sizes[dim], *(place for part in parts for place in part))


def _whole_dims(op: Op) -> frozenset[str]:
    """Dims that a structured operator needs in one piece: those of the pairs that it turns."""
    if op.kind != "rotary":
        return frozenset()
    pairs = {d for angles in op.inputs[1:] for index in angles.access[-1:] for d, _ in index.terms}
    return frozenset(pairs | {op.attributes["turn"]})


def single_dims(op: Op) -> frozenset[str]:
    """Dims whose loops step by 1: a tile has two axes, and a slice of each is contiguous."""
    whole = _whole_dims(op)
    found: set[str] = set()
    for slot, operand in enumerate((*op.inputs, op.output)):
        found.update(d for index in operand.access[:-2] for d, _ in index.terms)
        if (op.kind == "gather" and slot == 1) or (op.kind in _BY_ROW and slot == 0):
            found.update(operand.dims)  # One address, or one entry of a routing, at a time.
        for index in operand.access:
            terms = sorted(index.terms, key=lambda term: (abs(term[1]), -op.sizes[term[0]]))
            moving = [(d, n) for d, n in terms if op.sizes[d] > 1]
            tiled = [d for d, _ in moving]
            found.update(d for d in tiled[1:] if d not in whole)
            # A step over positions in between leaves no contiguous slice.
            found.update(d for d, n in (moving or terms)[:1] if n != 1 and d not in whole)
            if whole.intersection(tiled):
                found.update(d for d in tiled if d not in whole)
    return frozenset(found)


def _require_slice(op: Op, operand: Operand, index: Index) -> None:
    """The positions of a tile along an axis follow each other."""
    assert op.tiling is not None
    reach = 1
    for dim, n in sorted(index.terms, key=lambda term: abs(term[1])):
        step = op.tiling.tile[dim]
        if step == 1:
            continue
        if n != reach:
            raise CompileError(
                f"tile: {op.title()}: {operand} moves by {n} with dim '{dim}', so a tile of "
                f"{step} is not a contiguous slice (expected a step of {reach}); copy the operand "
                "into another layout first"
            )
        reach *= step


@typed
def permute(
    graph: OperatorGraph,
    order: Order = "reductions_outermost",
    orders: Mapping[str, Sequence[str]] | None = None,
) -> OperatorGraph:
    """Permute the loops of every operator, outermost first.

    Reductions outermost is the paper's choice: the innermost loops are independent, so that a
    pipeline never waits for its own sum. With tokens outermost the stages of a block overlap
    (:mod:`stepsim.design.passes.loops.stream_order`). Whatever the order is, it is carried out: a
    reduction around parallel loops keeps all their results until its last turn.

    Parameters
    ----------
    order : of all operators; parallel dims stay as they are among each other, and so do the others.
    orders : of single operators, ``{operator: dims}``, outermost first.

    Raises
    ------
    CompileError : there is no such order or operator, or the dims are not those of the operator.
    """
    if order not in ORDERS:
        near = did_you_mean(order, ORDERS)
        raise CompileError(f"permute: the order is '{order}'{near} Known: {', '.join(ORDERS)}")
    by_stream = stream_orders(graph) if order == "tokens_outermost" else {}
    stated = {**by_stream, **(orders or {})}
    names = [op.name for op in graph.ops]
    for name in stated:
        if name not in names:
            near = did_you_mean(name, names)
            raise CompileError(f"permute: {graph.name} has no operator '{name}'{near}")
    first = "reduction" if order == "reductions_outermost" else "parallel"
    made = []
    for op in graph.ops:
        tiling = _tiling_of(op, "permute")
        dims = [dim.name for dim in op.dims if dim.kind == first]
        dims += [dim.name for dim in op.dims if dim.kind != first]
        wanted = tuple(stated.get(op.name, dims))
        if op.name not in (orders or {}):
            wanted = _scan_innermost(op, wanted)
        if sorted(wanted) != sorted(dims):
            raise CompileError(
                f"permute: {op.title()} has dims {', '.join(dims)}, found the order "
                f"{', '.join(map(str, wanted))}; name each of them once"
            )
        made.append(replace(op, tiling=replace(tiling, order=wanted)))
    return graph.replaced(ops=tuple(made))


def _scan_innermost(op: Op, order: tuple[str, ...]) -> tuple[str, ...]:
    """The order, with the loop of a scan innermost, as it keeps one tile of sums."""
    if op.kind != "scan":
        return order
    along = op.attributes["along"]
    return (*(dim for dim in order if dim != along), along)


def _tiling_of(op: Op, what: str) -> Tiling:
    if op.tiling is None:
        raise CompileError(f"{what}: {op.title()} has no tiles; tile the graph first")
    return op.tiling


@typed
def unroll(
    graph: OperatorGraph,
    budget: int,
    method: Unrolling = Choices.unrolling,
) -> OperatorGraph:
    """Distribute parallel lanes over the operators so that the slowest is as fast as possible.

    The work of an operator is its iterations; every lane does one in a cycle. Factors are powers of
    two up to the iterations of a tile, since a lane works on one tile at a time.

    Parameters
    ----------
    budget : lanes of all operators together, ``overall_unroll_size`` of the paper.
    method : ``heap_stop`` ends when the slowest operator cannot grow; ``heap_skip`` goes on with
        the others; ``exact`` takes the fewest lanes for the least latency.

    Raises
    ------
    CompileError : the budget is below one lane for each operator, an operator has no tiles, or
        there is no such method.
    """
    if method not in _METHODS:
        near = did_you_mean(method, _METHODS)
        raise CompileError(
            f"unroll: there is no method '{method}'{near} Known: {', '.join(_METHODS)}"
        )
    kernels = []
    for op in graph.ops:
        _tiling_of(op, "unroll")
        work = op.flops if op.kind in ("opaque", "dispatch", "choose") else op.iterations
        kernels.append(Unrollable(work, _powers(points_of(op)), name=op.name))
    found = _METHODS[method](kernels, budget)
    return graph.replaced(
        ops=tuple(
            replace(op, tiling=replace(_tiling_of(op, "unroll"), unroll=factor))
            for op, factor in zip(graph.ops, found.factors, strict=True)
        )
    )


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << i for i in range(most.bit_length()))
