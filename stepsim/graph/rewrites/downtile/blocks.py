"""Blocks: a logical tile as a grid of pieces, each of them a tile of the hardware."""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.graph.sizes.dims import Dim, fixed
from stepsim.graph.types import Buffer, ElementType, Tile, TupleType


class Refusal(Exception):
    """Why an operator cannot be downtiled, as the end of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class Block:
    """``rows x cols`` pieces of one tile; the two innermost dims of a stream of such tiles."""

    rows: int
    cols: int

    @property
    def count(self) -> int:
        """Number of pieces of one tile."""
        return self.rows * self.cols

    @property
    def dims(self) -> tuple[Dim, Dim]:
        """The two dims that a stream gains."""
        return fixed(self.rows), fixed(self.cols)


@dataclass(frozen=True, slots=True)
class Sides:
    """How sides of tiles are cut: into pieces of up to ``rows x cols`` scalars.

    A side of 1 stays 1; a side that the hardware's side divides is cut into that many pieces. Other
    sides are refused, or with ``pad`` cut into the fewest equal pieces that fit, which only partly
    fill hardware tiles.
    """

    rows: int
    cols: int
    pad: bool

    def row(self, side: Dim) -> int:
        """Rows of a piece of a tile with this many rows."""
        return self._piece(side, self.rows, "rows")

    def col(self, side: Dim) -> int:
        """Columns of a piece of a tile with this many columns."""
        return self._piece(side, self.cols, "cols")

    def _piece(self, side: Dim, limit: int, which: str) -> int:
        words = "rows" if which == "rows" else "columns"
        if not side.is_static:
            raise Refusal(
                f"has tiles of {side} {words}, known only at run time: data kept on chip has "
                f"a constant size; choose a static tile of a multiple of {limit} {words}"
            )
        size = int(side)
        if size == 1 or size % limit == 0:
            return min(size, limit)
        if not self.pad:
            raise Refusal(
                f"has tiles of {size} {words}, which {limit} does not divide; choose a multiple of "
                f"{limit} or 1, or pass pad=True, which partly fills hardware tiles"
            )
        pieces = -(-size // limit)
        while size % pieces:
            pieces += 1
        return size // pieces

    def tile(self, tile: Tile) -> Tile:
        """The piece of a tile."""
        return Tile(tile.dtype, fixed(self.row(tile.rows)), fixed(self.col(tile.cols)))

    def block(self, tile: Tile) -> Block:
        """The grid of pieces of a tile."""
        return Block(
            int(tile.rows) // self.row(tile.rows) if tile.rows.is_static else self.row(tile.rows),
            int(tile.cols) // self.col(tile.cols) if tile.cols.is_static else self.col(tile.cols),
        )

    def of(self, kind: ElementType) -> Block | None:
        """The two dims that a stream of this type gains; None if it is unchanged.

        Selectors, single scalars and tuples of them gain none, and buffers gain theirs inside.
        """
        if isinstance(kind, TupleType):
            blocks = {self.of(part) for part in kind.counts}
            if len(blocks) > 1:
                raise Refusal("has tuples of tiles that are cut differently; zip tiles of one size")
            return blocks.pop()
        if not isinstance(kind, Tile) or (kind.rows.is_one() and kind.cols.is_one()):
            return None
        return self.block(kind)

    def type(self, kind: ElementType) -> ElementType:
        """The type of a stream of pieces."""
        if isinstance(kind, TupleType):
            return kind.changed(self.type)
        if isinstance(kind, Buffer):
            inner = self.of(kind.tile)
            return (
                kind if inner is None else Buffer(self.tile(kind.tile), (*kind.dims, *inner.dims))
            )
        if isinstance(kind, Tile) and self.of(kind) is not None:
            return self.tile(kind)
        return kind
