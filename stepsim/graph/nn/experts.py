"""Mixtures of experts: router weights, dispatch, expert networks, combination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from stepsim.graph.nn.expert_rows import (
    packed_rows,
    rows_of_tile,
    summed_results,
    tensors_of_experts,
    unpacked_rows,
)
from stepsim.graph.nn.feed_forward import swiglu
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.moe_on_chips import MoeOnChips
from stepsim.graph.nn.parallel.division import Streams, alone
from stepsim.graph.nn.routing import table_of_rows
from stepsim.graph.ops.routing.partitioning import partition
from stepsim.graph.ops.routing.routing_table import Routing
from stepsim.graph.stream import Stream


@overload
def moe(
    x: Stream, table: Routing, gate: Sequence[Tensor], up: Sequence[Tensor],
    down: Sequence[Tensor], weights: Sequence[Stream] | None = None, *, tile: int | str,
    inner: int | None = None, compute_bw: int | None = None, write_back: bool = False,
    tp: None = None, ep: None = None, collective: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def moe(
    x: Streams, table: Routing | Sequence[Routing], gate: Sequence[Tensor], up: Sequence[Tensor],
    down: Sequence[Tensor], weights: Streams | None = None, *, tile: int | str,
    inner: int | None = None, compute_bw: int | None = None, write_back: bool = False,
    tp: int, ep: int | None = None, collective: str | None = None, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


@overload
def moe(
    x: Sequence[Stream], table: Routing | Sequence[Routing], gate: Sequence[Tensor],
    up: Sequence[Tensor], down: Sequence[Tensor], weights: Sequence[Stream] | None = None, *,
    tile: int | str, inner: int | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, ep: int, collective: None = None,
    label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def moe(
    x: Streams,
    table: Routing | Sequence[Routing],
    gate: Sequence[Tensor],
    up: Sequence[Tensor],
    down: Sequence[Tensor],
    weights: Streams | None = None,
    *,
    tile: int | str,
    inner: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    ep: int | None = None,
    collective: str | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Mixture of experts: each row passes through its experts' SwiGLU networks; results are
    weighted and added up.

    The layer of the STeP paper (sections 3.3 and 5.2): rows are partitioned by the table, packed
    into tiles, computed, unpacked, and reassembled in order. Static tiles are filled with padding
    rows, which are computed as well; a dynamic tile holds all rows of an expert, so that its
    weights are read once and nothing is padded.

    On several chips there are ``dp`` groups, each with its own rows, of ``tp`` members with all
    rows of the group. Experts are divided into ``ep`` parts, among the groups first, as far as the
    greatest common divisor of ``ep`` and ``dp`` goes, then among the members of a group. A row
    goes once to each group that has some of its experts, and the sum of the results comes back.
    Members with the same experts divide their hidden columns. The results of the members of a group
    are added up by an all-reduce of all rows as one tile.

    Shape
    -----
    ``x`` ``[rows]`` of ``[1, D]``, one row of the table each, gives the same shape and tiles. With
    ``tp`` or ``ep`` a list of them, one on each chip.

    Parameters
    ----------
    x : the rows; on several chips a list of streams, or a single one.
    table : the routing of rows to experts; see :func:`router` for when it is known. On several
        chips one of each group, which must be known when the program is built.
    gate, up, down : the matrices of :func:`swiglu`, one for each expert: lists of tensors, or
        arrays ``[experts, ...]``.
    weights : factors of the results, a stream ``[n_e]`` of ``[1, 1]`` for each expert as
        :func:`router` makes them, in FIFOs that hold all rows of a tile; None adds plain results.
        On several chips a stream ``[rows, k]`` of ``[1, 1]`` for each stream of ``x``, as
        :func:`chosen_weights` makes them.
    tile : rows of a tile, or ``"dynamic"``.
    inner : hidden columns computed at a time; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory; on one chip alone.
    tp : members of a group (tensor parallelism); ``x`` is a list of ``dp * tp`` streams, those of
        the members of a group next to each other, or for one group a single stream, which is sent
        to the chip it is on and those behind. None is 1, where ``ep`` is given.
    ep : parts that experts are divided into (expert parallelism), a divisor of ``dp`` times one of
        ``tp``; None is 1.
    collective : algorithm of the all-reduces, see :func:`all_reduce`; None is a ring.

    FLOPs
    -----
    ``6 D F + 9 F`` for each row of a tile, including padding, and for each of ``k`` experts of a
    row ``D`` for its weight and ``D`` for the sum. On several chips those of the weights and sums
    are on each member that shares an expert, and ``D`` more for each result that comes back.

    Memory
    ------
    Memory of :func:`swiglu` for each expert, and the packed tiles; FIFOs of results hold up to
    ``rows`` rows each, as results wait for those of other experts.

    Messages
    --------
    Between groups those of :func:`dispatch_rows` and :func:`combine_rows`, of ``D`` scalars, and of
    ``k`` with weights; within a group those of :func:`all_reduce` of ``rows D`` scalars.

    Raises
    ------
    ArgError : lists whose length is not the number of experts, matrices that do not fit, or a
        ``tile`` that is neither an int from 1 nor ``"dynamic"``; or ``tp`` or ``ep`` does not
        divide, or streams are not on as many chips.
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
    if tp is not None or ep is not None:
        given = {"gate": gate, "up": up, "down": down}
        whole = MoeOnChips(x, table, given, weights, tp, ep, collective, label, compute_bw)
        return whole.results(tile, inner, write_back)
    x = alone("moe", x, collective=collective)
    layer = Layer("moe", {"x": x}, label, compute_bw, write_back)
    table = table_of_rows(layer, x, table)
    tile = rows_of_tile(layer, tile)
    matrices = [
        tensors_of_experts(layer, role, given, table.experts)
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
