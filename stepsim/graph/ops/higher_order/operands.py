"""Operands of functions: elements of streams one by one, and knowledge of valid rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.handle import Padding, SplitPadding
from stepsim.graph.operator import Site
from stepsim.graph.ops.higher_order.compute import different, members
from stepsim.graph.sizes.limits import OPERANDS
from stepsim.graph.types import Buffer, ElementType, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


def no_buffers(site: Site, *streams: Stream) -> None:
    """Refuse streams of buffers, with DTypeError."""
    for role, stream in zip(site.roles, streams, strict=True):
        if type(stream.type) is Tile:
            continue
        site.require_type(
            not any(isinstance(t, Buffer) for t in different(stream.type)), role, stream,
            "tiles, not buffers", "streamify the buffer first",
        )  # fmt: skip


def spread(site: Site, xs: Sequence[Stream]) -> tuple[list[ElementType], list[Stream]]:
    """The elements that a function takes of some streams, and the stream of each."""
    found_members = sum(x.type.width if isinstance(x.type, TupleType) else 1 for x in xs)
    if found_members > OPERANDS.high:
        site.fail(
            ArgError,
            f"the tuples have {shown(found_members)} members; a function takes at most "
            f"{OPERANDS.high} operands: zip fewer streams, or map before zipping",
        )
    found = [(kind, x) for x in xs for kind in members(x.type)]
    return [kind for kind, _ in found], [x for _, x in found]


def element_of(outs: Sequence[Tile]) -> ElementType:
    """The element type of results: a tile, or a tuple of several tiles."""
    return outs[0] if len(outs) == 1 else TupleType(tuple(outs))


def padding_of(
    fn: Function, owners: Sequence[Stream], tiles: Sequence[Tile], outs: Sequence[Tile]
) -> Padding | SplitPadding | None:
    """The known valid rows of results, where they are those of operands."""
    found = [
        _by_rule(fn, rule, owners, tiles, out) for rule, out in zip(fn.valid, outs, strict=True)
    ]
    return found[0] if all(p == found[0] for p in found) else SplitPadding()


def _by_rule(
    fn: Function, rule: tuple[Any, ...], owners: Sequence[Stream], tiles: Sequence[Tile], out: Tile
) -> Padding | SplitPadding | None:
    if rule[0] == "rows":
        return None
    if rule[0] not in ("first", "max"):
        return SplitPadding()
    states = fn.shape.states
    named = [i - states for i in rule[1] if i >= states]
    fitting = [owners[i].padding for i in named if tiles[i].rows == out.rows]
    if rule[0] == "first":
        fitting = fitting[:1]
    if not fitting or None in fitting:
        return None
    return fitting[0] if all(p == fitting[0] for p in fitting) else SplitPadding()
