"""Splitting a dim into chunks: reshape, with or without the mask of its padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from stepsim.arguments import is_number, shown
from stepsim.errors import ArgError, DimError, KindError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import Padding, SplitPadding
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import COUNT, RANK
from stepsim.graph.sizes.shapes import cardinality, format_dims
from stepsim.graph.sizes.sizes import Size, active, product
from stepsim.graph.types import DType, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


class ShapeOperator(Operator):
    """Only two tiles of FIFO."""

    def memory(self, accounting: Accounting) -> Size:
        return 2 * accounting.type_bytes(self.inputs[0].type) if accounting.count_fifos else 0


@keyword_record
class Reshape(ShapeOperator):
    """Splits dim ``dim`` into chunks; may add an outermost dim to a rank-0 stream."""

    name: ClassVar[str] = "reshape"
    unit_kind: ClassVar[str] = "Reshape"
    chunk: int
    dim: int
    pad: int | None
    add_outer: bool
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        params: dict[str, Any] = {
            "s": self.dim,
            "q": self.chunk,
            "ri": self.inputs[0].rank,
            "outer": self.add_outer,
            "wb": self.write_back,
        }
        tile = self.inputs[0].type
        if isinstance(tile, Tile):
            params["bpe"] = tile.dtype.element_bytes
            if self.pad is not None and self.chunk > 1:
                params["pad"] = [int(tile.rows), int(tile.cols)]
        return params


@keyword_record
class MaskedReshape(Reshape):
    """A reshape with a second output that marks the elements without padding."""

    unit_kind: ClassVar[str] = "ReshapePadStream"

    def memory(self, accounting: Accounting) -> Size:
        if not accounting.count_fifos:
            return 0
        return super().memory(accounting) + 2 * accounting.type_bytes(self.outputs[1].type)


@overload
def reshape(
    x: Stream, chunk: int, dim: int = 0, pad: int | None = None, *, add_outer: bool = False,
    write_back: bool = False, mask: Literal[False] = False, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def reshape(
    x: Stream, chunk: int, dim: int = 0, pad: int | None = None, *, add_outer: bool = False,
    write_back: bool = False, mask: Literal[True], label: str | None = None,
) -> tuple[Stream, Stream]: ...  # fmt: skip


def reshape(
    x: Stream,
    chunk: int,
    dim: int = 0,
    pad: int | None = None,
    *,
    add_outer: bool = False,
    write_back: bool = False,
    mask: bool = False,
    label: str | None = None,
) -> Stream | tuple[Stream, Stream]:
    """Split a dim into chunks, padding the last one if it is short.

    Reshape of the STeP paper (table 7). Tiles carry their number of valid rows, which packing and
    unpacking take into account; ``mask`` adds the paper's second stream, which marks padded
    elements.

    Shape
    -----
    Dim ``dim`` of size D becomes the two dims ``[ceil(D / chunk), chunk]``; with ``add_outer`` a
    dim ``Min(1, D)`` comes first. The type is unchanged.

    Parameters
    ----------
    x : the stream; with padding, of tiles of static size.
    chunk : elements of a chunk, from 1.
    dim : the dim to split, 0 = innermost; dims other than 0 must be constants that ``chunk``
        divides.
    pad : 0 to fill the last chunk of every innermost vector with tiles that have no valid rows;
        None if nothing can be missing.
    add_outer : whether a stream of rank 0 gets an outermost dim, 0 if it is empty and otherwise 1.
    write_back : whether padding tiles count as written to on-chip memory, so that readers load
        them.
    mask : return (data, mask) with the padding stream of the paper, ReshapePadStream of the public
        simulator of 2026: one Boolean 1x1 tile for each element, true for a real one and false for
        padding.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, in zero cycles; padding follows in the same cycle. With ``add_outer`` the
    last token of a chunk waits for the next token or the end of the stream.

    Raises
    ------
    RankError : there is no such dim, or ``add_outer`` on a stream of rank 1 or more.
    KindError : ``dim`` is not 0 and its size is not constant.
    DimError : ``chunk`` does not divide that constant.
    ArgError : dim 0 may need padding and ``pad`` is None, or ``pad`` is a number other than 0.
    DTypeError : the elements to be padded are not tiles of static size.

    Example
    -------
    >>> with st.Program("pad") as program:
    ...     x = st.linear_load(np.ones((5, 2), "f4"), tile=(1, 2)).flatten(0, 1)  # [5]
    ...     chunks, real = st.reshape(x, 4, pad=0, mask=True)
    ...     real.consume()
    ...     out = st.linear_store(chunks.accum(st.fn.pack_rows, rank=1), "out")
    >>> [chunks, real]
    [Stream[2, 4] of Tile[1x2 f32] <- reshape#2.0, Stream[2, 4] of Tile[1x1 bool] <- reshape#2.1]
    >>> run_functional(program).stored["out"][:, 0]
    array([1., 1., 1., 1., 1., 0., 0., 0.], dtype=float32)
    """
    site = Site("reshape", (x,), label, ("in",))
    chunk, dim = site.number(COUNT, "chunk", chunk), site.number(RANK, "dim", dim)
    if pad is not None and not is_number(pad):
        site.fail(ArgError, f"pad must be a number or None, found {shown(pad)}")
    if pad:
        site.fail(
            ArgError,
            f"pad is {shown(pad)}, but padding tiles hold zeros",
            "pass pad=0",
        )
    add_outer = site.flag("add_outer", add_outer)
    write_back, mask = site.flag("write_back", write_back), site.flag("mask", mask)
    if not 0 <= dim <= x.rank:
        site.fail(RankError, f"dim {dim} is not in {format_dims(x.shape)}", f"use 0..{x.rank}")
    site.require(
        not add_outer or (dim == 0 and x.rank == 0),
        RankError,
        f"add_outer works on rank-0 streams, found rank {x.rank}",
        "flatten the stream first",
    )
    size = x.dim(dim)
    exact = size.is_static and int(size) % chunk == 0
    if dim > 0:
        site.require(
            size.is_static,
            KindError,
            f"dim {dim} of {format_dims(x.shape)} is {size}, not a constant",
            "only dim 0 can be padded; reshape it, or flatten down to it",
        )
        site.require(
            exact,
            DimError,
            f"chunk {chunk} does not divide dim {dim} = {size} of {format_dims(x.shape)}",
        )
    elif not exact and chunk > 1:
        site.require(
            pad is not None,
            ArgError,
            f"dim 0 = {size} is {'no' if size.is_static else 'not known to be a'} multiple of "
            f"{chunk}",
            "pass pad=0 to fill the last chunk",
        )
        tile = x.type
        site.require_type(
            isinstance(tile, Tile) and tile.is_static, "in", x, "static tiles to be padded"
        )
    position = x.rank - dim
    chunks = size.ceil_div(chunk)
    lead = (Dim(active(size.size)),) if add_outer else ()
    shape = (*lead, *x.shape[:position], chunks, Dim(chunk), *x.shape[position + 1 :])
    out = Output.like(x, shape)
    tile = x.type
    if dim == 0 and not exact and chunk > 1 and isinstance(tile, Tile):
        known: Padding | SplitPadding = SplitPadding()  # padded individually, or earlier
        if x.rank == 0 and x.padding is None:
            padded = product((chunks.size, chunk, tile.rows.size))
            valid = Dim(product((size.size, tile.rows.size)))
            known = Padding(valid, padded, product((chunk, tile.rows.size)))
        out = Output(out.shape, out.type, out.counts, known)
    op = (MaskedReshape if mask else Reshape)(
        chunk=chunk, dim=dim, pad=None if exact else pad, add_outer=add_outer, write_back=write_back
    )
    if not mask:
        return site.add(op, [out])[0]
    real = Padding(Dim(x.cardinality()), cardinality(shape), chunk)
    flags = Output(shape, Tile(DType.bool_, Dim(1), Dim(1)), None, real)
    made = site.add(op, [out, flags])
    return made[0], made[1]
