"""Kernels as operators of a program: maps, accumulations and the strips that reductions keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.design.dataflow.graph import Kernel, KernelLoop
from stepsim.design.operators.structured import parts_of
from stepsim.design.programs.bodies import (
    body_of,
    fill_of,
    folding_of,
    mask_of,
    matmul_of,
    relayout_of,
    scan_of,
    start_of,
    state_body_of,
)
from stepsim.design.programs.streams import regrouped
from stepsim.errors import CompileError
from stepsim.graph import (
    Stream,
    TensorSpec,
    accum,
    accum_buffer,
    fn,
    function,
    map as map_,
    metadata,
    random_load,
    reassemble,
    scan,
    selector,
    streamify,
    zip as zip_,
)


def output_of(kernel: Kernel, inputs: Sequence[Stream]) -> Stream:
    """The stream that a kernel sends, with its parallel loops as dims.

    ``inputs`` has a stream for each operand, of the tokens of its port in any dims.
    """
    if kernel.op.kind == "concat":
        return _concat(kernel, inputs)
    if kernel.op.kind == "pad":
        return _pad(kernel, inputs[0])
    if kernel.op.kind == "opaque":
        return _opaque(kernel, inputs)
    streams = [regrouped(x, kernel.trips, kernel.name) for x in inputs]
    if kernel.op.kind == "causal_mask":
        return _masked(kernel, streams[0])
    if kernel.op.kind == "scan":
        return _scanned(kernel, streams[0])
    if not any(loop.kind == "reduction" for loop in kernel.loops):
        return mapped(kernel, streams)
    return _reduced(kernel, streams)


def mapped(kernel: Kernel, streams: Sequence[Stream], first: int | None = None) -> Stream:
    """The kernel's body, tile after tile.

    Parameters
    ----------
    first : the operand whose padding rows are also padding of the result; None without padding.
    """
    product = matmul_of(kernel)
    how: dict[str, Any] = {"compute_bw": kernel.compute_bw, "label": kernel.name}
    if product is not None:
        body, swapped = product
        return map_(body, *(streams[::-1] if swapped else streams), **how)
    body = body_of(kernel)
    if first is not None:
        body = replace(body, valid=(("first", (first,)),))
    if not body.flops:
        how.pop("compute_bw")
    return map_(body, *streams, **how)


def _reduced(kernel: Kernel, streams: Sequence[Stream]) -> Stream:
    """One accumulation for each run of reduction loops, from the innermost out.

    Parallel loops inside such a run are the places of a buffer, in which their results wait until
    the last turn; without them one tile is kept.
    """
    loops = list(kernel.loops)
    product = matmul_of(kernel)
    if product is not None:
        body, swapped = product
        state, elements = None, streams[::-1] if swapped else streams
    else:
        body, state, elements = state_body_of(kernel), start_of(kernel), streams
    x = elements[0]
    for other in elements[1:]:
        x = zip_(x, other, label=kernel.name)
    bandwidth: int | None = kernel.compute_bw
    while any(loop.kind == "reduction" for loop in loops):
        last = max(i for i, loop in enumerate(loops) if loop.kind == "reduction")
        first = last
        while first and loops[first - 1].kind == "reduction":
            first -= 1
        outer, kept = loops[:first], loops[last + 1 :]
        x = regrouped(x, (*(_trips(outer) or (1,)), *_trips(loops[first:])), kernel.name)
        rank = len(loops) - first
        if kept:
            held = accum_buffer(
                x, body, rank, len(kept), state, compute_bw=bandwidth, label=kernel.name
            )
            x = streamify(held.with_depth(1), label=kernel.name)
        else:
            x = accum(x, body, rank, state, compute_bw=bandwidth, label=kernel.name)
        loops = [*outer, *kept]
        body, state, bandwidth = folding_of(kernel), start_of(kernel), None
    return regrouped(x, _trips(loops), kernel.name)


def _trips(loops: Sequence[KernelLoop]) -> tuple[int, ...]:
    return tuple(loop.trip for loop in loops)


def _positions(kernel: Kernel, dim: str | None) -> NDArray[np.int64]:
    """The first position of every tile along a dim, which is 0 where no loop moves along it."""
    shape = kernel.trips or (1,)
    found = np.zeros(shape, np.int64)
    for loop, places in zip(kernel.loops, np.indices(shape), strict=False):
        if loop.dim == dim:
            found += places * loop.step
    return found


def _masked(kernel: Kernel, scores: Stream) -> Stream:
    op = kernel.op
    first = op.attributes["start"] + _positions(kernel, op.attributes["query"])
    places = [first, _positions(kernel, op.attributes["key"])]
    known = [metadata(place, label=kernel.name) for place in places]
    return map_(mask_of(kernel), scores, *known, label=kernel.name)


def _concat(kernel: Kernel, inputs: Sequence[Stream]) -> Stream:
    """Tokens of the inputs in the order of the output: which comes next is known."""
    attributes = kernel.op.attributes
    at = _positions(kernel, attributes["dim"]).ravel()
    place = np.searchsorted(attributes["offsets"], at, side="right") - 1
    return _joined(kernel, [_part(kernel, slot, x) for slot, x in enumerate(inputs)], place)


def _pad(kernel: Kernel, x: Stream) -> Stream:
    """Tokens of the input where it has some, and tiles of padding elsewhere."""
    inside = np.ones(kernel.trips or (1,), np.bool_)
    for dim, (first, end) in parts_of(kernel.op, 0).items():
        places = _positions(kernel, dim)
        inside &= (places >= first) & (places < end)
    count = int(inside.size - inside.sum())
    if not count:
        return _joined(kernel, [_part(kernel, 0, x)], np.zeros(inside.size, np.int64))
    none = metadata(np.zeros(count, np.int64), label=kernel.name)
    fill = map_(fill_of(kernel), none, label=kernel.name)
    return _joined(kernel, [_part(kernel, 0, x), fill], (~inside).ravel().astype(np.int64))


def _part(kernel: Kernel, slot: int, x: Stream) -> Stream:
    """The tokens of an operand that is a part of the output, in the layout of the output."""
    x = regrouped(x, (kernel.inputs[slot].itensor.tokens,), kernel.name)
    relaid = relayout_of(kernel, slot)
    return x if relaid is None else map_(relaid, x, label=kernel.name)


def _joined(kernel: Kernel, parts: Sequence[Stream], place: NDArray[np.int64]) -> Stream:
    """The tokens of several streams, each time the next one of the stream that ``place`` says."""
    if len(parts) == 1:
        return regrouped(parts[0], kernel.trips, kernel.name)
    flags = np.eye(len(parts), dtype=np.int64)[place]
    joined = reassemble(parts, selector(flags, label=kernel.name), label=kernel.name)
    return regrouped(joined, kernel.trips, kernel.name)


def _scanned(kernel: Kernel, x: Stream) -> Stream:
    """Sums along the innermost loop, with a tile of them as the state."""
    last = kernel.loops[-1:]
    turns = last[0].trip if last and last[0].dim == kernel.op.attributes["along"] else 1
    x = regrouped(x, (kernel.firings // turns, turns), kernel.name)
    made = scan(
        x, scan_of(kernel), 1, start_of(kernel), compute_bw=kernel.compute_bw, label=kernel.name
    )
    return regrouped(made, kernel.trips, kernel.name)


def gathered(kernel: Kernel, table: TensorSpec, indices: Any) -> Stream:
    """Tiles of the rows of a table that whole numbers name.

    Parameters
    ----------
    table : the operand as it lies off chip, in rows and columns.
    indices : values of the second operand.

    Raises
    ------
    CompileError : another axis than the first of a matrix is gathered, or an index is not a row.
    """
    op = kernel.op
    at, columns = op.inputs[0].access[-2:] if len(op.inputs[0].access) == 2 else (None, None)
    if at is None or columns is None or op.attributes["axis"] != 0 or columns.dim is None:
        raise CompileError(
            f"{op.title()}: a program gathers whole rows of a matrix, found {op.inputs[0]} along "
            f"axis {op.attributes['axis']}; copy the table into rows and columns first"
        )
    rows, width = table.shape
    numbers = np.asarray(indices).astype(np.int64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < rows):
        raise CompileError(
            f"{op.title()}: indices {numbers.min()} to {numbers.max()} of '{op.inputs[1].tensor}' "
            f"are not all rows of '{op.inputs[0].tensor}', which has {rows}"
        )
    tile = kernel.output.tile
    # The place of every firing: the index at its position, and the tile along the columns.
    none = _positions(kernel, None)
    positions = tuple(
        index.offset + sum((n * _positions(kernel, dim) for dim, n in index.terms), none)
        for index in op.inputs[1].access
    )
    across = _positions(kernel, columns.dim) // tile[1]
    addresses = numbers[positions] * (width // tile[1]) + across
    return random_load(
        metadata(addresses, label=kernel.name), table, (1, tile[1]), label=kernel.name
    )


def _opaque(kernel: Kernel, inputs: Sequence[Stream]) -> Stream:
    """One firing of the declared cost when all inputs are there, then the tiles of the result."""
    read = [
        accum(regrouped(x, (1, port.itensor.tokens), kernel.name), fn.last, 1, label=kernel.name)
        for x, port in zip(inputs, kernel.inputs, strict=True)
    ]
    tiles = [f"{port.tile[0]} {port.tile[1]}" for port in kernel.inputs]
    out = f"{kernel.output.tile[0]} {kernel.output.tile[1]}"
    body = function(
        kernel.op.attributes["target"], f"{', '.join(tiles)} -> {out}", kernel.op.flops,
        int(kernel.op.flops == 0), dtype=kernel.output.itensor.dtype,
    )  # fmt: skip
    bandwidth = kernel.compute_bw if kernel.op.flops else None
    made = map_(body, *read, compute_bw=bandwidth, label=kernel.name)
    tokens = kernel.output.itensor.tokens
    made = made.repeat(tokens, label=kernel.name)
    return regrouped(made, kernel.trips, kernel.name)
