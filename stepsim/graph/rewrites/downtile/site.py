"""The site of a rewrite: the map from old to new streams, and operators that are copied
unchanged."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stepsim.graph.functions.addresses import signal
from stepsim.graph.operator import Operator, Output
from stepsim.graph.programs.program import Program
from stepsim.graph.rewrites.downtile.blocks import Block, Refusal, Sides
from stepsim.graph.stream import Stream
from stepsim.graph.types import Buffer, Tile

_Rule = Callable[["Rewrite", Any], None]
RULES: dict[type[Operator], _Rule] = {}
"""The rewrite rule for an operator, by its class."""

_Made = TypeVar("_Made", bound=_Rule)


def rule(*kinds: type[Operator]) -> Callable[[_Made], _Made]:
    """Register the rule of some operators."""

    def enter(made: _Made) -> _Made:
        for kind in kinds:
            RULES[kind] = made
        return made

    return enter


@dataclass
class Rewrite:
    """A new program under construction.

    Attributes
    ----------
    streams : new streams by the keys of old ones.
    blocks : the two additional innermost dims of the new form of an old stream; None if there are
        none.
    """

    program: Program
    sides: Sides
    streams: dict[tuple[int, int], Stream] = field(default_factory=dict)
    blocks: dict[tuple[int, int], Block | None] = field(default_factory=dict)

    def new(self, old: Stream) -> Stream:
        """The new form of a stream."""
        return self.streams[old.key]

    def block(self, old: Stream) -> Block | None:
        """The dims that a stream has gained."""
        return self.blocks[old.key]

    def gained(self, old: Stream) -> int:
        """The number of these dims."""
        return 0 if self.block(old) is None else 2

    def put(self, old: Stream, made: Stream, block: Block | None) -> None:
        """``made`` is the new form of ``old``: its dims and those of the block.

        Equalities that the sizes do not prove are stated, so that a run checks them.
        """
        shape = (*old.shape, *(() if block is None else block.dims))
        if made.shape != shape:
            made = made.assume_shape(*shape)
        if made.padding != old.padding or made.counts is not old.counts:
            made = Stream(
                made.producer, made.output, made.shape, made.type, old.counts, old.padding
            )
        own = old.program.depths.get(old.key)
        depth = self.program.fifo_depth if own is None else own
        count = 1 if block is None else block.count
        # The same capacity in tiles, so that no new deadlocks appear.
        if depth is not None and made.depth is None and (own is not None or count > 1):
            made.with_depth(depth * count)
        self.streams[old.key] = made
        self.blocks[old.key] = block

    def take_over(
        self, op: Operator, inputs: Sequence[Stream] | None = None, **changes: Any
    ) -> None:
        """The same operator on new streams; its outputs have the dims that their types gain."""
        given = [self.new(x) for x in op.inputs] if inputs is None else inputs
        outs = []
        for out in op.outputs:
            block = self.sides.of(out.type)
            dims = (*out.shape, *(() if block is None else block.dims))
            kind = self.sides.type(out.type)
            outs.append(Output(dims, kind, out.counts, out.padding))
        made = copy.copy(op)
        for name, value in changes.items():
            setattr(made, name, value)
        made.inputs = tuple(given)
        for old, new in zip(op.outputs, self.program.register(made, outs), strict=True):
            self.put(old, new, self.sides.of(old.type))

    def once(self, old: Stream) -> Stream:
        """A stream with the old dims, one element per complete tile, for references."""
        x, block = self.new(old), self.block(old)
        return x if block is None else x.accum(signal, 2)

    def tile(self, old: Stream, role: str) -> tuple[Tile, Block]:
        """The tile of an old stream and its pieces; single scalars count as one piece."""
        kind = old.type
        if not isinstance(kind, Tile):
            raise Refusal(f"has {role} of {kind}; there is a rule for tiles only")
        return kind, self.sides.block(kind)

    def spread(self, old: Stream, to: Block) -> Stream:
        """An operand of an elementwise function in the blocks of the result.

        A single row or column of pieces is repeated, as the function broadcasts that of the tile.
        """
        x, own = self.new(old), self.block(old)
        if own == to:
            return x
        if own is None:
            return x.repeat([to.rows, to.cols])
        if own.cols == 1 and to.cols > 1:
            x = x.expand(to.cols)
        if own.rows == 1 and to.rows > 1:
            x = x.bufferize(1).streamify(repeat=to.rows).flatten(1, 2)
        return x

    def reordered(
        self, x: Stream, dims: int, shape: Sequence[int], stride: Sequence[int]
    ) -> Stream:
        """The ``dims`` inner dims in another order, through a buffer that holds them."""
        return x.bufferize(dims).streamify(shape=list(shape), stride=list(stride))


def buffer_of(old: Stream) -> Buffer:
    """The type of a stream of buffers."""
    assert isinstance(old.type, Buffer)
    return old.type
