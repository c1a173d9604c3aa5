"""On-chip memory operators: bufferize and streamify (STeP paper, table 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.errors import ArgError, DTypeError, KindError, LoweringError, RankError
from stepsim.graph.dims import Dim, format_dims
from stepsim.graph.limits import COUNT, REPEATS, STEPS
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.shape import unsqueeze
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import Buffer, Tile

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = ["Bufferize", "Streamify", "bufferize", "streamify"]


@dataclass(eq=False, kw_only=True)
class Bufferize(Operator):
    """Collects the ``rank`` inner dims into an on-chip buffer."""

    name: ClassVar[str] = "bufferize"
    unit_kind: ClassVar[str] = "Bufferize"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank}

    def memory(self, account: Accounting) -> Size:
        tile = account.type_bytes(self.inputs[0].type)
        return tile + 2 * account.type_bytes(self.outputs[0].type)


@dataclass(eq=False, kw_only=True)
class Streamify(Operator):
    """Reads buffers, a constant number of times or once per reference element."""

    name: ClassVar[str] = "streamify"
    rank: int
    repeat: tuple[int, ...]
    ref_rank: int
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return "DynStreamify" if len(self.inputs) == 2 else "Streamify"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        if self.shape is not None:
            raise LoweringError(
                f"{self.title()}: affine reads of buffers have no unit; drop shape and stride, or "
                f"reorder the tiles before bufferize ({self.source})"
            )
        if len(self.inputs) == 2:
            return {"rank": self.rank, "rr": self.ref_rank - 1}
        if len(self.repeat) > 1:
            raise LoweringError(
                f"{self.title()}: no unit nests the repeats {list(self.repeat)}; multiply them "
                f"into one and reshape the result ({self.source})"
            )
        return {"rank": self.rank, "repeat": list(self.repeat)}

    def memory(self, account: Accounting) -> Size:
        if account.counting != "published":
            return 0
        kind = self.inputs[0].type
        assert isinstance(kind, Buffer)
        return account.type_bytes(kind) + account.type_bytes(kind.tile)


def bufferize(x: Stream, rank: int, *, label: str | None = None) -> Stream:
    """Collect the ``rank`` inner dims of static tiles; all but their outermost are regular."""
    site = Site("bufferize", (x,), label, ("in",))
    tile = x.type
    if not (isinstance(tile, Tile) and tile.is_static):
        site.fail(
            DTypeError,
            f"in must carry tiles of static size, found {tile}",
            "dynamic tiles and buffers cannot be buffered; unpack them into rows first",
        )
    rank = site.rank_at_least(x, rank)
    cut = len(x.shape) - rank
    dims = x.shape[cut:]
    for offset, size in enumerate(dims[1:], start=1):
        site.require(
            not size.is_ragged,
            KindError,
            f"dim {rank - 1 - offset} = {size} of {format_dims(x.shape)} is ragged; of the "
            "buffered dims only the outermost may be",
            "buffer fewer dims, or flatten the ragged dim outwards",
        )
    return site.add(
        Bufferize(rank=rank), [Output(x.shape[:cut], Buffer(tile, dims), None, x.padding)]
    )[0]


def streamify(
    x: Stream,
    ref: Stream | None = None,
    repeat: int | Sequence[int] | None = None,
    *,
    shape: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    label: str | None = None,
) -> Stream:
    """Read buffers back as tiles.

    Without ``ref``: ``in.shape ++ repeat ++ buffer``. With ``ref`` of shape ``in.shape ++ inner``:
    ``ref.shape ++ buffer``, one read per reference element; ``in`` may also have the rank of
    ``ref`` with unit dims in place of ``inner``. ``shape`` and ``stride`` (in tiles) replace the
    buffer's own order when its dims are constants.
    """
    inputs = (x,) if ref is None else (x, ref)
    site = Site("streamify", inputs, label, ("in", "ref"))
    site.require(ref is None or repeat is None, ArgError, "pass ref or repeat, not both")
    factors: tuple[int, ...] = ()
    if isinstance(repeat, list | tuple | np.ndarray):
        factors = site.numbers(REPEATS, "repeat", repeat)
    elif repeat is not None:
        factors = (site.number(REPEATS, "repeat", repeat),)
    shape = None if shape is None else site.numbers(COUNT, "shape", shape)
    stride = None if stride is None else site.numbers(STEPS, "stride", stride)
    site.require(
        (shape is None) == (stride is None)
        and (shape is None or len(shape) == len(stride or ()) >= 1),
        ArgError,
        "shape and stride come together, one step for each dim",
    )
    kind = x.type
    if not isinstance(kind, Buffer):
        site.fail(DTypeError, f"in must carry buffers, found {kind}", "bufferize the stream first")
    read = kind.dims
    if shape is not None and stride is not None:
        site.require(
            all(d.is_static for d in kind.dims),
            KindError,
            f"affine reads need constant buffer dims, found {format_dims(kind.dims)}",
        )
        last = sum(s * (q - 1) for s, q in zip(stride, shape, strict=True))
        held = int(product(d.expr for d in kind.dims))
        site.require(last < held, ArgError, f"the walk ends at tile {last} of {held} in the buffer")
        read = tuple(Dim(q) for q in shape)
    if ref is None:
        op = Streamify(rank=len(kind.dims), repeat=factors, ref_rank=0, shape=shape, stride=stride)
        times = tuple(Dim(f) for f in factors)
        shape_out = (*x.shape, *times, *_read_again(site, read, times))
        out = Output(shape_out, kind.tile, None, x.padding)
        return site.add(op, [out])[0]
    inner = ref.rank - x.rank
    if inner > 0:
        site.same_dims(x.shape, ref.shape[: len(x.shape)], "in", "ref", base=inner)
        for _ in range(inner):
            x = unsqueeze(x, 0, label=label)
        return streamify(x, ref, None, shape=shape, stride=stride, label=label)
    site.require(
        inner == 0,
        RankError,
        f"ref {format_dims(ref.shape)} has fewer dims than in {format_dims(x.shape)}",
        "the reference has the dims of in and more inside",
    )
    units = 0
    while units < len(x.shape) and x.dim(units).is_one():
        units += 1
    site.require(
        units >= 1,
        RankError,
        f"in {format_dims(x.shape)} has no unit dim in place of the repeated dims of ref "
        f"{format_dims(ref.shape)}",
        "give ref more inner dims than in, or insert unit dims with unsqueeze()",
    )
    keep = len(x.shape) - units
    site.same_dims(x.shape[:keep], ref.shape[:keep], "in", "ref", base=units)
    op = Streamify(rank=len(kind.dims), repeat=(), ref_rank=units, shape=shape, stride=stride)
    shape_out = (*ref.shape, *_read_again(site, read, ref.shape[keep:]))
    return site.add(op, [Output(shape_out, kind.tile, None, x.padding)])[0]


def _read_again(site: Site, dims: Sequence[Dim], times: Sequence[Dim]) -> list[Dim]:
    """Dims of buffers, each read ``times`` times."""
    ragged = any(t.is_ragged for t in times)
    each = None if ragged else product(t.expr for t in times)
    return [d.repeated(each, site.title) for d in dims]
