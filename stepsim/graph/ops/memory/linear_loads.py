"""Linear loads: a tensor as tiles along an affine walk (STeP paper, table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import shown
from stepsim.errors import ArgError, KindError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.memory.offchip import (
    Tensor,
    TileMover,
    dispatch_of,
    rows_cols,
    spec_of,
    tiling,
)
from stepsim.graph.sizes.dims import Dim, fixed
from stepsim.graph.sizes.formula import is_expression
from stepsim.graph.sizes.limits import COUNT, RANK, STEPS, WALK
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import TensorSpec, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class LinearLoad(TileMover):
    """Reads a tensor as tiles along an affine walk, once or once per reference element.

    ``tile`` is that of the tensor; a ``transposed`` load delivers its transpose.
    """

    name: ClassVar[str] = "linear_load"
    _added: ClassVar[tuple[str, ...]] = ("trigger_rank", "transposed", "bypass")
    tensor: TensorSpec
    tile: Tile
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    base: int
    par_dispatch: int | None
    trigger_rank: int = 0
    transposed: bool = False
    bypass: bool = False

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return ("Dyn" if self.inputs else "") + ("BypassLoad" if self.bypass else "OffChipLoad")

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        out = self.outputs[0].type
        assert isinstance(out, Tile)
        params: dict[str, Any] = {
            "tile": rows_cols(out if self.bypass else self.tile),
            "view": list(self.shape),
            "bpe": self.tile.dtype.element_bytes,
        }
        if not self.bypass:
            params["par"] = self.par()
            if self.transposed:
                params["transposed"] = True
        if self.trigger_rank:
            params["trigger_rank"] = self.trigger_rank
        if not self.inputs:
            params["lead"] = False
        return params

    def traffic(self, accounting: Accounting) -> Size:
        return 0 if self.bypass else super().traffic(accounting)


def linear_load(
    tensor: Tensor,
    tile: tuple[int, int],
    *,
    shape: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    ref: Stream | None = None,
    trigger_rank: int = 0,
    transposed: bool = False,
    bypass: bool = False,
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Read tiles of a tensor off chip along an affine walk.

    LinearOffChipLoad of the STeP paper (table 3); triggered, transposed and bypassing loads are
    from the public simulator of 2026. The walk visits tile ``sum(i[d] * stride[d])`` of the
    row-major grid of tiles for every multi-index ``i`` below ``shape``. With ``ref`` the entire
    walk is repeated for every element of that stream, whose contents do not matter.

    Shape
    -----
    ``ref.shape ++ shape``, or ``shape`` without ``ref``, of ``Tile[tile]`` in the tensor's type.
    With a ``trigger_rank`` r the walk is read once for every r-dimensional subtensor of the
    reference: ``[D_N .. D_r] ++ shape``. An empty reference loads nothing. The paper's simulator
    adds an outer dim of 1 if there is no reference.

    Parameters
    ----------
    tensor : the tensor to read, a :func:`spec` or an array (whose values are then known), rank 2 or
        more.
    tile : rows and columns of a tile as stored; they divide those of the tensor.
    shape : tiles along each dim of the walk, ints from 1; by default the entire grid, row-major.
    stride : steps of the dims of ``shape``, in tiles; needed unless ``shape`` has the grid's
        length.
    ref : stream that triggers one walk with each of its elements.
    trigger_rank : number of inner dims of ``ref`` at whose end the walk is read; 0: at every
        element.
    transposed : deliver the tiles as columns x rows.
    bypass : send the tiles without a memory access: no requests, no traffic, and no time except for
        the FIFO. For data that another model has already brought on chip.
    base : address of the tensor, in bytes; it has no effect on times.
    par_dispatch : requests issued per cycle; by default that of the program.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile: it issues ``rows * ceil(row_bytes / hbm.request_bytes)`` requests for the
    tile as stored, ``par_dispatch`` each cycle, and sends the tile when the last response has come
    (19 cycles for one request on an idle ``sda-1024``). The next tile is requested after this one
    was sent. The same in all machine models.

    Memory
    ------
    Two tiles. Traffic: the bytes of all tiles read, 0 with ``bypass``.

    Raises
    ------
    ArgError : the tile does not divide the tensor, the walk leaves it or has more than 2**50 tiles,
        ``shape`` and ``stride`` differ in length, ``trigger_rank`` has no ``ref``, or
        ``par_dispatch`` is given with ``bypass``.
    RankError : ``trigger_rank`` is above the rank of ``ref``.
    KindError : ``shape`` or ``stride`` is not constant; a dynamic number of reads takes ``ref``.
    DTypeError : the tensor holds no scalars to compute with; use :func:`metadata` for indices.

    Example
    -------
    >>> with st.Program("columns first") as program:
    ...     a = np.arange(8, dtype="f4").reshape(2, 4)
    ...     x = st.linear_load(a, tile=(1, 2), shape=(2, 2), stride=(1, 2))
    ...     out = st.linear_store(x.flatten(0, 1), "out")
    ...     turned = st.linear_load(a, tile=(2, 2), transposed=True, ref=x, trigger_rank=1)
    ...     turned.consume()
    >>> [x, turned]
    [Stream[2, 2] of Tile[1x2 f32] <- linear_load#0,
     Stream[2, 1, 2] of Tile[2x2 f32] <- linear_load#3]
    >>> values = run_functional(program)
    >>> print(values.stored["out"])
    [[0. 1.]
     [4. 5.]
     [2. 3.]
     [6. 7.]]
    >>> print(values.stream(turned)[0].payload.data)
    [[0. 4.]
     [1. 5.]]
    """
    site = Site("linear_load", () if ref is None else (ref,), label, ("ref",))
    given = spec_of(site, tensor)
    transposed, bypass = site.flag("transposed", transposed), site.flag("bypass", bypass)
    site.require(
        not (bypass and par_dispatch is not None), ArgError,
        "par_dispatch has no effect on a load that bypasses the memory", "leave out one of them",
    )  # fmt: skip
    par_dispatch, base = dispatch_of(site, par_dispatch, base)
    tile_type, grid = tiling(site, given, tile, floats=True)
    view = tuple(grid) if shape is None else _walk(site, "shape", shape)
    if stride is None:
        if shape is not None and len(view) != len(grid):
            site.fail(
                ArgError,
                f"shape {list(view)} needs a stride: the tile grid of {given} is {grid}",
                "pass stride= with one step (in tiles) for each dim of shape",
            )
        steps = tuple(math.prod(grid[i + 1 :]) for i in range(len(grid)))
    else:
        steps = _walk(site, "stride", stride)
    # Thousands of loads are checked, so messages are made only for what is refused.
    if not len(steps) == len(view) >= 1:
        site.fail(
            ArgError,
            f"shape {list(view)} and stride {list(steps)} differ in length",
            "give one step for each dim",
        )
    if min(view) < 1:
        site.fail(ArgError, f"shape {list(view)} has a dim below 1")
    last = sum(s * (q - 1) for s, q in zip(steps, view, strict=True))
    tiles = math.prod(grid)
    if last >= tiles:
        site.fail(
            ArgError,
            f"the walk ends at tile {last} but {given} has {tiles} tiles of {tile[0]}x{tile[1]}",
            "shorten shape or stride",
        )
    count = math.prod(view)
    if count > COUNT.high:
        site.fail(
            ArgError,
            f"a walk over {list(view)} has {shown(count)} tiles; 2**50 are the most",
            "shorten shape",
        )
    trigger_rank = _trigger(site, ref, trigger_rank)
    lead = ref.shape[: len(ref.shape) - trigger_rank] if ref is not None else ()
    op = LinearLoad(
        tensor=given, tile=tile_type, shape=view, stride=steps, base=base,
        par_dispatch=par_dispatch, trigger_rank=trigger_rank, transposed=transposed, bypass=bypass,
    )  # fmt: skip
    sent = Tile(tile_type.dtype, tile_type.cols, tile_type.rows) if transposed else tile_type
    return site.add(op, [Output((*lead, *map(fixed, view)), sent)])[0]


