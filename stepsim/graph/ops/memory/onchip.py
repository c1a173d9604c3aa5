"""On-chip memory operators: bufferize and streamify (STeP paper, table 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, KindError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.shape.levels import flatten, unsqueeze
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import COUNT, REPEATS, STEPS
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, product
from stepsim.graph.types import Buffer, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class Bufferize(Operator):
    """Collects the ``rank`` inner dims into an on-chip buffer."""

    name: ClassVar[str] = "bufferize"
    unit_kind: ClassVar[str] = "Bufferize"
    _added: ClassVar[tuple[str, ...]] = ("buffers",)
    rank: int
    buffers: int = 2

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank}

    def memory(self, accounting: Accounting) -> Size:
        tile = accounting.type_bytes(self.inputs[0].type)
        return tile + self.buffers * accounting.type_bytes(self.outputs[0].type)


@keyword_record
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
        if len(self.inputs) == 2:
            return "DynStreamify"
        # Only this unit nests repeats; for at most one repeat both units give the same times.
        several = len(self.repeat) > 1
        return "StaticStreamify" if several or self.shape is not None else "Streamify"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        params: dict[str, Any] = {"rank": self.rank}
        if self.shape is not None and self.stride is not None:
            params |= {"shape": list(self.shape), "stride": list(self.stride)}
        if len(self.inputs) == 2:
            return params | {"rr": self.ref_rank - 1}
        return params | {"repeat": list(self.repeat)}

    def memory(self, accounting: Accounting) -> Size:
        if accounting.counting != "published":
            return 0
        kind = self.inputs[0].type
        assert isinstance(kind, Buffer)
        return accounting.type_bytes(kind) + accounting.type_bytes(kind.tile)


def bufferize(
    x: Stream, rank: int, *, buffers: Literal[1, 2] = 2, label: str | None = None
) -> Stream:
    """Collect the inner dims of a stream into buffers in on-chip memory.

    Bufferize of the STeP paper (table 4). A buffer is a reference to its tiles; between this
    operator and :func:`streamify` it can be routed, repeated and reshaped, but not used in
    functions.

    Shape
    -----
    ``x.shape`` without its ``rank`` inner dims, of ``Buffer[those dims of Tile]``.

    Parameters
    ----------
    x : stream of tiles of static size.
    rank : number of inner dims to collect, from 1; only the outermost of these may be ragged.
    buffers : number of buffers in memory. With 1, the program must ensure that no tile of the next
        buffer arrives before this one is completely read, for example with a :func:`feedback`: the
        number affects only the memory metric, not times.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile, one cycle each; the buffer is sent one cycle after its last tile. An empty
    stream makes no buffer.

    Memory
    ------
    One tile and ``buffers``, two if one is read while the next is filled; a ragged dim
    counts with its bound.

    Raises
    ------
    ArgError : ``buffers`` is neither 1 nor 2.
    DTypeError : the tiles have a dynamic side, or are buffers.
    RankError : ``rank`` is not within 1 and the rank of ``x``.
    KindError : an inner one of the collected dims is ragged.

    Example
    -------
    >>> with st.Program("twice") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(2, 2), tile=(1, 1))
    ...     held = x.bufferize(1)
    ...     again = held.streamify(repeat=2)
    ...     out = st.linear_store(again.flatten(0, 1), "out")
    >>> held
    Stream[2] of Buffer[2 of Tile[1x1 f32]] <- bufferize#1
    >>> print(run_functional(program).stored["out"])
    [[0. 1. 0. 1.]
     [2. 3. 2. 3.]]
    """
    site = Site("bufferize", (x,), label, ("in",))
    tile = x.type
    if not (isinstance(tile, Tile) and tile.is_static):
        site.fail(
            DTypeError,
            f"in must carry tiles of static size, found {tile}",
            "dynamic tiles and buffers cannot be buffered; unpack them into rows first",
        )
    rank = site.rank_at_least(x, rank)
    site.require(
        buffers in (1, 2), ArgError, f"buffers must be 1 or 2, found {shown(buffers)}",
        "use 2 where one buffer is read while the next is filled",
    )  # fmt: skip
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
        Bufferize(rank=rank, buffers=buffers),
        [Output(x.shape[:cut], Buffer(tile, dims), None, x.padding)],
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
    """Read buffers back as tiles, linearly or along an affine walk, once or many times.

    Streamify of the STeP paper (table 4), and StaticStreamify of the public simulator of 2026.

    Shape
    -----
    Without ``ref``: ``x.shape ++ repeat ++ read``, where ``read`` is ``shape``, by default the dims
    of the buffer. With ``ref`` of shape ``x.shape ++ inner``: ``ref.shape ++ read``, one read for
    each element; ``x`` may also have the rank of ``ref``, with unit dims in place of ``inner``. The
    tiles are those of the buffer. An empty stream of buffers, or an empty reference, makes an empty
    stream.

    Parameters
    ----------
    x : stream of buffers, of :func:`bufferize`.
    ref : stream that triggers one read with each of its elements, whose contents do not matter.
    repeat : how often each buffer is read: an int, or several nested factors, outermost first.
    shape : tiles along each dim of a walk, outermost first, for buffers of constant size.
    stride : steps of the dims of ``shape``, in tiles of the row-major buffer; 0 repeats.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile that it sends, one cycle each. The slot of a buffer is freed after its last
    read, so a FIFO of two buffers allows the next one to be filled meanwhile. The same in all
    machine models.

    Raises
    ------
    ArgError : both ``ref`` and ``repeat``, only one of ``shape`` and ``stride``, a walk that leaves
        the buffer, or more than 2**50 tiles from one buffer.
    DTypeError : ``x`` carries no buffers.
    RankError : ``ref`` has fewer dims than ``x``.
    DimError : the outer dims of ``ref`` are not those of ``x``.
    KindError : an affine walk in a buffer of dynamic size.

    Example
    -------
    >>> with st.Program("columns of a buffer") as program:
    ...     x = st.linear_load(np.arange(6, dtype="f4").reshape(2, 3), tile=(1, 1))  # [2, 3]
    ...     held = x.unsqueeze(2).bufferize(2)  # [1] of 2 x 3 tiles
    ...     turned = st.streamify(held, shape=(3, 2), stride=(1, 3))
    ...     again = st.streamify(held, repeat=[2])
    ...     out = st.linear_store(turned.flatten(1, 2), "turned")
    ...     again.consume()
    >>> [turned, again]
    [Stream[1, 3, 2] of Tile[1x1 f32] <- streamify#3,
     Stream[1, 2, 2, 3] of Tile[1x1 f32] <- streamify#4]
    >>> print(run_functional(program).stored["turned"])
    [[0. 3.]
     [1. 4.]
     [2. 5.]]
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
        held = int(product(d.size for d in kind.dims))
        site.require(
            last < held,
            ArgError,
            f"the walk ends at tile {last}, counted from 0, and the buffer holds {held}",
        )
        read = tuple(Dim(q) for q in shape)
    times = math.prod((*factors, *(shape or ())))
    site.require(
        times <= COUNT.high,
        ArgError,
        f"{shown(times)} tiles are read from one buffer; 2**50 are the most",
        "repeat the buffer fewer times",
    )
    if ref is None:
        op = Streamify(rank=len(kind.dims), repeat=factors, ref_rank=0, shape=shape, stride=stride)
        dims = tuple(Dim(f) for f in factors)
        shape_out = (*x.shape, *dims, *_read_again(site, read, dims))
        out = Output(shape_out, kind.tile, None, x.padding)
        return site.add(op, [out])[0]
    inner = ref.rank - x.rank
    if inner > 0:
        site.same_dims(x.shape, ref.shape[: len(x.shape)], "in", "ref", base=inner)
        with site.parts():
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
    if units == 0:
        with site.parts():
            return _read_once(site, x, ref, shape, stride, label)
    keep = len(x.shape) - units
    site.same_dims(x.shape[:keep], ref.shape[:keep], "in", "ref", base=units)
    op = Streamify(rank=len(kind.dims), repeat=(), ref_rank=units, shape=shape, stride=stride)
    shape_out = (*ref.shape, *_read_again(site, read, ref.shape[keep:]))
    return site.add(op, [Output(shape_out, kind.tile, None, x.padding)])[0]


def _read_once(
    site: Site,
    x: Stream,
    ref: Stream,
    shape: Sequence[int] | None,
    stride: Sequence[int] | None,
    label: str | None,
) -> Stream:
    """One read for each buffer, when its element of ``ref`` arrives; the same dims in both.

    The unit repeats every buffer up to a stop of the reference, so both get a unit dim for it.
    """
    site.same_dims(x.shape, ref.shape, "in", "ref")
    x, ref = (unsqueeze(stream, 0, label=label) for stream in (x, ref))
    made = streamify(x, ref, None, shape=shape, stride=stride, label=label)
    top = made.rank - x.rank
    return flatten(made, top - 1, top, label=label)


def _read_again(site: Site, dims: Sequence[Dim], times: Sequence[Dim]) -> list[Dim]:
    """Dims of buffers, each read ``times`` times."""
    ragged = any(t.is_ragged for t in times)
    each = None if ragged else product(t.size for t in times)
    return [d.repeated(each, site.title) for d in dims]
