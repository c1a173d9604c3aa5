"""Layer: one call of a function of ``st.nn``, its checks, and the operators that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from stepsim.arguments import Range, label_of
from stepsim.errors import ArgError, DimError, DTypeError, RankError, StepError
from stepsim.graph.accumulation import Init
from stepsim.graph.functions.function import Function
from stepsim.graph.handle import StreamHandle
from stepsim.graph.operator import Site
from stepsim.graph.ops.higher_order import maps as higher_order, reductions
from stepsim.graph.ops.memory import linear_loads as linear_load, onchip
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec, Tile, as_spec

Tensor = TensorSpec | np.ndarray[Any, Any]
"""A tensor off chip: a spec, or an array that also provides its values."""


class Layer:
    """One layer under construction.

    Operators are labeled ``<label>.<part>``; all take ``compute_bw``, and ``write_back`` goes to
    the one that produces the result.
    """

    def __init__(
        self,
        name: str,
        streams: Mapping[str, Stream],
        label: str | None,
        compute_bw: int | None = None,
        write_back: bool = False,
    ) -> None:
        self.site = Site(name, tuple(streams.values()), label, tuple(streams))
        self.prefix = label_of(f"{name}: label", label) or name
        self.compute_bw = compute_bw
        self.write_back = self.site.flag("write_back", write_back)

    # checks

    def fail(self, error: type[StepError], what: str, hint: str = "") -> NoReturn:
        self.site.fail(error, what, hint)

    def require(self, ok: bool, error: type[StepError], what: str, hint: str = "") -> None:
        self.site.require(ok, error, what, hint)

    def number(self, limits: Range, what: str, value: object) -> int:
        return self.site.number(limits, what, value)

    def flag(self, what: str, value: object) -> bool:
        return self.site.flag(what, value)

    def tile(self, role: str, x: Stream) -> Tile:
        """The tiles of a stream of numbers."""
        kind = x.type
        if not (isinstance(kind, Tile) and kind.dtype.is_arithmetic):
            self.fail(DTypeError, f"{role} must carry tiles of numbers, found {kind}")
        return kind

    def columns(self, role: str, x: Stream) -> int:
        """Columns of the tiles of a stream, which must be constant."""
        tile = self.tile(role, x)
        if not tile.cols.is_static:
            self.fail(
                DTypeError,
                f"{role} must carry tiles with a constant number of columns, found {tile}",
                "only the rows of a tile may depend on the data",
            )
        return int(tile.cols)

    def rows(self, role: str, x: Stream) -> int:
        """Rows of the tiles of a stream, which must be constant."""
        tile = self.tile(role, x)
        if not tile.rows.is_static:
            self.fail(DTypeError, f"{role} must carry tiles with constant rows, found {tile}")
        return int(tile.rows)

    def split_columns(self, role: str, x: Stream) -> tuple[int, int]:
        """The number of column tiles in the innermost dim, and the columns of each."""
        cols = self.columns(role, x)
        self.rows(role, x)
        self.require(
            x.rank >= 1,
            RankError,
            f"split=True needs a dim of row tiles above the innermost dim of column tiles, {role} "
            f"is {format_dims(x.shape)}",
            "pass split=False for tiles that hold whole rows, or promote() the stream",
        )
        self.require(
            x.dim(0).is_static,
            DimError,
            f"the innermost dim of {role} {format_dims(x.shape)} counts the column tiles of each "
            "row; it must be constant",
        )
        return int(x.dim(0)), cols

    def constant_dims(self, role: str, x: Stream, why: str) -> tuple[int, ...]:
        """All dims of a stream, which must be constant."""
        self.require(
            all(d.is_static for d in x.shape),
            DimError,
            f"{role} is {format_dims(x.shape)}; {why}, so its dims must be constant",
        )
        return tuple(int(d) for d in x.shape)

    def matrix(
        self, role: str, tensor: Tensor, rows: int | None, cols: int | None = None
    ) -> TensorSpec:
        """A tensor of the given sides, None for any; an array of one dim counts as one row."""
        try:
            given = as_spec(np.atleast_2d(tensor) if isinstance(tensor, np.ndarray) else tensor)
        except StepError as error:
            self.fail(type(error), f"{role}: {str(error).rstrip('.')}")
        if len(given.shape) == 1:
            self.fail(
                ArgError, f"{role} is {given}",
                f"a vector off chip is one row: spec(1, {given.shape[0]})",
            )  # fmt: skip
        wanted = (rows, cols)
        fits = len(given.shape) == 2 and all(
            w in (None, s) for w, s in zip(wanted, given.shape, strict=True)
        )
        if not fits:
            sides = " x ".join("any number" if w is None else str(w) for w in wanted)
            self.fail(
                ArgError,
                f"{role} must be {sides}, found {given}",
                "matrices are stored as [in, out], one that rows are multiplied by",
            )
        return given

    def weights(self, *functions: Function) -> tuple[int, ...]:
        """FLOPs that the program counts per unit of work of some standard functions."""
        found = (self.site.owner.weighed(one).flops.terms for one in functions)
        return tuple(terms[0][0] if terms else 0 for terms in found)

    # operators

    def part(self, part: str) -> str:
        return f"{self.prefix}.{part}"

    def map(self, part: str, fn: Function, *xs: Stream, last: bool = False) -> Stream:
        return higher_order.map_(
            fn, *xs, compute_bw=self.compute_bw, write_back=last and self.write_back,
            label=self.part(part),
        )  # fmt: skip

    def accum(
        self, part: str, x: Stream, fn: Function, init: Any = None, *, last: bool = False
    ) -> Stream:
        """Reduce the innermost dim."""
        return reductions.accum(
            x, fn, 1, init, compute_bw=self.compute_bw, write_back=last and self.write_back,
            label=self.part(part),
        )  # fmt: skip

    def map_accum(
        self, part: str, fn: Function, a: Stream, b: Stream, init: Init | None = None, *,
        last: bool = False,
    ) -> Stream:  # fmt: skip
        """Multiply and add up over the innermost dim."""
        return reductions.map_accum(
            fn, a, b, 1, init, compute_bw=self.compute_bw, write_back=last and self.write_back,
            label=self.part(part),
        )  # fmt: skip

    def load(
        self, part: str, tensor: TensorSpec, tile: tuple[int, int], shape: Sequence[int],
        stride: Sequence[int], ref: Stream,
    ) -> Stream:  # fmt: skip
        """Read tiles once for each element of ``ref``."""
        return linear_load.linear_load(
            tensor, tile, shape=tuple(shape), stride=tuple(stride), ref=ref, label=self.part(part)
        )

    def walk(
        self, part: str, tensor: TensorSpec, tile: tuple[int, int], shape: Sequence[int],
        stride: Sequence[int],
    ) -> Stream:  # fmt: skip
        """Read tiles once."""
        return linear_load.linear_load(
            tensor, tile, shape=tuple(shape), stride=tuple(stride), label=self.part(part)
        )

    def kept(self, part: str, x: Stream, rank: int = 1) -> Stream:
        """Keep the ``rank`` inner dims in on-chip memory."""
        return onchip.bufferize(x, rank, label=self.part(part))

    def again(self, part: str, kept: Stream, **how: Any) -> Stream:
        """Read a kept buffer."""
        return onchip.streamify(kept, label=self.part(part), **how)

    def spread(self, part: str, x: Stream, ref: Stream) -> Stream:
        """Repeat every element for each element of the inner dim of ``ref``."""
        times = ref.dim(0)
        if times.is_static:
            return x.repeat(int(times), label=self.part(part))
        return x.unsqueeze(0, label=self.part(f"each_{part}")).expand(ref, label=self.part(part))

    def row_vector(
        self, role: str, given: Stream | Tensor, x: Stream, cols: int, steps: int, lead: Stream
    ) -> Stream:
        """Rows of scale factors or shifts, one for each tile of ``x``.

        A stream has the shape of ``x``; a tensor is read again for every element of ``lead``, in
        ``steps`` tiles.
        """
        if isinstance(given, StreamHandle):
            self.site.same_dims(given.shape, x.shape, role, "x")
            tile = self.tile(role, given)
            if tile.rows != 1 or tile.cols != cols:
                self.fail(DTypeError, f"{role} must carry tiles of 1x{cols}, found {tile}")
            return given
        tensor = self.matrix(role, given, 1, cols * steps)
        loaded = self.load(f"load_{role}", tensor, (1, cols), (steps,), (1,), lead)
        if lead.rank == x.rank:
            return loaded.flatten(0, 1, label=self.part(role))
        return loaded
