"""Merging operators (STeP paper, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import ArgError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import FixedCounts, SplitPadding, blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site, streams_of
from stepsim.graph.ops.routing.partitioning import Router, Switch, selector_type, switch_costs
from stepsim.graph.ops.routing.shares import joined_dims, joined_type
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import RANK
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, product, sum_of
from stepsim.graph.types import MultiHot

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class Reassemble(Router):
    """Collects the chunks selected by each selector, in order of arrival."""

    name: ClassVar[str] = "reassemble"
    unit_kind: ClassVar[str] = "Reassemble"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}

    def memory(self, accounting: Accounting) -> Size:
        total: Size = 0
        out = self.outputs[0]
        if self.write_back and not accounting.by_paper:
            kept = max(self.inputs[-1].rank - 1, 0)
            total = product(d.most for d in out.shape[kept:]) * accounting.type_bytes(out.type)
        if accounting.count_fifos:
            total += accounting.type_bytes(self.inputs[0].type) * len(self.inputs)
        return total


@keyword_record
class EagerMerge(Operator):
    """Merges streams in order of arrival; the second output identifies the source of each chunk."""

    name: ClassVar[str] = "eager_merge"
    unit_kind: ClassVar[str] = "EagerMerge"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank}

    def memory(self, accounting: Accounting) -> Size:
        if not accounting.count_fifos:
            return 0
        each = accounting.type_bytes(self.outputs[0].type) + accounting.type_bytes(
            self.outputs[1].type
        )
        return each * (len(self.inputs) + 1)

    def trigger(self) -> Size:
        return self.outputs[0].cardinality()


def merged_inputs(
    site: Site, xs: Sequence[Stream], rank: int | None, selector_width: int | None
) -> int:
    """Common checks of reassemble and eager_merge; returns the rank of the inputs."""
    site.require(len(xs) >= 1, ArgError, "no input streams")
    site.require(
        selector_width is None or len(xs) == selector_width,
        ArgError,
        f"{len(xs)} inputs but the selector is {selector_width} wide",
        "pass one stream for each output of the matching partition",
    )
    want = xs[0].rank if rank is None else site.number(RANK, "rank", rank)
    for role, x in zip(site.roles, xs, strict=False):
        if x.rank != want:
            site.fail(
                RankError,
                f"{role} {format_dims(x.shape)} has rank {x.rank}, expected {want}",
                "all inputs have the rank that is treated as a unit",
            )
        site.same_dims_regular(xs[0].shape[1:], x.shape[1:], site.roles[0], role)
    return want


def reassemble(
    xs: Sequence[Stream],
    selector: Stream,
    *,
    rank: int | None = None,
    switch_cycles: Switch = 1,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Collect the chunks selected by each selector into one stream.

    Reassemble of the STeP paper (table 5): the inverse of :func:`partition`. The chunks of one
    selector come in order of arrival of their first tokens, never interleaved.

    Shape
    -----
    ``selector.shape ++ [H] ++`` the dims of an input below its outermost. ``H`` is the number of
    selected inputs: a constant if all selectors have equally many bits set, otherwise ragged.

    Parameters
    ----------
    xs : streams of one rank and type, one for each entry of the selector.
    selector : stream of selectors. Use a second stream of the same routing, not the one that drives
        the partition: one stream for both ends can deadlock.
    rank : rank of the inputs; checked if given.
    switch_cycles : cycles to switch to an input, one int or one for each input.
    write_back : whether the output is written to on-chip memory.
    label : name in reports and messages.

    Fires
    -----
    Once for each selector, when all selected inputs have a token; each token costs the remainder of
    its load and switch after its arrival, and with ``write_back`` its store.

    Memory
    ------
    Nothing; with ``write_back`` the countings ``published`` and ``published2`` charge the output.

    Raises
    ------
    ArgError : the number of inputs is not the width of the selector.
    DTypeError : the types differ; unpack dynamic tiles into rows first.
    RankError : the ranks of the inputs differ, or are not ``rank``.
    DimError : regular inner dims differ.

    Example
    -------
    >>> with st.Program("there and back") as program:
    ...     table = st.routing([[0], [1], [0]], experts=2)
    ...     x = st.linear_load(np.array([[1], [2], [3]], "f4"), tile=(1, 1)).flatten(0, 1)
    ...     parts = st.partition(x, table.multihot())
    ...     y = st.reassemble(parts, table.multihot())
    ...     out = st.linear_store(y, "out")
    >>> y
    Stream[3, 1] of Tile[1x1 f32] <- reassemble#5
    >>> print(run_functional(program).stored["out"].ravel())
    [1. 2. 3.]
    """
    xs = streams_of("reassemble", "xs", xs)
    roles = (*(f"in{i}" for i in range(len(xs))), "selector")
    site = Site("reassemble", (*xs, selector), label, roles)
    costs = switch_costs(site, switch_cycles, len(xs))
    write_back = site.flag("write_back", write_back)
    kind = selector_type(site, selector)
    unit = merged_inputs(site, xs, rank, kind.width)
    element = joined_type(site, xs, mixed=False)
    if kind.hot is not None:
        hot = Dim(kind.hot)
    else:
        total = sum_of(x.shape[0].sum for x in xs)
        hot = site.owner.namer.ragged(
            "h", f"chunks per selector of {site.title}", total=total, bound=len(xs)
        )
    inner = joined_dims(site, xs, unit)
    padding = next((blurred(x.padding) for x in xs if x.padding is not None), None)
    op = Reassemble(rank=unit, switch_cycles=costs, write_back=write_back)
    return site.add(op, [Output((*selector.shape, hot, *inner), element, None, padding)])[0]


