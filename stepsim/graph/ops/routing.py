"""Routing and merging operators (STeP paper, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, RankError
from stepsim.graph.dims import Dim, format_dims
from stepsim.graph.handle import FixedCounts, Padding, SplitPadding, blurred
from stepsim.graph.limits import RANK, STREAMS, SWITCH
from stepsim.graph.operator import Bindings, Operator, Output, Site, streams_of
from stepsim.graph.ops.shares import joined_dims, joined_type, share_of_dim, share_of_type
from stepsim.graph.sizes import Size, ceil_div, product
from stepsim.graph.types import IndexSelector, MultiHot

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = [
    "EagerMerge",
    "Parallelize",
    "Partition",
    "Reassemble",
    "eager_merge",
    "parallelize",
    "partition",
    "reassemble",
]

Switch = int | Sequence[int]


@dataclass(eq=False, kw_only=True)
class _Router(Operator):
    """Switches chunks between streams; holds their FIFOs, when FIFOs are counted."""

    rank: int
    switch_cycles: tuple[int, ...]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank, "switch": list(self.switch_cycles)}

    def memory(self, account: Accounting) -> Size:
        if not account.count_fifos:
            return 0
        return account.type_bytes(self.inputs[0].type) * (len(self.outputs) + 1)


@dataclass(eq=False, kw_only=True)
class Partition(_Router):
    """Sends every chunk of the data to the outputs that its selector names."""

    name: ClassVar[str] = "partition"
    unit_kind: ClassVar[str] = "Partition"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}


@dataclass(eq=False, kw_only=True)
class Reassemble(_Router):
    """Collects the chunks that each selector names, in order of arrival."""

    name: ClassVar[str] = "reassemble"
    unit_kind: ClassVar[str] = "Reassemble"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}

    def memory(self, account: Accounting) -> Size:
        total: Size = 0
        out = self.outputs[0]
        if self.write_back and not account.by_paper:
            kept = max(self.inputs[-1].rank - 1, 0)
            total = product(d.bound for d in out.shape[kept:]) * account.type_bytes(out.type)
        if account.count_fifos:
            total += account.type_bytes(self.inputs[0].type) * len(self.inputs)
        return total


@dataclass(eq=False, kw_only=True)
class EagerMerge(Operator):
    """Merges streams in order of arrival; the second output says where each chunk came from."""

    name: ClassVar[str] = "eager_merge"
    unit_kind: ClassVar[str] = "EagerMerge"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank}

    def memory(self, account: Accounting) -> Size:
        if not account.count_fifos:
            return 0
        each = account.type_bytes(self.outputs[0].type) + account.type_bytes(self.outputs[1].type)
        return each * (len(self.inputs) + 1)

    def trigger(self) -> Size:
        return self.outputs[0].elements()


@dataclass(eq=False, kw_only=True)
class Parallelize(_Router):
    """Deals the outermost subtensors round-robin."""

    name: ClassVar[str] = "parallelize"
    unit_kind: ClassVar[str] = "Parallelize"


def _switch(site: Site, switch_cycles: Switch, count: int) -> tuple[int, ...]:
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


def _selector(site: Site, stream: Stream) -> MultiHot | IndexSelector:
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
    """Split a stream by selectors; output i has shape ``[count_i] ++`` the ``rank`` inner dims.

    ``rank`` follows from the inputs; when given it is checked.
    """
    site = Site("partition", (x, selector), label, ("data", "selector"))
    width = _selector(site, selector).width
    costs = _switch(site, switch_cycles, width)
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


def _merged_inputs(
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
        site.require(
            x.rank == want,
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
    """Per selector element, the selected chunks in order of arrival: ``sel ++ [H] ++ inner``.

    H is the number of selected inputs: a constant when the selector always has the same number of
    bits set, else ragged.
    """
    xs = streams_of("reassemble", "xs", xs)
    roles = (*(f"in{i}" for i in range(len(xs))), "selector")
    site = Site("reassemble", (*xs, selector), label, roles)
    costs = _switch(site, switch_cycles, len(xs))
    write_back = site.flag("write_back", write_back)
    kind = _selector(site, selector)
    unit = _merged_inputs(site, xs, rank, kind.width)
    element = joined_type(site, xs, mixed=False)
    if kind.hot is not None:
        hot = Dim(kind.hot)
    else:
        total = sum((x.shape[0].total for x in xs[1:]), xs[0].shape[0].total)
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
    """Merge streams chunk by chunk as they arrive: (data, selector).

    Partitioning something of the merged outer dim by the selector gives back the dims, tile sizes
    and padding of the inputs.
    """
    xs = streams_of("eager_merge", "xs", xs)
    roles = tuple(f"in{i}" for i in range(len(xs)))
    site = Site("eager_merge", xs, label, roles)
    unit = _merged_inputs(site, xs, rank, None)
    outer = [x.shape[0] for x in xs]
    total = Dim(sum((d.total for d in outer[1:]), outer[0].total))
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


def parallelize(
    x: Stream,
    n: int,
    *,
    rank: int | None = None,
    switch_cycles: Switch = 1,
    label: str | None = None,
) -> list[Stream]:
    """Deal the outermost subtensors round-robin over ``n`` streams.

    Subtensor i goes to output ``i mod n``, so that output j has ``ceil((D - j) / n)`` of ``D``:
    the first ``D mod n`` outputs have one more than the others, and with fewer subtensors than
    outputs the last outputs are empty.

    Raises
    ------
    ArgError : ``n`` or ``switch_cycles`` is out of range.
    RankError : ``rank`` is given and is not that of ``x``.
    """
    site = Site("parallelize", (x,), label, ("in",))
    n = site.number(STREAMS, "n", n)
    costs = _switch(site, switch_cycles, n)
    site.require(
        rank is None or site.number(RANK, "rank", rank) == x.rank,
        RankError,
        f"rank {rank} does not fit {format_dims(x.shape)}",
        f"parallelize deals the outermost dim; its rank is {x.rank}",
    )
    made, top = [], x.shape[0]
    for i in range(n):
        shape = (Dim(ceil_div(top.expr - i, n)), *(share_of_dim(site, d, i) for d in x.shape[1:]))
        made.append(Output(shape, share_of_type(site, x.type, i, shape), None, blurred(x.padding)))
    op = Parallelize(rank=x.rank, switch_cycles=costs)
    return list(site.add(op, made))
