"""Routing operators, and parts shared with merging operators (STeP paper, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import Padding, SplitPadding, blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.routing.shares import share_of_dim, share_of_type
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import RANK, STREAMS, SWITCH
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, ceil_div
from stepsim.graph.types import IndexSelector, MultiHot

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream

Switch = int | Sequence[int]
"""Cycles of a change of stream: one number for all ports or one for each."""


@keyword_record
class Router(Operator):
    """Switches chunks between streams; includes their FIFOs if FIFOs are counted."""

    rank: int
    switch_cycles: tuple[int, ...]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank, "switch": list(self.switch_cycles)}

    def memory(self, accounting: Accounting) -> Size:
        if not accounting.count_fifos:
            return 0
        return accounting.type_bytes(self.inputs[0].type) * (len(self.outputs) + 1)


@keyword_record
class Partition(Router):
    """Sends every chunk of the data to the outputs selected by its selector."""

    name: ClassVar[str] = "partition"
    unit_kind: ClassVar[str] = "Partition"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}


@keyword_record
class Parallelize(Router):
    """Distributes the outermost subtensors round-robin."""

    name: ClassVar[str] = "parallelize"
    unit_kind: ClassVar[str] = "Parallelize"


def switch_costs(site: Site, switch_cycles: Switch, count: int) -> tuple[int, ...]:
    """Switch cycles of each of ``count`` ports."""
    if not isinstance(switch_cycles, list | tuple | np.ndarray):
        return (site.number(SWITCH, "switch_cycles", switch_cycles),) * count
    costs = site.numbers(SWITCH, "switch_cycles", switch_cycles)
    site.require(
        len(costs) == count,
        ArgError,
        f"switch_cycles {shown(list(costs))} must hold {count} ints >= 0",
        "give one number for all of them, or one for each",
    )
    return costs


def selector_type(site: Site, stream: Stream) -> MultiHot | IndexSelector:
    """The type of an input that carries selectors."""
    if not isinstance(stream.type, MultiHot | IndexSelector):
        site.fail(
            DTypeError,
            f"selector must carry selectors, found {stream.type}",
            "make selectors with routing(), selector() or eager_merge()",
        )
    return stream.type


def partition(
    x: Stream,
    selector: Stream,
    *,
    rank: int | None = None,
    outputs: int | None = None,
    switch_cycles: Switch = 1,
    write_back: bool = False,
    label: str | None = None,
) -> list[Stream]:
    """Split a stream by selectors: each output receives the chunks that select it.

    Partition of the STeP paper (table 5). A chunk is the ``rank`` inner dims of ``x`` below one
    element of the selector. A selector with several bits set copies its chunk to all of these
    outputs; with no bits set it drops the chunk.

    Shape
    -----
    A list of streams, one for each entry of the selector: ``[count_i] ++`` the ``rank`` inner dims
    of ``x``, in the type of ``x``. ``count_i`` is one symbol for all partitions by one routing or
    selector; with the selector of an :func:`eager_merge` the outputs have the dims of the merged
    inputs.

    Parameters
    ----------
    x : the data.
    selector : stream of selectors with the outer dims of ``x``, from :func:`routing`,
        :func:`selector` or :func:`eager_merge`.
    rank : number of inner dims of a chunk; it follows from the inputs and is checked if given.
    outputs : number of outputs; it follows from the selector and is checked if given.
    switch_cycles : cycles to switch to an output, one int or one for each output.
    write_back : whether the outputs are written to on-chip memory.
    label : name in reports and messages.

    Fires
    -----
    Once for each token of ``x``: its load, ``switch_cycles`` (the largest of the selected outputs),
    and with ``write_back`` the store; these are added.

    Raises
    ------
    DTypeError : ``selector`` carries no selectors.
    RankError : the ranks of the inputs do not fit ``rank``.
    DimError : the outer dims of ``x`` are not known to be those of the selector.
    ArgError : ``outputs`` or the length of ``switch_cycles`` is not the width of the selector.

    Example
    -------
    >>> with st.Program("two ways") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(4, 1), tile=(1, 1)).flatten(0, 1)
    ...     even, odd = st.partition(x, st.selector([[1, 0], [0, 1], [1, 0], [0, 1]]))
    ...     first, second = st.linear_store(even, "even"), st.linear_store(odd, "odd")
    >>> even
    Stream[2] of Tile[1x1 f32] <- partition#3.0
    >>> print(run_functional(program).stored["odd"])
    [[1.]
     [3.]]
    """
    site = Site("partition", (x, selector), label, ("data", "selector"))
    width = selector_type(site, selector).width
    costs = switch_costs(site, switch_cycles, width)
    site.require(
        outputs is None or site.number(STREAMS, "outputs", outputs) == width,
        ArgError,
        f"outputs={outputs} but the selector is {width} wide",
        "leave outputs out; the selector's width decides",
    )
    inner = x.rank - selector.rank
    site.require(
        inner >= 0 and (rank is None or site.number(RANK, "rank", rank) == inner),
        RankError,
        f"data of rank {x.rank} and selector of rank {selector.rank} partition at rank {inner}"
        + (f", not {rank}" if rank is not None else ""),
        "the selector must have one dim for each data dim above the partition rank",
    )
    keep = len(x.shape) - inner
    site.same_dims(x.shape[:keep], selector.shape, "data", "selector", base=0)
    write_back = site.flag("write_back", write_back)
    counts = site.owner.counts_of(selector)
    made: list[Output] = []
    for index in range(width):
        part = counts.part(index)
        known = part.shape if part is not None else ()
        inside = [share_of_dim(site, d, index, known) for d in x.shape[keep:]]
        shape = (counts.of(index), *inside)
        element = share_of_type(site, x.type, index, shape, part)
        padding = _split(x.padding, index, part is not None)
        made.append(Output(shape, element, None, padding))
    op = Partition(rank=inner, switch_cycles=costs, write_back=write_back)
    return list(site.add(op, made))


def _split(
    padding: Padding | SplitPadding | None, index: int, merged: bool
) -> Padding | SplitPadding | None:
    if padding is None:
        return None
    if merged and isinstance(padding, SplitPadding) and padding.parts:
        return padding.parts[index]
    return blurred(padding)


def parallelize(
    x: Stream,
    n: int,
    *,
    rank: int | None = None,
    switch_cycles: Switch = 1,
    label: str | None = None,
) -> list[Stream]:
    """Distribute the outermost subtensors round-robin over ``n`` streams.

    Parallelize is not an operator of the paper but of its simulator: a :func:`partition` by a
    periodic selector. Subtensor i goes to output ``i mod n``.

    Shape
    -----
    A list of ``n`` streams. Output j has ``ceil((D - j) / n)`` of the ``D`` subtensors: the first
    ``D mod n`` outputs have one more than the others; if there are fewer subtensors than outputs,
    the last outputs are empty.

    Parameters
    ----------
    x : the stream.
    n : number of outputs.
    rank : rank of ``x``; checked if given.
    switch_cycles : cycles after which a token leaves, one int or one for each output.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, in zero cycles; the token leaves ``switch_cycles`` later.

    Raises
    ------
    ArgError : ``n`` or ``switch_cycles`` is out of range.
    RankError : ``rank`` is given and is not that of ``x``.

    Example
    -------
    >>> with st.Program("distribute") as program:
    ...     x = st.linear_load(np.arange(5, dtype="f4").reshape(5, 1), tile=(1, 1)).flatten(0, 1)
    ...     a, b = st.parallelize(x, 2)
    ...     stores = st.linear_store(a, "a"), st.linear_store(b, "b")
    >>> [a, b]
    [Stream[3] of Tile[1x1 f32] <- parallelize#2.0,
     Stream[2] of Tile[1x1 f32] <- parallelize#2.1]
    >>> print(run_functional(program).stored["b"].ravel())
    [1. 3.]
    """
    site = Site("parallelize", (x,), label, ("in",))
    n = site.number(STREAMS, "n", n)
    costs = switch_costs(site, switch_cycles, n)
    site.require(
        rank is None or site.number(RANK, "rank", rank) == x.rank,
        RankError,
        f"rank {rank} does not fit {format_dims(x.shape)}",
        f"parallelize distributes the outermost dim; its rank is {x.rank}",
    )
    made, top = [], x.shape[0]
    for i in range(n):
        shape = (Dim(ceil_div(top.size - i, n)), *(share_of_dim(site, d, i) for d in x.shape[1:]))
        made.append(Output(shape, share_of_type(site, x.type, i, shape), None, blurred(x.padding)))
    op = Parallelize(rank=x.rank, switch_cycles=costs)
    return list(site.add(op, made))
