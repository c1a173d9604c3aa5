"""Random loads and stores (STeP paper, table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import shown
from stepsim.errors import ArgError, DimError, DTypeError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.memory.offchip import (
    Tensor,
    TileMover,
    dispatch_of,
    rows_cols,
    spec_of,
    static_tile,
    tiling,
)
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import FIFO_DEPTH, TILE_SIDE
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Ack, TensorSpec, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class _RandomAccess(TileMover):
    """Moves one tile per address."""

    _added: ClassVar[tuple[str, ...]] = ("block",)
    tensor: TensorSpec
    tile: Tile
    base: int
    par_dispatch: int | None
    block: tuple[int, int] = (1, 1)

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {
            "tile": rows_cols(self.tile),
            "par": self.par(),
            "bpe": self.tile.dtype.element_bytes,
        }


@keyword_record
class RandomLoad(_RandomAccess):
    """Reads one tile per address."""

    name: ClassVar[str] = "random_load"
    unit_kind: ClassVar[str] = "RandomOffChipLoad"


@keyword_record
class RandomStore(_RandomAccess):
    """Writes one tile per address and acknowledges it."""

    name: ClassVar[str] = "random_store"
    unit_kind: ClassVar[str] = "RandomOffChipStore"
    ack: str
    buffer_depth: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"ack_addr": self.ack == "addr"}

    def memory(self, accounting: Accounting) -> Size:
        tile = accounting.load_bytes(self.tile)
        return 2 * tile if accounting.by_paper else accounting.buffering * self.buffer_depth * tile


def _address(site: Site, stream: Stream) -> None:
    kind = stream.type
    site.require_type(
        isinstance(kind, Tile) and kind.is_address,
        "addr", stream, "tile indices (1x1 tiles of u32 or u64)",
        "make addresses with metadata() or an address generator",
    )  # fmt: skip


def _block(site: Site, block: tuple[int, int], grid: Sequence[int]) -> tuple[int, int]:
    """The checked block by which tiles are numbered."""
    rows, cols = site.pair(TILE_SIDE, "block", block)
    site.require(
        grid[-2] % rows == 0 and grid[-1] % cols == 0, ArgError,
        f"a block of {rows}x{cols} tiles does not divide the grid of {grid[-2]}x{grid[-1]}",
        "choose a block that divides it",
    )  # fmt: skip
    return rows, cols


def random_load(
    addr: Stream,
    tensor: Tensor,
    tile: tuple[int, int],
    *,
    block: tuple[int, int] = (1, 1),
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Read the tile with each index of a stream of addresses.

    RandomOffChipLoad of the STeP paper (table 3). An address is the index of a tile in the
    row-major grid of tiles of the tensor, not of a byte.

    Shape
    -----
    That of ``addr``, of ``Tile[tile]`` in the tensor's type.

    Parameters
    ----------
    addr : stream of tile indices: 1x1 tiles of ``u32`` or ``u64``, from :func:`metadata` or an
        address function such as ``fn.cache_read_addresses``.
    tensor : the tensor to read, a :func:`spec` or an array, of rank 2 or more.
    tile : rows and columns of a tile; they divide those of the tensor.
    block : rows and columns of a block of consecutively numbered tiles: index ``i`` is tile
        ``i mod (rows * columns)``, row-major, of block ``i div (rows * columns)``. They divide the
        grid.
    base : address of the tensor, in bytes; it has no effect on times.
    par_dispatch : requests issued per cycle; by default that of the program.
    label : name in reports and messages.

    Fires
    -----
    Once for each address, like :func:`linear_load` for each tile.

    Memory
    ------
    Two tiles. Traffic: one tile for each address.

    Raises
    ------
    DTypeError : ``addr`` does not carry addresses, or the tensor holds no scalars to compute with.
    ArgError : the tile does not divide the tensor, or the block does not divide the grid of its
        tiles. An index beyond the tensor is an error in the evaluation of values.

    Example
    -------
    >>> with st.Program("rows by index") as program:
    ...     table = np.arange(8, dtype="f4").reshape(4, 2)
    ...     rows = st.random_load(st.metadata([3, 0, 3]), table, tile=(1, 2))
    ...     out = st.linear_store(rows, "out")
    >>> rows
    Stream[3] of Tile[1x2 f32] <- random_load#1
    >>> print(run_functional(program).stored["out"])
    [[6. 7.]
     [0. 1.]
     [6. 7.]]
    """
    site = Site("random_load", (addr,), label, ("addr",))
    given = spec_of(site, tensor)
    par_dispatch, base = dispatch_of(site, par_dispatch, base)
    tile_type, grid = tiling(site, given, tile, floats=True)
    _address(site, addr)
    op = RandomLoad(
        tensor=given, tile=tile_type, base=base, par_dispatch=par_dispatch,
        block=_block(site, block, grid),
    )  # fmt: skip
    return site.add(op, [Output(addr.shape, tile_type)])[0]


