"""Mixtures of experts: router weights, dispatch, expert networks, combination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.linear import swiglu
from stepsim.graph.nn.routing import check_rows
from stepsim.graph.ops.flat_map.cutting import unpack_rows
from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.routing.partitioning import partition
from stepsim.graph.ops.routing.routing_table import Routing
from stepsim.graph.ops.shape.chunks import reshape
from stepsim.graph.ops.shape.levels import flatten
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream


def moe(
    x: Stream,
    table: Routing,
    gate: Sequence[Tensor],
    up: Sequence[Tensor],
    down: Sequence[Tensor],
    weights: Sequence[Stream] | None = None,
    *,
    tile: int | str,
    inner: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Mixture of experts: each row passes through its experts' SwiGLU networks; results are
    weighted and added up.

    The layer of the STeP paper (sections 3.3 and 5.2): rows are partitioned by the table, packed
    into tiles, computed, unpacked, and reassembled in order. Static tiles are filled with padding
    rows, which are computed as well; a dynamic tile holds all rows of an expert, so that its
    weights are read once and nothing is padded.

    Shape
    -----
    ``x`` ``[rows]`` of ``[1, D]``, one row of the table each, gives the same shape and tiles.

    Parameters
    ----------
    table : the routing of rows to experts; see :func:`router` for when it is known.
    gate, up, down : the matrices of :func:`swiglu`, one for each expert: lists of tensors, or
        arrays ``[experts, ...]``.
    weights : factors of the results, a stream ``[n_e]`` of ``[1, 1]`` for each expert as
        :func:`router` makes them, in FIFOs that hold all rows of a tile; None adds plain results.
    tile : rows of a tile, or ``"dynamic"``.
    inner : hidden columns computed at a time; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    ``6 D F + 9 F`` for each row of a tile, including padding, and for each of ``k`` experts of a
    row ``D`` for its weight and ``D`` for the sum.

    Memory
    ------
    Memory of :func:`swiglu` for each expert, and the packed tiles; FIFOs of results hold up to
    ``rows`` rows each, as results wait for those of other experts.

    Raises
    ------
    ArgError : lists whose length is not the number of experts, matrices that do not fit, or a
        ``tile`` that is neither an int from 1 nor ``"dynamic"``.
    DTypeError : ``x`` carries no tiles of one row, or ``weights`` no tiles of one scalar.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(6, 8, name="x"), (1, 8)).flatten(0, 1)
    ...     table = st.routing([[0, 1], [1, 2], [0, 2], [0, 1], [1, 2], [0, 1]], experts=3)
    ...     gate, up = ([st.spec(8, 16, name=f"{w}{e}") for e in range(3)] for w in ("gate", "up"))
    ...     down = [st.spec(16, 8, name=f"down{e}") for e in range(3)]
    ...     weights = st.nn.router(x, st.spec(8, 3, name="w"), table)
    ...     y = st.nn.moe(x, table, gate, up, down, weights, tile="dynamic")
    ...     y.consume()
    >>> print(y.describe())
    Stream[6] of Tile[1x8 bf16]
    >>> p.metrics().bind({}).flops
    11592
    """
    layer = Layer("moe", {"x": x}, label, compute_bw, write_back)
    check_rows(layer, x, table)
    if tile != "dynamic":
        tile = layer.number(TILE_SIDE, "tile", _known(layer, tile))
    matrices = [
        _each(layer, role, given, table.experts)
        for role, given in (("gate", gate), ("up", up), ("down", down))
    ]
    factors = None if weights is None else _weights(layer, weights, table.experts)
    rows = partition(x, table.multihot(label=layer.part("route")), label=layer.part("dispatch"))
    results = []
    for e, part in enumerate(rows):
        y = swiglu(
            packed_rows(layer, e, part, tile), *(m[e] for m in matrices), tile=inner,
            compute_bw=compute_bw, label=layer.part(f"expert.{e}"),
        )  # fmt: skip
        y = unpacked_rows(layer, e, y)
        if factors is not None:
            y = layer.map(f"weigh.{e}", fn.mul, factors[e], y)
        results.append(y.with_depth(max(table.rows, 2)))
    return summed_results(layer, results, table)


def unpacked_rows(layer: Layer, e: int, tiles: Stream) -> Stream:
    """The rows of an expert's result tiles, without padding."""
    return flat_map(tiles, unpack_rows(drop_padding=True), label=layer.part(f"unpack.{e}"))


def summed_results(layer: Layer, results: Sequence[Stream], table: Routing) -> Stream:
    """The rows of all experts in the order of the table, with the results of each row added up."""
    joined = reassemble(
        results, table.multihot(label=layer.part("collect")), label=layer.part("combine")
    )
    return layer.accum("sum", joined, fn.add, last=True)


def _known(layer: Layer, tile: object) -> object:
    if isinstance(tile, str):
        layer.fail(ArgError, f"tile must be an int from 1 or 'dynamic', found {shown(tile)}")
    return tile


def packed_rows(layer: Layer, e: int, rows: Stream, tile: int | str) -> Stream:
    """The rows of an expert in tiles of this many rows, or in a single tile."""
    if isinstance(tile, str):
        chunks = rows.promote(label=layer.part(f"tile.{e}"))
    else:
        split = reshape(rows, tile, pad=0, add_outer=True, label=layer.part(f"chunk.{e}"))
        chunks = flatten(split, 1, 2, label=layer.part(f"tiles.{e}"))
    return layer.accum(f"pack.{e}", chunks, fn.pack_rows)


def _each(layer: Layer, role: str, given: Any, experts: int) -> list[Any]:
    """One tensor for each expert."""
    listed = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 3)
    layer.require(
        listed and len(given) == experts,
        ArgError,
        f"{role} must be a list of {experts} tensors, one for each expert, found {shown(given)}",
    )
    return [np.ascontiguousarray(t) if isinstance(t, np.ndarray) else t for t in given]


def _weights(layer: Layer, given: Any, experts: int) -> list[Stream]:
    layer.require(
        isinstance(given, list | tuple)
        and len(given) == experts
        and all(isinstance(w, Stream) for w in given),
        ArgError,
        f"weights must be a list of {experts} streams, one for each expert, found {shown(given)}",
    )
    for e, w in enumerate(given):
        tile = layer.tile(f"weights[{e}]", w)
        layer.require(
            tile.rows == 1 and tile.cols == 1, DTypeError,
            f"weights[{e}] must carry tiles of 1x1, found {tile}",
        )  # fmt: skip
    return list(given)
