"""Off-chip operators: linear and random loads and stores (STeP paper, table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sympy

from stepsim.arguments import label_of, shown
from stepsim.errors import ArgError, DimError, DTypeError, KindError, StepError
from stepsim.graph.dims import Dim
from stepsim.graph.limits import BASE, FIFO_DEPTH, PAR_DISPATCH, STEPS, TILE_SIDE, WALK
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import Ack, DType, TensorSpec, Tile, as_spec

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = [
    "LinearLoad",
    "LinearStore",
    "RandomLoad",
    "RandomStore",
    "linear_load",
    "linear_store",
    "random_load",
    "random_store",
]

Tensor = TensorSpec | np.ndarray[Any, Any]


def _rows_cols(tile: Tile) -> list[int]:
    return [int(tile.rows), int(tile.cols)]


class _OffChip(Operator):
    """An operator that moves the tiles of a stream to or from off-chip memory."""

    par_dispatch: int | None

    def par(self) -> int:
        """Off-chip requests issued per cycle, own or the program's."""
        return self.par_dispatch or self.program.par_dispatch


class _TileMover(_OffChip):
    """Moves one tile of a fixed size for each element of its output."""

    tile: Tile

    def traffic(self, account: Accounting) -> Size:
        return product((self.outputs[0].elements(), account.load_bytes(self.tile)))

    def memory(self, account: Accounting) -> Size:
        return account.buffering * account.load_bytes(self.tile)


@dataclass(eq=False, kw_only=True)
class LinearLoad(_TileMover):
    """Reads a tensor as tiles along an affine walk, once or once per reference element."""

    name: ClassVar[str] = "linear_load"
    tensor: TensorSpec
    tile: Tile
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    base: int
    par_dispatch: int | None

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return "DynOffChipLoad" if self.inputs else "OffChipLoad"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        params: dict[str, Any] = {
            "tile": _rows_cols(self.tile),
            "view": list(self.shape),
            "par": self.par(),
            "bpe": self.tile.dtype.element_bytes,
        }
        if not self.inputs:
            params["lead"] = False
        return params


@dataclass(eq=False, kw_only=True)
class LinearStore(_OffChip):
    """Writes the tiles of a stream in order."""

    name: ClassVar[str] = "linear_store"
    unit_kind: ClassVar[str] = "OffChipStore"
    tensor_name: str | None
    base: int
    par_dispatch: int | None

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        tile = self.inputs[0].type
        assert isinstance(tile, Tile)
        return {"tile": _rows_cols(tile), "par": self.par()}

    def traffic(self, account: Accounting) -> Size:
        return account.stream_bytes(self.inputs[0])

    def memory(self, account: Accounting) -> Size:
        return account.buffering * account.type_bytes(self.inputs[0].type)


@dataclass(eq=False, kw_only=True)
class RandomLoad(_TileMover):
    """Reads one tile per address."""

    name: ClassVar[str] = "random_load"
    unit_kind: ClassVar[str] = "RandomOffChipLoad"
    tensor: TensorSpec
    tile: Tile
    base: int
    par_dispatch: int | None

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {
            "tile": _rows_cols(self.tile),
            "par": self.par(),
            "bpe": self.tile.dtype.element_bytes,
        }


@dataclass(eq=False, kw_only=True)
class RandomStore(_TileMover):
    """Writes one tile per address and acknowledges it."""

    name: ClassVar[str] = "random_store"
    unit_kind: ClassVar[str] = "RandomOffChipStore"
    tensor: TensorSpec
    tile: Tile
    base: int
    par_dispatch: int | None
    ack: str
    buffer_depth: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {
            "tile": _rows_cols(self.tile),
            "par": self.par(),
            "bpe": self.tile.dtype.element_bytes,
            "ack_addr": self.ack == "addr",
        }

    def memory(self, account: Accounting) -> Size:
        tile = account.load_bytes(self.tile)
        return 2 * tile if account.by_paper else account.buffering * self.buffer_depth * tile


def _spec(site: Site, tensor: Tensor) -> TensorSpec:
    try:
        return as_spec(tensor)
    except StepError as error:
        site.fail(type(error), str(error))


def _tiling(
    site: Site, tensor: TensorSpec, tile: tuple[int, int], floats: bool
) -> tuple[Tile, list[int]]:
    """Checked tile type and the tile grid of the tensor."""
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
    return Tile(tensor.dtype, Dim(tile[0]), Dim(tile[1])), grid


def _dispatch(site: Site, par_dispatch: int | None, base: int) -> tuple[int | None, int]:
    """Requests issued per cycle and the base, checked."""
    if par_dispatch is not None:
        par_dispatch = site.number(PAR_DISPATCH, "par_dispatch", par_dispatch)
    return par_dispatch, site.number(BASE, "base", base)