def _trigger(site: Site, ref: Stream | None, rank: int) -> int:
    """The checked number of inner dims of the reference that belong to one walk."""
    rank = site.number(RANK, "trigger_rank", rank)
    if ref is None:
        site.require(
            rank == 0, ArgError, f"trigger_rank is {rank}, there is no reference to trigger",
            "pass ref=, or leave out trigger_rank",
        )  # fmt: skip
        return rank
    if not 0 <= rank <= ref.rank:
        site.fail(
            RankError,
            f"trigger_rank {rank} does not fit ref {format_dims(ref.shape)} of rank {ref.rank}",
            f"choose 0 <= trigger_rank <= {ref.rank}"
            if ref.rank
            else f"{format_dims(ref.shape)} has no inner dims; leave trigger_rank out",
        )
    return rank


def _walk(site: Site, what: str, values: Sequence[Any]) -> tuple[int, ...]:
    """Dims or steps of a walk over tiles, which must be constants."""
    if isinstance(values, list | tuple) and any(
        type(v) is not int and (isinstance(v, Dim) or is_expression(v)) for v in values
    ):
        site.require(
            all(Dim.of(v).is_static for v in values),
            KindError,
            f"{what} {[str(v) for v in values]} must be constants",
            "for a dynamic number of reads pass ref=",
        )
        values = [int(v) for v in values]
    return site.numbers(WALK if what == "shape" else STEPS, what, values)