def random_store(
    addr: Stream,
    data: Stream,
    tensor: Tensor,
    *,
    depth: int = 1,
    ack: str = "addr",
    block: tuple[int, int] = (1, 1),
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Write each tile to the tile index that is paired with it.

    RandomOffChipStore of the STeP paper (table 3). Addresses and tiles are paired one to one,
    regardless of their shapes; the acknowledgments indicate when a tile can be read again.

    Shape
    -----
    That of ``addr`` or ``data``, selected by ``ack``, of acknowledgments. They must be read or
    consumed.

    Parameters
    ----------
    addr : stream of tile indices: 1x1 tiles of ``u32`` or ``u64``.
    data : stream of tiles of static size, as many as addresses.
    tensor : the tensor to write; the size of a tile divides it, and its scalars have the same
        width.
    depth : tiles that the operator can hold: on-chip memory in the countings ``published`` and
        ``published2`` only.
    ack : ``addr`` or ``data``, whose shape and levels the acknowledgments have.
    block : rows and columns of a block of consecutively numbered tiles: index ``i`` is tile
        ``i mod (rows * columns)``, row-major, of block ``i div (rows * columns)``. They divide the
        grid.
    base : address of the tensor, in bytes; it has no effect on times.
    par_dispatch : requests issued per cycle; by default that of the program.
    label : name in reports and messages.

    Fires
    -----
    Once for each pair, like :func:`linear_store` for each tile; then the acknowledgment is sent,
    and both slots are freed.

    Memory
    ------
    Two tiles. Traffic: one tile for each address.

    Raises
    ------
    DTypeError : an input carries something else, or data and tensor differ in the width of scalars.
    DimError : the numbers of addresses and tiles are not known to be equal.
    ArgError : ``ack``, ``depth`` or another number is out of range, or the block does not divide
        the grid of tiles.

    Example
    -------
    >>> with st.Program("scatter") as program:
    ...     x = st.linear_load(np.array([[1, 2], [3, 4]], "f4"), tile=(1, 2)).flatten(0, 1)
    ...     table = st.spec(4, 2, dtype="f32", name="table")
    ...     written = st.random_store(st.metadata([3, 1]), x, table)
    ...     written.consume()
    >>> written
    Stream[2] of Ack <- random_store#3
    >>> print(run_functional(program).stored["table"])
    [[0. 0.]
     [3. 4.]
     [0. 0.]
     [1. 2.]]
    """
    site = Site("random_store", (addr, data), label, ("addr", "data"))
    given = spec_of(site, tensor)
    if not isinstance(ack, str) or ack not in ("addr", "data"):
        site.fail(ArgError, f"ack must be 'addr' or 'data', found {shown(ack)}")
    depth = site.number(FIFO_DEPTH, "depth", depth)
    par_dispatch, base = dispatch_of(site, par_dispatch, base)
    _address(site, addr)
    tile = static_tile(site, data, "data")
    if tile.dtype.bits != given.dtype.bits:
        site.fail(DTypeError, f"data carries {tile}, the tensor is {given}")
    _, grid = tiling(site, given, (int(tile.rows), int(tile.cols)), floats=False)
    block = _block(site, block, grid)
    left, right = addr.cardinality(), data.cardinality()
    verdict = site.owner.compare(Dim(left), Dim(right))
    if not verdict:
        state = "different" if verdict is False else "unknown"
        site.fail(
            DimError,
            f"addresses and tiles are paired one to one, found {left} addresses and {right} tiles "
            f"({state})",
            f"use program.assume_equal({left}, {right}) if they are equal by construction",
        )
    op = RandomStore(
        tensor=given, tile=tile, base=base, par_dispatch=par_dispatch, ack=ack,
        buffer_depth=depth, block=block,
    )  # fmt: skip
    return site.add(op, [Output((addr if ack == "addr" else data).shape, Ack())])[0]
