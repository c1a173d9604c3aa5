"""How bytes of memory and traffic are counted."""

from __future__ import annotations

from stepsim.dtypes import DType, packed_bytes
from stepsim.frozen import frozen
from stepsim.graph.handle import StreamHandle
from stepsim.graph.sizes.sizes import Size, ceil_div, product
from stepsim.graph.types import Buffer, ElementType, IndexSelector, MultiHot, Tile, TupleType

COUNTINGS = ("executed", "published", "published2", "paper")

PUBLISHED_SCALAR_BYTES = 4


@frozen
class Accounting:
    """A way of counting bytes, and whether FIFOs count as memory."""

    counting: str
    count_fifos: bool

    @property
    def by_paper(self) -> bool:
        """Whether the formulas of the paper and true widths are used, unlike in the published
        figures."""
        return not self.counting.startswith("published")

    @property
    def buffering(self) -> int:
        """Tiles that an off-chip operator holds."""
        return 1 if self.counting == "published" else 2

    def scalar_bytes(self, scalars: Size, dtype: DType) -> Size:
        """Bytes of a tile of ``scalars`` of everything but loads and random accesses."""
        if not self.by_paper and dtype.is_arithmetic:
            return product((scalars, PUBLISHED_SCALAR_BYTES))
        if dtype.bits % 8 == 0:
            return product((scalars, dtype.bits // 8))
        return ceil_div(scalars, 8 // dtype.bits)

    def load_bytes(self, tile: Tile) -> int:
        """Bytes of a tile as counted by loads and random accesses."""
        return packed_bytes(int(tile.rows) * int(tile.cols), tile.dtype.bits)

    def type_bytes(self, element: ElementType) -> Size:
        """Bytes that one element needs on chip; ragged sizes count with their bound."""
        if isinstance(element, Tile):
            return self.scalar_bytes(element.scalars(), element.dtype)
        if isinstance(element, MultiHot):
            return element.width
        if isinstance(element, IndexSelector):
            return 2 * element.active
        if isinstance(element, Buffer):
            return product((*(d.most for d in element.dims), self.type_bytes(element.tile)))
        if isinstance(element, TupleType):
            return sum(product((n, self.type_bytes(p))) for p, n in element.counts.items())
        return 1

    def stream_bytes(self, stream: StreamHandle) -> Size:
        """Bytes of all elements of a stream of tiles of static size."""
        return product((stream.cardinality(), self.type_bytes(stream.type)))


def slot_bytes(element: ElementType) -> Size:
    """Bytes of a slot of a FIFO for one element, with the buffer that it refers to."""
    return Accounting("executed", count_fifos=True).type_bytes(element)
