"""Typed streams: the tokens of a tensor in the order in which they are sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stepsim.dtypes import dtype_of, packed_bytes
from stepsim.errors import DTypeError, ITensorError
from stepsim.itensor.affine import AffineMap, integers, integers_or_none
from stepsim.itensor.cells import CellSets
from stepsim.itensor.loop_text import by, loop_nest
from stepsim.itensor.normal_form import Loop, NormalForm, normal_form, written
from stepsim.itensor.rules import Violation, violations
from stepsim.shown import shown
from stepsim.typed import typed

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, repr=False)
class ITensor:
    """Type of a stream that carries a tensor: element, iteration space and iteration map.

    The tokens are slices of a tensor, sent in the order of a loop nest: loop ``p``, outermost
    first, takes the values ``0, steps[p], ..., (trips[p] - 1) * steps[p]``, and the map gives the
    offset of the slice along every data dim. A loop that changes no offset sends everything inside
    it again (a revisit loop). So the type determines the complete sequence of tokens.

    Parameters
    ----------
    element
        Shape of a token, one extent per data dim.
    trips, steps
        Trip count and step of every loop, outermost first.
    map
        Map from the values of the loops to the offset along every data dim; the smallest offset is
        0.
    dtype
        Scalar type, a name of :class:`stepsim.dtypes.DType`.
    depth
        Tokens that the FIFO holds; not compared between streams.

    Raises
    ------
    ITensorError
        A rule is broken; the message has one line for each.

    Notes
    -----
    StreamTensor (MICRO'25), section on the itensor type; the verifier is that of its public
    predecessor, and additionally requires trip counts and extents of at least 1.
    """

    element: tuple[int, ...]
    trips: tuple[int, ...]
    steps: tuple[int, ...]
    map: AffineMap
    dtype: str
    depth: int = 1

    def __post_init__(self) -> None:
        integers_or_none("element", self.element)
        for name in ("trips", "steps"):
            integers(name, getattr(self, name))
        if not isinstance(self.map, AffineMap):
            raise ITensorError(f"map: expected an AffineMap, found {shown(self.map)}")
        broken = violations(self.element, self.trips, self.steps, self.map, self.depth)
        if broken:
            raise ITensorError(
                f"not a stream type: {_text(self)}\n"
                + "\n".join(f"  {rule}: {message}" for rule, message in broken)
            )
        for name in ("element", "trips", "steps"):
            object.__setattr__(self, name, integers(name, getattr(self, name)))
        try:
            object.__setattr__(self, "dtype", dtype_of(self.dtype).text)
        except DTypeError as error:
            raise ITensorError(f"stream {_text(self)}: {error}") from None

    @staticmethod
    @typed
    def violations(
        element: Sequence[int | None],
        trips: Sequence[int],
        steps: Sequence[int],
        map: AffineMap,
        depth: int = 1,
    ) -> tuple[Violation, ...]:
        """All rules that these parts break, as (rule, message); the constructor raises if there are
        any."""
        return violations(element, trips, steps, map, depth)

    @classmethod
    @typed
    def of_loops(
        cls,
        shape: Sequence[int],
        loops: Sequence[tuple[int | None, int, int]],
        element: Sequence[int],
        dtype: str,
        depth: int = 1,
    ) -> Self:
        """A stream over a tensor from loops that each drive one data dim or no dim.

        Parameters
        ----------
        shape
            Shape of the tensor; checked against the extent that the loops reach.
        loops
            ``(data dim or None, trip count, stride in cells)``, outermost first; ``None`` is a
            revisit loop, whose stride is ignored.
        element, dtype, depth
            As in the constructor.

        Raises
        ------
        ITensorError
            A dim does not exist, the loops reach another shape, or a rule is broken.
        """
        rank = len(element)
        for p, (dim, _, _) in enumerate(loops):
            if dim is not None and not 0 <= dim < rank:
                raise ITensorError(
                    f"loop {p} drives data dim {dim}, but the element {by(element)} has dims 0 to "
                    f"{rank - 1}; None makes it a revisit loop"
                )
        nest = AffineMap(
            tuple((tuple(int(dim == i) for dim, _, _ in loops), 0) for i in range(rank)), len(loops)
        )
        steps = tuple(1 if dim is None else stride for dim, _, stride in loops)
        made = cls(tuple(element), tuple(n for _, n, _ in loops), steps, nest, dtype, depth)
        if made.shape != tuple(shape):
            raise ITensorError(
                f"the loops reach a tensor of {by(made.shape)}, expected {by(shape)}; trip count "
                f"times stride of a data dim's loops and the element have to fill it\n{made!r}"
            )
        return made

    @classmethod
    @typed
    def of_normal_form(cls, form: NormalForm, dtype: str, depth: int = 1) -> Self:
        """The stream with these loops, written with as few coefficients as possible."""
        trips, steps, nest = written(form)
        return cls(form.element, trips, steps, nest, dtype, depth)

    # Sizes, computed without enumerating tokens.

    @property
    def rank(self) -> int:
        """Number of data dims."""
        return len(self.element)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor: the largest offset along every data dim, plus the element."""
        return tuple(
            const
            + sum(max(0, loop.stride[i]) * (loop.trip - 1) for loop in self.loops)
            + self.element[i]
            for i, (_, const) in enumerate(self.map.results)
        )

    @property
    def tokens(self) -> int:
        """Number of tokens of one run, including those that are sent again."""
        return math.prod(self.trips)

    @property
    def cells(self) -> int:
        """Number of elements of the tensor."""
        return math.prod(self.shape)

    @property
    def token_cells(self) -> int:
        """Number of elements of a token."""
        return math.prod(self.element)

    @property
    def token_bits(self) -> int:
        """Bits of a token: the width of the FIFO."""
        return self.token_cells * dtype_of(self.dtype).bits

    @typed
    def bytes_of(self, cells: int) -> int:
        """Bytes of this many elements, packed and rounded up."""
        return packed_bytes(cells, dtype_of(self.dtype).bits)

    # Order.

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops as written: trip count and stride of the slice along every data dim."""
        return tuple(
            Loop(n, tuple(coefficients[p] * s for coefficients, _ in self.map.results))
            for p, (n, s) in enumerate(zip(self.trips, self.steps, strict=True))
        )

    @cached_property
    def revisit_loops(self) -> tuple[int, ...]:
        """Positions of the loops that change no offset, including those of one trip."""
        return tuple(
            p
            for p in range(self.map.num_dims)
            if not any(coefficients[p] for coefficients, _ in self.map.results)
        )

    @cached_property
    def regular(self) -> bool:
        """Whether every result is 0 or a separate loop that steps by the element, as written."""
        used = []
        for i, (coefficients, const) in enumerate(self.map.results):
            driving = [p for p, c in enumerate(coefficients) if c]
            if const or len(driving) > 1:
                return False
            for p in driving:
                if coefficients[p] != 1 or self.steps[p] != self.element[i]:
                    return False
            used += driving
        return len(set(used)) == len(used)

    def normal_form(self) -> NormalForm:
        """The normal form, which two streams share iff they send the same sequence of tokens."""
        return self._normal_form

    @cached_property
    def _normal_form(self) -> NormalForm:
        return normal_form(self.element, [const for _, const in self.map.results], self.loops)

    def offsets(self) -> npt.NDArray[np.int64]:
        """Offset of every token along every data dim in the order of the stream, [tokens, rank]."""
        found = np.array([[const for _, const in self.map.results]], dtype=np.int64)
        for loop in self.loops:
            moves = np.arange(loop.trip, dtype=np.int64)[:, None] * np.array(
                loop.stride, dtype=np.int64
            )
            tokens = len(found) * loop.trip
            found = (found[:, None, :] + moves[None, :, :]).reshape(tokens, self.rank)
        return found

    @typed
    def offset_of(self, token: int) -> tuple[int, ...]:
        """Offset of one token, by its number, without enumerating others.

        Raises
        ------
        ITensorError
            There is no such token.
        """
        if not 0 <= token < self.tokens:
            raise ITensorError(
                f"stream {_text(self)} has no token {token}; use an int from 0 below {self.tokens}"
            )
        at = [const for _, const in self.map.results]
        for loop in reversed(self.loops):
            token, turn = divmod(token, loop.trip)
            at = [a + turn * stride for a, stride in zip(at, loop.stride, strict=True)]
        return tuple(at)

    def last_pass(self) -> Self:
        """The stream without its revisit loops: every token once, in the order of the last pass.

        This is the output of a kernel that accumulates partial results, whose loop nest has a
        reduction loop around the loops of its result.
        """
        form = self.normal_form()
        loops = [loop for loop in form.loops if not loop.is_revisit]
        once = normal_form(form.element, form.constants, loops)
        return self.of_normal_form(once, self.dtype, self.depth)

    # Which cells are sent.

    @cached_property
    def cell_sets(self) -> CellSets:
        """The cells of the tensor that the tokens cover, by groups of data dims that move
        together."""
        return CellSets(self.normal_form(), self.shape)

    @property
    def distinct_offsets(self) -> int:
        """Number of different tokens."""
        return self.cell_sets.distinct_offsets

    @property
    def sends_again(self) -> bool:
        """Whether some token is sent more than once."""
        return self.distinct_offsets < self.tokens

    @property
    def covers_all_cells(self) -> bool:
        """Whether every element of the tensor is in a token."""
        return self.cell_sets.covers_all_cells

    @property
    def tiles_overlap(self) -> bool:
        """Whether two different tokens share an element."""
        return self.cell_sets.tiles_overlap

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return loop_nest(self)


def _text(it: ITensor) -> str:
    """``itensor<4x2xf32, [4,2]*[2,4], (d0,d1)->(d1,d0)>``."""
    element = "".join(f"{'?' if size is None else size}x" for size in it.element)
    trips, steps = (",".join(str(n) for n in sizes) for sizes in (it.trips, it.steps))
    return f"itensor<{element}{shown(it.dtype, str)}, [{trips}]*[{steps}], {it.map}>"