def eager_merge(
    xs: Sequence[Stream], *, rank: int | None = None, label: str | None = None
) -> tuple[Stream, Stream]:
    """Merge streams chunk by chunk, in order of arrival.

    EagerMerge of the STeP paper (table 5). The second output identifies the source of each chunk;
    partitioning a stream with the merged outer dim by it restores the dims, tile sizes and padding
    of the inputs. This is the operator that closes cycles, see :func:`feedback`.

    Shape
    -----
    Two streams: the data ``[sum of the outer dims] ++ inner``, and one-hot selectors ``[the same
    sum]``.

    Parameters
    ----------
    xs : streams of one rank; tiles may differ in size, which makes the side ragged.
    rank : rank of the inputs; checked if given.
    label : name in reports and messages.

    Fires
    -----
    Once for each chunk, for the input whose token comes first (ties: the first input), one cycle
    between the tokens of a chunk and none between chunks. The selector can leave before the data:
    the choice follows the pace of the producers.

    Raises
    ------
    ArgError : no inputs.
    RankError : the inputs differ in rank.
    DTypeError : the inputs differ in type.
    DimError : regular inner dims differ.

    Example
    -------
    >>> with st.Program("merge") as program:
    ...     a = st.linear_load(np.full((2, 1), 1, "f4"), tile=(1, 1)).flatten(0, 1)
    ...     b = st.linear_load(np.full((3, 1), 2, "f4"), tile=(1, 1)).flatten(0, 1)
    ...     data, which = st.eager_merge([a, b])
    ...     back = st.partition(data, which)
    ...     stores = [st.linear_store(x, name) for x, name in zip(back, "ab")]
    >>> [data, back[1]]
    [Stream[5] of Tile[1x1 f32] <- eager_merge#4.0, Stream[3] of Tile[1x1 f32] <- partition#5.1]
    >>> values = run_functional(program)  # simulates the program for the order
    >>> [token.payload for token in values.stream(which)][:3]
    [Selection([0] of 2), Selection([1] of 2), Selection([0] of 2)]
    >>> print(values.stored["b"].ravel())
    [2. 2. 2.]
    """
    xs = streams_of("eager_merge", "xs", xs)
    roles = tuple(f"in{i}" for i in range(len(xs)))
    site = Site("eager_merge", xs, label, roles)
    unit = merged_inputs(site, xs, rank, None)
    outer = [x.shape[0] for x in xs]
    total = Dim(sum_of(d.sum for d in outer))
    element = joined_type(site, xs, mixed=True)
    inner = joined_dims(site, xs, unit)
    padding: SplitPadding | None = None
    if any(x.padding is not None for x in xs):
        padding = SplitPadding(tuple(x.padding for x in xs))
    counts = FixedCounts(site.owner, outer, xs)
    data = Output((total, *inner), element, None, padding)
    which = Output((total,), MultiHot(len(xs), 1), counts)
    streams = site.add(EagerMerge(rank=unit), [data, which])
    return streams[0], streams[1]
