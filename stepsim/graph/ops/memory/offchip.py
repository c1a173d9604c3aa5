"""Linear stores, and the common parts of all off-chip memory operators (STeP paper, table 3)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.arguments import label_of
from stepsim.errors import ArgError, DTypeError, KindError, RankError, StepError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Operator, Site
from stepsim.graph.sizes.dims import fixed
from stepsim.graph.sizes.limits import BASE, PAR_DISPATCH, TILE_SIDE
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, product
from stepsim.graph.types import DType, TensorSpec, Tile, as_spec

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream

Tensor = TensorSpec | np.ndarray[Any, Any]


def rows_cols(tile: Tile) -> list[int]:
    """The sides of a tile of static size."""
    return [int(tile.rows), int(tile.cols)]


class OffChipOperator(Operator):
    """An operator that moves the tiles of a stream to or from off-chip memory."""

    par_dispatch: int | None

    def par(self) -> int:
        """Off-chip requests issued per cycle, its own or the program's."""
        return self.par_dispatch or self.program.par_dispatch


class TileMover(OffChipOperator):
    """Moves one tile of a fixed size for each element of its output."""

    tile: Tile

    def traffic(self, accounting: Accounting) -> Size:
        return product((self.outputs[0].cardinality(), accounting.load_bytes(self.tile)))

    def memory(self, accounting: Accounting) -> Size:
        return accounting.buffering * accounting.load_bytes(self.tile)


@keyword_record
class LinearStore(OffChipOperator):
    """Writes the tiles of a stream in order."""

    name: ClassVar[str] = "linear_store"
    unit_kind: ClassVar[str] = "OffChipStore"
    _added: ClassVar[tuple[str, ...]] = ("blocks",)
    tensor_name: str | None
    base: int
    par_dispatch: int | None
    blocks: bool = False

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        tile = self.inputs[0].type
        assert isinstance(tile, Tile)
        return {"tile": rows_cols(tile), "par": self.par()}

    def traffic(self, accounting: Accounting) -> Size:
        return accounting.stream_bytes(self.inputs[0])

    def memory(self, accounting: Accounting) -> Size:
        return accounting.buffering * accounting.type_bytes(self.inputs[0].type)


def spec_of(site: Site, tensor: Tensor) -> TensorSpec:
    """The spec of a tensor given by a user."""
    try:
        return as_spec(tensor)
    except StepError as error:
        site.fail(type(error), str(error))