def linear_load(
    tensor: Tensor,
    tile: tuple[int, int],
    *,
    shape: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    ref: Stream | None = None,
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Read ``shape`` tiles with ``stride`` (both in tiles, outermost first).

    Default is the whole tensor once, row-major. With ``ref`` the walk is repeated for every element
    of that stream and its dims lead the output shape; without it the output has exactly ``shape``.
    """
    site = Site("linear_load", () if ref is None else (ref,), label, ("ref",))
    given = _spec(site, tensor)
    par_dispatch, base = _dispatch(site, par_dispatch, base)
    tile_type, grid = _tiling(site, given, tile, floats=True)
    view = tuple(grid) if shape is None else _walk(site, "shape", shape)
    if stride is None:
        site.require(
            shape is None or len(view) == len(grid),
            ArgError,
            f"shape {list(view)} needs a stride: the tile grid of {given} is {grid}",
            "pass stride= with one step (in tiles) for each dim of shape",
        )
        steps = tuple(math.prod(grid[i + 1 :]) for i in range(len(grid)))
    else:
        steps = _walk(site, "stride", stride)
    site.require(
        len(steps) == len(view) >= 1,
        ArgError,
        f"shape {list(view)} and stride {list(steps)} differ in length",
        "give one step for each dim",
    )
    site.require(all(q >= 1 for q in view), ArgError, f"shape {list(view)} has a dim below 1")
    last = sum(s * (q - 1) for s, q in zip(steps, view, strict=True))
    tiles = math.prod(grid)
    if last >= tiles:
        site.fail(
            ArgError,
            f"the walk ends at tile {last} but {given} has {tiles} tiles of {tile[0]}x{tile[1]}",
            "shorten shape or stride",
        )
    lead = ref.shape if ref is not None else ()
    op = LinearLoad(
        tensor=given, tile=tile_type, shape=view, stride=steps, base=base, par_dispatch=par_dispatch
    )
    return site.add(op, [Output((*lead, *(Dim(q) for q in view)), tile_type)])[0]


def _walk(site: Site, what: str, values: Sequence[Any]) -> tuple[int, ...]:
    """Dims or steps of a walk over tiles, which are constants."""
    if isinstance(values, list | tuple) and any(isinstance(v, Dim | sympy.Expr) for v in values):
        site.require(
            all(Dim.of(v).is_static for v in values),
            KindError,
            f"{what} {[str(v) for v in values]} must be constants",
            "for a dynamic number of reads pass ref=",
        )
        values = [int(v) for v in values]
    return site.numbers(WALK if what == "shape" else STEPS, what, values)


def _static_tile(site: Site, stream: Stream, role: str) -> Tile:
    tile = stream.type
    if not (isinstance(tile, Tile) and tile.is_static):
        site.fail(
            DTypeError,
            f"{role} must carry tiles of static size, found {tile}",
            "unpack dynamic tiles into rows first",
        )
    return tile


def linear_store(
    x: Stream,
    name: str | None = None,
    *,
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> LinearStore:
    """Write a stream of static tiles in order. Returns the sink operator."""
    site = Site("linear_store", (x,), label, ("in",))
    par_dispatch, base = _dispatch(site, par_dispatch, base)
    _static_tile(site, x, "in")
    name = label_of(f"{site.title}: name", name)
    op = LinearStore(tensor_name=name, base=base, par_dispatch=par_dispatch)
    site.add(op, [])
    return op


def _address(site: Site, stream: Stream) -> None:
    kind = stream.type
    site.require_type(
        isinstance(kind, Tile) and kind.is_address,
        "addr", stream, "tile indices (1x1 tiles of u32 or u64)",
        "make addresses with metadata() or an address generator",
    )  # fmt: skip


def random_load(
    addr: Stream,
    tensor: Tensor,
    tile: tuple[int, int],
    *,
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Read the tile with each row-major tile index in ``addr``; the shape is that of ``addr``."""
    site = Site("random_load", (addr,), label, ("addr",))
    given = _spec(site, tensor)
    par_dispatch, base = _dispatch(site, par_dispatch, base)
    tile_type, _ = _tiling(site, given, tile, floats=True)
    _address(site, addr)
    op = RandomLoad(tensor=given, tile=tile_type, base=base, par_dispatch=par_dispatch)
    return site.add(op, [Output(addr.shape, tile_type)])[0]


def random_store(
    addr: Stream,
    data: Stream,
    tensor: Tensor,
    *,
    depth: int = 1,
    ack: str = "addr",
    base: int = 0,
    par_dispatch: int | None = None,
    label: str | None = None,
) -> Stream:
    """Write each tile of ``data`` to the tile index paired with it. Returns the acknowledgments.

    ``depth`` is the number of tiles the operator can hold (on-chip memory only), ``ack`` says whose
    shape and levels the acknowledge takes: ``addr`` or ``data``.
    """
    site = Site("random_store", (addr, data), label, ("addr", "data"))
    given = _spec(site, tensor)
    if not isinstance(ack, str) or ack not in ("addr", "data"):
        site.fail(ArgError, f"ack must be 'addr' or 'data', found {shown(ack)}")
    depth = site.number(FIFO_DEPTH, "depth", depth)
    par_dispatch, base = _dispatch(site, par_dispatch, base)
    _address(site, addr)
    tile = _static_tile(site, data, "data")
    site.require(
        tile.dtype.bits == given.dtype.bits,
        DTypeError,
        f"data carries {tile}, the tensor is {given}",
    )
    _tiling(site, given, (int(tile.rows), int(tile.cols)), floats=False)
    left, right = addr.elements(), data.elements()
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
        tensor=given, tile=tile, base=base, par_dispatch=par_dispatch, ack=ack, buffer_depth=depth
    )
    return site.add(op, [Output((addr if ack == "addr" else data).shape, Ack())])[0]