def tiling(
    site: Site, tensor: TensorSpec, tile: tuple[int, int], floats: bool
) -> tuple[Tile, list[int]]:
    """The checked tile type, and the tile grid of the tensor."""
    tile = site.pair(TILE_SIDE, "tile", tile)
    # Thousands of loads are checked, so messages are made only for what is refused.
    if len(tensor.shape) < 2:
        site.fail(
            ArgError,
            f"{tensor} has {len(tensor.shape)} dim",
            "tensors off chip need rows and columns",
        )
    for side, size, what in zip(tile, tensor.shape[-2:], ("rows", "columns"), strict=True):
        if size % side != 0:
            site.fail(
                ArgError,
                f"tile {tile[0]}x{tile[1]} does not divide the {size} {what} of {tensor}",
                "choose a tile side that divides the tensor, or pad the tensor",
            )
    if floats and not tensor.dtype.is_arithmetic:
        arithmetic = ", ".join(d.text for d in DType if d.is_arithmetic)
        site.fail(
            DTypeError,
            f"{tensor} cannot be loaded",
            f"loads read tensors of {arithmetic}; use metadata() or selector() for indices",
        )
    rows, cols = tensor.shape[-2:]
    grid = [*tensor.shape[:-2], rows // tile[0], cols // tile[1]]
    return _tile(tensor.dtype, *tile), grid


@lru_cache(maxsize=1024)
def _tile(dtype: DType, rows: int, cols: int) -> Tile:
    return Tile(dtype, fixed(rows), fixed(cols))


def dispatch_of(site: Site, par_dispatch: int | None, base: int) -> tuple[int | None, int]:
    """The checked requests per cycle and base address."""
    if par_dispatch is not None:
        par_dispatch = site.number(PAR_DISPATCH, "par_dispatch", par_dispatch)
    return par_dispatch, site.number(BASE, "base", base)


def static_tile(site: Site, stream: Stream, role: str) -> Tile:
    """The tile type of an input, which must have a static size."""
    tile = stream.type
    if not (isinstance(tile, Tile) and tile.is_static):
        site.fail(
            DTypeError,
            f"{role} must carry tiles of static size, found {tile}",
            "unpack dynamic tiles into rows first"
            if isinstance(tile, Tile)
            else "take tuples apart with unzip(), and read buffers with streamify()",
        )
    return tile


def linear_store(
    x: Stream,
    name: str | None = None,
    *,
    base: int = 0,
    par_dispatch: int | None = None,
    blocks: bool = False,
    label: str | None = None,
) -> LinearStore:
    """Write a stream of tiles off chip, in order.

    LinearOffChipStore of the STeP paper (table 3). Returns the sink operator.

    Shape
    -----
    No output. A stream ``[D_0]`` is stored as ``[D_0 * rows, cols]``, a stream ``[..., D_1, D_0]``
    as ``[..., D_1 * rows, D_0 * cols]``: the innermost dim extends to the right. If it counts
    tiles of rows, as in ``[heads, row tiles]``, store ``x.flatten(0, 1)``, which stacks all tiles
    vertically. The tiles of a stream with a ragged dim are always stacked: ``[total * rows,
    cols]``.

    Parameters
    ----------
    x : stream of tiles of static size; its dims may be dynamic.
    name : key of the stored tensor in ``run_functional(...).stored``.
    base : address in bytes; it has no effect on times.
    par_dispatch : requests issued per cycle; by default that of the program.
    blocks : whether the two inner dims, constants, are rows and columns of the pieces of one tile,
        as produced by :meth:`Program.downtile`: the stored tensor is that of a stream of complete
        tiles, although the pieces arrive tile by tile.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile: it writes ``rows * ceil(row_bytes / hbm.request_bytes)`` requests,
    ``par_dispatch`` each cycle, and frees the slot of the tile after the last acknowledgment.

    Memory
    ------
    Two tiles. Traffic: the bytes of all tiles written.

    Raises
    ------
    DTypeError : the tiles have a dynamic side; unpack them into rows first.
    RankError, KindError : ``blocks`` of a stream with fewer than three dims, or whose two inner
        dims are not constant.
    ArgError : ``base`` or ``par_dispatch`` is out of range.

    Example
    -------
    >>> with st.Program("copy") as program:
    ...     x = st.linear_load(np.ones((2, 4), "f4"), tile=(1, 2))  # [2, 2]
    ...     out = st.linear_store(x, "out")
    >>> run_functional(program).stored["out"].shape
    (2, 4)
    >>> program.metrics().off_chip_traffic
    64
    """
    site = Site("linear_store", (x,), label, ("in",))
    par_dispatch, base = dispatch_of(site, par_dispatch, base)
    static_tile(site, x, "in")
    name = label_of(f"{site.title}: name", name)
    blocks = site.flag("blocks", blocks)
    if blocks:
        site.require(
            x.rank >= 2, RankError, f"blocks in {format_dims(x.shape)}, which has no dims besides "
            "those of a block", "a stream of blocks has at least three dims",
        )  # fmt: skip
        site.require(
            x.dim(0).is_static and x.dim(1).is_static, KindError,
            f"blocks of {format_dims(x.shape[-2:])} pieces have no constant size",
        )  # fmt: skip
    op = LinearStore(tensor_name=name, base=base, par_dispatch=par_dispatch, blocks=blocks)
    site.add(op, [])
    return op
